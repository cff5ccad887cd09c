//! How near memory is to its end: of the control group that limits this process, else of the machine.
//!
//! Version 2 and version 1 of control groups, as the kernel documents them (admin-guide/cgroup-v2, cgroup-v1/memory). Page
//! cache that nobody uses is not counted as used: the kernel takes it back before it refuses anything.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits above this mean that there is none (version 1 writes the largest number of pages).
const UNLIMITED: u64 = 1 << 60;

/// Where to read.
#[derive(Debug)]
pub(super) struct Memory {
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    limit: &'static str,
    used: &'static str,
    /// The line of `memory.stat` with the page cache that is not in use.
    unused: &'static str,
}

impl Group {
    fn v2(folder: PathBuf) -> Self {
        Self { folder, limit: "memory.max", used: "memory.current", unused: "inactive_file" }
    }

    fn v1(folder: PathBuf) -> Self {
        let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
        Self { folder, limit, used, unused: "total_inactive_file" }
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    fn limit(&self) -> Option<u64> {
        let limit: u64 = self.read(self.limit)?.trim().parse().ok()?;
        (limit > 0 && limit < UNLIMITED).then_some(limit)
    }

    fn share(&self) -> Option<f64> {
        let used: u64 = self.read(self.used)?.trim().parse().ok()?;
        let unused = value(&self.read("memory.stat")?, self.unused).unwrap_or(0);
        Some(used.saturating_sub(unused) as f64 / self.limit()? as f64)
    }
}

impl Memory {
    /// Looks for the control group once.
    pub(super) fn find() -> Self {
        let mine = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = candidates(&mine).into_iter().find(|group| group.limit().is_some());
        Self { group }
    }

    /// The share of the limit that is in use.
    pub(super) fn used(&self) -> Option<f64> {
        match &self.group {
            Some(group) => group.share(),
            None => used_of_machine(&fs::read_to_string("/proc/meminfo").ok()?),
        }
    }

    /// The share of the last ten seconds in which everything in the group stood still for want of memory (PSI).
    pub(super) fn stalled(&self) -> Option<f64> {
        stalled(&self.group.as_ref()?.read("memory.pressure")?)
    }
}

/// Where a group may be that `/proc/self/cgroup` names. In a container its own group is mounted where the root would be.
fn candidates(mine: &str) -> Vec<Group> {
    let mut found = Vec::new();
    for line in mine.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (root, group): (_, fn(PathBuf) -> Group) = match controllers {
            "" => ("/sys/fs/cgroup", Group::v2),
            named if named.split(',').any(|name| name == "memory") => ("/sys/fs/cgroup/memory", Group::v1),
            _ => continue,
        };
        found.extend([Path::new(root).join(path.trim_start_matches('/')), root.into()].map(group));
    }
    found
}

/// From `/proc/meminfo`.
fn used_of_machine(meminfo: &str) -> Option<f64> {
    let (total, available) = (value(meminfo, "MemTotal:")?, value(meminfo, "MemAvailable:")?);
    (total > 0).then(|| total.saturating_sub(available) as f64 / total as f64)
}

/// The number behind a word at the beginning of a line.
fn value(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word).filter(|rest| rest.starts_with(' ')))?;
    line.split_whitespace().next()?.parse().ok()
}

/// `full avg10=` of a PSI file, as a fraction.
fn stalled(pressure: &str) -> Option<f64> {
    let full = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let percent: f64 = full.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    Some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn groups_of_both_versions_are_found() {
        let folders = |mine| -> Vec<_> {
            candidates(mine).into_iter().map(|g| (g.folder.display().to_string(), g.limit)).collect()
        };
        assert_eq!(
            folders("0::/system.slice/tidegate.service\n"),
            [
                ("/sys/fs/cgroup/system.slice/tidegate.service".into(), "memory.max"),
                ("/sys/fs/cgroup".to_owned(), "memory.max"),
            ]
        );
        assert_eq!(
            folders("7:cpu,cpuacct:/a\n4:memory:/docker/1f\nnonsense\n"),
            [
                ("/sys/fs/cgroup/memory/docker/1f".into(), "memory.limit_in_bytes"),
                ("/sys/fs/cgroup/memory".to_owned(), "memory.limit_in_bytes"),
            ]
        );
        assert!(folders("").is_empty());
    }

    #[test]
    fn the_share_is_without_the_page_cache_that_nobody_uses() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write("memory.stat", "anon 500\ninactive_file 300\nactive_file 100\n");
        let group = Group::v2(folder.path().into());
        assert_eq!((group.limit(), group.share()), (Some(1000), Some(0.6)));
        for none in ["max\n", "0\n", "9223372036854771712\n", ""] {
            write("memory.max", none);
            assert_eq!((group.limit(), group.share()), (None, None), "{none:?}");
        }
    }

    #[test]
    fn the_kernels_own_files_are_read() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:  10 kB\nMemAvailable:    250 kB\n";
        assert_eq!(used_of_machine(meminfo), Some(0.75));
        assert_eq!(used_of_machine("MemTotal: 5 kB\n"), None);
        let psi = "some avg10=5.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=2.50 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!((stalled(psi), stalled(""), stalled("full avg10=x\n")), (Some(0.025), None, None));
    }
}
