//! More requests on kept connections than one worker can serve: what becomes of hits when misses are offered at up to four
//! times of what there is room for, with shedding and without.
//!
//! ```text
//! cargo build --release
//! TIDEGATE=target/release/tidegate cargo run --release -p testkit --example kept_overload > bench/results/kept-overload.md
//! ```
//!
//! Open loop: every request has a planned time, whatever became of those before, and its latency counts from then. What must
//! hold: an answer is good if it is a 200 that comes within [`DEADLINE`]; what could not be sent because all connections
//! wait is not good. The server has processor 0, load and origin have processor 1.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use testkit::Tidegate;

const DEADLINE: Duration = Duration::from_millis(100);
const CONNECTIONS: usize = 256;
const CELL: Duration = Duration::from_secs(4);
/// The first part of a cell is not counted: the controller takes its time too.
const SETTLE: Duration = Duration::from_secs(1);
/// The part of the thread that is asked for by hits.
const HIT_SHARE: f64 = 0.4;
const OFFERED: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

fn main() {
    pin(1);
    let origin = origin();
    println!("# More requests on kept connections than can be served\n");
    println!(
        "`TIDEGATE=target/release/tidegate cargo run --release -p testkit --example kept_overload > bench/results/kept-overload.md`\n"
    );
    println!(
        "One worker on one processor, load and origin on the other; {CONNECTIONS} kept connections for hits and as many for misses (not\n\
         stored), open loop; good is a 200 within {} ms of its planned time. Hits are offered at {HIT_SHARE} of what hits alone reach; misses in\n\
         multiples of what fills the rest of the thread, as misses alone measure it.\n",
        DEADLINE.as_millis()
    );
    println!(
        "| shedding | misses offered | good hits, of those offered | p50, ms | p99, ms | good misses, of what fits | refused |"
    );
    println!("|---|---|---|---|---|---|---|");
    for shedding in ["on", "off"] {
        let tidegate = Tidegate::reverse(&origin)
            .workers(1)
            .under(&["taskset", "-c", "0"])
            .toml(&format!("[overload]\nshedding = \"{shedding}\"\nmemory = 1.0\n"))
            .start();
        tidegate.warm("/hit");
        let hits = capacity(tidegate.address(), Kind::Hit);
        let misses = capacity(tidegate.address(), Kind::Miss);
        let (hit_rate, room) = (hits * HIT_SHARE, misses * (1.0 - HIT_SHARE));
        for offered in OFFERED {
            let [hit, miss] = cell(tidegate.address(), [hit_rate, room * offered]);
            println!(
                "| {shedding} | {offered} × | {:.2} | {:.1} | {:.1} | {:.2} | {:.2} |",
                hit.good_share(),
                hit.quantile(0.5),
                hit.quantile(0.99),
                miss.good as f64 / (room * (CELL - SETTLE).as_secs_f64()),
                miss.refused as f64 / miss.offered.max(1) as f64,
            );
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Hit,
    Miss,
}

impl Kind {
    fn request(self) -> &'static [u8] {
        match self {
            Self::Hit => b"GET /hit HTTP/1.1\r\nHost: a.example\r\n\r\n",
            Self::Miss => b"GET /miss HTTP/1.1\r\nHost: a.example\r\n\r\n",
        }
    }
}

fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    rustix::thread::sched_setaffinity(None, &set).expect("two processors");
}

/// Answers on as many connections as come; `/hit` may be stored, everything else not.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn answer(mut stream: TcpStream) {
    let body = "x".repeat(1000);
    let reply = |control| {
        format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nContent-Length: 1000\r\n\r\n{body}")
    };
    let (stored, not_stored) = (reply("max-age=3600"), reply("no-store"));
    let mut head = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut head) {
        let reply = if head[..n].starts_with(b"GET /hit") { &stored } else { &not_stored };
        if stream.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Connections of one kind, and what came of their requests.
struct Load {
    kind: Kind,
    /// Without a request.
    free: Vec<TcpStream>,
    /// In the order of their planned times.
    waiting: VecDeque<(TcpStream, Instant, Vec<u8>)>,
    counted_from: Instant,
    seen: Seen,
}

#[derive(Default)]
struct Seen {
    offered: u64,
    good: u64,
    refused: u64,
    millis: Vec<f64>,
}

impl Seen {
    fn good_share(&self) -> f64 {
        self.good as f64 / self.offered.max(1) as f64
    }

    /// Of all that was answered, in milliseconds.
    fn quantile(&self, q: f64) -> f64 {
        let mut millis = self.millis.clone();
        millis.sort_by(f64::total_cmp);
        millis.get((millis.len().saturating_sub(1) as f64 * q) as usize).copied().unwrap_or(f64::NAN)
    }
}

impl Load {
    fn new(address: SocketAddr, kind: Kind, counted_from: Instant) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        };
        let free = (0..CONNECTIONS).map(connect).collect();
        Self { kind, free, waiting: VecDeque::new(), counted_from, seen: Seen::default() }
    }

    fn send(&mut self, planned: Instant) {
        let is_counted = planned >= self.counted_from;
        self.seen.offered += u64::from(is_counted);
        let Some(mut stream) = self.free.pop() else { return };
        stream.write_all(self.kind.request()).expect("the connection goes on");
        self.waiting.push_back((stream, planned, Vec::with_capacity(2048)));
    }

    /// Takes the answers that are there.
    fn receive(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some((mut stream, planned, mut bytes)) = self.waiting.pop_front() else { return };
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the server closed a connection"),
                Ok(n) => bytes.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            if is_whole(&bytes) {
                self.note(planned, &bytes);
                self.free.push(stream);
            } else {
                self.waiting.push_back((stream, planned, bytes));
            }
        }
    }

    fn note(&mut self, planned: Instant, bytes: &[u8]) {
        if planned < self.counted_from {
            return;
        }
        let took = planned.elapsed();
        match &bytes[9..12] {
            b"200" => {
                self.seen.good += u64::from(took <= DEADLINE);
                self.seen.millis.push(took.as_secs_f64() * 1e3);
            }
            b"503" => self.seen.refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
}

/// Whether a head and as many bytes as it announces are there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = std::str::from_utf8(&bytes[..end]).expect("a head");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    bytes.len() >= end + 4 + length.parse::<usize>().expect("a number")
}

/// Answers a second when the next request goes out as soon as a connection is free.
fn capacity(address: SocketAddr, kind: Kind) -> f64 {
    let begun = Instant::now();
    let mut load = Load::new(address, kind, begun + SETTLE / 2);
    load.free.truncate(32);
    while begun.elapsed() < CELL / 2 {
        while !load.free.is_empty() {
            load.send(Instant::now());
        }
        load.receive();
    }
    load.seen.millis.len() as f64 / (CELL / 2 - SETTLE / 2).as_secs_f64()
}

/// Offers hits and misses at these rates.
fn cell(address: SocketAddr, rates: [f64; 2]) -> [Seen; 2] {
    let begun = Instant::now();
    let mut loads = [Kind::Hit, Kind::Miss].map(|kind| Load::new(address, kind, begun + SETTLE));
    let mut sent = [0_u64; 2];
    while begun.elapsed() < CELL {
        for ((load, sent), rate) in loads.iter_mut().zip(&mut sent).zip(rates) {
            let due = |n: u64| begun + Duration::from_secs_f64(n as f64 / rate);
            while due(*sent) <= Instant::now() {
                load.send(due(*sent));
                *sent += 1;
            }
            load.receive();
        }
    }
    // What is still on its way may be good.
    let end = Instant::now() + DEADLINE;
    while Instant::now() < end {
        loads.iter_mut().for_each(Load::receive);
    }
    loads.map(|load| load.seen)
}
