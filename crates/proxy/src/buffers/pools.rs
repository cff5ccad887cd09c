//! Buffers of one size that are kept for reuse.
//!
//! What must hold: at most `most` are kept; of those that nobody needed for a while half go, again and again, so that a
//! burst leaves nothing behind and a steady load never waits for the allocator.

/// Where a buffer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was kept.
    Kept,
    /// It had to be made.
    Made,
}

/// The free buffers of one size.
pub(super) struct Pool {
    /// Queue: free receive buffers.
    free: Vec<Box<[u8]>>,
    bytes: usize,
    most: usize,
    /// The fewest that were free since the last [`Self::trim`]: so many were never needed.
    fewest: usize,
}

impl Pool {
    /// An empty pool of buffers of `bytes`, of which it keeps `most`.
    pub(super) fn new(bytes: usize, most: usize) -> Self {
        Self { free: Vec::new(), bytes, most, fewest: 0 }
    }

    /// A buffer. What it holds is of no meaning.
    pub(super) fn take(&mut self) -> (Box<[u8]>, Taken) {
        match self.free.pop() {
            Some(data) => {
                self.fewest = self.fewest.min(self.free.len());
                (data, Taken::Kept)
            }
            None => (vec![0; self.bytes].into_boxed_slice(), Taken::Made),
        }
    }

    /// Takes a buffer back, and keeps it if there are not too many.
    pub(super) fn put(&mut self, data: Box<[u8]>) {
        debug_assert_eq!(data.len(), self.bytes);
        if self.free.len() < self.most {
            self.free.push(data);
        }
    }

    /// Lets half of those go that were never needed since the last call.
    pub(super) fn trim(&mut self) {
        let unneeded = self.fewest.div_ceil(2);
        self.free.truncate(self.free.len() - unneeded);
        if unneeded > 0 {
            self.free.shrink_to(self.free.len());
        }
        self.fewest = self.free.len();
    }

    /// Bytes of all that is kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.free.len() * self.bytes
    }
}
