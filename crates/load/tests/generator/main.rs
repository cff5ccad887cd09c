//! Both clients against a small server in this process that does what it is told: every fate, open loop, all of a run.
//!
//! The client in user space needs root, for a pair of virtual interfaces and packet sockets; otherwise it says NOT RUN.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step is a failed test")]

mod server;
mod veth;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use load::model::fit::Shedding;
use load::outcome::{Fate, Outcome, Tally};
use load::overload::By;
use load::overload::measure::{self, Event, Failure, Options, Rate};
use load::packet::{Packets, Refused, Setup};
use load::plan::{Plan, Step};
use load::reply::request;
use load::socket::Sockets;

use server::{Does, Server};
use veth::Veth;

/// Long enough for a busy machine, short enough to wait for those that are never answered.
const TIMEOUT: Duration = Duration::from_secs(4);

fn burst(count: u64) -> Plan {
    Plan { steps: vec![Step::Burst(count)], timeout: TIMEOUT, flooder_share: None }
}

/// Ten of each kind.
fn one_in_five(connection: usize) -> Does {
    [Does::Answers, Does::Sheds, Does::Resets, Does::BreaksOff, Does::Nothing][connection % 5]
}

fn assert_ten_of_each(outcomes: &[Outcome]) {
    let tally = Tally::of(outcomes);
    assert_eq!((tally.asked, tally.started, tally.established), (50, 50, 50), "{tally:?}");
    assert_eq!((tally.good, tally.shed, tally.failed, tally.late), (10, 10, 20, 10), "{tally:?}");
    assert!(tally.latency_ms.p50 > 0.0 && tally.latency_ms.max < TIMEOUT.as_secs_f64() * 1e3, "{tally:?}");
}

fn sockets(server: &Server) -> Sockets {
    Sockets::open(server.address, request("test", "/x", false)).unwrap()
}

#[test]
fn ordinary_sockets_tell_every_fate() {
    let server = Server::start(Ipv4Addr::LOCALHOST, one_in_five);
    let outcomes = sockets(&server).run(&burst(50), &mut |_| {}).unwrap();
    assert_ten_of_each(&outcomes.all);
}

#[test]
fn loopback_clients_have_addresses_of_their_own() {
    let server = Server::start(Ipv4Addr::LOCALHOST, |_| Does::Answers);
    let mut client = sockets(&server);
    let outcomes = client.run(&burst(60), &mut |_| {}).unwrap();
    assert_eq!(Tally::of(&outcomes.all).good, 60);
    assert_eq!((client.sources(), server.clients().len()), (6, 6));
}

/// A server that stops for a second, once, delays all who came meanwhile. Who measures only those who were under way sees
/// one slow reply.
#[test]
fn a_stall_is_seen_in_all_who_came_meanwhile() {
    let server = Server::start(Ipv4Addr::LOCALHOST, |connection| match connection {
        100 => Does::StallsFor(Duration::from_secs(1)),
        _ => Does::Answers,
    });
    let plan = Plan::steady(200.0, 2.0, TIMEOUT);
    let outcomes = sockets(&server).run(&plan, &mut |_| {}).unwrap();
    let tally = Tally::of(&outcomes.all);
    assert_eq!(tally.asked, 400);
    assert!(tally.latency_ms.p99 > 500.0, "{tally:?}");
    // 100 started in the first half of the stall, fewer where this machine has no time for the generator.
    let slow =
        outcomes.all.iter().filter(|outcome| outcome.fate == Fate::Good && outcome.latency_ns > 400_000_000);
    assert!(slow.count() > 20, "{tally:?}");
}

#[test]
fn what_is_not_there_is_said() {
    let nobody = Server::start(Ipv4Addr::LOCALHOST, |_| Does::Answers).address;
    let outcomes =
        Sockets::open(nobody, request("test", "/", false)).unwrap().run(&burst(3), &mut |_| {}).unwrap();
    assert_eq!(Tally::of(&outcomes.all).failed, 3);
    let failure = measure::run(&options(nobody), &mut |_| {}).unwrap_err();
    assert!(
        matches!(failure, Failure::NoReply { .. }) && failure.to_string().contains("refused"),
        "{failure}"
    );
    let v6 = Options { interface: Some("lo".into()), target: "[::1]:80".parse().unwrap(), ..options(nobody) };
    assert!(matches!(measure::run(&v6, &mut |_| {}), Err(Failure::NotIpv4(_))));
}

fn options(target: SocketAddr) -> Options {
    Options {
        server: "test".into(),
        shedding: Shedding::None,
        backlog: 128,
        target,
        path: "/x".into(),
        interface: None,
        clients: Vec::new(),
        server_mac: None,
        rates: vec![Rate::PerSecond(100.0)],
        seconds: 0.5,
        timeout: TIMEOUT,
        recovery: true,
        burst: 20,
        flooder_share: Some(0.5),
    }
}

#[test]
fn a_run_has_all_its_parts() {
    let server = Server::start(Ipv4Addr::LOCALHOST, |_| Does::Answers);
    let mut begun = Vec::new();
    let mut told = 0;
    let run = measure::run(&options(server.address), &mut |event| match event {
        Event::Begins(what, _) => begun.push(what.to_owned()),
        Event::Cell(_) => told += 1,
        Event::NoBystander(why) => panic!("{why}"),
        Event::At(_) => {}
    })
    .unwrap();
    assert_eq!((run.by, run.sources, run.cells.len(), told), (By::Sockets, 6, 1, 1));
    assert_eq!(begun, ["100/s", "after a flood", "burst", "one floods"]);
    let cell = &run.cells[0];
    assert_eq!((cell.tally.asked, cell.tally.good), (50, cell.tally.started), "{cell:?}");
    assert!(cell.bystander.unwrap().answered > 0 && run.peak_per_s > 0.0);
    assert_eq!(run.burst.unwrap().good, 20);
    assert_eq!(run.recovery.unwrap().full_service_ms, Some(0));
    let fairness = run.fairness.unwrap();
    assert_eq!((fairness.flooder.asked, fairness.others.asked), (25, 25));
}

/// A client on one end of a pair of interfaces, a server on the other.
fn packets(veth: &Veth, server: &Server) -> Packets {
    let SocketAddr::V4(address) = server.address else { panic!("IPv4") };
    let setup =
        Setup { server: address, interface: veth.client_end(), clients: veth.clients(3), server_mac: None };
    Packets::open(&setup, request("test", "/x", false)).unwrap()
}

#[test]
fn a_client_in_user_space_tells_every_fate() {
    let Some(veth) = Veth::new("a_client_in_user_space_tells_every_fate", 1) else { return };
    let server = Server::start(veth.server(), one_in_five);
    let mut client = packets(&veth, &server);
    let outcomes = client.run(&burst(50), &mut |_| {}).unwrap();
    assert_ten_of_each(&outcomes.all);
    assert_eq!(outcomes.lost_frames, 0);
    assert_eq!(server.clients(), veth.clients(3), "all addresses take turns");
}

#[test]
fn a_client_in_user_space_reads_long_replies_and_finds_no_one() {
    let Some(veth) = Veth::new("a_client_in_user_space_reads_long_replies_and_finds_no_one", 2) else {
        return;
    };
    let server = Server::start(veth.server(), |_| Does::AnswersAtLength(300_000));
    let outcomes = packets(&veth, &server).run(&burst(10), &mut |_| {}).unwrap();
    assert_eq!(Tally::of(&outcomes.all).good, 10);
    let setup = |interface: String, server: u8| Setup {
        server: SocketAddrV4::new(veth.host(server), 80),
        interface,
        clients: veth.clients(1),
        server_mac: None,
    };
    let nobody = Packets::open(&setup(veth.client_end(), 77), Vec::new()).unwrap_err();
    assert!(matches!(nobody, Refused::Unknown(_)), "{nobody}");
    let long = Packets::open(&setup(veth.client_end(), 1), vec![b'x'; 1461]).unwrap_err();
    assert!(matches!(long, Refused::RequestTooLong(1461)), "{long}");
    let nowhere = Packets::open(&setup("no-such-if".into(), 1), Vec::new()).unwrap_err();
    assert!(nowhere.to_string().contains("ip link"), "{nowhere}");
}
