//! Medians, ratios, and the two result files.

use crate::devices::Devices;
use crate::{Plan, Work};
use bench_store::engine::Failed;
use serde_json::json;
use std::fmt::Write as _;

/// What a run of either side came to.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Requests in a second.
    pub per_second: f64,
    /// Processor time for each, in microseconds.
    pub cpu_micros: f64,
}

/// Medians of both sides for one kind of request.
pub struct Row {
    devices: usize,
    kind: &'static str,
    work: Work,
    fio: Sample,
    ours: Sample,
    /// Lowest and highest ratio of a round.
    spread: (f64, f64),
}

impl Row {
    /// From the samples of all rounds.
    pub fn new(devices: &Devices, work: Work, fio: &[Sample], ours: &[Sample]) -> Self {
        let ratios = ours.iter().zip(fio).map(|(ours, fio)| ours.per_second / fio.per_second);
        let spread = ratios.fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
        let (fio, ours) = (middle(fio), middle(ours));
        Self { devices: devices.paths.len(), kind: devices.kind, work, fio, ours, spread }
    }

    fn ratio(&self) -> f64 {
        self.ours.per_second / self.fio.per_second
    }
}

fn middle(samples: &[Sample]) -> Sample {
    let median = |of: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Sample { per_second: median(|sample| sample.per_second), cpu_micros: median(|sample| sample.cpu_micros) }
}

/// Writes `store.md` and `store.json`, and prints the table.
pub fn write(plan: &Plan, rows: &[Row]) -> Result<(), Failed> {
    let text = markdown(plan, rows);
    println!("{text}");
    std::fs::create_dir_all(&plan.out)?;
    std::fs::write(plan.out.join("store.md"), text)?;
    let rows: Vec<_> = rows.iter().map(json_of).collect();
    std::fs::write(plan.out.join("store.json"), serde_json::to_string_pretty(&rows)? + "\n")?;
    Ok(())
}

fn json_of(row: &Row) -> serde_json::Value {
    let side = |sample: &Sample| json!({ "per_second": sample.per_second, "cpu_micros": sample.cpu_micros });
    json!({
        "devices": row.devices, "kind": row.kind, "work": row.work.name(), "bytes": row.work.bytes(),
        "depth": row.work.depth() * row.devices, "fio": side(&row.fio), "store": side(&row.ours),
        "ratio": row.ratio(), "ratio_low": row.spread.0, "ratio_high": row.spread.1, "aim": row.work.aim(),
    })
}

const HEADER: &str = "\
| devices | work | depth | fio, MB/s | store, MB/s | ratio (rounds) | aim | CPU µs a request: fio | store |
|---|---|---|---|---|---|---|---|---|
";

fn markdown(plan: &Plan, rows: &[Row]) -> String {
    let mut text = String::from("# The store against fio on the same devices\n\n");
    let kind = rows.first().map_or("", |row| row.kind);
    let (rounds, seconds, size) = (plan.rounds, plan.seconds, plan.size_bytes >> 20);
    let _ = writeln!(
        text,
        "`cargo run --release --manifest-path bench/store/Cargo.toml` (fio: io_uring, direct, one job). Devices: {kind}, \
         {size} MiB each. {rounds} rounds of {seconds} s, fio and store in turn, medians; only ratios mean something \
         elsewhere.\n"
    );
    text.push_str(HEADER);
    for row in rows {
        let megabytes = |sample: &Sample| sample.per_second * row.work.bytes() as f64 / 1e6;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.0} | {:.0} | **{:.2}** ({:.2}–{:.2}) | {:.2} | {:.1} | {:.1} |",
            row.devices,
            row.work.name(),
            row.work.depth() * row.devices,
            megabytes(&row.fio),
            megabytes(&row.ours),
            row.ratio(),
            row.spread.0,
            row.spread.1,
            row.work.aim(),
            row.fio.cpu_micros,
            row.ours.cpu_micros,
        );
    }
    text.push_str(NOTES);
    text
}

const NOTES: &str = "
The store's side is the product's own driver (`proxy::disk`) with its defaults, but direct mode and everything admitted, on one thread plus the
housekeeping thread. It does more than fio: a write takes space in the log, a checksum and a record, with checkpoints
going on; an object of 16 KiB is found by its key, read with its record (20 to 24 KiB of whole blocks) and decoded. A
buffer is taken for every read; fio reuses its own. CPU is that of the process, the kernel's workers for its ring
included, those of the loop devices not.
";
