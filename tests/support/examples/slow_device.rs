//! Measures what hits from memory notice of a device that takes half a second for every read.
//!
//! ```text
//! cargo build --release
//! TIDEGATE=target/release/tidegate cargo run --release -p testkit --example slow_device > bench/results/slow-device.md
//! ```
//!
//! One worker. Hits on one connection, one after the other, first alone and then while four reads are with the device all
//! the time. What must hold: a round counts only if there were four. Needs root (a filesystem of its own is the device).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::{Fate, FaultyDisk, Origin, Pattern, Reply, Tidegate, eventually};

const READ_TAKES: Duration = Duration::from_millis(500);
const READERS: usize = 4;
const HITS: usize = 20_000;
const ROUNDS: usize = 5;
const COLD_BYTES: u64 = 20_000;
/// More than are read in all rounds.
const COLD: usize = 2000;

fn main() {
    let disk = FaultyDisk::new(256 << 20).expect("a filesystem of our own");
    let path = disk.path().display().to_string();
    let origin = Origin::answering(|request| {
        Reply::generated(Pattern::of(request.head.target()), COLD_BYTES)
            .field("Cache-Control", "max-age=86400")
    });
    Tidegate::run(&["format", &path]).expect(0);
    let settings = "[store]\nio = \"direct\"\nread_timeout = \"20s\"";
    let mut tidegate = Tidegate::reverse(&origin).store_at(&path).workers(1).toml(settings).start();
    let cold: Vec<String> = (0..COLD).map(|n| format!("/cold-{n}")).collect();
    let mut client = tidegate.client();
    cold.iter().map(String::as_str).chain(["/hot"]).for_each(|target| drop(client.get(target).expect(200)));
    tidegate.wait_stored(COLD as u64 + 1);
    drop(client);
    tidegate.stop();
    tidegate.restart();
    tidegate.warm("/hot");

    println!("# Hits from memory beside reads that take {} ms\n", READ_TAKES.as_millis());
    println!(
        "`TIDEGATE=target/release/tidegate cargo run --release -p testkit --example slow_device > bench/results/slow-device.md`\n"
    );
    println!(
        "One worker, {HITS} hits of {COLD_BYTES} bytes one after the other; {READERS} reads are with the device meanwhile.\n"
    );
    println!("| round | p50 alone, µs | beside | p99 alone, µs | beside | p99, ratio |");
    println!("|---|---|---|---|---|---|");
    let cold = Mutex::new(cold);
    let mut ratios: Vec<f64> = (1..=ROUNDS).map(|round| measured(round, &tidegate, &disk, &cold)).collect();
    ratios.sort_by(f64::total_cmp);
    println!("\nMedian of the ratios: {:.2}.", ratios[ROUNDS / 2]);
}

/// Prints a round; the ratio of the 99th percentiles.
fn measured(round: usize, tidegate: &Tidegate, disk: &FaultyDisk, cold: &Mutex<Vec<String>>) -> f64 {
    disk.reads(Fate::Well);
    let alone = latencies(tidegate);
    disk.reads(Fate::After(READ_TAKES));
    let over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let target = cold.lock().unwrap().pop().expect("a body that was not read yet");
                    tidegate.get(&target).expect(200);
                }
            });
        }
        eventually("the device is busy", || (disk.reads_under_way() >= READERS).then_some(()));
        let beside = latencies(tidegate);
        over.store(true, Relaxed);
        beside
    });
    let of = |took: &[f64], hundredth: usize| took[took.len() * hundredth / 100];
    let ratio = of(&beside, 99) / of(&alone, 99);
    println!(
        "| {round} | {:.0} | {:.0} | {:.0} | {:.0} | {ratio:.2} |",
        of(&alone, 50),
        of(&beside, 50),
        of(&alone, 99),
        of(&beside, 99)
    );
    ratio
}

/// Of every hit, sorted, in microseconds.
fn latencies(tidegate: &Tidegate) -> Vec<f64> {
    let mut client = tidegate.client();
    let hit = |_| {
        let start = Instant::now();
        client.get("/hot").expect(200);
        start.elapsed().as_secs_f64() * 1e6
    };
    let mut took: Vec<f64> = (0..HITS).map(hit).collect();
    took.sort_by(f64::total_cmp);
    took
}
