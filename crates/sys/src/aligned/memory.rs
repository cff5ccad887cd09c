//! The mapping below a buffer.
//!
//! Owns one anonymous mapping, or a part of one that others have the rest of, and its bounds. Refuses to know who may hold
//! which part: the functions that hand out references are `unsafe`, and those who know (the parent module, and
//! [`crate::arena`] for parts) discharge what they ask.
#![allow(unsafe_code)] // memory that one thread fills while others read another part has no safe type

use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A large page of the common architectures, and the alignment of what [`Memory::map_large`] gives.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Pages of our own, zero when mapped.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    len: usize,
    /// The mapping that this is a part of; nothing where it is a mapping itself.
    part_of: Option<Arc<Memory>>,
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
        Ok(Self { start, len, part_of: None })
    }

    /// Maps at least `len` bytes at a multiple of [`LARGE_PAGE_BYTES`] and asks for large pages; without them it serves too.
    pub(crate) fn map_large(len: usize) -> io::Result<Self> {
        let wanted = len.checked_next_multiple_of(LARGE_PAGE_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let spacious = Self::map(wanted + LARGE_PAGE_BYTES)?;
        let before = spacious.start.align_offset(LARGE_PAGE_BYTES);
        let behind = LARGE_PAGE_BYTES - before;
        let trimmed = std::mem::ManuallyDrop::new(spacious);
        let (start, end) = (trimmed.start.as_ptr(), before + wanted);
        // SAFETY: munmap and madvise require whole pages of a mapping that is ours, and munmap that nobody refers to them:
        // - `trimmed` is what `map` just gave, and its drop will not come; nobody else has seen it;
        // - both ends lie within it (`before + wanted + behind` is its length), in whole pages as `before` is.
        unsafe {
            for (at, len) in [(0, before), (end, behind)] {
                if len > 0 {
                    munmap(start.add(at).cast(), len)?;
                }
            }
            let start = start.add(before);
            let _ = madvise(start.cast(), wanted, Advice::LinuxHugepage); // refused where there are none
            Ok(Self { start: NonNull::new_unchecked(start), len: wanted, part_of: None })
        }
    }

    /// Takes the pages of a range from the system, waiting for them; their contents stay as they are.
    pub(crate) fn populate(&self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: madvise requires a range of ours, checked above, and advice that takes nothing from those who use it:
        // to populate is to do what a write would, without writing.
        unsafe {
            let start = self.start.as_ptr().add(range.start);
            Ok(madvise(start.cast(), range.len(), Advice::LinuxPopulateWrite)?)
        }
    }

    /// A part of `whole` that is used as if it were a mapping of its own.
    ///
    /// # Safety
    /// Until the part is dropped, no other part of `whole` reaches into `range`, and nobody uses `whole` itself there.
    pub(crate) unsafe fn part(whole: &Arc<Self>, range: Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= whole.len);
        // SAFETY: add requires that the result lies in the mapping: checked above.
        let start = unsafe { whole.start.add(range.start) };
        Self { start, len: range.len(), part_of: Some(Arc::clone(whole)) }
    }

    /// Where this lies in the mapping that it is a part of; nothing where it is no part of `whole`.
    pub(crate) fn offset_in(&self, whole: &Arc<Self>) -> Option<usize> {
        let of_it = self.part_of.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, whole));
        of_it.then(|| self.start.addr().get() - whole.start.addr().get())
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
        if self.part_of.is_some() {
            return; // the mapping goes with its last part
        }
        // SAFETY: munmap requires that the range is ours (it is what `map` got, or what is left of that) and that no
        // reference into it is left: all of them borrow `self`, or a part that would keep it.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok());
    }
}
