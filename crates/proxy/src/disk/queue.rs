//! One thread's way to the devices: operations go in, and an outcome comes back to whoever waits for it.
//!
//! ```text
//!  read, load ──▶ lane of the device (this thread's) ──┐ at most the depth under way
//!                                                      ├──▶ ring, or threads ──▶ reap ──▶ caller
//!  write ───────▶ joiner of the device (all threads') ─┘ at most its share under way
//!  sync  ──────────────────────────────────────────────▲
//! ```
//! What must hold: an operation's buffer lives until the kernel is done with it, also when nobody waits any more; a device
//! that does not answer keeps no place that another device needs; every caller gets an outcome in the end, because
//! [`super::watch`] gives up devices that do not answer.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use store::DeviceIndex;
use sys::operation::Operation;
use sys::queue::{Completion, Queue, Token};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::Disks;
use super::backend::{self, Backends};
use super::joiner::Run;
use super::lane::{Lane, Read};
use super::traffic::Writer;

/// See the module. Belongs to one thread and its runtime.
pub(super) struct DiskQueue {
    inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub(super) disks: Arc<Disks>,
    /// By device.
    pub(super) lanes: Vec<RefCell<Lane>>,
    ways: Vec<Way>,
}

/// A ring or a pool, and what it was given.
struct Way {
    queue: RefCell<Box<dyn Queue>>,
    /// Queue: operations that a device has been given.
    under_way: RefCell<HashMap<Token, UnderWay>>,
}

/// An operation that has no answer yet.
pub(super) struct UnderWay {
    pub(super) device: usize,
    pub(super) since: Instant,
    pub(super) bytes: u64,
    pub(super) end: End,
}

/// What happens at the answer.
pub(super) enum End {
    /// Somebody waits for a read.
    Read(Patience, oneshot::Sender<Result<usize, Unserved>>),
    /// Nobody waits for it any more.
    GivenUp,
    /// These wait for their parts of a write.
    Write { offset: u64, writers: Vec<Writer> },
    /// Somebody waits for a sync.
    Sync(oneshot::Sender<Result<usize, Unserved>>),
}

/// Who waits, and so for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// A client, who can be served otherwise: `store.read_timeout`.
    Client,
    /// The store, until the device is retired.
    Store,
}

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum Unserved {
    /// The device, or the kernel, refused.
    #[error(transparent)]
    Error(#[from] io::Error),
    /// There was no answer in time.
    #[error("no answer in time")]
    Unanswered,
    /// The device is not used any more.
    #[error("the device is retired")]
    Retired,
}

impl DiskQueue {
    /// Must be called inside the thread's runtime, which hands out the answers.
    pub(super) fn new(disks: Arc<Disks>) -> io::Result<Self> {
        let Backends(queues) =
            backend::open(disks.uring, disks.devices.len(), &disks.bounds, disks.warm.arena())?;
        let ready: io::Result<Vec<_>> =
            queues.iter().map(|queue| sys::watched::watch(queue.as_fd().try_clone_to_owned()?)).collect();
        let way = |queue| Way { queue: RefCell::new(queue), under_way: RefCell::default() };
        let lanes = disks.devices.iter().map(|_| RefCell::default()).collect();
        let inner = Rc::new(Inner { disks, lanes, ways: queues.into_iter().map(way).collect() });
        for (n, ready) in ready?.into_iter().enumerate() {
            tokio::task::spawn_local(reap(Rc::downgrade(&inner), n, ready));
        }
        tokio::task::spawn_local(super::watch::watch(Rc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// Reads or loads. A caller that goes away leaves it running; its buffer stays until it is over. The result is the
    /// operation's own.
    pub(super) async fn read(
        &self,
        device: DeviceIndex,
        operation: Operation,
        bytes: u64,
        patience: Patience,
    ) -> Result<usize, Unserved> {
        let inner = &self.inner;
        let (at, lane) = inner.lane(device)?;
        if patience == Patience::Client && lane.borrow().is_stalled() {
            inner.disks.traffic[at].unanswered();
            return Err(Unserved::Unanswered);
        }
        let (done, wait) = oneshot::channel();
        inner.disks.store.asked(device, bytes);
        lane.borrow_mut().push(Read { operation, bytes, patience, since: Instant::now(), done });
        inner.start_reads(at);
        wait.await.unwrap_or(Err(Unserved::Retired))
    }

    /// Writes `bytes` at `offset`, perhaps together with its neighbours. It is done whether the caller stays or not.
    pub(super) async fn write(
        &self,
        device: DeviceIndex,
        offset: u64,
        bytes: Bytes,
        lease: Option<store::Lease>,
    ) -> Result<usize, Unserved> {
        let inner = &self.inner;
        let (at, _) = inner.lane(device)?;
        let (done, wait) = oneshot::channel();
        let len = bytes.len() as u64;
        inner.disks.store.asked(device, len);
        inner.disks.traffic[at].writes.lock().push(offset, len, false, Writer { bytes, _lease: lease, done });
        inner.start_writes(at);
        wait.await.unwrap_or(Err(Unserved::Retired))
    }

    /// Makes durable what was written by writes that were answered.
    pub(super) async fn sync(&self, device: DeviceIndex) -> Result<usize, Unserved> {
        let inner = &self.inner;
        let (at, _) = inner.lane(device)?;
        let (done, wait) = oneshot::channel();
        let operation = Operation::Sync { file: Arc::clone(inner.disks.devices[at].writer()) };
        inner.start(at, operation, 0, End::Sync(done));
        wait.await.unwrap_or(Err(Unserved::Retired))
    }

    /// How long the read that has waited longest has not been given to its device.
    pub(super) fn longest_wait(&self) -> Duration {
        let oldest = self.inner.lanes.iter().filter_map(|lane| lane.borrow().waiting_since()).min();
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether the device answers this thread's reads within the bound.
    pub(super) fn answers(&self, device: DeviceIndex) -> bool {
        self.inner.lane(device).is_ok_and(|(_, lane)| !lane.borrow().is_stalled())
    }

    /// Whether every device that is still used has answered everything.
    pub(super) fn is_idle(&self) -> bool {
        let mut idle = true;
        self.inner.each_under_way(|it| idle &= self.inner.is_retired(it.device));
        idle
    }
}

impl Inner {
    fn lane(&self, device: DeviceIndex) -> Result<(usize, &RefCell<Lane>), Unserved> {
        let at = usize::from(device.0);
        let lane = self.lanes.get(at).filter(|_| !self.is_retired(at)).ok_or(Unserved::Retired)?;
        Ok((at, lane))
    }

    pub(super) fn is_retired(&self, device: usize) -> bool {
        self.disks.store.is_retired(DeviceIndex(device as u16))
    }

    /// Looks at everything that was not answered.
    pub(super) fn each_under_way(&self, mut look: impl FnMut(&mut UnderWay)) {
        for way in &self.ways {
            way.under_way.borrow_mut().values_mut().for_each(&mut look);
        }
    }

    fn start_reads(&self, device: usize) {
        while !self.is_retired(device) {
            let next = self.lanes[device].borrow_mut().next(self.disks.bounds.depth);
            let Some(Read { operation, bytes, patience, done, .. }) = next else { return };
            self.disks.traffic[device].reads_under_way.fetch_add(1, Relaxed);
            self.start(device, operation, bytes, End::Read(patience, done));
        }
    }

    pub(super) fn start_writes(&self, device: usize) {
        let traffic = &self.disks.traffic[device];
        while !self.is_retired(device) {
            let limit = self.disks.bounds.writes(traffic.reads_under_way.load(Relaxed));
            let Some(run) = traffic.writes.lock().next(limit) else { return };
            self.start_run(device, run);
        }
    }

    fn start_run(&self, device: usize, Run { offset, parts: writers }: Run<Writer>) {
        let file = Arc::clone(self.disks.devices[device].writer());
        let bytes = writers.iter().map(|writer| writer.bytes.len() as u64).sum();
        let operation = match &writers[..] {
            [one] => Operation::Write { file, offset, bytes: one.bytes.clone() },
            several => {
                let parts: Vec<Bytes> = several.iter().map(|writer| writer.bytes.clone()).collect();
                Operation::WriteVectored { file, offset, parts: parts.into() }
            }
        };
        self.start(device, operation, bytes, End::Write { offset, writers });
    }

    /// Gives an operation to the ring. Where that takes nothing, it is over at once.
    fn start(&self, device: usize, operation: Operation, bytes: u64, end: End) {
        let under_way = UnderWay { device, since: Instant::now(), bytes, end };
        let way = &self.ways[device % self.ways.len()];
        let pushed = way.queue.borrow_mut().push(operation);
        match pushed {
            Ok(token) => {
                way.under_way.borrow_mut().insert(token, under_way);
            }
            Err(refused) => {
                let error = io::Error::new(io::ErrorKind::InvalidInput, refused.why);
                return self.end(under_way, Err(error));
            }
        }
        let submitted = way.queue.borrow_mut().submit();
        if let Err(error) = submitted {
            tracing::error!(%error, "the disk queue takes nothing; it is tried again with the next request");
        }
    }

    fn deliver(&self, way: &Way) {
        let mut completions = Vec::new();
        let reaped = way.queue.borrow_mut().reap(&mut |completion| completions.push(completion));
        if let Err(error) = reaped {
            tracing::error!(%error, "disk answers cannot be read");
        }
        for Completion { token, result, operation } in completions {
            // Its buffer is whole, and readable by whoever holds the other end, once the operation is gone.
            drop(operation);
            let over = way.under_way.borrow_mut().remove(&token);
            if let Some(over) = over {
                self.end(over, result);
            }
        }
    }

    /// An operation is over: tells whoever waits, and lets the next one go.
    fn end(&self, over: UnderWay, result: io::Result<usize>) {
        let UnderWay { device, since, bytes, end } = over;
        let traffic = &self.disks.traffic[device];
        match end {
            End::Read(..) | End::GivenUp => {
                traffic.reads_under_way.fetch_sub(1, Relaxed);
                traffic.read(bytes, since.elapsed());
                self.answered(device, bytes);
                let mut lane = self.lanes[device].borrow_mut();
                lane.answered();
                lane.flows();
                drop(lane);
                if let End::Read(_, done) = end {
                    tell(done, result.map_err(Unserved::Error));
                }
                self.start_reads(device);
            }
            End::Write { offset, writers } => {
                traffic.wrote(bytes);
                traffic.writes.lock().answered();
                self.end_run(device, offset, writers, result);
                self.start_writes(device);
            }
            End::Sync(done) => tell(done, result.map_err(Unserved::Error)),
        }
    }

    /// Of several parts that failed together each is tried by itself: one bad block is to cost what lies on it.
    fn end_run(&self, device: usize, mut offset: u64, writers: Vec<Writer>, result: io::Result<usize>) {
        let again = result.is_err() && writers.len() > 1 && !self.is_retired(device);
        let errno = result.err().map(|error| errno(&error));
        for writer in writers {
            let len = writer.bytes.len() as u64;
            if again {
                self.disks.traffic[device].writes.lock().push(offset, len, true, writer);
            } else {
                self.answered(device, len);
                let result = errno.map_or(Ok(len as usize), |n| Err(io::Error::from_raw_os_error(n).into()));
                tell(writer.done, result);
            }
            offset += len;
        }
    }

    pub(super) fn answered(&self, device: usize, bytes: u64) {
        self.disks.store.answered(DeviceIndex(device as u16), bytes);
    }
}

/// The number of an error; `EIO` for those that the kernel gave none.
pub(super) fn errno(error: &io::Error) -> i32 {
    const EIO: i32 = 5;
    error.raw_os_error().unwrap_or(EIO)
}

/// A caller that left at this very moment loses nothing: its buffer ended with the operation.
pub(super) fn tell(done: oneshot::Sender<Result<usize, Unserved>>, result: Result<usize, Unserved>) {
    let _ = done.send(result);
}

impl Drop for Inner {
    /// What a device that was given up has not answered is left to the kernel with its buffers: nobody waits for it.
    fn drop(&mut self) {
        let retired = (0..self.lanes.len()).any(|device| self.is_retired(device));
        for way in self.ways.drain(..) {
            let queue = way.queue.into_inner();
            if retired && queue.in_flight() > 0 {
                std::mem::forget(queue);
            }
        }
    }
}

/// Hands out answers, for as long as anybody may wait for one.
async fn reap(inner: Weak<Inner>, way: usize, ready: AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut guard) = ready.readable().await else { return };
        guard.clear_ready();
        let Some(inner) = inner.upgrade() else { return };
        inner.deliver(&inner.ways[way]);
    }
}
