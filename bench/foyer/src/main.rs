//! Tidegate's store and foyer on the same small objects: the same keys and sizes, the same preallocated file with
//! O_DIRECT and io_uring, and in front of either the same memory cache (foyer's own, with the same bytes).
//!
//! One command, a few minutes, results in `bench/results/foyer.md` and `foyer.json`:
//!
//! ```text
//! cargo run --release --manifest-path bench/foyer/Cargo.toml -- [--dir DIR] [--objects N] [--seconds N] [--rounds N]
//!     [--size-mib N] [--memory-mib N] [--out DIR]
//! ```
//! Every run is a process of its own (this program with the word `child`), so that memory, processor time and bytes
//! written are those of one engine; the engines take turns.
#![forbid(unsafe_code)]

mod child;
mod load;
mod ours;
mod report;
mod theirs;

use bench_store::engine::{Failed, create};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    dir: PathBuf,
    objects: u64,
    seconds: u64,
    rounds: usize,
    size_bytes: u64,
    memory_bytes: usize,
    out: PathBuf,
}

/// Who is measured.
pub const ENGINES: [&str; 2] = ["tidegate", "foyer"];

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "child") {
        return child::run(&arguments[1..]);
    }
    let plan = Plan::from_arguments(&arguments)?;
    std::fs::create_dir_all(&plan.dir)?;
    let mut results = Vec::new();
    for round in 0..plan.rounds {
        for engine in ENGINES {
            for threads in [1, 2] {
                let mut result = measure(&plan, engine, threads)?;
                (result["engine"], result["threads"], result["round"]) =
                    (json!(engine), json!(threads), json!(round));
                println!("{result}");
                results.push(result);
            }
        }
    }
    let killed: Result<Vec<Value>, Failed> = ENGINES.iter().map(|engine| kill(&plan, engine)).collect();
    report::write(&plan, &results, &killed?)
}

/// Fill, gets, clean stop; then a start.
fn measure(plan: &Plan, engine: &str, threads: usize) -> Result<Value, Failed> {
    let file = fresh_file(plan)?;
    let mut result = answer(child(plan, engine, "work", threads, plan.objects, &file)?)?;
    result["restart"] = answer(child(plan, engine, "restart", 1, plan.objects, &file)?)?;
    std::fs::remove_file(file)?;
    Ok(result)
}

/// A fill that is killed in the middle; then a start, and what of the acknowledged objects is there.
fn kill(plan: &Plan, engine: &str) -> Result<Value, Failed> {
    let file = fresh_file(plan)?;
    let mut filling = child(plan, engine, "fill", 1, plan.objects, &file)?;
    let (began, mut acknowledged) = (Instant::now(), 0);
    for line in BufReader::new(filling.stdout.take().ok_or("no output")?).lines() {
        if let Some(count) = line?.strip_prefix("STORED ") {
            acknowledged = count.parse()?;
        }
        if acknowledged >= plan.objects / 2 && began.elapsed() > Duration::from_secs(4) {
            break;
        }
    }
    filling.kill()?;
    filling.wait()?;
    let mut result = answer(child(plan, engine, "restart", 1, acknowledged, &file)?)?;
    (result["engine"], result["acknowledged"]) = (json!(engine), json!(acknowledged));
    std::fs::remove_file(file)?;
    Ok(result)
}

fn fresh_file(plan: &Plan) -> Result<PathBuf, Failed> {
    let file = plan.dir.join("device");
    let _ = std::fs::remove_file(&file);
    create(&file, plan.size_bytes)?;
    Ok(file)
}

fn child(
    plan: &Plan,
    engine: &str,
    task: &str,
    threads: usize,
    objects: u64,
    file: &Path,
) -> Result<std::process::Child, Failed> {
    let numbers = [threads as u64, objects, plan.seconds, plan.memory_bytes as u64, plan.size_bytes];
    let child = Command::new(std::env::current_exe()?)
        .args(["child", engine, task])
        .args(numbers.map(|number| number.to_string()))
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// The line of a child's output that is its result.
fn answer(child: std::process::Child) -> Result<Value, Failed> {
    let done = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&done.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    Ok(serde_json::from_str(line.ok_or("a child ended without a result")?)?)
}

impl Plan {
    fn from_arguments(arguments: &[String]) -> Result<Self, Failed> {
        let mut plan = Self {
            dir: std::env::temp_dir().join("tidegate-bench-foyer"),
            objects: 800_000,
            seconds: 3,
            rounds: 3,
            size_bytes: 2 << 30,
            memory_bytes: 64 << 20,
            out: PathBuf::from("bench/results"),
        };
        for pair in arguments.chunks(2) {
            let [flag, value] = pair else { return Err("a flag needs a value".into()) };
            match flag.as_str() {
                "--dir" => plan.dir = value.into(),
                "--objects" => plan.objects = value.parse()?,
                "--seconds" => plan.seconds = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--size-mib" => plan.size_bytes = value.parse::<u64>()? << 20,
                "--memory-mib" => plan.memory_bytes = value.parse::<usize>()? << 20,
                "--out" => plan.out = value.into(),
                _ => return Err(format!("unknown flag {flag}").into()),
            }
        }
        Ok(plan)
    }
}
