//! One line for each exchange, written without ever making a request wait.
//!
//! What holds: a worker formats a line into its own bounded buffer and goes on; one thread collects the buffers and
//! writes them. When a buffer is full (the reader of the log is slow, the disk is full) lines are dropped and
//! counted, whole ones only. Nothing that a client sent reaches the log unescaped, so a line is always one line.
//! Lines of one worker stand in order; those of different workers may be some milliseconds apart from it.
//!
//! It refuses to know why a request ended as it did: the words arrive in the [`Entry`].

mod escape;
mod format;
mod time;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Version;

use crate::metrics::RequestResult;
use crate::settings::{Log, LogFormat};
use writer::{Shared, Writer};

/// What is to be said about one exchange. Byte strings are as received; the formats escape them.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the request head began to arrive, in milliseconds since 1970.
    pub at_millis: u64,
    /// From then to the last byte of the response, in nanoseconds.
    pub nanos: u64,
    /// The client.
    pub client: SocketAddr,
    /// The method; empty when the head could not be parsed.
    pub method: &'a [u8],
    /// The request target; empty when the head could not be parsed.
    pub target: &'a [u8],
    /// The authority asked for; in reverse mode the `Host` field, empty when there is none.
    pub host: &'a [u8],
    /// The version of the request.
    pub version: Version,
    /// The status sent to the client; 0 when it left before any was sent.
    pub status: u16,
    /// Body bytes sent to the client.
    pub body_bytes: u64,
    /// How it ended.
    pub result: RequestResult,
    /// The named reason: a refusal, or why the cache did not answer. Printable words of ours.
    pub reason: Option<&'static str>,
    /// The origin connection that was used.
    pub origin: Option<SocketAddr>,
    /// The `Referer` field.
    pub referer: Option<&'a [u8]>,
    /// The `User-Agent` field.
    pub user_agent: Option<&'a [u8]>,
    /// The `Content-Type` of the response.
    pub content_type: Option<&'a [u8]>,
}

/// The access log of the process. Dropping it writes what is queued, waiting at most a second.
#[derive(Debug)]
pub struct AccessLog {
    inner: Option<Open>,
}

#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    writer: Writer,
    format: LogFormat,
}

impl AccessLog {
    /// Opens the target and starts the writing thread; with no target, neither.
    ///
    /// # Errors
    /// When the file cannot be opened for appending, or the thread not started.
    pub fn open(log: &Log) -> io::Result<Self> {
        let Some(target) = &log.access else { return Ok(Self { inner: None }) };
        let shared = Arc::new(Shared::default());
        let writer = Writer::start(target, Arc::clone(&shared))?;
        Ok(Self { inner: Some(Open { shared, writer, format: log.format }) })
    }

    /// The log of one more worker thread.
    #[must_use]
    pub fn worker(&self) -> WorkerLog {
        WorkerLog { inner: self.inner.as_ref().map(|open| writer::Lane::new(&open.shared, open.format)) }
    }

    /// Opens the file anew (logrotate has renamed it). Takes effect soon; when it fails the old file stays in
    /// use and the failure is told by `tracing`.
    pub fn reopen(&self) {
        if let Some(open) = &self.inner {
            open.shared.ask_reopen();
        }
    }

    /// Lines dropped since start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inner.as_ref().map_or(0, |open| open.shared.dropped())
    }

    /// A way to ask for [`AccessLog::dropped`] that may outlive the log.
    pub fn dropped_reader(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let shared = self.inner.as_ref().map(|open| Arc::clone(&open.shared));
        move || shared.as_ref().map_or(0, |shared| shared.dropped())
    }

    /// Writes what is queued and ends the thread. False when that took longer than `patience`: the rest is left to
    /// the thread, which ends with the process.
    pub fn close(mut self, patience: Duration) -> bool {
        self.inner.take().is_none_or(|open| open.writer.finish(&open.shared, patience))
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        if let Some(open) = self.inner.take() {
            let _ = open.writer.finish(&open.shared, Duration::from_secs(1));
        }
    }
}

/// The access log as one worker sees it.
#[derive(Debug)]
pub struct WorkerLog {
    inner: Option<writer::Lane>,
}

impl WorkerLog {
    /// A log that is off.
    #[must_use]
    pub const fn off() -> Self {
        Self { inner: None }
    }

    /// Whether lines are written: ask before gathering what an [`Entry`] needs.
    #[inline]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.inner.is_some()
    }

    /// Queues a line, or drops and counts it.
    #[inline]
    pub fn log(&mut self, entry: &Entry<'_>) {
        if let Some(lane) = &mut self.inner {
            lane.log(entry);
        }
    }
}
