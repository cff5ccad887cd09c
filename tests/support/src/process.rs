//! What the kernel says about a process, and ending one by its id.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Sends `signal` to the process `pid`.
///
/// # Panics
/// When there is no such process.
#[track_caller]
pub fn end(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("kill");
}

/// Memory of a process in KiB, without the pages of files (`Pss_Anon` and `Pss_Shmem` of `smaps_rollup`): those of the
/// program itself are shared with every other process that runs it, so that a share of them comes when another one ends.
#[track_caller]
pub fn own_memory_kib(pid: u32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    let kib = |name: &str| -> u64 {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().trim_end_matches(" kB").parse().expect("a number of kB")
    };
    kib("Pss_Anon:") + kib("Pss_Shmem:")
}

/// How many descriptors a process has open.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or(0)
}

/// Raises this process's descriptor limit as far as allowed; children inherit it. Returns the limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
