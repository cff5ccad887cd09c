//! The mapping below a buffer.
//!
//! Owns one anonymous mapping and its bounds. Refuses to know who may hold which part: the functions that hand out
//! references are `unsafe`, and the parent module, which knows, discharges what they ask.
#![allow(unsafe_code)] // memory that one thread fills while others read another part has no safe type

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Pages of our own, zero when mapped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: Send requires that the value may be dropped and used by another thread: the mapping belongs to the process
// and nothing else holds its address.
unsafe impl Send for Memory {}
// SAFETY: Sync requires that `&Memory` is harmless on two threads: the safe methods read two fields that never change,
// and the `unsafe` ones make their callers keep writers and readers apart.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `len` bytes; 0 is `InvalidInput`. Pages are supplied when first touched.
    pub(crate) fn map(len: usize) -> io::Result<Self> {
        // SAFETY: mmap_anonymous requires that nobody relies on what the new mapping may replace: the address is left
        // to the kernel, which takes free space.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Its first byte, for the kernel's use.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A part that is never written again.
    ///
    /// # Safety
    /// While the result lives, nobody writes to `range`, and all earlier writes happened before this call.
    pub(super) unsafe fn settled(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: from_raw_parts requires
        // - valid memory for `range`: checked above against the mapping, which lives as long as `&self`;
        // - initialised bytes: anonymous pages begin as zeroes;
        // - no write for the lifetime: asked of the caller.
        unsafe { slice::from_raw_parts(self.start.as_ptr().add(range.start), range.len()) }
    }

    /// A part that only the caller touches.
    ///
    /// # Safety
    /// While the result lives, no other reference to any byte of `range` exists, and earlier accesses to them
    /// happened before this call.
    #[allow(
        clippy::mut_from_ref,
        reason = "exclusive by the caller's word, not by the borrow of the mapping"
    )]
    pub(super) unsafe fn exclusive(&self, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: from_raw_parts_mut requires
        // - valid, initialised memory: as in `settled`;
        // - no other access for the lifetime: asked of the caller.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().add(range.start), range.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: munmap requires that the range is ours (it is what `map` got) and that no reference into it is left:
        // all of them borrow `self`.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok());
    }
}
