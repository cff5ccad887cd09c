//! What this process used: processor time, memory, bytes written.

use std::fs;

/// Ticks of `/proc/self/stat` in a second, on every Linux that matters.
const TICKS: f64 = 100.0;

/// User and system time of all threads so far, in seconds, the kernel's workers for our rings included.
pub fn seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = behind_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// Resident memory in bytes.
pub fn resident_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:") * 1024
}

/// Bytes that this process caused to be sent to devices.
pub fn device_bytes_written() -> u64 {
    field("/proc/self/io", "write_bytes:")
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
