//! Hit ratio and writes of the store against other policies and the offline bound.
//!
//! ```text
//! cargo run --release -p store --example hit_ratio -- DIRECTORY [OBJECTS [MIX...]]
//! ```
//! writes `DIRECTORY/hit-ratio.md` and `DIRECTORY/hit-ratio.svg`, of all mixes or of those named. Reading order: `mixes` (what is asked for), `opponents`,
//! `optimum`, `tidegate` (the store as a cache), `cell`, `report`. A short run is a test: `tests/hit_ratio.rs`.
#![allow(clippy::expect_used)]

mod cell;
mod chance;
mod mixes;
mod opponents;
mod optimum;
mod report;
mod tidegate;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const OBJECTS: u32 = 80_000;
/// Sizes of the cache, in percent of the footprint.
const SHARES: [u64; 3] = [1, 10, 30];

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "bench/results".to_owned());
    let objects = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(OBJECTS);
    let names: Vec<String> = arguments.collect();
    let wanted = |mix: &&mixes::Mix| names.is_empty() || names.iter().any(|name| name == mix.name);
    let mixes: Vec<_> = mixes::MIXES.iter().filter(wanted).collect();
    let cells = measure_all(&mixes, objects);
    let write = |name: &str, text: String| std::fs::write(format!("{directory}/{name}"), text);
    write("hit-ratio.md", report::document(&cells, objects))?;
    write("hit-ratio.svg", report::picture(&cells))
}

/// Every mix, on as many threads as there are cores; the order is that of the table.
fn measure_all(mixes: &[&'static mixes::Mix], objects: u32) -> Vec<cell::Cell> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(mix) = mixes.get(next.fetch_add(1, Relaxed)) {
            eprintln!("{}", mix.name);
            done.extend(cell::Cell::measure(mix, &SHARES, objects));
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut cells: Vec<cell::Cell> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker panicked")).collect()
    });
    let place = |name: &str| mixes.iter().position(|mix| mix.name == name);
    cells.sort_by_key(|cell| (place(cell.mix), cell.share));
    cells
}
