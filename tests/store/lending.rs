//! Bytes lent to a socket stay what they were: a segment may be purged, reclaimed and written anew while slow clients
//! still have its pages in their send queues, or have bytes of it yet to come.

use testkit::{Ask, Client, Origin, Tidegate};

use crate::{get_all, right_until_broken, sized_origin, targets};

const OBJECT_BYTES: u64 = 6_000_000;

/// Clients that have asked for the stored objects, have seen the heads, and do not read on.
fn sleepers(tidegate: &Tidegate, objects: &[String]) -> Vec<Client> {
    let sleeper = |target: &String| {
        let mut client = tidegate.client();
        client.small_receive_buffer();
        client.send(Ask::get(target).bytes());
        assert_eq!(client.head().status(), 200);
        client
    };
    objects.iter().map(sleeper).collect()
}

/// Six times what the store holds, none of it the sleepers'.
fn churn(tidegate: &Tidegate) {
    let other: Vec<String> = targets(110, 5_000_000).iter().map(|target| format!("/other{target}")).collect();
    get_all(tidegate, &other);
}

#[track_caller]
fn expect_no_wrong_byte(clients: Vec<Client>, objects: &[String]) {
    for (mut client, target) in clients.into_iter().zip(objects) {
        right_until_broken(&mut client, target);
    }
}

fn holding(toml: &str) -> (Origin, Tidegate, Vec<String>) {
    let (origin, objects) = (sized_origin(), targets(6, OBJECT_BYTES));
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").store("96MiB").toml(toml).start();
    get_all(&tidegate, &objects);
    objects.iter().for_each(|target| drop(tidegate.warm(target)));
    (origin, tidegate, objects)
}

#[test]
fn slow_clients_while_the_log_goes_round() {
    let (_origin, tidegate, objects) = holding("");
    let clients = sleepers(&tidegate, &objects);
    churn(&tidegate);
    expect_no_wrong_byte(clients, &objects);
}

#[test]
fn slow_clients_while_the_log_goes_round_with_direct_reads() {
    let (_origin, tidegate, objects) = holding("[store]\nio = \"direct\"");
    let clients = sleepers(&tidegate, &objects);
    churn(&tidegate);
    expect_no_wrong_byte(clients, &objects);
}

#[test]
fn slow_clients_while_their_objects_are_purged_and_overwritten() {
    let (_origin, tidegate, objects) = holding("");
    let clients = sleepers(&tidegate, &objects);
    for target in &objects {
        tidegate.purge(&format!("http://www.example.com{target}"));
    }
    churn(&tidegate);
    expect_no_wrong_byte(clients, &objects);
}

#[test]
fn readers_that_keep_pace_while_the_log_goes_round() {
    let (_origin, tidegate, objects) = holding("");
    std::thread::scope(|scope| {
        for target in &objects {
            let tidegate = &tidegate;
            scope.spawn(move || {
                for _ in 0..15 {
                    crate::get(tidegate, target);
                }
            });
        }
        churn(&tidegate);
    });
}
