//! One thread's way to the devices: operations go in, and come back to whoever waits for them.
//!
//! What must hold: an operation's buffer lives until the kernel is done with it, also when nobody waits any more; a full
//! queue makes callers wait, never fail. Refuses to know the store: files, offsets and buffers are all it sees.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};

use hashbrown::HashMap;
use sys::operation::Operation;
use sys::pool::Pool;
use sys::queue::{Completion, NotQueued, Queue, Token, Unqueued};
use sys::uring::Ring;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

/// Operations under way in one queue.
const DEPTH: u32 = 256;

/// Threads of the queue where io_uring is refused.
const POOL_THREADS: usize = 4;

/// See the module. Belongs to one thread and its runtime.
pub(super) struct DiskQueue {
    inner: Rc<Inner>,
}

struct Inner {
    backend: RefCell<Box<dyn Queue>>,
    waiting: RefCell<HashMap<Token, oneshot::Sender<Completion>>>,
    room: Notify,
}

/// An operation that is over, with its buffer.
pub(super) struct Finished {
    pub(super) operation: Operation,
    pub(super) result: io::Result<usize>,
}

/// A ring, or threads where the kernel refuses it.
pub(super) fn backend(uring: bool) -> io::Result<Box<dyn Queue>> {
    if uring && let Ok(ring) = Ring::new(DEPTH) {
        return Ok(Box::new(ring));
    }
    Ok(Box::new(Pool::new(DEPTH, POOL_THREADS)?))
}

impl DiskQueue {
    /// Must be called inside the thread's runtime, which hands out the completions.
    pub(super) fn new(backend: Box<dyn Queue>) -> io::Result<Self> {
        let ready = sys::watched::watch(backend.as_fd().try_clone_to_owned()?)?;
        let (waiting, room) = (RefCell::default(), Notify::new());
        let inner = Rc::new(Inner { backend: RefCell::new(backend), waiting, room });
        tokio::task::spawn_local(reap(Rc::downgrade(&inner), ready));
        Ok(Self { inner })
    }

    /// Runs one operation. A caller that goes away leaves it running; its buffer stays until it is over.
    pub(super) async fn perform(&self, operation: Operation) -> Finished {
        let inner = &*self.inner;
        let (done, wait) = oneshot::channel();
        let token = match inner.push(operation).await {
            Ok(token) => token,
            Err(refused) => return refused,
        };
        inner.waiting.borrow_mut().insert(token, done);
        let mut forgotten = Abandon { inner, token, armed: true };
        if let Err(error) = inner.backend.borrow_mut().submit() {
            tracing::error!(%error, "the disk queue takes nothing; it is tried again with the next request");
        }
        let completion = wait.await;
        forgotten.armed = false;
        match completion {
            Ok(Completion { operation, result, .. }) => Finished { operation, result },
            // The sender lives in `waiting` until the completion; it is dropped early only with the queue itself.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Inner {
    /// Waits for room in the queue; an operation that it never takes comes back.
    async fn push(&self, mut operation: Operation) -> Result<Token, Finished> {
        loop {
            let room = self.room.notified();
            let pushed = self.backend.borrow_mut().push(operation);
            match pushed {
                Ok(token) => return Ok(token),
                Err(NotQueued { operation: back, why: Unqueued::Full }) => operation = back,
                Err(NotQueued { operation, why }) => {
                    let result = Err(io::Error::new(io::ErrorKind::InvalidInput, why));
                    return Err(Finished { operation, result });
                }
            }
            room.await;
        }
    }

    fn deliver(&self) {
        let mut completions = Vec::new();
        let reaped = self.backend.borrow_mut().reap(&mut |completion| completions.push(completion));
        if let Err(error) = reaped {
            tracing::error!(%error, "disk completions cannot be read");
        }
        for completion in completions {
            if let Some(done) = self.waiting.borrow_mut().remove(&completion.token) {
                // A caller that left at this very moment loses nothing: its buffer ends with the completion.
                let _ = done.send(completion);
            }
        }
        self.room.notify_waiters();
    }
}

/// Gives an operation up when its caller goes away.
struct Abandon<'a> {
    inner: &'a Inner,
    token: Token,
    armed: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.inner.waiting.borrow_mut().remove(&self.token);
            self.inner.backend.borrow_mut().abandon(self.token);
        }
    }
}

/// Hands completions to those who wait, for as long as anybody may.
async fn reap(inner: Weak<Inner>, ready: AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut guard) = ready.readable().await else { return };
        guard.clear_ready();
        let Some(inner) = inner.upgrade() else { return };
        inner.deliver();
    }
}
