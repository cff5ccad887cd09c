//! Disk operations by a few threads that wait, where io_uring is refused.
//!
//! What must hold: the same as for a ring, seen from outside (the same tests run over both). Safe by ownership alone:
//! an operation is moved to a thread and moved back. Refuses to know what it waits for.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use crate::operation::Operation;
use crate::queue::{Completion, NotQueued, Queue, Slots, Token, Unqueued};

/// Threads and the operations on their way through them.
#[derive(Debug)]
pub struct Pool {
    /// Per operation: whether anybody waits for it.
    wanted: Slots<bool>,
    staged: Vec<Job>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

type Job = (Token, Operation);

#[derive(Debug)]
struct Shared {
    jobs: Mutex<Jobs>,
    /// Queue: what there is a fixed number of.
    work: Condvar,
    /// Queue: operations that a device has been given.
    completed: Mutex<Vec<Completion>>,
    bell: OwnedFd, // an eventfd, readable while completions wait
}

#[derive(Debug, Default)]
struct Jobs {
    /// Queue: operations that a device has been given.
    queue: VecDeque<Job>,
    closing: bool,
}

impl Pool {
    /// `threads` threads (at least 1) for at most `depth` operations at a time (at least 1).
    pub fn new(depth: u32, threads: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            jobs: Mutex::default(),
            work: Condvar::new(),
            completed: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let wanted = Slots::new(depth.max(1));
        let mut pool = Self { wanted, staged: Vec::new(), shared, threads: Vec::new() };
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("disk-{number}"));
            pool.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(pool)
    }
}

impl Queue for Pool {
    fn push(&mut self, operation: Operation) -> Result<Token, NotQueued> {
        if !operation.is_sound() {
            return Err(NotQueued { operation, why: Unqueued::Range });
        }
        let Some(token) = self.wanted.insert(true) else {
            return Err(NotQueued { operation, why: Unqueued::Full });
        };
        self.staged.push((token, operation));
        Ok(token)
    }

    fn submit(&mut self) -> io::Result<()> {
        if !self.staged.is_empty() {
            locked(&self.shared.jobs).queue.extend(self.staged.drain(..));
            self.shared.work.notify_all();
        }
        Ok(())
    }

    fn reap(&mut self, deliver: &mut dyn FnMut(Completion)) -> io::Result<usize> {
        self.shared.silence()?;
        let completed = std::mem::take(&mut *locked(&self.shared.completed));
        let mut delivered = 0;
        for completion in completed {
            if self.wanted.remove(completion.token) == Some(true) {
                delivered += 1;
                deliver(completion);
            }
        }
        Ok(delivered)
    }

    fn abandon(&mut self, token: Token) {
        if let Some(wanted) = self.wanted.get_mut(token) {
            *wanted = false;
        }
    }

    fn in_flight(&self) -> usize {
        self.wanted.occupied()
    }
}

impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Pool {
    /// Waits until everything that was pushed is done, as a ring does.
    fn drop(&mut self) {
        let mut jobs = locked(&self.shared.jobs);
        jobs.queue.extend(self.staged.drain(..));
        jobs.closing = true;
        drop(jobs);
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic there was printed there
        }
    }
}

impl Shared {
    /// The life of a thread: take, do, give back, until closing finds the queue empty.
    fn work(&self) {
        while let Some((token, mut operation)) = self.next_job() {
            let result = operation.run();
            locked(&self.completed).push(Completion { token, result, operation });
            self.ring_bell();
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut jobs = locked(&self.jobs);
        loop {
            if let Some(job) = jobs.queue.pop_front() {
                return Some(job);
            }
            if jobs.closing {
                return None;
            }
            jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fails only where the count would overflow, and then the bell rings already.
    fn ring_bell(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Before the completions are taken, so that one that arrives in between rings again.
    fn silence(&self) -> io::Result<()> {
        match rustix::io::read(&self.bell, &mut [0_u8; 8]) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
