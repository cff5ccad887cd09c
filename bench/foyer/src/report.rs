//! Medians, ratios, and the two result files.

use crate::{ENGINES, Plan, load};
use bench_store::engine::Failed;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What is shown of each run, with its path in the result and how it reads.
const FIGURES: [(&str, &str); 9] = [
    ("/puts_per_second", "puts a second"),
    ("/put_cpu_micros", "CPU µs a put"),
    ("/gets_per_second", "gets a second"),
    ("/get_cpu_micros", "CPU µs a get"),
    ("/hit_ratio", "gets that found the object"),
    ("/bytes_per_object", "resident bytes for each further object"),
    ("/write_amplification", "device bytes for each byte put"),
    ("/restart/seconds", "seconds to open after a clean stop"),
    ("/restart/found", "of the objects there afterwards"),
];

/// After the kill.
const KILLED: [(&str, &str); 4] = [
    ("/acknowledged", "objects put before the kill"),
    ("/seconds", "seconds to open"),
    ("/found", "of the objects there afterwards"),
    ("/found_of_last_20000", "of the last 20 000 put"),
];

/// Writes `foyer.md` and `foyer.json`, and prints the tables.
pub fn write(plan: &Plan, results: &[Value], killed: &[Value]) -> Result<(), Failed> {
    let text = markdown(plan, results, killed);
    println!("{text}");
    std::fs::create_dir_all(&plan.out)?;
    std::fs::write(plan.out.join("foyer.md"), text)?;
    let all = json!({ "runs": results, "killed": killed });
    std::fs::write(plan.out.join("foyer.json"), serde_json::to_string_pretty(&all)? + "\n")?;
    Ok(())
}

fn markdown(plan: &Plan, results: &[Value], killed: &[Value]) -> String {
    let mut text = String::from("# Small objects: Tidegate's store and foyer\n\n");
    let Plan { objects, seconds, rounds, size_bytes, memory_bytes, .. } = plan;
    let _ = writeln!(
        text,
        "`cargo run --release --manifest-path bench/foyer/Cargo.toml` (foyer 0.22). {objects} objects of 100 to 4096 bytes \
         (log-uniform), one preallocated file of {} MiB, {} MiB of memory cache, gets by Zipf {} for {seconds} s with {} \
         under way on each thread. Medians of {rounds} rounds, engines in turn, a process each; only ratios mean \
         something elsewhere.\n",
        size_bytes >> 20,
        memory_bytes >> 20,
        load::ZIPF,
        load::DEPTH,
    );
    for threads in [1, 2] {
        let of = |engine: &str, path: &str| {
            let runs = results.iter().filter(|run| run["engine"] == engine && run["threads"] == threads);
            median(runs.filter_map(|run| run.pointer(path)?.as_f64()).collect())
        };
        let _ = writeln!(text, "## {threads} thread{}\n", if threads == 1 { "" } else { "s" });
        table(&mut text, &FIGURES, of);
    }
    text.push_str("## Killed (SIGKILL) while filling\n\n");
    table(&mut text, &KILLED, |engine, path| {
        let run = killed.iter().find(|run| run["engine"] == engine);
        run.and_then(|run| run.pointer(path)?.as_f64()).unwrap_or(f64::NAN)
    });
    text.push_str(NOTES);
    text
}

fn table(text: &mut String, figures: &[(&str, &str)], of: impl Fn(&str, &str) -> f64) {
    text.push_str("| | tidegate | foyer | ratio |\n|---|---|---|---|\n");
    for (path, name) in figures {
        let [ours, theirs] = ENGINES.map(|engine| of(engine, path));
        let _ = writeln!(text, "| {name} | {} | {} | {:.2} |", shown(ours), shown(theirs), ours / theirs);
    }
    text.push('\n');
}

fn shown(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

const NOTES: &str = "\
## What is different

- In front of both is foyer's memory cache with the same weigher. Behind it: foyer's block engine (defaults but for 64 MiB of
  buffers, io_uring, written on insertion) or Tidegate's store with its driver (defaults, but direct mode and everything
  admitted).
- Tidegate declines what the devices cannot take and the filler waits; foyer drops it, so its filler waits for the flusher
  after every 8 MiB. Puts a second are those of the device in the end.
- foyer gives each entry a multiple of 4 KiB on the device: what does not fit into the file any more, it does not find. A get that
  finds nothing reads nothing, so gets a second are to be read with the share of them that found the object.
- A put is acknowledged before it is on the device by both. Tidegate promises what its last checkpoint covers (every 2 s);
  foyer promises nothing, and finds what its blocks list.
- foyer opens by scanning its blocks' lists of entries; its index is its own 64-bit hash of a key. Tidegate compares whole keys
  and checks every checksum on the first read after a start; foyer checks its entries on every read.
- Removing or replacing: without its tombstone log, which is off by default, foyer may bring older entries back after a
  start. Tidegate does not, and pays for it in its checkpoints.
";
