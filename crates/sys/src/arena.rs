//! Memory for reads: large pages, cut into pieces that come back.
//!
//! A fresh mapping costs a fault for each of its pages, and a disk is asked in as many segments as the memory has pages
//! (docs/decisions/0011-reads.md has the figures). So the memory for reads is one mapping that is kept, in large pages
//! where the kernel gives them, and a [`Ring`](crate::uring::Ring) may have it registered.
//!
//! What must hold: two pieces in use never overlap; a piece lies within one large page, so that a page can be registered
//! by itself; pieces in use never sum up to more than the limit. Pages are touched in order, and only when those touched
//! before have no gap: what is never needed is never taken from the system. Refuses to know what a refusal means: the
//! caller makes room, or reads in another way.
#![allow(unsafe_code)] // the pieces' memory is handed out by hand

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::aligned::{AlignedBuffer, BLOCK_BYTES, LARGE_PAGE_BYTES, Memory};
use crate::budget::{Home, NoBuffer};

/// The largest piece.
pub const PIECE_BYTES_MAX: usize = LARGE_PAGE_BYTES;

const BLOCKS_PER_PAGE: u32 = (LARGE_PAGE_BYTES / BLOCK_BYTES) as u32;

/// A bounded mapping from which aligned buffers are cut. Clones share it.
#[derive(Clone, Debug)]
pub struct Arena {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    whole: Arc<Memory>,
    gaps: Mutex<Gaps>,
}

impl Arena {
    /// Room for `limit_bytes`, rounded up to whole large pages. Address space is taken at once, memory as it is used.
    pub fn new(limit_bytes: usize) -> io::Result<Self> {
        let whole = Arc::new(Memory::map_large(limit_bytes)?);
        let gaps = Mutex::new(Gaps::new((whole.len() / LARGE_PAGE_BYTES) as u32));
        Ok(Self { shared: Arc::new(Shared { whole, gaps }) })
    }

    /// A buffer of `len` bytes rounded up to whole blocks. Never waits; [`NoBuffer::Exhausted`] where no gap is large
    /// enough, also when smaller ones would be in sum.
    pub fn try_take(&self, len: usize) -> Result<AlignedBuffer, NoBuffer> {
        if len == 0 || len > PIECE_BYTES_MAX {
            return Err(NoBuffer::Size);
        }
        let blocks = len.div_ceil(BLOCK_BYTES) as u32;
        let at = self.shared.gaps().take(blocks).ok_or(NoBuffer::Exhausted)?;
        let range = at as usize * BLOCK_BYTES..(at + blocks) as usize * BLOCK_BYTES;
        // SAFETY: part requires that nothing else uses the range until the part is dropped:
        // - the range was a gap, and is none until `give_back` has consumed the part (a buffer gives its memory back once);
        // - the whole is used through parts alone: it never leaves `Shared`, but to be compared and registered.
        let memory = unsafe { Memory::part(&self.shared.whole, range) };
        Ok(AlignedBuffer::over(memory, Some(self.shared.clone())))
    }

    /// Takes the memory of the first `bytes` from the system, and waits for it. For a thread that may: where large pages are
    /// scarce the kernel makes room for each of them, which takes milliseconds. What it refuses (before 5.14) comes as it is used.
    pub fn populate(&self, bytes: usize) {
        let whole = &self.shared.whole;
        let pages = (0..whole.len().min(bytes)).step_by(LARGE_PAGE_BYTES);
        for start in pages {
            if whole.populate(start..start + LARGE_PAGE_BYTES).is_err() {
                return;
            }
        }
    }

    /// Bytes in buffers that somebody holds.
    pub fn taken_bytes(&self) -> usize {
        self.shared.gaps().taken as usize * BLOCK_BYTES
    }

    /// Bytes in all.
    pub fn limit_bytes(&self) -> usize {
        self.shared.whole.len()
    }

    pub(crate) fn whole(&self) -> &Arc<Memory> {
        &self.shared.whole
    }
}

impl Shared {
    fn gaps(&self) -> MutexGuard<'_, Gaps> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for Shared {
    fn give_back(&self, memory: Memory) {
        let Some(offset) = memory.offset_in(&self.whole) else { return debug_assert!(false, "not ours") };
        let blocks = (memory.len() / BLOCK_BYTES) as u32;
        drop(memory); // before the range can be taken again
        self.gaps().give_back((offset / BLOCK_BYTES) as u32, blocks);
    }
}

/// What of the mapping is free, in blocks: stretches within touched pages, and the pages behind.
///
/// A request takes the smallest gap that fits; what comes back grows together with the gaps beside it.
#[derive(Debug)]
struct Gaps {
    /// Start of each gap, and its length.
    /// Queue: memory for reads.
    by_start: BTreeMap<u32, u32>,
    /// The same as (length, start).
    /// Queue: memory for reads.
    by_len: BTreeSet<(u32, u32)>,
    pages_touched: u32,
    pages: u32,
    taken: u32,
}

impl Gaps {
    fn new(pages: u32) -> Self {
        Self { by_start: BTreeMap::new(), by_len: BTreeSet::new(), pages_touched: 0, pages, taken: 0 }
    }

    fn take(&mut self, blocks: u32) -> Option<u32> {
        let found = self.by_len.range((blocks, 0)..).next().copied();
        let (len, start) = found.or_else(|| self.touch_page())?;
        self.remove(start, len);
        if len > blocks {
            self.insert(start + blocks, len - blocks);
        }
        self.taken += blocks;
        Some(start)
    }

    fn touch_page(&mut self) -> Option<(u32, u32)> {
        (self.pages_touched < self.pages).then(|| {
            let start = self.pages_touched * BLOCKS_PER_PAGE;
            self.pages_touched += 1;
            self.insert(start, BLOCKS_PER_PAGE);
            (BLOCKS_PER_PAGE, start)
        })
    }

    fn give_back(&mut self, mut start: u32, blocks: u32) {
        self.taken -= blocks;
        let mut len = blocks;
        let page = start / BLOCKS_PER_PAGE;
        let before = self.by_start.range(..start).next_back().map(|(&at, &len)| (at, len));
        if let Some((at, of)) = before.filter(|&(at, of)| at + of == start && at / BLOCKS_PER_PAGE == page) {
            self.remove(at, of);
            (start, len) = (at, len + of);
        }
        let end = start + len;
        if let Some(&of) = self.by_start.get(&end).filter(|_| end / BLOCKS_PER_PAGE == page) {
            self.remove(end, of);
            len += of;
        }
        self.insert(start, len);
    }

    fn insert(&mut self, start: u32, len: u32) {
        self.by_start.insert(start, len);
        self.by_len.insert((len, start));
    }

    fn remove(&mut self, start: u32, len: u32) {
        self.by_start.remove(&start);
        self.by_len.remove(&(len, start));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_piece_is_aligned_and_its_size_has_bounds() {
        let arena = Arena::new(1).unwrap();
        assert_eq!(arena.limit_bytes(), LARGE_PAGE_BYTES);
        for len in [0, PIECE_BYTES_MAX + 1, usize::MAX] {
            assert!(matches!(arena.try_take(len), Err(NoBuffer::Size)), "{len}");
        }
        let piece = arena.try_take(5000).unwrap();
        assert_eq!((piece.capacity(), arena.taken_bytes()), (8192, 8192));
        let (mut writer, _) = piece.split();
        assert!(writer.unfilled().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
    }

    #[test]
    fn a_piece_is_taken_until_its_last_reader_is_gone() {
        let arena = Arena::new(LARGE_PAGE_BYTES).unwrap();
        let (mut writer, reader) = arena.try_take(PIECE_BYTES_MAX).unwrap().split();
        writer.put(b"kept");
        drop(writer);
        let settled = reader.settled(0..4).unwrap();
        drop(reader);
        assert!(matches!(arena.try_take(1), Err(NoBuffer::Exhausted)));
        drop(arena.clone());
        assert_eq!(&*settled, b"kept");
        drop(settled);
        assert!(arena.try_take(PIECE_BYTES_MAX).is_ok());
    }

    #[test]
    fn populating_changes_nothing_that_is_in_use() {
        let arena = Arena::new(2 * LARGE_PAGE_BYTES).unwrap();
        let (mut writer, reader) = arena.try_take(4096).unwrap().split();
        writer.put(b"kept");
        arena.populate(usize::MAX);
        assert_eq!(reader.filled(), b"kept");
        assert!(writer.unfilled().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_buffer_outlives_its_arena() {
        let (mut writer, reader) = Arena::new(1).unwrap().try_take(4096).unwrap().split();
        writer.put(b"alive");
        assert_eq!(reader.filled(), b"alive");
    }

    #[test]
    fn pages_are_touched_only_when_needed() {
        let arena = Arena::new(8 * LARGE_PAGE_BYTES).unwrap();
        for _ in 0..100 {
            let pair = (arena.try_take(1 << 20).unwrap(), arena.try_take(1 << 20).unwrap());
            drop(pair);
        }
        assert_eq!(arena.shared.gaps().pages_touched, 1);
    }

    proptest! {
        /// Twin: a flag for each block.
        #[test]
        fn pieces_never_overlap_and_gaps_grow_together(steps in prop::collection::vec((1_u32..=BLOCKS_PER_PAGE, 0_usize..24), 1..300)) {
            const PAGES: u32 = 4;
            let (mut gaps, mut held) = (Gaps::new(PAGES), Vec::new());
            let mut twin = vec![false; (PAGES * BLOCKS_PER_PAGE) as usize];
            for (blocks, which) in steps {
                if which < held.len() {
                    let (start, blocks): (u32, u32) = held.swap_remove(which);
                    twin[start as usize..][..blocks as usize].fill(false);
                    gaps.give_back(start, blocks);
                } else if let Some(start) = gaps.take(blocks) {
                    let mine = &mut twin[start as usize..][..blocks as usize];
                    prop_assert!(mine.iter().all(|taken| !taken));
                    mine.fill(true);
                    prop_assert_eq!(start / BLOCKS_PER_PAGE, (start + blocks - 1) / BLOCKS_PER_PAGE);
                    held.push((start, blocks));
                } else {
                    let fits = |page: &[bool]| page.split(|taken| *taken).any(|gap| gap.len() >= blocks as usize);
                    prop_assert!(!twin.chunks(BLOCKS_PER_PAGE as usize).any(fits), "{blocks} blocks would fit");
                }
                prop_assert_eq!(gaps.taken as usize, twin.iter().filter(|taken| **taken).count());
            }
        }
    }
}
