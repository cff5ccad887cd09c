//! Nobody takes everything.

use std::net::{IpAddr, SocketAddr};

use testkit::{Ask, Client, Network, Origin, Reply, Tidegate, eventually};

use crate::{CALM, overload, set};

/// Whether a connection is served, or was closed at once.
fn is_served(client: &mut Client) -> bool {
    let ask = Ask::get("/");
    let response = client.try_send(ask.bytes()).and_then(|()| client.try_response(&ask));
    response.is_ok_and(|response| response.status() == 200)
}

#[test]
fn a_client_that_takes_every_connection_leaves_some_for_others() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).toml("[limits]\nconnections = 90\n").start();
    let mut greedy: Vec<Client> = (0..120).map(|_| tidegate.client()).collect();
    let served = greedy.iter_mut().map(is_served).filter(|served| *served).count();
    // Eight times what is left: 80 of 90. Those that were turned away are not counted any more.
    assert_eq!(served, 80);
    assert_eq!(crate::shed(&tidegate, "accept"), 40.0);
    let other: IpAddr = [127, 0, 0, 2].into();
    let mut others: Vec<Client> = (0..5).map(|_| Client::connect_from(other, tidegate.address())).collect();
    assert!(others.iter_mut().all(is_served));
    drop(greedy);
    eventually("the connections have ended", || {
        (tidegate.metrics().sum("tidegate_connections") == 5.0).then_some(())
    });
    assert!(is_served(&mut tidegate.client()));
}

#[test]
fn the_addresses_of_one_ipv6_prefix_are_one_client() {
    const TEST: &str = "overload::clients::the_addresses_of_one_ipv6_prefix_are_one_client";
    let Some(network) = Network::of_ipv6(TEST, 6) else { return };
    let to = SocketAddr::new(network.near6(), 8080);
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin)
        .arg("--listen")
        .arg(&to.to_string())
        .toml("[limits]\nconnections = 90\n")
        .start();
    let greedy = [2, 3, 4].map(|host| network.far6(2, host));
    let other = network.far6(3, 2);
    let served = network.at_far_end(move || {
        let mut taken: Vec<Client> =
            greedy.into_iter().cycle().take(120).map(|from| Client::connect_from(from, to)).collect();
        let by_greedy = taken.iter_mut().map(is_served).filter(|served| *served).count();
        let mut others: Vec<Client> = (0..5).map(|_| Client::connect_from(other, to)).collect();
        (by_greedy, others.iter_mut().map(is_served).filter(|served| *served).count())
    });
    // As many as one address would have, all three together.
    assert_eq!(served.join().unwrap(), (80, 5));
    assert_eq!(crate::shed(&tidegate, "accept"), 40.0);
}

#[test]
fn a_burst_of_connections_loses_none() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let mut burst: Vec<Client> = (0..600).map(|_| tidegate.client()).collect();
    for client in &mut burst {
        client.send(Ask::get("/").bytes());
    }
    for client in &mut burst {
        client.response().expect(200).cache("hit");
    }
    assert_eq!(crate::shed(&tidegate, "accept"), 0.0);
}

/// Requests that one client has under way in a flood, each on a kept connection of its own.
const FLOOD: usize = 40;

/// Whether a miss is served on a kept connection.
fn is_miss_served(client: &mut Client, n: usize) -> bool {
    client.get(&format!("/miss/{n}")).expect_one_of(&[200, 503]).status() == 200
}

#[test]
fn who_floods_with_requests_is_refused_and_others_go_on_being_served() {
    let (_held, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let origin = Origin::answering(move |request| {
        if request.head.target().starts_with("/slow") {
            let _ended = gate.lock().unwrap().recv();
        }
        Reply::ok("x").field("Cache-Control", "no-store")
    });
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).start();
    let other: IpAddr = [127, 0, 0, 2].into();
    let (mut flooder, mut other) = (tidegate.client(), Client::connect_from(other, tidegate.address()));
    assert!(is_miss_served(&mut flooder, 0) && is_miss_served(&mut other, 0));
    let mut flood: Vec<Client> = (0..FLOOD).map(|_| tidegate.client()).collect();
    for (n, client) in flood.iter_mut().enumerate() {
        client.send(Ask::get(&format!("/slow/{n}")).bytes());
    }
    eventually("the flood is under way", || {
        (tidegate.metrics().sum("tidegate_requests_in_flight") >= FLOOD as f64).then_some(())
    });
    // At its height overload spares nobody; while it ends, a share of misses is refused, and it matters whose they are.
    let (mut n, mut only_flooder, mut only_other) = (0, 0, 0);
    for _ in 0..30 {
        if only_flooder >= 50 {
            break;
        }
        overload(&tidegate);
        set(&tidegate, CALM);
        eventually("both are served again", || {
            n += 1;
            // In turns: what changes between the two is as often to the good of the one as of the other.
            let served = match n % 2 {
                0 => [is_miss_served(&mut flooder, n), is_miss_served(&mut other, n)],
                _ => {
                    let other = is_miss_served(&mut other, n);
                    [is_miss_served(&mut flooder, n), other]
                }
            };
            only_flooder += u32::from(served == [false, true]);
            only_other += u32::from(served == [true, false]);
            (served == [true, true]).then_some(())
        });
    }
    assert!(
        only_flooder >= 50 && only_other * 4 < only_flooder,
        "{only_flooder} of the flooder's alone, {only_other} of the other's"
    );
}
