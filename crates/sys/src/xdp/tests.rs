//! Frames by hand into the loaded program (`BPF_PROG_TEST_RUN`), which needs privilege and no network.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use super::*;

const PASS: bool = false;
const DROP: bool = true;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const RST: u8 = 0x04;
const FIN: u8 = 0x01;

const US: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 8080);
const US6: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)), 8080);

/// The program, guarding two targets for listener 3; nothing where this process may not have it.
fn gate() -> Option<SynGate> {
    match SynGate::load() {
        Ok(mut gate) => {
            gate.guard(&[(US, 3), (US6, 3)]).unwrap();
            Some(gate)
        }
        Err(Refused::NoPrivilege) => {
            println!("NOT RUN: XDP programs: {}", Refused::NoPrivilege);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl SynGate {
    /// Whether a frame that comes so many times is dropped, the last time.
    fn drops(&mut self, frame: &[u8], times: u32) -> bool {
        self.judge(frame, times).unwrap().dropped
    }

    /// How many of `times` enter.
    fn enter(&mut self, frame: &[u8], times: u32) -> u64 {
        let before = self.tally(3).unwrap();
        self.drops(frame, times);
        let after = self.tally(3).unwrap();
        assert_eq!(after.seen - before.seen, u64::from(times));
        u64::from(times) - (after.dropped - before.dropped)
    }
}

fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut tcp = vec![0; 20];
    tcp[2..4].copy_from_slice(&port.to_be_bytes());
    (tcp[12], tcp[13]) = (5 << 4, flags);
    tcp
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

fn ipv4(from: [u8; 4], to: Ipv4Addr, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0; 20];
    ip[0] = 4 << 4 | (header / 4) as u8;
    ip[2..4].copy_from_slice(&((header + payload.len()) as u16).to_be_bytes());
    ip[9] = 6;
    ip[12..16].copy_from_slice(&from);
    ip[16..20].copy_from_slice(&to.octets());
    [&ip, options, payload].concat()
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; 40];
    ip[0] = 6 << 4;
    ip[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    ip[6] = next;
    ip[8..24].copy_from_slice(&from.octets());
    ip[24..40].copy_from_slice(&to.octets());
    [&ip, payload].concat()
}

/// A SYN from 10.0.0.`host` to the IPv4 target.
fn syn_from(host: u8) -> Vec<u8> {
    ethernet(0x0800, &ipv4([10, 0, 0, host], Ipv4Addr::new(10, 0, 0, 1), &[], &tcp(8080, SYN)))
}

/// A SYN from a host of the network 2001:db8:`site`::/64 to the IPv6 target.
fn syn6_from(site: u16, host: u16) -> Vec<u8> {
    let from = Ipv6Addr::new(0x2001, 0xdb8, 0, site, 0, 0, 0, host);
    ethernet(0x86dd, &ipv6(from, Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1), 6, &tcp(8080, SYN)))
}

/// The least that may enter without being everything that is dropped: for this gate, nothing.
const NOTHING: Rule = Rule::Share(0.0);

fn changed(mut frame: Vec<u8>, at: usize, to: u8) -> Vec<u8> {
    frame[at] = to;
    frame
}

#[test]
fn only_frames_that_ask_for_a_new_connection_to_a_target_are_dropped() {
    let Some(mut gate) = gate() else { return };
    let (us, us6) = (Ipv4Addr::new(10, 0, 0, 1), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
    let them6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
    let v4 = |options: &[u8], payload: &[u8]| ethernet(0x0800, &ipv4([10, 0, 0, 9], us, options, payload));
    let v6 = |next, payload: &[u8]| ethernet(0x86dd, &ipv6(them6, us6, next, payload));
    let extension = |next: u8| vec![next, 0, 0, 0, 0, 0, 0, 0];
    let syn = tcp(8080, SYN);
    let tagged = |kind: u16| [&[2; 12][..], &kind.to_be_bytes(), &[0, 7], &v4(&[], &syn)[12..]].concat();
    let elsewhere = ethernet(0x0800, &ipv4([10, 0, 0, 9], Ipv4Addr::new(10, 0, 0, 2), &[], &syn));
    let elsewhere6 = ethernet(0x86dd, &ipv6(them6, them6, 6, &syn));
    let cases = [
        ("a SYN", v4(&[], &syn), DROP),
        ("with options of IP", v4(&[1; 40], &syn), DROP),
        ("over IPv6", v6(6, &syn), DROP),
        ("behind hop-by-hop options", v6(0, &[extension(6), syn.clone()].concat()), DROP),
        (
            "behind three headers",
            v6(0, &[extension(43), extension(60), extension(6), syn.clone()].concat()),
            DROP,
        ),
        ("with data and other flags", v4(&[], &[tcp(8080, SYN | 0xc0), vec![7; 900]].concat()), DROP),
        ("a SYN with ACK", v4(&[], &tcp(8080, SYN | ACK)), PASS),
        ("an ACK", v4(&[], &tcp(8080, ACK)), PASS),
        ("data", v4(&[], &[tcp(8080, ACK | 8), vec![7; 900]].concat()), PASS),
        ("the end", v4(&[], &tcp(8080, FIN | ACK)), PASS),
        ("a reset", v4(&[], &tcp(8080, RST)), PASS),
        ("no flag", v4(&[], &tcp(8080, 0)), PASS),
        ("an ACK over IPv6", v6(6, &tcp(8080, ACK)), PASS),
        ("another port", v4(&[], &tcp(8081, SYN)), PASS),
        ("another address", elsewhere, PASS),
        ("another address of IPv6", elsewhere6, PASS),
        ("UDP", changed(v4(&[], &syn), 14 + 9, 17), PASS),
        ("UDP over IPv6", v6(17, &syn), PASS),
        ("a fragment with more to come", changed(v4(&[], &syn), 14 + 6, 0x20), PASS),
        ("a later fragment", changed(v4(&[], &syn), 14 + 7, 1), PASS),
        ("that may not be fragmented", changed(v4(&[], &syn), 14 + 6, 0x40), DROP),
        ("a fragment of IPv6", v6(44, &[extension(6), syn.clone()].concat()), PASS),
        ("behind five headers", v6(0, &[extension(0).repeat(4), extension(6), syn.clone()].concat()), PASS),
        ("a header without end", v6(0, &changed([extension(6), syn.clone()].concat(), 1, 255)), PASS),
        ("a VLAN tag", tagged(0x8100), PASS),
        ("a tag of a provider", tagged(0x88a8), PASS),
        ("the wrong version", changed(v4(&[], &syn), 14, 0x65), PASS),
        ("the wrong version of six", changed(v6(6, &syn), 14, 0x40), PASS),
        ("a header of IP that is too short", changed(v4(&[], &syn), 14, 0x44), PASS),
        ("a header of TCP that is too short", changed(v4(&[], &syn), 14 + 20 + 12, 4 << 4), PASS),
        ("a length that ends in the header", changed(v4(&[], &syn), 14 + 3, 39), PASS),
        ("ARP", ethernet(0x0806, &[0; 46]), PASS),
        ("nonsense", vec![0xff; 200], PASS),
    ];
    for (what, frame, _) in &cases {
        assert_eq!(gate.drops(frame, 1), PASS, "{what}, while there is no rule");
    }
    gate.rule(3, NOTHING).unwrap();
    gate.rule(2, Rule::Open).unwrap();
    for (what, frame, verdict) in &cases {
        assert_eq!(gate.drops(frame, 1), *verdict, "{what}");
    }
    // Wherever a frame is cut it is passed; the program test takes none that is shorter than Ethernet.
    for frame in [v4(&[1; 8], &syn), v6(0, &[extension(6), syn.clone()].concat())] {
        for length in 14..frame.len() {
            assert_eq!(gate.drops(&frame[..length], 1), PASS, "{length} bytes");
        }
        assert_eq!(gate.drops(&frame, 1), DROP);
    }
}

#[test]
fn a_share_of_all_enters_and_everything_is_counted() {
    let Some(mut gate) = gate() else { return };
    for (rule, least, most) in [
        (Rule::Open, 1000, 1000),
        (NOTHING, 0, 0),
        // Ten standard deviations are 158.
        (Rule::Share(0.5), 342, 658),
        (Rule::Share(f64::NAN), 0, 0),
        (Rule::Share(7.0), 1000, 1000),
        (Rule::Open, 1000, 1000),
    ] {
        gate.rule(3, rule).unwrap();
        let entered = gate.enter(&syn_from(9), 1000);
        assert!((least..=most).contains(&entered), "{rule:?}: {entered}");
    }
    assert_eq!(gate.tally(2).unwrap(), Tally::default(), "nobody asked another listener");
    assert!(gate.rule(LISTENERS, Rule::Open).is_err());
    assert!(gate.tally(LISTENERS).is_err());
}

#[test]
fn a_source_is_cut_to_the_level_and_those_below_it_are_not_touched() {
    let Some(mut gate) = gate() else { return };
    // A busy machine may spread the rounds over many windows: a level that holds whatever the pace.
    gate.rule(3, Rule::Level(40.0)).unwrap();
    let (mut flooder, mut others, mut flooder6) = (0, 0, 0);
    for round in 0..20 {
        // Within any window each of these asks no more than twenty times.
        others += gate.enter(&syn_from(50), 1) + gate.enter(&syn6_from(50, round), 1);
        flooder += gate.enter(&syn_from(60), 1000);
        // The hosts of a /64 are one source.
        flooder6 += gate.enter(&syn6_from(60, round), 1000);
    }
    assert_eq!(others, 40, "all that asked seldom entered");
    // At least as many as the level; at most that for each time that the asking doubled, and for each window.
    for (who, entered) in [("IPv4", flooder), ("IPv6", flooder6)] {
        assert!((40..10_000).contains(&entered), "{who}: {entered} of 20000");
    }
}

#[test]
fn a_level_below_one_is_a_share_of_a_crowd_that_asks_once() {
    let Some(mut gate) = gate() else { return };
    gate.rule(3, Rule::Level(0.5)).unwrap();
    let entered: u64 = (1..=250).map(|host| gate.enter(&syn_from(host), 1)).sum();
    // Ten standard deviations are 79.
    assert!((46..=204).contains(&entered), "{entered} of 250");
    let tally = gate.tally(3).unwrap();
    assert_eq!(tally.crowd, 250, "each came alone");
}

#[test]
fn targets_come_and_go_and_have_a_bound() {
    let Some(mut gate) = gate() else { return };
    gate.rule(3, NOTHING).unwrap();
    gate.guard(&[(US6, 3)]).unwrap();
    assert_eq!((gate.drops(&syn_from(9), 1), gate.drops(&syn6_from(9, 9), 1)), (PASS, DROP));
    gate.guard(&[(US, 3)]).unwrap();
    assert_eq!((gate.drops(&syn_from(9), 1), gate.drops(&syn6_from(9, 9), 1)), (DROP, PASS));
    let ports = |count: u16| (0..count).map(|port| (SocketAddr::new(US.ip(), port), 3)).collect::<Vec<_>>();
    assert!(matches!(gate.guard(&ports(TARGETS as u16 + 1)), Err(Refused::TooMany)));
    assert!(matches!(gate.guard(&[(US, LISTENERS)]), Err(Refused::TooMany)));
    assert_eq!(gate.drops(&syn_from(9), 1), DROP, "a refusal changes nothing");
    gate.guard(&ports(TARGETS as u16)).unwrap();
    assert_eq!(gate.drops(&syn_from(9), 1), PASS);
}

#[test]
fn rules_are_words_that_the_program_reads() {
    for (rule, word) in [
        (Rule::Open, 0),
        (Rule::Share(0.0), 1),
        (Rule::Share(-1.0), 1),
        (Rule::Share(f64::NAN), 1),
        (Rule::Share(1.0), 1 << 32),
        (Rule::Share(9.0), 1 << 32),
        (Rule::Level(0.0), 1 << 63 | 1),
        (Rule::Level(0.5), 1 << 63 | 1 << 31),
        (Rule::Level(1e9), 1 << 63 | 1 << 57),
    ] {
        assert_eq!(rule.word(), word, "{rule:?}");
    }
}

#[test]
fn the_object_was_built_from_the_source_that_stands_beside_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(folder).output().unwrap()
    };
    let checked = run("sha256sum", &["--check", "--strict", "syn_gate.sha256"]);
    assert!(checked.status.success(), "run bpf/build.sh: {}", String::from_utf8_lossy(&checked.stdout));
    if !run("sh", &["-c", "command -v clang llvm-strip"]).status.success() {
        return println!("NOT RUN: building the XDP program: needs clang and llvm-strip");
    }
    let built = tempfile::NamedTempFile::new().unwrap();
    let path = built.path().to_str().unwrap();
    let outcome = run("./build.sh", &[path]);
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    // Each release of the compiler writes other instructions; only the same one must write the same.
    let compiler = run("clang", &["--version"]).stdout;
    let recorded = std::fs::read_to_string(format!("{folder}/syn_gate.sha256")).unwrap();
    if String::from_utf8_lossy(&compiler).lines().next()
        == recorded.lines().next().and_then(|l| l.strip_prefix("# "))
    {
        assert!(std::fs::read(built.path()).unwrap() == OBJECT, "the same compiler builds something else");
    }
}
