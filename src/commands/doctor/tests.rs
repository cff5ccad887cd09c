#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io;

use sys::limits::Descriptors;
use sys::probe::{Group, Interface, Softnet};
use sys::uring::Refused;

use super::*;

fn settings() -> Settings {
    let environment = Environment { cpus: 2, ..Environment::of_process() };
    load(&Sources { file: None, flags: Vec::new() }, &environment).unwrap()
}

/// A machine with nothing to change.
fn good() -> Readings {
    Readings {
        machine: Machine {
            kernel: "6.18.0".into(),
            io_uring: Ok(()),
            registered_memory: Ok(()),
            locked_memory_bytes: None,
            cachestat: true,
            kernel_tls: true,
            pressure: true,
            cpus: 2,
            group: Group::default(),
            memory_available_bytes: Some(8 << 30),
            descriptors: Descriptors { soft: Some(1024), hard: Some(1 << 20) },
            accept_backlog_max: Some(4096),
            syn_backlog_max: Some(4096),
            pipe_pages_soft: Some(0),
            huge_pages: None,
        },
        network: Network {
            somaxconn: Some(4096),
            syn_backlog: Some(4096),
            syn_cookies: Some(1),
            abort_on_overflow: Some(0),
            listen_overflows: Some(0),
            listen_drops: Some(0),
            packet_backlog: Some(1000),
            packet_budget: Some(300),
            packet_budget_us: Some(8000),
            softnet: Some(Softnet { packets: 1_000_000, dropped: 0, squeezed: 0 }),
            send_buffer_bytes: None,
            interfaces: vec![interface(2, Some(&[0, 1]), &[])],
        },
        privileges: Some(Privileges { net_admin: true, bpf: true, resources: true }),
        devices: vec![("/dev/nvme0n1".into(), Ok(DirectReads::Offered))],
    }
}

fn cpus(of: &[u32]) -> BTreeSet<u32> {
    of.iter().copied().collect()
}

fn interface(receive_queues: usize, interrupts: Option<&[u32]>, steered: &[u32]) -> Interface {
    Interface {
        name: "eth0".into(),
        receive_queues,
        interrupt_cpus: interrupts.map(cpus),
        steered_cpus: Some(cpus(steered)),
        threaded: Some(true),
    }
}

/// The one finding that is not fine, where all others are.
#[track_caller]
fn odd_one(change: impl FnOnce(&mut Readings)) -> Finding {
    let mut readings = good();
    change(&mut readings);
    let mut odd = examine(&readings, &settings());
    odd.retain(|finding| finding.verdict != Verdict::Fine);
    assert_eq!(odd.len(), 1, "{odd:#?}");
    odd.remove(0)
}

#[test]
fn nothing_is_to_be_changed_on_a_good_machine() {
    let findings = examine(&good(), &settings());
    assert!(findings.iter().all(|finding| finding.verdict == Verdict::Fine), "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.advice.is_none()));
}

type Case = (&'static str, fn(&mut Readings), Verdict, &'static str, Option<&'static str>);

/// What is read, what is said of it, and a part of the words and of the command.
const CASES: &[Case] = &[
    ("fewer CPUs than workers", |r| r.machine.cpus = 1, Verdict::Change, "workers", Some("--workers 1")),
    ("more CPUs than workers", |r| r.machine.cpus = 8, Verdict::Note, "other CPUs", None),
    (
        "little memory",
        |r| r.machine.memory_available_bytes = Some(400 << 20),
        Verdict::Change,
        "memory.size",
        None,
    ),
    ("memory unread", |r| r.machine.memory_available_bytes = None, Verdict::Unknown, "", None),
    (
        "few files",
        |r| r.machine.descriptors.hard = Some(20_000),
        Verdict::Change,
        "65536",
        Some("LimitNOFILE"),
    ),
    (
        "unlimited files",
        |r| {
            r.machine.descriptors.hard = None;
            r.machine.cachestat = false
        },
        Verdict::Note,
        "6.5",
        None,
    ),
    (
        "ring forbidden",
        |r| r.machine.io_uring = Err(Refused::Forbidden),
        Verdict::Change,
        "seccomp",
        Some("io_uring_disabled=0"),
    ),
    ("ring missing", |r| r.machine.io_uring = Err(Refused::Missing), Verdict::Change, "kernel", None),
    (
        "ring without means",
        |r| r.machine.io_uring = Err(Refused::Resources),
        Verdict::Change,
        "LimitMEMLOCK",
        None,
    ),
    (
        "no locked memory",
        |r| r.machine.registered_memory = Err(io::ErrorKind::OutOfMemory.into()),
        Verdict::Change,
        "lock memory",
        Some("LimitMEMLOCK"),
    ),
    ("no TLS in the kernel", |r| r.machine.kernel_tls = false, Verdict::Note, "nothing", None),
    ("no pressure information", |r| r.machine.pressure = false, Verdict::Note, "psi=1", None),
    (
        "few pipe pages",
        |r| {
            r.machine.pipe_pages_soft = Some(16_384);
            r.privileges = Some(Privileges { resources: false, ..r.privileges.unwrap() })
        },
        Verdict::Change,
        "32768",
        Some("pipe-user-pages-soft=32768"),
    ),
    (
        "few pipe pages for the privileged",
        |r| {
            r.machine.pipe_pages_soft = Some(16_384);
            r.network.packet_budget = None
        },
        Verdict::Unknown,
        "",
        None,
    ),
    ("short backlog", |r| r.network.somaxconn = Some(128), Verdict::Change, "4096", Some("somaxconn=4096")),
    ("backlog unread", |r| r.network.somaxconn = None, Verdict::Unknown, "", None),
    (
        "short SYN queue",
        |r| r.network.syn_backlog = Some(512),
        Verdict::Change,
        "4096",
        Some("tcp_max_syn_backlog=4096"),
    ),
    (
        "no cookies",
        |r| r.network.syn_cookies = Some(0),
        Verdict::Change,
        "full SYN queue",
        Some("tcp_syncookies=1"),
    ),
    (
        "cookies for all",
        |r| r.network.syn_cookies = Some(2),
        Verdict::Change,
        "only",
        Some("tcp_syncookies=1"),
    ),
    (
        "resets",
        |r| r.network.abort_on_overflow = Some(1),
        Verdict::Change,
        "off",
        Some("tcp_abort_on_overflow=0"),
    ),
    ("lost connections", |r| r.network.listen_drops = Some(7), Verdict::Note, "watch", None),
    ("counters unread", |r| r.network.listen_overflows = None, Verdict::Unknown, "", None),
    (
        "dropped packets",
        |r| r.network.softnet = Some(Softnet { packets: 1000, dropped: 3, squeezed: 0 }),
        Verdict::Change,
        "5000",
        Some("netdev_max_backlog=5000"),
    ),
    (
        "squeezed rounds",
        |r| r.network.softnet = Some(Softnet { packets: 1000, dropped: 0, squeezed: 3 }),
        Verdict::Note,
        "netdev_budget",
        None,
    ),
    (
        "one queue",
        |r| r.network.interfaces = vec![interface(1, Some(&[1]), &[])],
        Verdict::Change,
        "combined 2",
        Some("echo 3 > /sys/class/net/eth0/queues/rx-0/rps_cpus"),
    ),
    (
        "one queue, two interrupts",
        |r| r.network.interfaces = vec![interface(1, Some(&[0, 1]), &[])],
        Verdict::Change,
        "combined 2",
        None,
    ),
    (
        "two queues on one CPU",
        |r| r.network.interfaces = vec![interface(2, Some(&[1]), &[])],
        Verdict::Change,
        "spread",
        Some("irqbalance"),
    ),
    (
        "steered to one CPU",
        |r| r.network.interfaces = vec![interface(1, Some(&[0, 1]), &[0])],
        Verdict::Change,
        "combined 2",
        None,
    ),
    (
        "interrupts unread",
        |r| r.network.interfaces = vec![interface(1, None, &[])],
        Verdict::Unknown,
        "",
        None,
    ),
    (
        "not threaded",
        |r| r.network.interfaces[0].threaded = Some(false),
        Verdict::Note,
        "load of your own",
        None,
    ),
    (
        "no privilege",
        |r| r.privileges = Some(Privileges { resources: true, ..Privileges::default() }),
        Verdict::Note,
        "CAP_BPF",
        None,
    ),
    ("privileges unread", |r| r.privileges = None, Verdict::Unknown, "", None),
    ("no direct I/O", |r| r.devices[0].1 = Ok(DirectReads::Refused), Verdict::Change, "raw device", None),
    ("no device yet", |r| r.devices[0].1 = Err(io::ErrorKind::NotFound.into()), Verdict::Unknown, "", None),
    (
        "device out of reach",
        |r| r.devices[0].1 = Err(io::ErrorKind::PermissionDenied.into()),
        Verdict::Unknown,
        "",
        None,
    ),
];

#[test]
fn each_thing_that_is_not_fine_is_told_with_what_to_do() {
    for (name, change, verdict, what, command) in CASES {
        let odd = odd_one(change);
        assert_eq!(odd.verdict, *verdict, "{name}: {odd:#?}");
        let advice = odd.advice.as_ref();
        assert_eq!(advice.is_some(), *verdict != Verdict::Unknown, "{name}: advice is for what was read");
        assert!(
            advice.is_none_or(|advice| advice.what.contains(what) && !advice.why.is_empty()),
            "{name}: {odd:#?}"
        );
        let said = advice.and_then(|advice| advice.command.as_deref());
        if let Some(command) = command {
            assert!(said.is_some_and(|said| said.contains(command)), "{name}: {odd:#?}");
        }
    }
}

#[test]
fn steering_and_single_cpus_need_no_advice() {
    for change in [
        (|r| r.network.interfaces = vec![interface(1, Some(&[1]), &[0, 1])]) as fn(&mut Readings),
        |r| r.network.interfaces = vec![interface(1, None, &[0, 1])],
        |r| r.network.interfaces = vec![interface(4, Some(&[0, 1, 2, 3]), &[])],
        |r| r.network.interfaces.clear(),
    ] {
        let mut readings = good();
        change(&mut readings);
        let findings = examine(&readings, &settings());
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Fine), "{findings:#?}");
    }
    assert_eq!(receive::spread(&interface(1, Some(&[0]), &[]), 1).verdict, Verdict::Fine);
}

#[test]
fn sets_of_cpus_are_written_as_the_kernel_reads_them() {
    for (cpus, mask) in [
        (1, "1"),
        (2, "3"),
        (12, "fff"),
        (32, "ffffffff"),
        (33, "1,ffffffff"),
        (64, "ffffffff,ffffffff"),
        (0, "0"),
    ] {
        assert_eq!(receive::mask_of(cpus), mask);
    }
}

#[test]
fn what_is_printed_names_all_of_it() {
    let mut readings = good();
    readings.network.somaxconn = Some(128);
    readings.network.syn_cookies = None;
    let findings = examine(&readings, &settings());
    let text = finding::as_text(&findings);
    assert!(text.contains("change   accept backlog (somaxconn): 128\n"), "{text}");
    assert!(text.contains("           sysctl -w net.core.somaxconn=4096\n"), "{text}");
    assert!(text.contains("unknown  SYN cookies (tcp_syncookies): cannot be read here\n"), "{text}");
    assert!(text.ends_with(&format!("\n1 to change, 1 unknown, of {}\n", findings.len())), "{text}");
    let json = finding::as_json(&findings);
    assert_eq!(json["fine"], false);
    assert_eq!(json["findings"].as_array().unwrap().len(), findings.len());
    let backlog = json["findings"].as_array().unwrap().iter().find(|f| f["verdict"] == "change").unwrap();
    assert_eq!(backlog["command"], "sysctl -w net.core.somaxconn=4096");
    assert_eq!(finding::as_json(&examine(&good(), &settings()))["fine"], true);
}
