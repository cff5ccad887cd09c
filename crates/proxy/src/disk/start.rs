//! The first phase of a start on real devices, when nothing else runs: each is opened, then the store's recovery has its
//! requests carried out.
//!
//! ```text
//! open, each device on a thread of its own ──▶ recovery over those that answered ──▶ the open store
//!                                                 ▲                   │ one has no answer for the bound
//!                                                 └── without it ◀────┘
//! ```
//! What must hold: no device holds up a start for longer than `store.device_timeout` and a moment. One that does not answer
//! is missing from this run, as if it had been taken away: what it holds are misses, and it begins anew when it is
//! back. Recovery is begun again only when all requests to the other devices have ended, so no write of the first
//! attempt meets one of the second.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use store::{Config, DeviceToOpen, Io, IoDone, IoError, IoId, IoResult, Outbox, Recovery, Report, Store};
use sys::aligned::{AlignedBuffer, Reader};
use sys::device::Device;
use sys::operation::Operation;
use sys::queue::{Completion, Queue, Token};

use super::open::{HANDOVER, OpenFailed};
use super::queue::errno;

/// How many looks at what is not answered fit into the bound.
const LOOKS: u32 = 8;

/// The devices of a start.
pub(super) struct Shelf {
    /// Those that answer.
    pub(super) devices: Vec<Device>,
    /// Where each of them is.
    pub(super) paths: Vec<PathBuf>,
    /// Where those are that do not.
    pub(super) missing: Vec<PathBuf>,
    bound: Duration,
}

impl Shelf {
    /// Opens all devices with `open`, side by side.
    pub(super) fn open(
        paths: Vec<PathBuf>,
        bound: Duration,
        open: fn(&Path) -> Result<Device, OpenFailed>,
    ) -> Result<Self, OpenFailed> {
        let mut shelf = Self { devices: Vec::new(), paths: Vec::new(), missing: Vec::new(), bound };
        let opening: Vec<_> = paths.iter().map(|path| on_a_thread(path, open)).collect();
        let end = Instant::now() + HANDOVER + bound;
        for (path, answer) in paths.into_iter().zip(opening) {
            let left = end.saturating_duration_since(Instant::now());
            match answer.map_err(OpenFailed::Queue)?.recv_timeout(left) {
                Ok(device) => {
                    shelf.devices.push(device?);
                    shelf.paths.push(path);
                }
                Err(_) => shelf.miss(path),
            }
        }
        shelf.require_some()?;
        Ok(shelf)
    }

    /// Opens the store that is on the devices, without those that do not answer.
    pub(super) fn recover(&mut self, config: &Config, uring: bool) -> Result<(Store, Report), OpenFailed> {
        loop {
            let by_path = |error: store::OpenError| OpenFailed::Store(with_paths(&error, &self.paths));
            let sizes: Vec<_> =
                self.devices.iter().map(|device| DeviceToOpen { bytes: device.size_bytes() }).collect();
            let mut recovery = Recovery::new(&sizes, config.clone()).map_err(by_path)?;
            let driver = Driver::new(&self.devices, self.bound, uring).map_err(OpenFailed::Queue)?;
            let hung = driver.run(&mut recovery).map_err(OpenFailed::Queue)?;
            if hung.is_empty() {
                return recovery.into_store().map_err(by_path);
            }
            for at in hung.into_iter().rev() {
                drop(self.devices.remove(at));
                let path = self.paths.remove(at);
                self.miss(path);
            }
            self.require_some()?;
        }
    }

    fn miss(&mut self, path: PathBuf) {
        tracing::error!(path = %path.display(), "the device does not answer: the store starts without it");
        self.missing.push(path);
    }

    fn require_some(&self) -> Result<(), OpenFailed> {
        if self.devices.is_empty() {
            let paths: Vec<_> = self.missing.iter().map(|path| path.display().to_string()).collect();
            return Err(OpenFailed::Unanswered { paths: paths.join(", ") });
        }
        Ok(())
    }
}

/// A device that never answers keeps its thread, and nobody else.
fn on_a_thread(
    path: &Path,
    open: fn(&Path) -> Result<Device, OpenFailed>,
) -> io::Result<mpsc::Receiver<Result<Device, OpenFailed>>> {
    // Queue: what there is a fixed number of.
    let (tell, answer) = mpsc::channel();
    let path = path.to_path_buf();
    let opener = std::thread::Builder::new().name("device".into());
    opener.spawn(move || drop(tell.send(open(&path))))?;
    Ok(answer)
}

/// Carries out recovery's requests on the calling thread: each device has a queue of its own, so that one that does not
/// answer holds up no other.
struct Driver<'d> {
    lanes: Vec<Lane<'d>>,
    bound: Duration,
}

/// One device's requests.
struct Lane<'d> {
    device: &'d Device,
    queue: Box<dyn Queue>,
    /// Queue: operations that a device has been given.
    running: HashMap<Token, Running>,
    hung: bool,
}

/// A request under way, and the memory that it reads into.
struct Running {
    id: IoId,
    reading: Option<(Reader, usize)>,
    since: Instant,
}

impl<'d> Driver<'d> {
    fn new(devices: &'d [Device], bound: Duration, uring: bool) -> io::Result<Self> {
        let lanes = devices.iter().map(|device| Lane::new(device, uring));
        Ok(Self { lanes: lanes.collect::<io::Result<_>>()?, bound })
    }

    /// Until nothing is to be asked or waited for any more; gives the positions of devices that did not answer. If there
    /// are any, recovery has come to no end.
    fn run(mut self, recovery: &mut Recovery) -> io::Result<Vec<usize>> {
        let mut todo = Outbox::new();
        recovery.start(&mut todo);
        loop {
            self.start(&mut todo)?;
            if self.lanes.iter().all(|lane| lane.hung || lane.running.is_empty()) {
                return Ok(self.let_go());
            }
            let queues: Vec<&dyn Queue> = self.lanes.iter().map(|lane| &*lane.queue).collect();
            sys::queue::wait_for(&queues, Some(self.bound / LOOKS))?;
            for lane in &mut self.lanes {
                lane.reap(|id, result| recovery.complete(id, result, &mut todo))?;
                lane.hung |= lane.running.values().any(|running| running.since.elapsed() >= self.bound);
            }
        }
    }

    /// Starts what has room. Nothing any more once a device does not answer.
    fn start(&mut self, todo: &mut Outbox) -> io::Result<()> {
        if self.lanes.iter().any(|lane| lane.hung) {
            todo.clear();
        }
        for request in std::mem::take(todo) {
            let lane = self.lanes.get_mut(usize::from(request.id().device().0));
            let lane = lane.ok_or_else(|| io::Error::other("a request for a device that is not there"))?;
            todo.extend(lane.start(request)?);
        }
        self.lanes.iter_mut().try_for_each(|lane| lane.queue.submit())
    }

    /// What a device has not answered is left to the kernel with its buffers.
    fn let_go(self) -> Vec<usize> {
        let mut hung = Vec::new();
        for (at, lane) in self.lanes.into_iter().enumerate().filter(|(_, lane)| lane.hung) {
            hung.push(at);
            std::mem::forget((lane.queue, lane.running));
        }
        hung
    }
}

impl<'d> Lane<'d> {
    fn new(device: &'d Device, uring: bool) -> io::Result<Self> {
        let queue = super::backend::for_start(uring)?;
        Ok(Self { device, queue, running: HashMap::new(), hung: false })
    }

    /// Starts a request, or gives it back when the queue is full.
    fn start(&mut self, request: Io) -> io::Result<Option<Io>> {
        let file = Arc::clone(self.device.writer());
        let (operation, reading) = match &request {
            Io::Write { offset, data, .. } => {
                let bytes = data.bytes(0, data.len()).unwrap_or_default();
                (Operation::Write { file, offset: *offset, bytes }, None)
            }
            Io::Read { offset, len, .. } => {
                let len = *len as usize;
                let (into, reader) = AlignedBuffer::new(len)?.split();
                (Operation::Read { file, offset: *offset, len, into }, Some((reader, len)))
            }
            Io::Sync { .. } => (Operation::Sync { file }, None),
        };
        let (id, since) = (request.id(), Instant::now());
        match self.queue.push(operation) {
            Ok(token) => {
                self.running.insert(token, Running { id, reading, since });
                Ok(None)
            }
            Err(_full) => Ok(Some(request)),
        }
    }

    fn reap(&mut self, mut complete: impl FnMut(IoId, IoResult)) -> io::Result<()> {
        let mut done = Vec::new();
        self.queue.reap(&mut |completion| done.push(completion))?;
        for completion in done {
            if let Some(Running { id, reading, .. }) = self.running.remove(&completion.token) {
                complete(id, outcome(completion, reading));
            }
        }
        Ok(())
    }
}

fn outcome(completion: Completion, reading: Option<(Reader, usize)>) -> IoResult {
    let count = completion.result.map_err(|error| IoError::Failed(errno(&error)))?;
    let is_sync = matches!(completion.operation, Operation::Sync { .. });
    drop(completion.operation);
    match reading {
        None if is_sync => Ok(IoDone::Synced),
        None => Ok(IoDone::Written),
        Some((_, len)) if count < len => Err(IoError::Short(count as u32)),
        Some((reader, len)) => {
            reader.settled(0..len).map(|read| IoDone::Read(Bytes::from_owner(read))).ok_or(IoError::Mismatch)
        }
    }
}

/// The error with the paths of the devices that it numbers.
fn with_paths(error: &store::OpenError, paths: &[PathBuf]) -> String {
    let mut text = error.to_string();
    for (i, path) in paths.iter().enumerate() {
        text = text.replace(&format!("device {i}"), &path.display().to_string());
    }
    text
}
