//! The limits of control groups, version 1 and 2.
//!
//! What must hold: the smallest limit on the way from our group to the root is the one that binds; both versions are
//! read, because a machine may have one, the other, or a mixture. Inside a container the path in `/proc/self/cgroup`
//! may not exist below the mount; then the mount's own root is ours.

use std::path::{Path, PathBuf};

use super::{number, text};

/// What control groups allow; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Group {
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// CPU time per time, in CPUs.
    pub cpus: Option<f64>,
}

/// Version 1 says "no limit" by a number of this size or more (the largest multiple of a page, or of 64 KiB).
const V1_UNLIMITED: u64 = 1 << 62;

impl Group {
    /// Reads the limits; `root` is `/`, or a copy of its files in a test.
    pub(super) fn around_us(root: &Path) -> Self {
        let membership = text(root.join("proc/self/cgroup")).unwrap_or_default();
        let mounts = root.join("sys/fs/cgroup");
        membership
            .lines()
            .filter_map(Line::parse)
            .fold(Self::default(), |group, line| group.and(line.limits(&mounts)))
    }

    fn and(self, other: Self) -> Self {
        Self {
            memory_bytes: [self.memory_bytes, other.memory_bytes].into_iter().flatten().min(),
            cpus: [self.cpus, other.cpus].into_iter().flatten().reduce(f64::min),
        }
    }
}

/// A line of `/proc/self/cgroup`: `0::/path` for version 2, `number:controllers:/path` for version 1.
struct Line<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { controllers, path: path.trim_start_matches('/') })
    }

    fn limits(&self, mounts: &Path) -> Group {
        let below = |names: &[&str], read: fn(&Path) -> Group| {
            let dirs = names.iter().flat_map(|name| self.upwards(&mounts.join(name)));
            dirs.map(|dir| read(&dir)).fold(Group::default(), Group::and)
        };
        let of_controller = |name| match name {
            "" => below(&["", "unified"], version_2),
            "memory" => below(&["memory"], memory_1),
            "cpu" => below(&["cpu", self.controllers], cpu_1), // "cpu,cpuacct" is one mount, "cpu" a link to it
            _ => Group::default(),
        };
        self.controllers.split(',').map(of_controller).fold(Group::default(), Group::and)
    }

    /// Our directory below `mount`, its parent, and so on to `mount` itself.
    fn upwards(&self, mount: &Path) -> Vec<PathBuf> {
        let depth = Path::new(self.path).components().count();
        mount.join(self.path).ancestors().take(depth + 1).map(Path::to_owned).collect()
    }
}

fn version_2(dir: &Path) -> Group {
    let cpu_max = text(dir.join("cpu.max")).unwrap_or_default();
    let mut quota_and_period = cpu_max.split_whitespace().map(str::parse::<f64>);
    let cpus = match (quota_and_period.next(), quota_and_period.next()) {
        (Some(Ok(quota)), Some(Ok(period))) => share(quota, period),
        _ => None, // "max 100000", or no such file
    };
    Group { memory_bytes: number(dir.join("memory.max")), cpus }
}

fn memory_1(dir: &Path) -> Group {
    let limit: Option<u64> = number(dir.join("memory.limit_in_bytes"));
    Group { memory_bytes: limit.filter(|&bytes| bytes < V1_UNLIMITED), cpus: None }
}

fn cpu_1(dir: &Path) -> Group {
    let quota = number(dir.join("cpu.cfs_quota_us")); // -1 is no limit
    let period = number(dir.join("cpu.cfs_period_us"));
    Group { memory_bytes: None, cpus: quota.zip(period).and_then(|(quota, period)| share(quota, period)) }
}

fn share(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn group(membership: &str, files: &[(&str, &str)]) -> Group {
        let root = tempfile::tempdir().unwrap();
        let all = files.iter().map(|(name, text)| (format!("sys/fs/cgroup/{name}"), *text));
        for (name, text) in all.chain([("proc/self/cgroup".to_owned(), membership)]) {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Group::around_us(root.path())
    }

    #[test]
    fn limits_are_found_wherever_a_system_keeps_them() {
        let none = Group::default();
        let some = |memory_bytes, cpus| Group { memory_bytes, cpus };
        type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Group);
        let rows: &[Row<'_>] = &[
            ("no control groups", "", &[], none),
            ("no limits", "0::/a\n", &[("a/memory.max", "max\n"), ("a/cpu.max", "max 100000\n")], none),
            (
                "the parent's limit is smaller",
                "0::/a/b\n",
                &[("a/b/memory.max", "900\n"), ("a/memory.max", "500\n"), ("a/b/cpu.max", "150000 100000\n")],
                some(Some(500), Some(1.5)),
            ),
            (
                "a container that sees its group as the root",
                "0::/\n",
                &[("memory.max", "700\n"), ("cpu.max", "50000 100000\n")],
                some(Some(700), Some(0.5)),
            ),
            (
                "a path from outside of the container",
                "0::/docker/123\n",
                &[("memory.max", "700\n")],
                some(Some(700), None),
            ),
            (
                "version 1",
                "9:memory:/a\n3:cpu,cpuacct:/a\n0::/x\n",
                &[
                    ("memory/a/memory.limit_in_bytes", "4096\n"),
                    ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                    ("cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"),
                    ("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
                    ("cpu/cpu.cfs_quota_us", "-1\n"),
                    ("cpu/cpu.cfs_period_us", "100000\n"),
                ],
                some(Some(4096), Some(2.5)),
            ),
            (
                "version 1 without limits",
                "9:memory:/\n",
                &[("memory/memory.limit_in_bytes", "9223372036854771712\n")],
                none,
            ),
            ("nonsense", "0:\nx\n0::/a\n", &[("a/memory.max", "-3"), ("a/cpu.max", "1 0")], none),
        ];
        for (name, membership, files, expected) in rows {
            assert_eq!(group(membership, files), *expected, "{name}");
        }
    }
}
