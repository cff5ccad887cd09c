//! Compares the two read modes of the store on the same work: CPU per request and latency.
//!
//! ```text
//! cargo build --release
//! TIDEGATE=target/release/tidegate cargo run --release -p testkit --example modes > bench/results/modes.md
//! ```
//!
//! Work: hits on a warm set that fits into memory, each object once and cold, and both at the same time (a scan beside warm hits).
//! What must hold: every body arrives whole (its length is checked, its bytes are thrown away by the kernel); cold means that the
//! kernel keeps nothing of the store's file and the process was just started.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use testkit::{Origin, Pattern, Reply, Tidegate};

const MIB: u64 = 1 << 20;
const SIZES: [u64; 2] = [64 << 10, MIB];
/// Bytes of the warm set and of what is read once; the memory for warm bodies holds the first and not the second.
const WARM_BYTES: u64 = 96 * MIB;
const SCAN_BYTES: u64 = 768 * MIB;
const CONNECTIONS: usize = 8;
const WARM_FOR: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
const MODES: [&str; 2] = ["page-cache", "direct"];

fn main() {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let (kernel, warm, scan) = (kernel.trim(), WARM_BYTES / MIB, SCAN_BYTES / MIB);
    println!("# The two read modes on the same work\n");
    println!(
        "`TIDEGATE=target/release/tidegate cargo run --release -p testkit --example modes > bench/results/modes.md`\n"
    );
    println!(
        "Linux {kernel}, one worker, {CONNECTIONS} connections, medians of {ROUNDS} interleaved rounds. The warm set is {warm} MiB,"
    );
    println!(
        "what is read once {scan} MiB, `store.warm` 192 MiB; the page cache had no limit but the machine's. CPU is that of"
    );
    println!(
        "the whole process, kernel threads of its rings included; latency beside a scan is that of the warm hits alone."
    );
    println!("When to take which: [operating](../../docs/operating.md).\n");
    println!("| size | work | mode | CPU, µs a request | p50, µs | p99, µs | requests a second |");
    println!("|---|---|---|---|---|---|---|");
    for size in SIZES {
        let origin = Origin::answering(move |request| {
            Reply::generated(Pattern::of(request.head.target()), size).field("Cache-Control", "max-age=86400")
        });
        let (warm, scan) = (names("warm", WARM_BYTES / size), names("scan", SCAN_BYTES / size));
        let mut stores: Vec<Tidegate> =
            MODES.iter().map(|mode| filled(&origin, mode, &warm, &scan)).collect();
        let mut rows = vec![Vec::new(); 3 * MODES.len()];
        for _ in 0..ROUNDS {
            for (n, tidegate) in stores.iter_mut().enumerate() {
                for (work, measured) in round(tidegate, &warm, &scan, size).into_iter().enumerate() {
                    rows[work * MODES.len() + n].push(measured);
                }
            }
        }
        for (row, measured) in rows.into_iter().enumerate() {
            let (work, mode) =
                (["warm hits", "each once, cold", "warm hits beside a scan"][row / 2], MODES[row % 2]);
            let [cpu, p50, p99, rate] =
                std::array::from_fn(|i| middle(measured.iter().map(|m: &[f64; 4]| m[i])));
            println!("| {} KiB | {work} | {mode} | {cpu:.0} | {p50:.0} | {p99:.0} | {rate:.0} |", size >> 10);
        }
    }
}

fn names(kind: &str, count: u64) -> Vec<String> {
    (0..count).map(|n| format!("/{kind}-{n}")).collect()
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A store that holds all objects, stopped.
fn filled(origin: &Origin, mode: &str, warm: &[String], scan: &[String]) -> Tidegate {
    let toml = format!("[store]\nio = \"{mode}\"\nwarm = \"192MiB\"");
    let mut tidegate =
        Tidegate::reverse(origin).workers(1).memory("64MiB").store("1536MiB").toml(&toml).start();
    let mut connection = Connection::open(tidegate.address());
    for name in warm.iter().chain(scan) {
        // The store declines what comes faster than its device writes: it is asked for again.
        while !connection.get(name).1 {}
    }
    tidegate.stop();
    tidegate
}

/// Starts cold, and gives the figures of the three kinds of work.
fn round(tidegate: &mut Tidegate, warm: &[String], scan: &[String], size: u64) -> [[f64; 4]; 3] {
    let store = File::options().read(true).write(true).open(tidegate.store_path()).unwrap();
    store.sync_all().unwrap();
    rustix::fs::fadvise(&store, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    tidegate.restart();
    let (address, pid) = (tidegate.address(), tidegate.pid());
    let cold = timed(pid, || each_once(address, scan, size));
    for _ in 0..3 {
        each_once(address, warm, size);
    }
    let hits = timed(pid, || for_a_while(address, warm, size, WARM_FOR));
    let beside = timed(pid, || {
        std::thread::scope(|scope| {
            let scanning = scope.spawn(|| each_once(address, scan, size));
            let hits = for_a_while(address, warm, size, WARM_FOR);
            let scanned = scanning.join().unwrap();
            // Latency is that of the hits; CPU is shared by all requests.
            (hits.0, hits.1 + scanned.1)
        })
    });
    tidegate.stop();
    [hits, cold, beside]
}

/// Runs the work; CPU a request, p50, p99, requests a second.
fn timed(pid: u32, work: impl FnOnce() -> (Vec<f64>, usize)) -> [f64; 4] {
    let (before, begun) = (cpu(pid), Instant::now());
    let (mut took, requests) = work();
    let (spent, elapsed) = (cpu(pid) - before, begun.elapsed().as_secs_f64());
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    [spent * 1e6 / requests as f64, at(0.5), at(0.99), requests as f64 / elapsed]
}

/// Seconds of CPU of all threads of a process, the kernel's helpers included.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Each object once, over all connections side by side; what each took, in µs.
fn each_once(address: SocketAddr, names: &[String], size: u64) -> (Vec<f64>, usize) {
    let each = |n: usize| {
        let mut connection = Connection::open(address);
        names.iter().skip(n).step_by(CONNECTIONS).map(|name| connection.timed(name, size)).collect::<Vec<_>>()
    };
    side_by_side(each)
}

/// Any of the objects, again and again.
fn for_a_while(address: SocketAddr, names: &[String], size: u64, span: Duration) -> (Vec<f64>, usize) {
    let each = |n: usize| {
        let (mut connection, until) = (Connection::open(address), Instant::now() + span);
        let (mut took, mut state) = (Vec::new(), n as u64 + 1);
        while Instant::now() < until {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            took.push(connection.timed(&names[(state >> 33) as usize % names.len()], size));
        }
        took
    };
    side_by_side(each)
}

fn side_by_side(each: impl Fn(usize) -> Vec<f64> + Sync) -> (Vec<f64>, usize) {
    let all: Vec<f64> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                scope.spawn({
                    let each = &each;
                    move || each(n)
                })
            })
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let requests = all.len();
    (all, requests)
}

/// A connection that throws bodies away.
struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    nowhere: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, head: Vec::new(), nowhere: vec![0; MIB as usize] }
    }

    fn timed(&mut self, name: &str, size: u64) -> f64 {
        let begun = Instant::now();
        assert_eq!(self.get(name), (size, true), "{name}");
        begun.elapsed().as_secs_f64() * 1e6
    }

    /// The length of the body, all of which came, and whether it was a hit.
    fn get(&mut self, name: &str) -> (u64, bool) {
        write!(self.stream, "GET {name} HTTP/1.1\r\nHost: www.example.com\r\n\r\n").unwrap();
        self.head.clear();
        let mut chunk = [0; 4096];
        let end = loop {
            let n = self.stream.read(&mut chunk).unwrap();
            assert!(n > 0, "the connection ended");
            self.head.extend_from_slice(&chunk[..n]);
            if let Some(at) = self.head.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
        };
        let text = String::from_utf8_lossy(&self.head[..end]).to_lowercase();
        let length: u64 =
            text.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse().unwrap();
        let mut left = length - (self.head.len() - end) as u64;
        while left > 0 {
            let most = self.nowhere.len().min(left as usize);
            let flags = rustix::net::RecvFlags::TRUNC;
            let (_, n) = rustix::net::recv(&self.stream, &mut self.nowhere[..most], flags).unwrap();
            assert!(n > 0, "the connection ended");
            left -= n as u64;
        }
        (length, text.contains("; hit"))
    }
}
