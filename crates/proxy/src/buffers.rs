//! Receive buffers of one thread: two sizes, pooled, held only while they hold bytes.
//!
//! What must hold: a window without bytes holds no buffer, so neither does an idle connection, a request that waits for
//! its origin, or a body that the kernel moves; what clients say is received into a small buffer, which is exchanged for a
//! larger one only when a head does not fit, and never beyond the thread's share of `limits.head_memory`; what the pools
//! have not needed for a while goes back to the allocator.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pump::Socket;

use pools::{Pool, Taken};

mod pools;

/// The sizes of pooled buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A request head as most are.
    Small,
    /// A response head with the first 16 KiB of its body; pieces of bodies that are copied.
    Large,
}

impl Size {
    /// Bytes of such a buffer.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Small => 2 * 1024,
            Self::Large => 17 * 1024,
        }
    }
}

/// The most that is kept for reuse per thread: 8 MiB of small buffers, as much of large ones.
const KEEP_SMALL: usize = 4096;
const KEEP_LARGE: usize = 480;

/// The buffers of one thread.
pub struct Buffers {
    small: RefCell<Pool>,
    large: RefCell<Pool>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    /// Bytes of the buffers that heads outgrew the small size for.
    /// Queue: requests on one connection.
    grown: Cell<usize>,
    grown_max: Cell<usize>,
}

/// Why a window cannot have a larger buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// It is as large as it may be.
    Limit,
    /// Others have all the memory that there is for long heads.
    Memory,
}

impl Buffers {
    /// Empty pools. Heads that do not fit a small buffer may take `grown_max` bytes at a time, all together.
    #[must_use]
    pub fn new(grown_max: usize) -> Rc<Self> {
        Rc::new(Self {
            small: RefCell::new(Pool::new(Size::Small.bytes(), KEEP_SMALL)),
            large: RefCell::new(Pool::new(Size::Large.bytes(), KEEP_LARGE)),
            hits: Cell::default(),
            misses: Cell::default(),
            grown: Cell::default(),
            grown_max: Cell::new(grown_max),
        })
    }

    /// Sets what heads that do not fit a small buffer may take at a time, all together.
    pub fn set_grown_max(&self, bytes: usize) {
        self.grown_max.set(bytes);
    }

    /// A window without bytes. When it receives some, they come into a buffer of this size.
    #[must_use]
    pub fn window(self: &Rc<Self>, size: Size) -> Window {
        Window { data: Box::default(), start: 0, end: 0, size, taken: None, grown: 0, home: Rc::clone(self) }
    }

    /// How often a buffer was at hand when bytes came, and how often not, since the last call.
    #[must_use]
    pub fn drain_counts(&self) -> (u64, u64) {
        (self.hits.take(), self.misses.take())
    }

    /// Lets half of those buffers go that were never needed since the last call.
    pub fn trim(&self) {
        self.small.borrow_mut().trim();
        self.large.borrow_mut().trim();
    }

    /// Bytes that the pools keep.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.small.borrow().kept_bytes() + self.large.borrow().kept_bytes()
    }

    fn pool(&self, size: Size) -> &RefCell<Pool> {
        match size {
            Size::Small => &self.small,
            Size::Large => &self.large,
        }
    }

    fn count(&self, taken: Taken) {
        let counter = match taken {
            Taken::Kept => &self.hits,
            Taken::Made => &self.misses,
        };
        counter.set(counter.get() + 1);
    }

    /// Takes `data` back, if it is of a size that is kept.
    fn give_back(&self, data: Box<[u8]>) {
        if data.len() == Size::Small.bytes() {
            self.small.borrow_mut().put(data);
        } else if data.len() == Size::Large.bytes() {
            self.large.borrow_mut().put(data);
        }
    }
}

/// Received bytes that are not used up: `data[start..end]`.
pub struct Window {
    /// Empty while there are no bytes and no room was asked for.
    data: Box<[u8]>,
    start: usize,
    end: usize,
    /// Of the buffer that is taken next.
    size: Size,
    /// Where the buffer came from, until bytes come into it: only buffers that were of use are counted.
    taken: Option<Taken>,
    /// What this window has of [`Buffers::grown`].
    grown: usize,
    home: Rc<Buffers>,
}

impl Window {
    /// The bytes at hand.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Whether there are no bytes at hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Uses up the first `n` bytes at hand; with the last of them the buffer goes back.
    pub fn consume(&mut self, n: usize) {
        self.start += n.min(self.end - self.start);
        if self.is_empty() {
            self.release();
        }
    }

    /// From the next buffer on it is one of this size.
    pub fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// Receives at most `most` bytes behind those at hand. While nothing comes, an empty window holds no buffer.
    ///
    /// # Errors
    /// The socket's. 0 is the end of the stream, or a window without room.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Socket,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        let polled = socket.poll_recv(cx, self.room(most));
        if let Poll::Ready(Ok(n)) = polled {
            self.filled_more(n);
        }
        if self.is_empty() {
            self.release();
        }
        Poll::Ready(ready!(polled))
    }

    /// [`Self::poll_fill`], awaited.
    ///
    /// # Errors
    /// The socket's.
    pub async fn fill(&mut self, socket: &Socket, most: usize) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx, socket, most)).await
    }

    /// Whether every byte of the buffer is in use.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.start == 0 && self.end == self.data.len() && self.end > 0
    }

    /// Exchanges the buffer for a larger one, up to `most` bytes.
    ///
    /// # Errors
    /// Why there is none.
    pub fn grow(&mut self, most: usize) -> Result<(), NoRoom> {
        let wanted = self.larger(most).ok_or(NoRoom::Limit)?;
        let grown = self.home.grown.get() - self.grown + wanted;
        if grown > self.home.grown_max.get() {
            return Err(NoRoom::Memory);
        }
        self.exchange(wanted);
        self.home.grown.set(grown);
        self.grown = wanted;
        Ok(())
    }

    /// Adds a copy of `bytes` behind those at hand, whatever room that takes.
    pub fn append(&mut self, bytes: &[u8]) {
        let all = self.end - self.start + bytes.len();
        if self.data.is_empty() && all > 0 {
            let size = if all <= Size::Small.bytes() { Size::Small } else { Size::Large };
            self.take(size);
        }
        self.move_to_front();
        if all > self.data.len() {
            self.exchange(all);
        }
        self.data[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.filled_more(bytes.len());
    }

    /// Room behind the bytes at hand, at most `most` bytes of it; moves them to the front when there is none.
    fn room(&mut self, most: usize) -> &mut [u8] {
        if self.data.is_empty() {
            self.take(self.size);
        }
        if self.end == self.data.len() {
            self.move_to_front();
        }
        let end = self.data.len().min(self.end.saturating_add(most));
        &mut self.data[self.end..end]
    }

    fn filled_more(&mut self, n: usize) {
        self.end = (self.end + n).min(self.data.len());
        if let Some(taken) = self.taken.take_if(|_| n > 0) {
            self.home.count(taken);
        }
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.data.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    fn larger(&self, most: usize) -> Option<usize> {
        let now = self.data.len();
        let next = if now < Size::Large.bytes() { Size::Large.bytes() } else { now * 2 };
        Some(next.min(most)).filter(|next| *next > now)
    }

    /// Moves the bytes at hand to the front of a buffer of `bytes`.
    fn exchange(&mut self, bytes: usize) {
        let mut larger = if bytes == Size::Large.bytes() {
            let (larger, taken) = self.home.large.borrow_mut().take();
            self.home.count(taken);
            larger
        } else {
            vec![0; bytes].into_boxed_slice()
        };
        let held = self.end - self.start;
        larger[..held].copy_from_slice(self.filled());
        self.home.give_back(std::mem::replace(&mut self.data, larger));
        (self.start, self.end) = (0, held);
    }

    fn take(&mut self, size: Size) {
        let (data, taken) = self.home.pool(size).borrow_mut().take();
        (self.data, self.taken) = (data, Some(taken));
    }

    fn release(&mut self) {
        (self.start, self.end) = (0, 0);
        self.home.grown.set(self.home.grown.get() - self.grown);
        self.grown = 0;
        self.home.give_back(std::mem::take(&mut self.data));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
