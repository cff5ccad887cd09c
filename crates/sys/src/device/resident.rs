//! Is it in memory already? Reads that never wait for the disk.
//!
//! What must hold: a "yes" means that `sendfile` of the range will not wait for the disk, save for pages that leave
//! between the question and the use. A "no" may be wrong, and costs a detour only.
//!
//! Two sources, each with a blind side: `cachestat(2)` counts the pages of a range exactly, but counts those still
//! being read; `preadv2(RWF_NOWAIT)` refuses pages still being read, but looks at one, and **starts reading what it
//! misses**. Asked in this order the second can only meet pages that exist, so it starts nothing. Where pages are not
//! counted every page is looked at: a sample would bring in just what it samples, and say yes the next time.
#![allow(unsafe_code)] // cachestat has no safe wrapper yet

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::fstatfs;
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

use super::Device;

const PAGE_BYTES: u64 = 4096;

impl Device {
    /// Whether a read of the range would find every page in memory. An empty range is resident.
    pub fn resident(&self, offset: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        let pages = offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES;
        let counted = if self.counts_pages { all_present(&self.buffered, offset, len) } else { None };
        match counted {
            Some(all) => all && self.readable(*pages.end()),
            None => self.each_readable(pages),
        }
    }

    /// How many bytes of the range are in the page cache, in whole pages; nothing where the kernel does not say.
    pub fn resident_bytes(&self, offset: u64, len: u64) -> Option<u64> {
        if len == 0 || !self.counts_pages {
            return None;
        }
        let pages = offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES;
        Some(pages_present(&self.buffered, &pages)? * PAGE_BYTES)
    }

    /// Reads what is resident at `offset`; less than asked where only the front is. `WouldBlock` where nothing is, and
    /// then the kernel has begun to read: a later yes of the same call may be about a neighbour still on its way.
    /// `Unsupported` where the filesystem cannot tell. 0 is the end of the file.
    pub fn read_nowait(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let flags = ReadWriteFlags::NOWAIT;
        let mut slices = [IoSliceMut::new(into)];
        Ok(retry_on_intr(|| preadv2(&self.buffered, &mut slices, offset, flags))?)
    }

    fn readable(&self, page: u64) -> bool {
        match self.read_nowait(page * PAGE_BYTES, &mut [0]) {
            Ok(_) => true,
            // tmpfs and others that never wait: the count is all there is, and it is enough.
            Err(error) => error.kind() == io::ErrorKind::Unsupported,
        }
    }

    /// Without a count: page by page, 0.25 µs each. Stops at the first miss, which starts the read of that page.
    pub(super) fn each_readable(&self, mut pages: RangeInclusive<u64>) -> bool {
        pages.all(|page| self.read_nowait(page * PAGE_BYTES, &mut [0]).is_ok())
    }
}

/// Whether the kernel counts a file's resident pages where the file is: not on overlayfs, whose pages belong to
/// another file below.
pub(super) fn counts_pages(file: &File) -> io::Result<bool> {
    const OVERLAYFS: u64 = 0x794c_7630; // linux/magic.h
    Ok(fstatfs(file)?.f_type as u64 != OVERLAYFS)
}

/// Whether every page of the range is in memory or on its way; nothing where the kernel does not say.
pub(crate) fn all_present(file: &File, offset: u64, len: u64) -> Option<bool> {
    let pages = offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES;
    Some(pages_present(file, &pages)? == pages.end() - pages.start() + 1)
}

/// How many of the pages are in memory, or nothing where the kernel does not say (before 6.5, or forbidden).
fn pages_present(file: &File, pages: &RangeInclusive<u64>) -> Option<u64> {
    const UNKNOWN: u8 = 0;
    const MISSING: u8 = 1;
    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
    if STATE.load(Ordering::Relaxed) == MISSING {
        return None;
    }
    match cachestat(file, pages) {
        Ok(present) => Some(present),
        Err(error) => {
            if error.raw_os_error() == Some(Errno::NOSYS.raw_os_error()) {
                STATE.store(MISSING, Ordering::Relaxed);
            }
            None
        }
    }
}

/// Whether this kernel has `cachestat(2)` and lets us call it, asked about a file of our own.
pub(crate) fn cachestat_works() -> bool {
    let ours = rustix::fs::memfd_create(c"probe", rustix::fs::MemfdFlags::CLOEXEC);
    ours.is_ok_and(|ours| cachestat(&File::from(ours), &(0..=0)).is_ok())
}

/// `struct cachestat_range` of `linux/mman.h`.
#[repr(C)]
struct RangeOfBytes {
    offset: u64,
    len: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct PageCounts {
    present: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

const _: () = assert!(size_of::<RangeOfBytes>() == 16 && size_of::<PageCounts>() == 40);

/// Its number since Linux 6.5, the same on every architecture that numbers calls in common (all but alpha).
const SYS_CACHESTAT: libc::c_long = 451;

fn cachestat(file: &File, pages: &RangeInclusive<u64>) -> io::Result<u64> {
    let range = RangeOfBytes {
        offset: pages.start() * PAGE_BYTES,
        len: (pages.end() - pages.start() + 1) * PAGE_BYTES,
    };
    let mut counts = PageCounts::default();
    // SAFETY: cachestat(fd, range, counts, flags) requires
    // - an open descriptor: borrowed from `file`;
    // - a readable range and writable counts of the kernel's layout: `repr(C)` twins of its structs, sizes asserted;
    // - flags of 0, the only value there is.
    let status =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0_u32) };
    if status == 0 { Ok(counts.present) } else { Err(io::Error::last_os_error()) }
}
