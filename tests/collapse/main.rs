//! The first request and later requests for the same object while it is on its way.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod failures;
mod followers;
mod purge;
mod waiters;

use testkit::{Ask, Client, Head, Script, Tidegate, Upstream};

const HALF: usize = 600_000;

/// A response of two halves that may be stored.
fn head_of_two_halves() -> String {
    format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {}\r\n\r\n", 2 * HALF)
}

/// A client that has asked for `/` and not read anything.
fn asking(tidegate: &Tidegate) -> Client {
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    client
}

/// The fill has begun: the leader has the head and the first half, the origin holds the second one back.
fn half_filled(origin: &Script, tidegate: &Tidegate) -> (Client, Upstream) {
    let mut leader = asking(tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(head_of_two_halves());
    upstream.send(testkit::Pattern(1).bytes(0, HALF));
    expect_first_half(&mut leader);
    (leader, upstream)
}

#[track_caller]
fn expect_first_half(client: &mut Client) -> Head {
    let head = client.head();
    assert_eq!(head.status(), 200, "{head:?}");
    testkit::Pattern(1).expect(client, 0, HALF as u64);
    head
}

fn send_second_half(upstream: &mut Upstream) {
    upstream.send(testkit::Pattern(1).bytes(HALF as u64, HALF));
}

#[track_caller]
fn expect_second_half(client: &mut Client) {
    testkit::Pattern(1).expect(client, HALF as u64, HALF as u64);
}
