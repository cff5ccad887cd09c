//! The large pages of an arena, registered with one ring as reads first go to them.
//!
//! A read into registered memory saves the kernel from finding and pinning its pages each time (`READ_FIXED`). What is
//! registered stays pinned, and counts against `RLIMIT_MEMLOCK` for who has no privilege: the first refusal ends it, and
//! reads go on without. What must hold: what the kernel has pinned is this mapping for as long as the ring lives.
#![allow(unsafe_code)] // the kernel is given addresses for later

use std::io;
use std::sync::Arc;

use io_uring::IoUring;

use crate::aligned::{LARGE_PAGE_BYTES, Memory, Writer};
use crate::arena::Arena;

/// The kernel's limit on registered buffers; what of an arena lies behind is read into without.
const BUFFERS_MAX: usize = 1 << 14;

/// See the module.
#[derive(Debug)]
pub(super) struct Registered {
    whole: Arc<Memory>,
    /// Which pages the kernel has.
    pages: Vec<bool>,
    refused: Option<io::Error>,
}

impl Registered {
    /// A table of empty places in the ring, one for each large page.
    pub(super) fn new(ring: &IoUring, arena: &Arena) -> Self {
        let whole = Arc::clone(arena.whole());
        let count = (whole.len() / LARGE_PAGE_BYTES).min(BUFFERS_MAX);
        let refused = ring.submitter().register_buffers_sparse(count as u32).err();
        Self { whole, pages: vec![false; count], refused }
    }

    /// Under which number the kernel knows the memory of this writer; registers it where it does not yet.
    pub(super) fn number_of(&mut self, ring: &IoUring, into: &Writer) -> Option<u16> {
        let page = into.offset_in(&self.whole)? / LARGE_PAGE_BYTES;
        if !*self.pages.get(page)? && self.refused.is_none() {
            match self.register(ring, page) {
                Ok(()) => self.pages[page] = true,
                Err(error) => self.refused = Some(error),
            }
        }
        self.pages[page].then_some(page as u16)
    }

    /// Why no more is registered.
    pub(super) fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }

    fn register(&self, ring: &IoUring, page: usize) -> io::Result<()> {
        let start = self.whole.start().as_ptr().wrapping_add(page * LARGE_PAGE_BYTES);
        let vector = libc::iovec { iov_base: start.cast(), iov_len: LARGE_PAGE_BYTES };
        // SAFETY: register_buffers_update requires that the range is ours until the ring is gone: it lies in a mapping
        // that `self.whole` keeps, and `self` lives in the ring, behind the descriptor (see the order of its fields).
        unsafe { ring.submitter().register_buffers_update(page as u32, &[vector], None) }
    }
}
