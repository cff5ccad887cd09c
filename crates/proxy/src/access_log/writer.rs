//! The way of a line from a worker to the file: lanes, one per worker, and the thread that empties them.
//!
//! What holds: a lane's lock is held for a copy of one line or for a swap of two buffers, never across a system call.
//! The thread sleeps until a lane that was empty gets a line, then waits a moment for company, so that its cost is
//! bounded at any rate: at most one wake-up per [`GATHER`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::time::Clock;
use super::{Entry, format};
use crate::settings::{LogFormat, LogTarget};

/// Bytes of lines that one worker may have queued.
pub(super) const LANE_BYTES: usize = 1 << 20;
/// How long the thread waits for more lines after the first.
const GATHER: Duration = Duration::from_millis(10);

/// What workers and the writing thread have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Queue: what there is a fixed number of.
    lanes: Mutex<Vec<Arc<Queue>>>,
    dropped: AtomicU64,
    wanted: Mutex<Wanted>,
    /// Queue: what there is a fixed number of.
    wake: Condvar,
    closing: AtomicBool,
}

/// What the thread is asked to do next.
#[derive(Debug, Default)]
struct Wanted {
    drain: bool,
    reopen: bool,
}

/// The finished lines of one worker.
#[derive(Debug, Default)]
struct Queue {
    /// Queue: lines of the access log.
    lines: Mutex<Vec<u8>>,
}

impl Shared {
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn ask_reopen(&self) {
        self.wanted.lock().reopen = true;
        self.wake.notify_one();
    }

    fn ask_drain(&self) {
        self.wanted.lock().drain = true;
        self.wake.notify_one();
    }

    fn count_dropped(&self, lines: u64) {
        self.dropped.fetch_add(lines, Ordering::Relaxed);
    }

    /// Sleeps until there is something to do; returns it, or nothing when the log is closing.
    fn await_work(&self) -> Wanted {
        let mut wanted = self.wanted.lock();
        while !wanted.drain && !wanted.reopen && !self.closing.load(Ordering::Acquire) {
            self.wake.wait(&mut wanted);
        }
        std::mem::take(&mut wanted)
    }
}

/// A worker's end: formats a line and queues it.
#[derive(Debug)]
pub(super) struct Lane {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    format: LogFormat,
    clock: Clock,
    line: Vec<u8>,
}

impl Lane {
    pub(super) fn new(shared: &Arc<Shared>, format: LogFormat) -> Self {
        let queue = Arc::new(Queue::default());
        shared.lanes.lock().push(Arc::clone(&queue));
        Self { shared: Arc::clone(shared), queue, format, clock: Clock::default(), line: Vec::new() }
    }

    pub(super) fn log(&mut self, entry: &Entry<'_>) {
        self.line.clear();
        format::line(&mut self.line, self.format, &mut self.clock, entry);
        match self.queue.push(&self.line) {
            Pushed::First => self.shared.ask_drain(),
            Pushed::Behind => {}
            Pushed::Full => self.shared.count_dropped(1),
        }
    }
}

/// What became of a line.
enum Pushed {
    /// Queued in an empty lane: the thread may be asleep.
    First,
    /// Queued behind others: the thread knows.
    Behind,
    /// No room.
    Full,
}

impl Queue {
    fn push(&self, line: &[u8]) -> Pushed {
        let mut lines = self.lines.lock();
        if lines.len() + line.len() > LANE_BYTES {
            return Pushed::Full;
        }
        let first = lines.is_empty();
        lines.extend_from_slice(line);
        if first { Pushed::First } else { Pushed::Behind }
    }
}

/// The writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    thread: JoinHandle<()>,
}

impl Writer {
    pub(super) fn start(target: &LogTarget, shared: Arc<Shared>) -> io::Result<Self> {
        let sink = Sink::open(target)?;
        let thread = thread::Builder::new().name("access-log".into()).spawn(move || run(sink, &shared))?;
        Ok(Self { thread })
    }

    /// Lets the thread write what is queued and end. False when it did not end in time.
    pub(super) fn finish(self, shared: &Shared, patience: Duration) -> bool {
        shared.closing.store(true, Ordering::Release);
        shared.ask_drain();
        let deadline = Instant::now() + patience;
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        self.thread.is_finished() && self.thread.join().is_ok()
    }
}

fn run(mut sink: Sink, shared: &Shared) {
    let mut batch = Vec::new();
    loop {
        let wanted = shared.await_work();
        let closing = shared.closing.load(Ordering::Acquire);
        if wanted.reopen {
            sink.reopen();
        }
        if wanted.drain && !closing {
            thread::sleep(GATHER);
        }
        drain(&mut sink, shared, &mut batch);
        if closing {
            return;
        }
    }
}

/// Writes what every lane holds. A lane whose worker is gone is forgotten once it is empty.
fn drain(sink: &mut Sink, shared: &Shared, batch: &mut Vec<u8>) {
    let lanes = shared.lanes.lock().clone();
    for lane in &lanes {
        batch.clear();
        std::mem::swap(&mut *lane.lines.lock(), batch);
        if !batch.is_empty() && !sink.write(batch) {
            shared.count_dropped(batch.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
    }
    drop(lanes);
    shared.lanes.lock().retain(|lane| Arc::strong_count(lane) > 1 || !lane.lines.lock().is_empty());
}

/// Where lines end up.
#[derive(Debug)]
struct Sink {
    target: LogTarget,
    file: Option<File>,
    failing: bool,
}

impl Sink {
    fn open(target: &LogTarget) -> io::Result<Self> {
        let file = match target {
            LogTarget::Stdout => None,
            LogTarget::Path(path) => Some(open_append(path)?),
        };
        Ok(Self { target: target.clone(), file, failing: false })
    }

    fn reopen(&mut self) {
        let LogTarget::Path(path) = &self.target else { return };
        match open_append(path) {
            Ok(file) => self.file = Some(file),
            Err(error) => tracing::warn!(path = %path.display(), %error, "access log not reopened"),
        }
    }

    /// Whether all of it was written. The first failure of a row is told, the others only counted.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let written = match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => write_stdout(bytes),
        };
        match &written {
            Err(error) if !self.failing => tracing::warn!(%error, "access log lines dropped"),
            _ => {}
        }
        self.failing = written.is_err();
        written.is_ok()
    }
}

fn write_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}
