//! Block-aligned buffers that one side receives into while others send from the part that is there.
//!
//! A buffer is carved front to back into regions that do not overlap. A region has exactly one [`Writer`] and any
//! number of [`Reader`]s, on any threads, and a watermark between them:
//!
//! ```text
//!   start            filled                end
//!     |  readers see   |  the writer's own  |
//!     |  never written |  never read by     |
//!     |  again         |  anybody else      |
//! ```
//!
//! What must hold, and why shared memory is sound here:
//! - the watermark only grows, and only the region's writer, which is neither `Clone` nor reachable by two threads
//!   at once (`&mut self`), moves it;
//! - `&mut [u8]` is made only from `filled..end`, `&[u8]` only from `start..filled`, so no byte is ever behind both;
//! - the writer's stores come before its release store of the watermark, and a reader's loads after an acquire load
//!   of it, so a reader sees the bytes whole;
//! - no reference to the whole memory exists while a writer does; regions are disjoint, so writers of two regions
//!   never meet; the mapping lives until the last handle is gone.
//!
//! The `unsafe` blocks below name which of these lines they stand on.
//!
//! [`Settled`] is the proof that some bytes will never be written again: what direct I/O and long sends hold.
//! Refuses to know what the bytes are, and how a reader learns that there are more.
#![allow(unsafe_code)] // see memory.rs

use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use bytes::Bytes;

use crate::budget::Home;

mod memory;

pub(crate) use memory::{LARGE_PAGE_BYTES, Memory};

/// Alignment of buffers and of padded lengths: the page, and the largest logical block of common devices.
pub const BLOCK_BYTES: usize = 4096;

/// `len` rounded up to whole blocks.
pub const fn round_up_to_block(len: usize) -> usize {
    len.next_multiple_of(BLOCK_BYTES)
}

/// A buffer of which some may be carved into regions already.
#[derive(Debug)]
pub struct AlignedBuffer {
    shared: Arc<Shared>,
    carved: usize,
}

#[derive(Debug)]
struct Shared {
    memory: Option<Memory>, // None only while dropping
    writers: AtomicUsize,
    home: Option<Arc<dyn Home>>,
}

impl AlignedBuffer {
    /// A buffer of its own, outside of any budget: `len` bytes rounded up to whole blocks, all zero.
    pub fn new(len: usize) -> io::Result<Self> {
        Ok(Self::over(Memory::map(round_up_to_block(len))?, None))
    }

    pub(crate) fn over(memory: Memory, home: Option<Arc<dyn Home>>) -> Self {
        let shared = Shared { memory: Some(memory), writers: AtomicUsize::new(0), home };
        Self { shared: Arc::new(shared), carved: 0 }
    }

    /// Bytes in all, a multiple of [`BLOCK_BYTES`].
    pub fn capacity(&self) -> usize {
        self.shared.memory().len()
    }

    /// Bytes not yet carved.
    pub fn remaining(&self) -> usize {
        self.capacity() - self.carved
    }

    /// The next `len` bytes as a region, or nothing where fewer remain.
    ///
    /// When its writer goes, the part of the region that was not filled is zeroed.
    pub fn carve(&mut self, len: usize) -> Option<(Writer, Reader)> {
        (len <= self.remaining()).then(|| self.cut(len, Tail::All))
    }

    /// All that remains as one region: for a body that has the buffer to itself.
    ///
    /// When its writer goes, zeroes follow what was filled up to the end of its last block.
    pub fn split(mut self) -> (Writer, Reader) {
        self.cut(self.remaining(), Tail::Block)
    }

    /// No more regions: the way to the whole buffer once every writer is gone.
    pub fn seal(self) -> Sealed {
        let len = round_up_to_block(self.carved);
        // SAFETY: exclusive requires that nobody else refers to these bytes: they lie behind the last region, so no
        // writer or reader has them; `self` is consumed, so no later region can; `Sealed` shows them only hereafter.
        let rest = unsafe { self.shared.memory().exclusive(self.carved..len) };
        rest.fill(0);
        Sealed { shared: self.shared, len }
    }

    fn cut(&mut self, len: usize, tail: Tail) -> (Writer, Reader) {
        let start = self.carved;
        self.carved += len;
        self.shared.writers.fetch_add(1, Ordering::Relaxed);
        let region = Arc::new(Region {
            shared: Arc::clone(&self.shared),
            start,
            end: start + len,
            filled: AtomicUsize::new(start),
            state: AtomicU8::new(FILLING),
        });
        let reader = Reader { region: Arc::clone(&region) };
        (Writer { region, tail, complete: false }, reader)
    }
}

impl Shared {
    #[allow(clippy::expect_used, reason = "emptied by drop alone")]
    fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("present until drop")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let (Some(memory), Some(home)) = (self.memory.take(), &self.home) {
            home.give_back(memory);
        }
    }
}

/// What is zeroed behind the watermark when a writer goes.
#[derive(Clone, Copy, Debug)]
enum Tail {
    All,
    Block,
}

#[derive(Debug)]
struct Region {
    shared: Arc<Shared>,
    start: usize,
    end: usize,
    filled: AtomicUsize, // position in the buffer, start..=end
    state: AtomicU8,
}

/// What became of a region's writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// More may come.
    Filling,
    /// Complete.
    Finished,
    /// The writer was dropped: what is there is not all.
    Abandoned,
}

const FILLING: u8 = 0;
const FINISHED: u8 = 1;
const ABANDONED: u8 = 2;

/// The one that fills a region.
#[derive(Debug)]
pub struct Writer {
    region: Arc<Region>,
    tail: Tail,
    complete: bool,
}

impl Writer {
    /// The part that nobody else can see; receive into its front, then [`advance`](Self::advance).
    pub fn unfilled(&mut self) -> &mut [u8] {
        let hidden = self.position()..self.region.end;
        // SAFETY: exclusive requires that nobody else refers to these bytes while the result lives:
        // - regions are disjoint, and this is the only writer of this one, borrowed mutably for as long;
        // - readers get what is below the watermark, which stands at `hidden.start` and moves by this writer alone;
        // - earlier users of the memory are gone: a buffer comes home after its last handle, through a lock.
        unsafe { self.region.shared.memory().exclusive(hidden) }
    }

    /// Shows the first `count` bytes of the unfilled part to the readers, for good.
    ///
    /// # Panics
    /// Where fewer are left: the caller claims bytes that no call can have received.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.remaining(), "advanced past the end of the region");
        self.region.filled.store(self.position() + count, Ordering::Release);
    }

    /// Copies as much of `bytes` as fits and advances; returns how many.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.remaining());
        self.unfilled()[..count].copy_from_slice(&bytes[..count]);
        self.advance(count);
        count
    }

    /// Bytes still to fill.
    pub fn remaining(&self) -> usize {
        self.region.end - self.position()
    }

    /// Bytes filled.
    pub fn filled_len(&self) -> usize {
        self.position() - self.region.start
    }

    /// Another reader of the region.
    pub fn reader(&self) -> Reader {
        Reader { region: Arc::clone(&self.region) }
    }

    /// Says that the region is complete, short or not. A writer that is dropped instead leaves it unfinished.
    pub fn finish(mut self) {
        self.complete = true;
    }

    /// Where the memory below the buffer lies in `whole`, if it is a part of that.
    pub(crate) fn offset_in(&self, whole: &Arc<Memory>) -> Option<usize> {
        self.region.shared.memory().offset_in(whole)
    }

    fn position(&self) -> usize {
        self.region.filled.load(Ordering::Relaxed) // our own store
    }

    fn zero_tail(&mut self) {
        let length = match self.tail {
            Tail::All => self.remaining(),
            Tail::Block => (round_up_to_block(self.position()) - self.position()).min(self.remaining()),
        };
        self.unfilled()[..length].fill(0);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.zero_tail();
        // From here on nobody writes: both stores release the bytes, tail and all, to those who see them.
        self.region.state.store(if self.complete { FINISHED } else { ABANDONED }, Ordering::Release);
        self.region.shared.writers.fetch_sub(1, Ordering::Release);
    }
}

/// One that looks at what is there of a region.
#[derive(Clone, Debug)]
pub struct Reader {
    region: Arc<Region>,
}

impl Reader {
    /// All that is filled so far.
    pub fn filled(&self) -> &[u8] {
        let shown = self.region.start..self.position();
        // SAFETY: settled requires no write to these bytes, now or later: they are below a watermark that only grows,
        // loaded with acquire, and the writer works above it.
        unsafe { self.region.shared.memory().settled(shown) }
    }

    /// How many bytes are filled so far.
    pub fn filled_len(&self) -> usize {
        self.position() - self.region.start
    }

    /// What became of the writer. Ask this before [`filled`](Self::filled): what is filled when it is not
    /// [`State::Filling`] any more is all that ever will be.
    pub fn state(&self) -> State {
        match self.region.state.load(Ordering::Acquire) {
            FILLING => State::Filling,
            FINISHED => State::Finished,
            _ => State::Abandoned,
        }
    }

    /// Whether the writer said that the region is complete.
    pub fn is_finished(&self) -> bool {
        self.state() == State::Finished
    }

    /// A finished region with zeroes up to the end of its last block: what direct I/O writes.
    ///
    /// Nothing before [`Writer::finish`], and for a region that does not begin at a block.
    pub fn padded(&self) -> Option<&[u8]> {
        let range = self.padded_range()?;
        // SAFETY: settled requires no write to these bytes, now or later: `padded_range` answers only when the writer
        // is gone (finished, loaded with acquire), and its range stays within the region, so that no other has it.
        Some(unsafe { self.region.shared.memory().settled(range) })
    }

    /// [`padded`](Self::padded) as a value that can be kept.
    pub fn settled_padded(&self) -> Option<Settled> {
        Some(Settled { shared: Arc::clone(&self.region.shared), range: self.padded_range()? })
    }

    /// A part of what is filled as a value that can be kept; nothing where `range` reaches past the watermark.
    pub fn settled(&self, range: Range<usize>) -> Option<Settled> {
        let within = range.start <= range.end && range.end <= self.filled_len();
        within.then(|| Settled {
            shared: Arc::clone(&self.region.shared),
            range: self.region.start + range.start..self.region.start + range.end,
        })
    }

    fn position(&self) -> usize {
        self.region.filled.load(Ordering::Acquire)
    }

    fn padded_range(&self) -> Option<Range<usize>> {
        if !self.is_finished() {
            return None;
        }
        let start = self.region.start;
        let end = round_up_to_block(self.position()).min(self.region.end);
        (start.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES)).then_some(start..end)
    }
}

/// A buffer to which no region can be added.
#[derive(Clone, Debug)]
pub struct Sealed {
    shared: Arc<Shared>,
    len: usize,
}

impl Sealed {
    /// All regions and the zeroes up to the end of the last block, once every writer is gone; until then nothing.
    pub fn settled(&self) -> Option<Settled> {
        // No writer can be born any more: regions came from the buffer that was sealed.
        let alone = self.shared.writers.load(Ordering::Acquire) == 0;
        alone.then(|| Settled { shared: Arc::clone(&self.shared), range: 0..self.len })
    }
}

/// Bytes that nobody will write again, kept alive by this value.
#[derive(Clone, Debug)]
pub struct Settled {
    shared: Arc<Shared>,
    range: Range<usize>,
}

impl Deref for Settled {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: settled requires no write to these bytes, now or later. This type is made in three places: below a
        // watermark, for a finished region, and for a sealed buffer without writers; see there for the acquire loads.
        unsafe { self.shared.memory().settled(self.range.clone()) }
    }
}

impl AsRef<[u8]> for Settled {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<Settled> for Bytes {
    /// The same bytes, not a copy.
    fn from(settled: Settled) -> Self {
        Self::from_owner(settled)
    }
}

#[cfg(test)]
mod tests;
