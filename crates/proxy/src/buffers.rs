//! Receive buffers of one thread: taken when bytes are about to be read, given back when a connection falls idle.
//!
//! What must hold: an idle connection holds none. The pool keeps a bounded number; beyond it they go back to the
//! allocator.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// One buffer: a request head with room to spare, or a response head with the first 16 KiB of its body.
pub const BUFFER_BYTES: usize = 17 * 1024;

/// Buffers kept for reuse per thread (about 4 MiB).
const KEEP: usize = 256;

/// The pool of one thread.
#[derive(Default)]
pub struct Buffers {
    free: RefCell<Vec<Box<[u8]>>>,
    hits: Cell<u64>,
    misses: Cell<u64>,
}

impl Buffers {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// An empty window over a pooled buffer.
    #[must_use]
    pub fn window(self: &Rc<Self>) -> Window {
        let data = match self.free.borrow_mut().pop() {
            Some(data) => {
                self.hits.set(self.hits.get() + 1);
                data
            }
            None => {
                self.misses.set(self.misses.get() + 1);
                vec![0; BUFFER_BYTES].into_boxed_slice()
            }
        };
        Window { data, start: 0, end: 0, home: Rc::clone(self) }
    }

    /// How often a buffer was at hand, and how often not, since the last call.
    #[must_use]
    pub fn drain_counts(&self) -> (u64, u64) {
        (self.hits.take(), self.misses.take())
    }
}

/// Received bytes that are not used up: `data[start..end]`.
pub struct Window {
    data: Box<[u8]>,
    start: usize,
    end: usize,
    home: Rc<Buffers>,
}

impl Window {
    /// The bytes at hand.
    #[must_use]
    pub fn filled(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Uses up the first `n` bytes at hand.
    pub fn consume(&mut self, n: usize) {
        self.start += n.min(self.end - self.start);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind the bytes at hand, at most `most` bytes of it; moves them to the front when there is none.
    pub fn room(&mut self, most: usize) -> &mut [u8] {
        if self.end == self.data.len() && self.start > 0 {
            self.data.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let end = self.data.len().min(self.end.saturating_add(most));
        &mut self.data[self.end..end]
    }

    /// Counts `n` bytes of [`Self::room`] as filled.
    pub fn filled_more(&mut self, n: usize) {
        self.end = (self.end + n).min(self.data.len());
    }

    /// Whether every byte of the buffer is in use.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.start == 0 && self.end == self.data.len()
    }

    /// Makes the buffer twice as large, up to `most` bytes in all; false when it is that large already.
    pub fn grow(&mut self, most: usize) -> bool {
        if self.data.len() >= most {
            return false;
        }
        let mut larger = vec![0; (self.data.len() * 2).min(most)].into_boxed_slice();
        let held = self.end - self.start;
        larger[..held].copy_from_slice(&self.data[self.start..self.end]);
        self.data = larger;
        (self.start, self.end) = (0, held);
        true
    }

    /// Adds a copy of `bytes` behind those at hand, growing as needed.
    pub fn append(&mut self, bytes: &[u8]) {
        while self.room(usize::MAX).len() < bytes.len() {
            self.grow(usize::MAX);
        }
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled_more(bytes.len());
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut free = self.home.free.borrow_mut();
        // A buffer that had to grow for one long head does not stay.
        if self.data.len() == BUFFER_BYTES && free.len() < KEEP {
            free.push(std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_keeps_bytes_in_order_while_it_moves_and_grows() {
        let buffers = Buffers::new();
        let mut window = buffers.window();
        window.append(&[1; BUFFER_BYTES]);
        assert!(window.is_full());
        window.consume(BUFFER_BYTES - 2);
        window.append(&[2; 100]);
        assert_eq!(window.filled().len(), 102);
        assert_eq!(&window.filled()[..3], &[1, 1, 2]);
        window.append(&[3; BUFFER_BYTES]);
        assert_eq!(window.filled().len(), 102 + BUFFER_BYTES);
    }

    #[test]
    fn a_buffer_comes_back_and_a_grown_one_does_not() {
        let buffers = Buffers::new();
        drop(buffers.window());
        assert_eq!(buffers.free.borrow().len(), 1);
        let mut window = buffers.window();
        assert!(window.grow(usize::MAX));
        drop(window);
        assert_eq!(buffers.free.borrow().len(), 0);
        assert_eq!(buffers.drain_counts(), (1, 1));
    }
}
