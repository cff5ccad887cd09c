//! fio on the devices of a run: the same block size, depth and engine as the store's driver.

use crate::Work;
use crate::devices::Devices;
use crate::report::Sample;
use bench_store::engine::Failed;
use std::process::Command;

/// One run of fio.
pub fn run(devices: &Devices, work: Work, seconds: u64) -> Result<Sample, Failed> {
    let kind = if work == Work::Write { "write" } else { "randread" };
    let names: Vec<String> = devices.paths.iter().map(|path| path.display().to_string()).collect();
    let done = Command::new("fio")
        .args([
            "--name=bench",
            "--ioengine=io_uring",
            "--direct=1",
            "--thread",
            "--norandommap",
            "--randrepeat=0",
        ])
        .args([
            "--time_based",
            "--output-format=json",
            "--allow_file_create=0",
            "--file_service_type=roundrobin",
        ])
        .arg(format!("--rw={kind}"))
        .arg(format!("--bs={}", work.bytes()))
        .arg(format!("--iodepth={}", work.depth() * names.len()))
        .arg(format!("--runtime={seconds}"))
        .arg(format!("--filename={}", names.join(":")))
        .output()
        .map_err(|error| format!("fio (Debian package fio): {error}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    let report: serde_json::Value = serde_json::from_slice(&done.stdout)?;
    let job = &report["jobs"][0];
    let of = &job[if work == Work::Write { "write" } else { "read" }];
    let number = |value: &serde_json::Value| value.as_f64().ok_or("fio said something unexpected");
    let requests = number(&of["total_ios"])?;
    let seconds = number(&of["runtime"])? / 1000.0;
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0 * seconds;
    Ok(Sample { per_second: requests / seconds, cpu_micros: busy * 1e6 / requests })
}
