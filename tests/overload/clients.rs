//! Nobody takes everything.

use std::net::IpAddr;

use testkit::{Ask, Client, Origin, Reply, Tidegate, eventually};

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
