//! One run of one engine in a process of its own: fill and get, start again, or fill until killed.

use crate::{load, ours, theirs};
use bench_store::cpu;
use bench_store::engine::Failed;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;

/// What a run is given.
#[derive(Debug, Clone)]
pub struct Task {
    pub threads: usize,
    pub objects: u64,
    pub seconds: u64,
    pub memory_bytes: usize,
    pub size_bytes: u64,
    pub file: PathBuf,
}

/// What an engine does for the benchmark.
pub trait Engine: Sized {
    /// Opens what is in the file, or nothing.
    fn open(task: &Task, fresh: bool) -> Result<Self, Failed>;
    /// Puts the keys `from..to`, spread over the threads, as fast as the engine keeps all of them.
    fn put(&self, from: u64, to: u64, progress: bool) -> Result<(), Failed>;
    /// Waits until nothing is on its way to the device.
    fn settle(&self);
    /// Gets popular keys for so long; says how many were asked for and how many were there.
    fn get_popular(&self, seconds: u64) -> Result<(u64, u64), Failed>;
    /// How many of these keys are there, and right.
    fn count(&self, keys: Vec<u64>) -> Result<u64, Failed>;
    /// A clean stop.
    fn close(self) -> Result<(), Failed>;
}

/// Keys that are looked for after a start.
const SAMPLED: u64 = 20_000;

/// `ENGINE TASK THREADS OBJECTS SECONDS MEMORY SIZE FILE`
pub fn run(arguments: &[String]) -> Result<(), Failed> {
    let [engine, what, threads, objects, seconds, memory, size, file] = arguments else {
        return Err("child: wrong arguments".into());
    };
    let task = Task {
        threads: threads.parse()?,
        objects: objects.parse()?,
        seconds: seconds.parse()?,
        memory_bytes: memory.parse()?,
        size_bytes: size.parse()?,
        file: file.into(),
    };
    let result = match engine.as_str() {
        "tidegate" => perform::<ours::Ours>(what, &task)?,
        _ => perform::<theirs::Theirs>(what, &task)?,
    };
    println!("RESULT {result}");
    Ok(())
}

fn perform<E: Engine>(what: &str, task: &Task) -> Result<Value, Failed> {
    match what {
        "work" => work::<E>(task),
        "restart" => restart::<E>(task),
        _ => {
            E::open(task, true)?.put(0, u64::MAX, true)?;
            Err("nobody killed this".into())
        }
    }
}

fn work<E: Engine>(task: &Task) -> Result<Value, Failed> {
    let engine = E::open(task, true)?;
    let half = task.objects / 2;
    let (began, cpu, written) = (Instant::now(), cpu::seconds(), cpu::device_bytes_written());
    engine.put(0, half, false)?;
    engine.settle();
    let resident = cpu::resident_bytes();
    engine.put(half, task.objects, false)?;
    engine.settle();
    let (put_seconds, put_cpu) = (began.elapsed().as_secs_f64(), cpu::seconds() - cpu);
    let grown = cpu::resident_bytes() as f64 - resident as f64;
    let written = (cpu::device_bytes_written() - written) as f64;
    let admitted: u64 = (0..task.objects).map(|key| load::length(key) as u64 + 8).sum();
    let (began, cpu) = (Instant::now(), cpu::seconds());
    let (asked, hits) = engine.get_popular(task.seconds)?;
    let (get_seconds, get_cpu) = (began.elapsed().as_secs_f64(), cpu::seconds() - cpu);
    let objects = task.objects as f64;
    let result = json!({
        "puts_per_second": objects / put_seconds, "put_cpu_micros": put_cpu * 1e6 / objects,
        "gets_per_second": asked as f64 / get_seconds, "get_cpu_micros": get_cpu * 1e6 / asked as f64,
        "hit_ratio": hits as f64 / asked as f64, "bytes_per_object": grown / (objects - half as f64),
        "resident_mib": cpu::resident_bytes() >> 20, "write_amplification": written / admitted as f64,
    });
    engine.close()?;
    Ok(result)
}

/// Starts on what is there; looks at keys from everywhere, and at those that were stored last.
fn restart<E: Engine>(task: &Task) -> Result<Value, Failed> {
    let began = Instant::now();
    let engine = E::open(task, false)?;
    let open_seconds = began.elapsed().as_secs_f64();
    let sampled = SAMPLED.min(task.objects);
    let everywhere = (0..sampled).map(|n| n * task.objects / sampled).collect();
    let last = (task.objects - sampled..task.objects).collect();
    let share = |found: u64| found as f64 / sampled as f64;
    let (found, found_last) = (engine.count(everywhere)?, engine.count(last)?);
    engine.close()?;
    Ok(json!({ "seconds": open_seconds, "found": share(found), "found_of_last_20000": share(found_last) }))
}
