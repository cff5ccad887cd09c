//! New connections that are dropped before a packet buffer is spent on them: by an XDP program on the interface that
//! brings them, fair by source. A pair of interfaces of its own for each case; needs root.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use testkit::{Builder, Network, Origin, Reply, Tidegate, eventually, have, not_run};

/// A port that nobody else has: the address is the test's own.
const PORT: u16 = 8080;

/// A network and an origin, or the word that this test was not run.
fn network(test: &str, number: u32) -> Option<(Network, Origin)> {
    Some((Network::of(test, number)?, Origin::answering(|_| Reply::fresh([b'x'; 1000]))))
}

fn listening_on(network: &Network, origin: &Origin) -> Builder {
    Tidegate::reverse(origin).workers(1).arg("--listen").arg(&to(network).to_string())
}

fn to(network: &Network) -> SocketAddr {
    SocketAddr::new(network.near(), PORT)
}

/// The line of the start about overload. It comes a moment after the server is ready.
fn said(tidegate: &Tidegate) -> String {
    let line = || tidegate.stdout().lines().find(|line| line.contains("overload ")).map(str::to_owned);
    eventually("the start is told", line)
}

/// Whether this kernel lets nobody attach an XDP program to such an interface. Then the test was not run.
fn refused(test: &str, tidegate: &Tidegate) -> bool {
    let said = said(tidegate);
    let is_refused = !said.contains("by XDP on");
    if is_refused {
        not_run(test, &said);
    }
    is_refused
}

#[test]
fn it_is_attached_to_the_interface_of_a_listener_and_gone_when_the_process_is_killed() {
    let Some((network, origin)) = network("xdp attach", 0) else { return };
    let mut tidegate = listening_on(&network, &origin).start();
    if refused("xdp attach", &tidegate) {
        return;
    }
    assert!(said(&tidegate).ends_with(&format!("by XDP on {}", network.interface())), "{}", said(&tidegate));
    assert!(network.details().contains("prog/xdp"), "{}", network.details());
    assert_eq!(tidegate.metrics().sum("tidegate_xdp_interfaces"), 1.0);

    // A second one takes nothing away from the first, and serves with its filters.
    let named = listening_on(&network, &origin).arg("--overload-xdp").arg(&network.interface());
    let second = named.start();
    assert!(said(&second).contains("another XDP program is attached"), "{}", said(&second));
    assert_eq!(second.metrics().sum("tidegate_xdp_interfaces"), 0.0);
    drop(second);
    assert!(network.details().contains("prog/xdp"), "{}", network.details());

    tidegate.kill();
    eventually("the program is gone", || (!network.details().contains("prog/xdp")).then_some(()));
}

#[test]
fn under_a_flood_a_seldom_source_gets_through_and_established_connections_feel_nothing() {
    let Some((network, origin)) = network("xdp flood", 1) else { return };
    let tidegate = listening_on(&network, &origin).start();
    if refused("xdp flood", &tidegate) {
        return;
    }
    let (to, seldom) = (to(&network), network.far(3));
    let patience = Duration::from_secs(20);
    let mut established =
        network.at_far_end(move || Network::connect(seldom, to, patience)).join().unwrap().unwrap();
    established.set_read_timeout(Some(patience)).unwrap();
    let floods = [network.flood(network.far(2), to), network.flood(network.far(2), to)];
    eventually("the program drops", || {
        (tidegate.metrics().sum("tidegate_xdp_dropped_total") > 100.0).then_some(())
    });

    // A SYN that is dropped is sent again after a second: what takes that long was dropped. Once in a window is less than
    // any level, even of a server that gets little of a busy processor.
    let got_through = network.at_far_end(move || {
        (0..30)
            .filter(|_| {
                std::thread::sleep(Duration::from_millis(70));
                Network::connect(seldom, to, Duration::from_millis(900)).is_ok()
            })
            .count()
    });
    for _ in 0..20 {
        established.write_all(b"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(&[b'x'; 1000]) {
            let mut piece = [0; 4096];
            let length = established.read(&mut piece).expect("an answer");
            assert!(length > 0, "closed after {}", String::from_utf8_lossy(&answer));
            answer.extend(&piece[..length]);
        }
    }
    let got_through = got_through.join().unwrap();
    let metrics = tidegate.metrics();
    drop(floods);
    let (by_xdp, syn) =
        (metrics.sum("tidegate_xdp_dropped_total"), metrics.get("tidegate_shed_total{stage=\"syn\"}"));
    assert!(by_xdp > 0.0 && syn >= by_xdp, "{by_xdp} of {syn}");
    println!("{got_through} of 30 got through");
    assert!(got_through >= 24, "{got_through} of 30 got through, {by_xdp} of {syn} dropped in front");
    eventually("it is over", || (tidegate.metrics().sum("tidegate_overloaded") == 0.0).then_some(()));
    let after = network.at_far_end(move || Network::connect(seldom, to, Duration::from_millis(900)).is_ok());
    assert!(after.join().unwrap());
}

#[test]
fn what_cannot_be_had_is_said_and_the_server_serves() {
    let Some((network, origin)) = network("xdp refused", 2) else { return };
    for (flag, words) in [
        ("off", "by a filter on each listener (overload.xdp is off)"),
        ("nosuch0", "by a filter on each listener; nosuch0: there is no such interface"),
        ("lo", "by a filter on each listener; lo: its driver runs no XDP programs as it is set up"),
    ] {
        let tidegate = listening_on(&network, &origin).arg("--overload-xdp").arg(flag).start();
        assert!(said(&tidegate).contains(words), "{flag}: {}", said(&tidegate));
        assert!(!network.details().contains("prog/xdp"), "{flag}");
        tidegate.get("/a").expect(200);
    }
    if !have("setpriv") {
        return not_run("xdp without privilege", "needs setpriv (util-linux)");
    }
    let without = ["setpriv", "--bounding-set", "-bpf,-net_admin,-sys_admin", "--inh-caps", "-all"];
    let tidegate = listening_on(&network, &origin).under(&without).start();
    assert!(said(&tidegate).contains("XDP: not permitted"), "{}", said(&tidegate));
    tidegate.get("/a").expect(200);
}
