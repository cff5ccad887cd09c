//! A bounded queue of disk operations: what a ring and a pool of threads have in common.
//!
//! ```text
//!   push ──▶ staged ──submit──▶ running ──▶ completed ──reap──▶ delivered to the caller
//!                                  │
//!                               abandon: runs on, and reap drops it with its buffer
//! ```
//!
//! What must hold: an operation given to [`Queue::push`] comes back exactly once, with its buffer: refused, delivered,
//! or, when abandoned, dropped after the kernel is done with it. Dropping a queue waits for what is running.
//! Refuses to know a runtime: the descriptor is readable when completions wait, and the caller listens to it.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::operation::Operation;

mod slots;

pub(crate) use slots::Slots;

/// Names an operation in one queue; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

/// An operation that is over.
#[derive(Debug)]
pub struct Completion {
    /// What [`Queue::push`] called it.
    pub token: Token,
    /// See the variants of [`Operation`].
    pub result: io::Result<usize>,
    /// The operation itself, with its buffer.
    pub operation: Operation,
}

/// An operation that was not taken; it is given back as it was.
#[derive(Debug)]
pub struct NotQueued {
    /// The operation, untouched.
    pub operation: Operation,
    /// Why.
    pub why: Unqueued,
}

/// Why an operation was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unqueued {
    /// As many as the queue holds are on their way: try after a reap, or decline the work.
    #[error("queue-full")]
    Full,
    /// A range that no try will serve: see [`Operation::is_sound`].
    #[error("operation-range")]
    Range,
}

/// The common face of [`Ring`](crate::uring::Ring) and [`Pool`](crate::pool::Pool).
///
/// Its descriptor polls readable while completions wait. Edge-triggered waiting is right too: each
/// [`reap`](Queue::reap) takes all there is.
pub trait Queue: AsFd {
    /// Takes an operation; it starts at the next [`submit`](Queue::submit). Operations may overtake each other:
    /// whoever needs an order waits for the completion of the first.
    fn push(&mut self, operation: Operation) -> Result<Token, NotQueued>;

    /// Starts all that was pushed. After an error what did not start is tried again by the next call.
    fn submit(&mut self) -> io::Result<()>;

    /// Hands every completion to `deliver` and returns how many. Never waits.
    fn reap(&mut self, deliver: &mut dyn FnMut(Completion)) -> io::Result<usize>;

    /// Says that nobody waits for this operation any more. It runs on; its buffer is dropped after its completion.
    fn abandon(&mut self, token: Token);

    /// Operations pushed and not yet reaped, abandoned ones included.
    fn in_flight(&self) -> usize;
}

/// Blocks this thread until completions wait. For start-up and tools, where no runtime listens.
pub fn wait(queue: &dyn Queue) -> io::Result<()> {
    wait_for(&[queue], None)
}

/// The same for any of several, and for so long at most where there is a limit that the kernel can count.
pub fn wait_for(queues: &[&dyn Queue], limit: Option<Duration>) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let readable = queues.iter().map(|queue| PollFd::from_borrowed_fd(queue.as_fd(), PollFlags::IN));
    let mut readable: Vec<_> = readable.collect();
    rustix::io::retry_on_intr(|| poll(&mut readable, limit.as_ref()))?;
    Ok(())
}

#[cfg(test)]
mod tests;
