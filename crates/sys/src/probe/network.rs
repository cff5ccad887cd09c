//! The receive side of the machine: queues, counters of what they lost, and which CPUs take what the interfaces bring.
//!
//! What must hold: everything is read from `/proc` and `/sys`, nothing is changed; what cannot be read, or cannot be told
//! for sure, is `None`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{number, text, word};

/// What was found about the receive side; each `None` could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The most that a listener's backlog can be (`net.core.somaxconn`).
    pub somaxconn: Option<u64>,
    /// Half-open connections of a listener before cookies are used (`net.ipv4.tcp_max_syn_backlog`).
    pub syn_backlog: Option<u64>,
    /// 0: never, 1: when the SYN queue is full, 2: always (`net.ipv4.tcp_syncookies`).
    pub syn_cookies: Option<u64>,
    /// Whether a full accept queue resets its clients instead of letting them try again (`net.ipv4.tcp_abort_on_overflow`).
    pub abort_on_overflow: Option<u64>,
    /// Connections since the boot for which an accept queue had no room (`ListenOverflows`), of all programs.
    pub listen_overflows: Option<u64>,
    /// SYNs and connections since the boot that a listener dropped for any reason (`ListenDrops`), of all programs.
    pub listen_drops: Option<u64>,
    /// Packets that wait for a CPU at most (`net.core.netdev_max_backlog`).
    pub packet_backlog: Option<u64>,
    /// Packets that one round of the receive interrupt takes at most (`net.core.netdev_budget`).
    pub packet_budget: Option<u64>,
    /// Microseconds that such a round takes at most (`net.core.netdev_budget_usecs`).
    pub packet_budget_us: Option<u64>,
    /// What the CPUs had no time for since the boot.
    pub softnet: Option<Softnet>,
    /// Bytes of a socket's send buffer: least, first, most (`net.ipv4.tcp_wmem`).
    pub send_buffer_bytes: Option<[u64; 3]>,
    /// The interfaces that are up, without the loopback.
    pub interfaces: Vec<Interface>,
}

/// What all CPUs together had no time for since the boot (`/proc/net/softnet_stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets taken.
    pub packets: u64,
    /// Packets dropped because the backlog was full.
    pub dropped: u64,
    /// Rounds that ended with packets left.
    pub squeezed: u64,
}

/// One interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its receive queues.
    pub receive_queues: usize,
    /// CPUs that take its receive interrupts; `None` for one without interrupts, or whose interrupts cannot be told apart.
    /// Queue: what there is a fixed number of.
    pub interrupt_cpus: Option<BTreeSet<u32>>,
    /// CPUs to which received packets are spread behind the interrupt (RPS), over all queues; empty is off.
    /// Queue: what there is a fixed number of.
    pub steered_cpus: Option<BTreeSet<u32>>,
    /// Whether its receive rounds run in threads that the scheduler knows.
    pub threaded: Option<bool>,
}

impl Network {
    /// Reads everything below `root`: `/`, or a copy of its files in a test.
    pub fn read(root: &Path) -> Self {
        let sys = root.join("proc/sys/net");
        let netstat = text(root.join("proc/net/netstat")).unwrap_or_default();
        Self {
            somaxconn: number(sys.join("core/somaxconn")),
            syn_backlog: number(sys.join("ipv4/tcp_max_syn_backlog")),
            syn_cookies: number(sys.join("ipv4/tcp_syncookies")),
            abort_on_overflow: number(sys.join("ipv4/tcp_abort_on_overflow")),
            listen_overflows: counter(&netstat, "ListenOverflows"),
            listen_drops: counter(&netstat, "ListenDrops"),
            packet_backlog: number(sys.join("core/netdev_max_backlog")),
            packet_budget: number(sys.join("core/netdev_budget")),
            packet_budget_us: number(sys.join("core/netdev_budget_usecs")),
            softnet: text(root.join("proc/net/softnet_stat")).and_then(|stat| softnet(&stat)),
            send_buffer_bytes: text(sys.join("ipv4/tcp_wmem")).and_then(|line| three(&line)),
            interfaces: interfaces(root),
        }
    }
}

/// The value of `name` in the `TcpExt` lines of `/proc/net/netstat`: a line of names, then one of values.
fn counter(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(at)?.parse().ok()
}

/// One line for each CPU, hexadecimal columns: packets, dropped, squeezed and others.
fn softnet(stat: &str) -> Option<Softnet> {
    let column = |line: &str, at| u64::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
    let lines = stat.lines().map(|line| {
        Some(Softnet { packets: column(line, 0)?, dropped: column(line, 1)?, squeezed: column(line, 2)? })
    });
    lines.reduce(|all, one| {
        let (all, one) = (all?, one?);
        Some(Softnet {
            packets: all.packets + one.packets,
            dropped: all.dropped + one.dropped,
            squeezed: all.squeezed + one.squeezed,
        })
    })?
}

fn three(line: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
    numbers?.try_into().ok()
}

fn interfaces(root: &Path) -> Vec<Interface> {
    let mut dirs = entries(&root.join("sys/class/net"));
    dirs.retain(|dir| is_up(dir) && !is_loopback(dir));
    dirs.iter().map(|dir| interface(root, dir)).collect()
}

/// `operstate` of an interface that cannot tell, such as a tunnel, is `unknown`.
fn is_up(dir: &Path) -> bool {
    matches!(word(dir.join("operstate")).as_deref(), Some("up" | "unknown"))
}

fn is_loopback(dir: &Path) -> bool {
    const LOOPBACK: u64 = 772; // ARPHRD_LOOPBACK
    number(dir.join("type")) == Some(LOOPBACK)
}

fn interface(root: &Path, dir: &Path) -> Interface {
    let mut queues = entries(&dir.join("queues"));
    queues.retain(|queue| name_of(queue).starts_with("rx-"));
    let masks: Option<Vec<_>> = queues.iter().map(|queue| mask(&text(queue.join("rps_cpus"))?)).collect();
    Interface {
        name: name_of(dir),
        receive_queues: queues.len(),
        interrupt_cpus: interrupt_cpus(root, dir),
        steered_cpus: masks.filter(|_| !queues.is_empty()).map(|masks| masks.into_iter().flatten().collect()),
        threaded: number::<u8>(dir.join("threaded")).map(|threaded| threaded != 0),
    }
}

/// CPUs of the message-signalled interrupts that are for receiving, by the names that drivers give them.
fn interrupt_cpus(root: &Path, dir: &Path) -> Option<BTreeSet<u32>> {
    // Of a virtio device the interrupts belong to the PCI device around it.
    let numbers = ["device/msi_irqs", "device/../msi_irqs"].map(|at| entries(&dir.join(at))).concat();
    let mut cpus = BTreeSet::new();
    for number in numbers {
        let irq = root.join("proc/irq").join(name_of(&number));
        if entries(&irq).iter().any(|entry| is_for_receiving(&name_of(entry))) {
            cpus.extend(list(&text(irq.join("effective_affinity_list"))?)?);
        }
    }
    Some(cpus).filter(|cpus| !cpus.is_empty())
}

fn is_for_receiving(interrupt: &str) -> bool {
    let name = interrupt.to_lowercase();
    ["input", "rx", "comp"].iter().any(|part| name.contains(part))
}

/// `00000000,0000000f`: hexadecimal words of 32 CPUs, the highest first.
fn mask(line: &str) -> Option<BTreeSet<u32>> {
    let words: Option<Vec<u32>> =
        line.trim().split(',').map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let bits =
        words?.into_iter().rev().zip(0_u32..).flat_map(|(word, at)| {
            (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 32 + bit)
        });
    Some(bits.collect())
}

/// `0-3,8`.
fn list(line: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in line.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse().ok()?..=last.parse::<u32>().ok()?.min(MOST_CPUS));
    }
    Some(cpus)
}

/// More than any kernel is built for.
const MOST_CPUS: u32 = 1 << 16;

/// What is in a directory, in the order of its names; nothing if it cannot be read.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::TempDir::new().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        root
    }

    fn cpus(of: &[u32]) -> BTreeSet<u32> {
        of.iter().copied().collect()
    }

    #[test]
    fn a_real_machine_can_be_read() {
        let network = Network::read(Path::new("/"));
        println!("{network:#?}");
        assert!(network.somaxconn.unwrap() > 0);
        assert!(network.softnet.is_some());
        assert!(network.listen_drops >= network.listen_overflows);
    }

    #[test]
    fn what_is_not_there_is_none() {
        assert_eq!(Network::read(machine(&[]).path()), Network::default());
    }

    #[test]
    fn what_is_there_is_read() {
        let root = machine(&[
            ("proc/sys/net/core/somaxconn", "4096\n"),
            ("proc/sys/net/ipv4/tcp_syncookies", "1\n"),
            ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
            (
                "proc/net/netstat",
                "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 7 9\nIpExt: X\nIpExt: 1\n",
            ),
            ("proc/net/softnet_stat", "0000000a 00000001 00000002 0\n00000010 00000000 000000ff 0\n"),
            ("sys/class/net/lo/operstate", "unknown\n"),
            ("sys/class/net/lo/type", "772\n"),
            ("sys/class/net/eth1/operstate", "down\n"),
            ("sys/class/net/eth0/operstate", "up\n"),
            ("sys/class/net/eth0/type", "1\n"),
            ("sys/class/net/eth0/threaded", "0\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000001,00000003\n"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00000000,00000004\n"),
            ("sys/class/net/eth0/queues/tx-0/xps_cpus", "f\n"),
            ("sys/class/net/eth0/device/msi_irqs/40", "msix"),
            ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
            ("sys/class/net/eth0/device/msi_irqs/42", "msix"),
            ("proc/irq/40/eth0-TxRx-0/x", ""),
            ("proc/irq/40/effective_affinity_list", "1\n"),
            ("proc/irq/41/eth0-TxRx-1/x", ""),
            ("proc/irq/41/effective_affinity_list", "2-3\n"),
            ("proc/irq/42/eth0-config/x", ""),
            ("proc/irq/42/effective_affinity_list", "7\n"),
        ]);
        let expected = Network {
            somaxconn: Some(4096),
            syn_cookies: Some(1),
            listen_overflows: Some(7),
            listen_drops: Some(9),
            softnet: Some(Softnet { packets: 26, dropped: 1, squeezed: 257 }),
            send_buffer_bytes: Some([4096, 16384, 4_194_304]),
            interfaces: vec![Interface {
                name: "eth0".into(),
                receive_queues: 2,
                interrupt_cpus: Some(cpus(&[1, 2, 3])),
                steered_cpus: Some(cpus(&[0, 1, 2, 32])),
                threaded: Some(false),
            }],
            ..Network::default()
        };
        assert_eq!(Network::read(root.path()), expected);
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(counter("TcpExt: A B\nTcpExt: 1", "B"), None);
        assert_eq!(counter("TcpExt: A\nTcpExt: x", "A"), None);
        assert_eq!(softnet(""), None);
        assert_eq!(softnet("1 2 3\n1 2"), None);
        assert_eq!(three("1 2"), None);
        assert_eq!(mask("1,x"), None);
        assert_eq!(list("1-x"), None);
        assert_eq!(list("\n"), Some(cpus(&[])));
    }
}
