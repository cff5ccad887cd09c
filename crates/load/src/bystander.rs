//! A client that was there before the flood: one kept connection of an ordinary socket, on a thread of its own, asking at
//! an even pace.
//!
//! What must hold: its latency counts from the planned start too, so that a request which had to wait for the one before
//! is not forgiven. A connection that breaks is a failure and is made again. It runs before others on its processor where
//! it may, or it would measure how it waits for the generator.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::outcome::{Fate, Quantiles};
use crate::reply::{self, End};

/// Its pace.
const EVERY: Duration = Duration::from_millis(5);
/// A reply that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest reply that it takes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Niceness, where it is allowed.
const PRIORITY: i32 = -15;

/// What it saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were not: the connection broke, or something else than 2xx came.
    pub failed: u64,
    /// Of those that were answered.
    pub latency_ms: Quantiles,
}

/// A bystander at work.
#[derive(Debug)]
pub struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Bystander {
    /// Connects, asks once, and goes on asking in the background.
    ///
    /// # Errors
    /// That the server could not be asked even once.
    pub fn start(server: SocketAddr, path: &str) -> io::Result<Self> {
        let request = reply::request(&server.to_string(), path, true);
        let mut client = Client { server, request, stream: None, buffer: Vec::new() };
        client.ask()?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen_by_thread = stop.clone();
        let thread = thread::Builder::new().name("bystander".into());
        let thread = thread.spawn(move || watch(&mut client, &seen_by_thread))?;
        Ok(Self { stop, thread })
    }

    /// Ends it.
    pub fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(client: &mut Client, stop: &AtomicBool) -> Seen {
    // Refused without privilege: then it waits its turn.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let mut latencies_ns = Vec::new();
    let mut failed = 0;
    let mut planned = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(planned.saturating_duration_since(Instant::now()));
        match client.ask() {
            Ok(()) => latencies_ns.push(planned.elapsed().as_nanos() as u64),
            Err(_) => {
                failed += 1;
                client.stream = None;
            }
        }
        planned += EVERY;
    }
    Seen { answered: latencies_ns.len() as u64, failed, latency_ms: Quantiles::of(latencies_ns) }
}

struct Client {
    server: SocketAddr,
    request: Vec<u8>,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Client {
    /// One request and its whole reply, on the connection there is.
    fn ask(&mut self) -> io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.server)?,
        };
        stream.write_all(&self.request)?;
        self.buffer.clear();
        let mut piece = [0; 16 * 1024];
        loop {
            let count = stream.read(&mut piece)?;
            self.buffer.extend_from_slice(&piece[..count]);
            match reply::read(&self.buffer).map_err(io::Error::other)? {
                Some(reply) if reply.fate != Fate::Good => {
                    return Err(io::Error::other("not answered with 2xx"));
                }
                Some(reply) if reply.end == End::After(self.buffer.len() as u64) => break,
                _ if count == 0 || self.buffer.len() > REPLY_BYTES_MAX => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                _ => {}
            }
        }
        self.stream = Some(stream);
        Ok(())
    }
}

fn connect(server: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}
