//! Many connections that do nothing.

use testkit::{
    Client, Origin, Reply, Tidegate, descriptors, eventually, proportional_set_kib, raise_descriptor_limit,
};

const CONNECTIONS: usize = 5000;

#[test]
fn five_thousand_idle_connections() {
    // Both ends of each connection are on this machine, in two processes.
    let limit = raise_descriptor_limit();
    if limit < 6000 {
        return testkit::not_run(
            "hostile::idle::five_thousand_idle_connections",
            &format!("only {limit} descriptors"),
        );
    }
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    // The first hundred grow the pools that all later ones share.
    let mut idle: Vec<Client> = (0..100).map(|_| used(&tidegate)).collect();
    let before = proportional_set_kib(tidegate.pid());
    idle.extend((0..CONNECTIONS).map(|_| used(&tidegate)));
    assert!(descriptors(tidegate.pid()) >= CONNECTIONS);
    let grown = proportional_set_kib(tidegate.pid()).saturating_sub(before);
    let bytes_each = grown * 1024 / CONNECTIONS as u64;
    assert!(bytes_each <= 4096, "{bytes_each} bytes for each idle connection");

    // All of them are alive, and newcomers are served.
    tidegate.get("/").expect(200).cache("hit");
    for client in idle.iter_mut().step_by(50) {
        client.get("/").expect(200).cache("hit");
    }
    drop(idle);
    eventually("descriptors are given back", || (descriptors(tidegate.pid()) < 300).then_some(()));
}

/// A connection that has served a request and rests.
fn used(tidegate: &Tidegate) -> Client {
    let mut client = tidegate.client();
    client.get("/").expect(200);
    client
}
