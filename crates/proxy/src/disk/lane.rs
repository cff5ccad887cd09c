//! One thread's reads of one device: as many under way as the depth allows, the rest in the order in which they came.
//!
//! ```text
//! Flowing ──a read has no answer within the bound──▶ Stalled: who could wait elsewhere is sent there at once
//!    ▲                                                 │
//!    └───────────── a read is answered ────────────────┘
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sys::operation::Operation;
use tokio::sync::oneshot;

use super::queue::{Patience, Unserved};

/// See the module.
#[derive(Default)]
pub(super) struct Lane {
    /// Queue: reads of one device.
    waiting: VecDeque<Read>,
    under_way: usize,
    /// When a stall was last counted against the device.
    stalled: Option<Instant>,
}

/// A read, a load, or anything else that is neither a write nor a sync.
pub(super) struct Read {
    pub(super) operation: Operation,
    pub(super) bytes: u64,
    pub(super) patience: Patience,
    pub(super) since: Instant,
    pub(super) done: oneshot::Sender<Result<usize, Unserved>>,
}

impl Lane {
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Notes that a read has no answer for too long; says whether that is to be counted once more: once for each `bound`
    /// that it lasts.
    pub(super) fn stall(&mut self, now: Instant, bound: Duration) -> bool {
        let counts = self.stalled.is_none_or(|since| now.duration_since(since) >= bound);
        if counts {
            self.stalled = Some(now);
        }
        counts
    }

    pub(super) fn flows(&mut self) {
        self.stalled = None;
    }

    pub(super) fn push(&mut self, read: Read) {
        self.waiting.push_back(read);
    }

    /// When the first of those that wait came.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting.front().map(|read| read.since)
    }

    /// The read that is to go out now, if one is. Those whose callers went away are forgotten.
    pub(super) fn next(&mut self, depth: usize) -> Option<Read> {
        while self.under_way < depth {
            let read = self.waiting.pop_front()?;
            if !read.done.is_closed() {
                self.under_way += 1;
                return Some(read);
            }
        }
        None
    }

    pub(super) fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Takes out those that have waited since before `moment` and could be served otherwise.
    pub(super) fn expired(&mut self, moment: Instant) -> Vec<Read> {
        let (expired, rest) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|read| read.since < moment && read.patience == Patience::Client);
        self.waiting = rest;
        Vec::from_iter::<VecDeque<Read>>(expired)
    }

    /// Takes out all that wait.
    pub(super) fn drain(&mut self) -> VecDeque<Read> {
        std::mem::take(&mut self.waiting)
    }
}
