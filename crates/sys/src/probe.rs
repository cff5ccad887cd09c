//! What this machine offers, found out once at the start.
//!
//! What must hold: probing changes nothing and needs no privilege; what cannot be found out is `None`, never a guess.
//! Refuses to know what follows from it: that is for whoever sizes things and for whoever gives advice.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use crate::arena::Arena;
use crate::device::cachestat_works;
use crate::limits::{Descriptors, descriptors, locked_memory};
use crate::operation::Operation;
use crate::queue::Queue;
use crate::uring::{Refused, Ring};
use crate::{tcp, thread};

pub use cgroup::Group;
pub use network::{Interface, Network, Softnet};
pub use privileges::Privileges;

mod cgroup;
mod network;
mod privileges;

/// The offer of a machine, or of the container around us.
#[derive(Debug)]
pub struct Machine {
    /// The release of the kernel, as `uname -r` says it.
    pub kernel: String,
    /// Whether a ring can be made, and if not, why.
    pub io_uring: Result<(), Refused>,
    /// Whether a ring may register memory for reads, and if not, why.
    pub registered_memory: io::Result<()>,
    /// Bytes of memory that may be locked without privilege (`RLIMIT_MEMLOCK`); `None` is no limit.
    pub locked_memory_bytes: Option<u64>,
    /// Whether `cachestat(2)` answers.
    pub cachestat: bool,
    /// Whether the kernel can do TLS records.
    pub kernel_tls: bool,
    /// Whether pressure stall information can be read.
    pub pressure: bool,
    /// CPUs that this process may run on.
    pub cpus: usize,
    /// Limits of the control groups around us.
    pub group: Group,
    /// Memory that can be had without swapping (`MemAvailable`), of the whole machine.
    pub memory_available_bytes: Option<u64>,
    /// Limits on open descriptors.
    pub descriptors: Descriptors,
    /// The most that a listener's backlog can be (`net.core.somaxconn`).
    pub accept_backlog_max: Option<u64>,
    /// Half-open connections that a listener keeps (`net.ipv4.tcp_max_syn_backlog`).
    pub syn_backlog_max: Option<u64>,
    /// Pages of pipe memory that one user may have before pipes become small; 0 is no limit.
    pub pipe_pages_soft: Option<u64>,
    /// When transparent huge pages are used: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
}

impl Machine {
    /// Looks at everything.
    pub fn probe() -> Self {
        Self {
            kernel: word("/proc/sys/kernel/osrelease").unwrap_or_default(),
            io_uring: Ring::new(2).map(|_| ()),
            registered_memory: register_memory(),
            locked_memory_bytes: locked_memory(),
            cachestat: cachestat_works(),
            kernel_tls: tcp::kernel_tls(),
            pressure: File::open("/proc/pressure/cpu").is_ok(),
            cpus: thread::usable_cpus().map_or(1, |cpus| cpus.len()),
            group: Group::around_us(Path::new("/")),
            memory_available_bytes: text("/proc/meminfo").and_then(|info| memory_available(&info)),
            descriptors: descriptors(),
            accept_backlog_max: number("/proc/sys/net/core/somaxconn"),
            syn_backlog_max: number("/proc/sys/net/ipv4/tcp_max_syn_backlog"),
            pipe_pages_soft: number("/proc/sys/fs/pipe-user-pages-soft"),
            huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|line| chosen(&line)),
        }
    }

    /// Threads that can run at the same time: the CPUs, or fewer where a quota is smaller. At least 1.
    pub fn threads(&self) -> usize {
        let quota = self.group.cpus.map_or(usize::MAX, |cpus| cpus.ceil() as usize);
        self.cpus.min(quota).max(1)
    }

    /// Memory that we may count on: what is available, or less where a control group says so.
    pub fn memory_bytes(&self) -> Option<u64> {
        [self.memory_available_bytes, self.group.memory_bytes].into_iter().flatten().min()
    }
}

/// One line per fact, as `name: words`.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let io_uring = self.io_uring.as_ref().map_or_else(ToString::to_string, |()| "yes".into());
        let group_cpus = self.group.cpus.map_or("no quota".into(), |cpus| format!("quota {cpus:.2}"));
        let Descriptors { soft, hard } = self.descriptors;
        writeln!(f, "kernel: {}", self.kernel)?;
        writeln!(f, "io_uring: {io_uring}")?;
        writeln!(f, "registered memory for reads: {}", registered(&self.registered_memory))?;
        writeln!(f, "memory that may be locked: {}", mib(self.locked_memory_bytes, "unlimited"))?;
        writeln!(f, "cachestat: {}", yes(self.cachestat))?;
        writeln!(f, "kernel TLS: {}", yes(self.kernel_tls))?;
        writeln!(f, "pressure information: {}", yes(self.pressure))?;
        writeln!(f, "cpus: {}, {group_cpus}", self.cpus)?;
        writeln!(f, "memory available: {}", mib(self.memory_available_bytes, "unknown"))?;
        writeln!(f, "memory limit of the control group: {}", mib(self.group.memory_bytes, "none"))?;
        writeln!(
            f,
            "open files: {}, can be raised to {}",
            count(soft, "unlimited"),
            count(hard, "unlimited")
        )?;
        writeln!(f, "accept backlog: at most {}", count(self.accept_backlog_max, "unknown"))?;
        writeln!(f, "syn backlog: at most {}", count(self.syn_backlog_max, "unknown"))?;
        writeln!(f, "pipe pages of a user: {}", count(self.pipe_pages_soft, "unknown"))?;
        write!(f, "transparent huge pages: {}", self.huge_pages.as_deref().unwrap_or("unknown"))
    }
}

/// Registers one large page with a ring of its own, as the first read into it does.
fn register_memory() -> io::Result<()> {
    let arena = Arena::new(1)?;
    let mut ring = Ring::with_arena(2, &arena).map_err(io::Error::other)?;
    let into = arena.try_take(1).map_err(io::Error::other)?.split().0;
    let read = Operation::Read { file: Arc::new(File::open("/dev/zero")?), offset: 0, len: 1, into };
    ring.push(read).map_err(|refused| io::Error::other(refused.why))?;
    ring.unregistered().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
}

fn registered(outcome: &io::Result<()>) -> String {
    match outcome {
        Ok(()) => "yes".into(),
        Err(error) => format!("no, reads go without it: {error}"),
    }
}

fn yes(offered: bool) -> &'static str {
    if offered { "yes" } else { "no" }
}

fn count(number: Option<u64>, otherwise: &str) -> String {
    number.map_or_else(|| otherwise.into(), |number| number.to_string())
}

fn mib(bytes: Option<u64>, otherwise: &str) -> String {
    bytes.map_or_else(|| otherwise.into(), |bytes| format!("{} MiB", bytes >> 20))
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn word(path: impl AsRef<Path>) -> Option<String> {
    Some(text(path)?.split_whitespace().next()?.to_owned())
}

fn number<N: FromStr>(path: impl AsRef<Path>) -> Option<N> {
    word(path)?.parse().ok()
}

/// `MemAvailable:   123456 kB` among the lines of `/proc/meminfo`, in bytes.
fn memory_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The word in brackets: `always [madvise] never`.
fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_real_machine_has_facts() {
        let machine = Machine::probe();
        println!("{machine}");
        assert!(machine.kernel.starts_with(|first: char| first.is_ascii_digit()));
        assert!(std::thread::available_parallelism().unwrap().get() <= machine.cpus);
        assert!((1..=machine.cpus).contains(&machine.threads()));
        assert!(machine.memory_bytes().unwrap() > 1 << 20);
        assert_eq!(machine.to_string().lines().count(), 15);
    }

    #[test]
    fn lines_of_the_kernel_are_read_and_nonsense_is_none() {
        let meminfo = "MemTotal:  8 kB\nMemFree: 5 kB\nMemAvailable:    7 kB\n";
        assert_eq!(memory_available(meminfo), Some(7168));
        for nonsense in ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 18446744073709551615 kB"] {
            assert_eq!(memory_available(nonsense), None, "{nonsense}");
        }
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen("always madvise"), None);
    }

    #[test]
    fn the_smaller_limit_counts() {
        let mut machine = Machine::probe();
        (machine.cpus, machine.memory_available_bytes) = (8, Some(1000));
        for (cpus, memory_bytes, threads, bytes) in
            [(None, None, 8, 1000), (Some(2.5), Some(500), 3, 500), (Some(0.1), Some(5000), 1, 1000)]
        {
            machine.group = Group { cpus, memory_bytes };
            assert_eq!((machine.threads(), machine.memory_bytes()), (threads, Some(bytes)));
        }
    }
}
