//! What all threads know together of the traffic of one device: writes that wait, how much is under way, what it took.
//!
//! What must hold: the lock is held to put something in or take something out, never across a system call.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::joiner::Joiner;
use super::queue::Unserved;

/// One device's.
#[derive(Default)]
pub struct Traffic {
    pub(super) writes: Mutex<Joiner<Writer>>,
    /// Reads of all threads that the device has not answered.
    pub(super) reads_under_way: AtomicUsize,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    read_nanos: AtomicU64,
    unanswered: AtomicU64,
    written: AtomicU64,
    written_bytes: AtomicU64,
}

/// Who waits for a write, and what it holds until it is over.
pub(super) struct Writer {
    pub(super) bytes: Bytes,
    /// The place is not used again while the device may still write to it, whatever became of whoever asked.
    pub(super) _lease: Option<store::Lease>,
    pub(super) done: oneshot::Sender<Result<usize, Unserved>>,
}

/// Figures of one device since start, and of this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Reads that were answered, and their bytes.
    pub reads: u64,
    /// See [`Figures::reads`].
    pub read_bytes: u64,
    /// From request to answer, summed over [`Figures::reads`].
    pub read_nanos: u64,
    /// Reads that were given up because the device did not answer in time.
    pub unanswered: u64,
    /// Writes that were answered, joined ones counted once, and their bytes.
    pub writes: u64,
    /// See [`Figures::writes`].
    pub written_bytes: u64,
    /// Operations that the device has not answered.
    pub under_way: u64,
    /// Writes that wait for others.
    pub waiting: u64,
}

impl Traffic {
    pub(super) fn read(&self, bytes: u64, took: Duration) {
        self.reads.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes, Relaxed);
        self.read_nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn unanswered(&self) {
        self.unanswered.fetch_add(1, Relaxed);
    }

    /// The figures now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let (waiting, writing) = {
            let writes = self.writes.lock();
            (writes.waiting() as u64, writes.under_way() as u64)
        };
        Figures {
            reads: self.reads.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            read_nanos: self.read_nanos.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            writes: self.written.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            under_way: self.reads_under_way.load(Relaxed) as u64 + writing,
            waiting,
        }
    }
}
