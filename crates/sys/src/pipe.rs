//! Pipes as kernel-side buffers for `splice` and `tee`, and the pool that keeps them.
//!
//! What must hold: a pipe knows how many bytes it holds, because only the moves in [`crate::splice`] touch it and
//! each of them counts; so **only an empty pipe goes back to the pool**, and no byte of one connection can reach
//! another. Refuses to know where the bytes come from.
//!
//! A pipe's memory counts against `pipe-user-pages-soft` (64 MiB a user, 256 pipes of 256 KiB). Past it the kernel
//! refuses to enlarge a pipe and new ones start small: the real capacity is asked for and kept.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

/// The capacity asked of the kernel: 64 slots of one page. Larger ones gained nothing when measured.
pub const CAPACITY_WANTED_BYTES: usize = 256 << 10;

/// A non-blocking pipe and the number of bytes in it.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
    in_pipe: usize,
}

impl Pipe {
    /// A new pipe of [`CAPACITY_WANTED_BYTES`], or as near to it as the kernel allows this user.
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A refusal (EPERM past the user's limit) leaves the pipe as it was, which is still a good pipe.
        let capacity = match fcntl_setpipe_size(&write, CAPACITY_WANTED_BYTES) {
            Ok(capacity) => capacity,
            Err(_) => fcntl_getpipe_size(&write)?,
        };
        Ok(Self { read, write, capacity, in_pipe: 0 })
    }

    /// Bytes that the pipe holds at best, when every page in it is full.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes in the pipe now.
    pub fn in_pipe(&self) -> usize {
        self.in_pipe
    }

    /// Whether nothing is in the pipe.
    pub fn is_empty(&self) -> bool {
        self.in_pipe == 0
    }

    /// Throws away up to `count` bytes from the front; returns how many.
    pub fn discard(&mut self, count: usize) -> io::Result<usize> {
        let mut scratch = [0; 16 << 10];
        let goal = count.min(self.in_pipe);
        let mut gone = 0;
        while gone < goal {
            let part = (goal - gone).min(scratch.len());
            let read = retry_on_intr(|| rustix::io::read(&self.read, &mut scratch[..part]))?;
            self.took(read);
            gone += read;
        }
        Ok(gone)
    }

    pub(crate) fn read_end(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    pub(crate) fn write_end(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    pub(crate) fn put(&mut self, count: usize) {
        self.in_pipe += count;
        debug_assert!(self.in_pipe <= self.capacity);
    }

    pub(crate) fn took(&mut self, count: usize) {
        debug_assert!(count <= self.in_pipe);
        self.in_pipe -= count;
    }
}

/// Why a pool gives no pipe; the copy route does without one.
#[derive(Debug, thiserror::Error)]
pub enum NoPipe {
    /// As many are lent as the pool may lend.
    #[error("pipe-limit")]
    Limit,
    /// The kernel made none (descriptors, memory).
    #[error("pipe-refused: {0}")]
    Refused(#[source] io::Error),
}

/// A bounded pool of empty pipes, for one thread.
#[derive(Clone, Debug)]
pub struct PipePool {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Queue: pipes for splicing.
    idle: RefCell<Vec<Pipe>>,
    lent: Cell<usize>,
    limit: usize,
}

impl PipePool {
    /// A pool that lends and keeps at most `limit` pipes in all. None is made before it is asked for.
    pub fn new(limit: usize) -> Self {
        Self { inner: Rc::new(Inner { idle: RefCell::default(), lent: Cell::new(0), limit }) }
    }

    /// An empty pipe, which gives itself back on drop.
    pub fn take(&self) -> Result<PooledPipe, NoPipe> {
        if self.inner.lent.get() >= self.inner.limit {
            return Err(NoPipe::Limit);
        }
        let kept = self.inner.idle.borrow_mut().pop();
        let pipe = kept.map_or_else(Pipe::new, Ok).map_err(NoPipe::Refused)?;
        self.inner.lent.set(self.inner.lent.get() + 1);
        Ok(PooledPipe { pipe: Some(pipe), pool: Rc::clone(&self.inner) })
    }

    /// Empty pipes that wait for use.
    pub fn idle(&self) -> usize {
        self.inner.idle.borrow().len()
    }

    /// Pipes in use.
    pub fn lent(&self) -> usize {
        self.inner.lent.get()
    }
}

impl Inner {
    fn give_back(&self, pipe: Pipe) {
        self.lent.set(self.lent.get() - 1);
        if pipe.is_empty() {
            self.idle.borrow_mut().push(pipe);
        }
    }
}

/// A pipe lent by a [`PipePool`]; dropped with bytes inside, it is closed instead of kept.
#[derive(Debug)]
pub struct PooledPipe {
    pipe: Option<Pipe>, // None only while dropping
    pool: Rc<Inner>,
}

impl Deref for PooledPipe {
    type Target = Pipe;

    #[allow(clippy::expect_used, reason = "emptied by drop alone")]
    fn deref(&self) -> &Pipe {
        self.pipe.as_ref().expect("present until drop")
    }
}

impl DerefMut for PooledPipe {
    #[allow(clippy::expect_used, reason = "emptied by drop alone")]
    fn deref_mut(&mut self) -> &mut Pipe {
        self.pipe.as_mut().expect("present until drop")
    }
}

impl Drop for PooledPipe {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.pool.give_back(pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn put(pipe: &mut Pipe, bytes: &[u8]) {
        let count = rustix::io::write(pipe.write_end(), bytes).unwrap();
        pipe.put(count);
    }

    #[test]
    fn the_capacity_is_the_kernels_own_word() {
        let pipe = Pipe::new().unwrap();
        assert_eq!(pipe.capacity(), fcntl_getpipe_size(&pipe.write).unwrap());
        assert!(pipe.capacity() >= 4096);
    }

    #[test]
    fn an_empty_pipe_comes_back_from_the_pool() {
        let pool = PipePool::new(2);
        let mut pipe = pool.take().unwrap();
        put(&mut pipe, b"left");
        assert_eq!(pipe.discard(100).unwrap(), 4);
        drop(pipe);
        assert_eq!((pool.idle(), pool.lent()), (1, 0));
        assert!(pool.take().unwrap().is_empty());
    }

    #[test]
    fn a_pipe_with_bytes_in_it_never_comes_back() {
        let pool = PipePool::new(2);
        let mut pipe = pool.take().unwrap();
        put(&mut pipe, b"somebody's body");
        assert_eq!(pipe.discard(5).unwrap(), 5);
        drop(pipe);
        assert_eq!((pool.idle(), pool.lent()), (0, 0));
    }

    #[test]
    fn the_limit_counts_what_is_lent() {
        let pool = PipePool::new(1);
        let held = pool.take().unwrap();
        assert!(matches!(pool.take(), Err(NoPipe::Limit)));
        drop(held);
        assert!(pool.take().is_ok());
    }
}
