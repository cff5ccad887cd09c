//! The store's throughput and processor time against fio, on the same devices in the same run.
//!
//! One command, a few minutes, results in `bench/results/store.md` and `store.json`:
//!
//! ```text
//! cargo run --release --manifest-path bench/store/Cargo.toml -- [--dir DIR] [--size-mib N] [--seconds N] [--rounds N]
//!     [--devices 1,2,4] [--out DIR]
//! ```
//! As root the devices are loop devices with direct I/O over files in DIR; otherwise the files themselves. fio and the
//! store take turns; what is compared are medians of the rounds.
#![forbid(unsafe_code)]

mod devices;
mod fio;
mod ours;
mod report;

use bench_store::engine::Failed;
use devices::Devices;
use report::{Row, Sample};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// What to measure.
pub struct Plan {
    dir: PathBuf,
    size_bytes: u64,
    seconds: u64,
    rounds: usize,
    devices: Vec<usize>,
    out: PathBuf,
}

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A body of one extent, with its record; space, checksum and checkpoints included.
    Write,
    /// The same bodies in any order.
    Read,
    /// 16 KiB of such a body.
    ReadPart,
    /// A small object: found by its key, read with its record, checked.
    ReadObject,
}

impl Work {
    const ALL: [Self; 4] = [Self::Write, Self::Read, Self::ReadPart, Self::ReadObject];

    fn name(self) -> &'static str {
        match self {
            Self::Write => "write, 1 MiB bodies",
            Self::Read => "read, 1 MiB bodies",
            Self::ReadPart => "read, 16 KiB of a body",
            Self::ReadObject => "read, objects of 16 KiB",
        }
    }

    /// Bytes of a request.
    fn bytes(self) -> u64 {
        if matches!(self, Self::Write | Self::Read) { MIB } else { 16 << 10 }
    }

    /// Requests under way at each device.
    fn depth(self) -> usize {
        if matches!(self, Self::Write | Self::Read) { 8 } else { 32 }
    }

    /// The ratio to fio that is aimed at.
    fn aim(self) -> f64 {
        if matches!(self, Self::Write | Self::Read) { 0.9 } else { 0.7 }
    }
}

fn main() -> Result<(), Failed> {
    let plan = Plan::from_arguments()?;
    std::fs::create_dir_all(&plan.dir)?;
    let mut rows = Vec::new();
    for &count in &plan.devices {
        let devices = Devices::new(&plan.dir, count, plan.size_bytes)?;
        rows.extend(measure(&plan, &devices)?);
    }
    report::write(&plan, &rows)
}

/// Rounds of fio and store in turn. fio writes over the store, so each round formats it anew.
fn measure(plan: &Plan, devices: &Devices) -> Result<Vec<Row>, Failed> {
    let mut samples: Vec<(Vec<Sample>, Vec<Sample>)> = Work::ALL.map(|_| Default::default()).into();
    for _ in 0..plan.rounds {
        samples[0].0.push(fio::run(devices, Work::Write, plan.seconds)?);
        let filled = ours::Filled::new(devices, plan.seconds)?;
        samples[0].1.push(filled.sample);
        for (work, (theirs, ours)) in Work::ALL.into_iter().zip(&mut samples).skip(1) {
            theirs.push(fio::run(devices, work, plan.seconds)?);
            ours.push(filled.read(work, plan.seconds)?);
        }
        filled.close();
    }
    let rows = Work::ALL.into_iter().zip(samples);
    Ok(rows.map(|(work, (fio, ours))| Row::new(devices, work, &fio, &ours)).collect())
}

impl Plan {
    fn from_arguments() -> Result<Self, Failed> {
        let mut plan = Self {
            dir: std::env::temp_dir().join("tidegate-bench-store"),
            size_bytes: 1 << 30,
            seconds: 3,
            rounds: 3,
            devices: vec![1, 2, 4],
            out: PathBuf::from("bench/results"),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--dir" => plan.dir = value.into(),
                "--size-mib" => plan.size_bytes = value.parse::<u64>()? * MIB,
                "--seconds" => plan.seconds = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--devices" => plan.devices = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--out" => plan.out = value.into(),
                _ => return Err(format!("unknown flag {flag}").into()),
            }
        }
        Ok(plan)
    }
}
