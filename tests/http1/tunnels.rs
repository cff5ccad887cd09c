//! `Upgrade` and `CONNECT`: bytes both ways, each direction with its own end (RFC 9110 §7.8, §9.3.6).

use testkit::{Address, Client, Pattern, Script, Tidegate, Upstream, refused_address};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n";
const SWITCHING: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

fn upgraded(origin: &Script, tidegate: &Tidegate) -> (Client, Upstream) {
    let mut client = tidegate.client();
    client.send(UPGRADE);
    let mut upstream = origin.accept();
    let request = upstream.head();
    assert_eq!(request.field("upgrade").as_deref(), Some("websocket"));
    assert!(request.field("connection").is_some_and(|c| c.to_ascii_lowercase().contains("upgrade")));
    upstream.send(SWITCHING);
    let head = client.head();
    assert_eq!((head.status(), head.field("upgrade").as_deref()), (101, Some("websocket")));
    (client, upstream)
}

fn forward_to(origin: &Script) -> Tidegate {
    let ports = format!("[forward]\nconnect_ports = [{}]", origin.address().port());
    Tidegate::forward().toml(&ports).start()
}

fn connected(origin: &Script, tidegate: &Tidegate) -> (Client, Upstream) {
    let mut client = tidegate.client();
    let authority = origin.authority();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    let upstream = origin.accept();
    let head = client.head();
    assert_eq!(head.status(), 200);
    // RFC 9110 §9.3.6: no framing fields in a 2xx to CONNECT.
    assert!(!head.has("content-length") && !head.has("transfer-encoding"), "{head:?}");
    (client, upstream)
}

/// Says something both ways, then ends the directions one after the other.
fn converse(mut client: Client, mut upstream: Upstream) {
    client.send("ping");
    assert_eq!(upstream.exactly(4), b"ping");
    upstream.send("pong");
    assert_eq!(client.exactly(4), b"pong");
    client.half_close();
    upstream.expect_end();
    upstream.send("still talking");
    assert_eq!(client.exactly(13), b"still talking");
    upstream.close();
    client.expect_end();
}

#[test]
fn a_websocket_goes_both_ways_and_ends_in_halves() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (client, upstream) = upgraded(&origin, &tidegate);
    converse(client, upstream);
}

#[test]
fn bytes_that_come_with_the_heads_are_not_lost() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(UPGRADE);
    let mut upstream = origin.accept();
    upstream.head();
    upstream.send(format!("{SWITCHING}early"));
    assert_eq!(client.head().status(), 101);
    assert_eq!(client.exactly(5), b"early");
}

#[test]
fn an_origin_may_decline_to_switch() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(UPGRADE);
    let mut upstream = origin.accept();
    upstream.head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope");
    client.response().expect(200).with_body("nope");
}

#[test]
fn switching_that_nobody_asked_for_is_an_error() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let mut upstream = origin.accept();
    upstream.head();
    upstream.send(SWITCHING);
    client.response().expect(502);
}

#[test]
fn connect_goes_both_ways_and_ends_in_halves() {
    let origin = Script::new();
    let tidegate = forward_to(&origin);
    let (client, upstream) = connected(&origin, &tidegate);
    converse(client, upstream);
}

#[test]
fn connect_ends_in_halves_from_the_origin_too() {
    let origin = Script::new();
    let tidegate = forward_to(&origin);
    let (mut client, mut upstream) = connected(&origin, &tidegate);
    upstream.send("bye");
    upstream.half_close();
    assert_eq!(client.exactly(3), b"bye");
    client.expect_end();
    client.send("not yet");
    assert_eq!(upstream.exactly(7), b"not yet");
}

#[test]
fn a_tunnel_carries_megabytes_unchanged() {
    let origin = Script::new();
    let tidegate = forward_to(&origin);
    let (mut client, mut upstream) = connected(&origin, &tidegate);
    let mut sender = upstream.second_hand();
    let down = std::thread::spawn(move || sender.send(Pattern(1).bytes(0, 6 << 20)));
    let mut uploader = client.second_hand();
    let up = std::thread::spawn(move || uploader.send(Pattern(2).bytes(0, 6 << 20)));
    let echo = std::thread::spawn(move || Pattern(2).expect(&mut upstream, 0, 6 << 20));
    Pattern(1).expect(&mut client, 0, 6 << 20);
    for thread in [down, up, echo] {
        thread.join().unwrap();
    }
}

#[test]
fn connect_data_sent_with_the_request_is_not_lost() {
    let origin = Script::new();
    let tidegate = forward_to(&origin);
    let mut client = tidegate.client();
    let authority = origin.authority();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nhello there"));
    let mut upstream = origin.accept();
    assert_eq!(upstream.exactly(11), b"hello there");
}

#[test]
fn connect_to_a_port_not_allowed_is_refused() {
    let origin = Script::new();
    let tidegate = Tidegate::forward().start();
    let mut client = tidegate.client();
    let authority = origin.authority();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    client.response().expect(403);
    origin.expect_untouched();
}

#[test]
fn connect_where_nobody_listens_is_a_bad_gateway() {
    let (address, _guard) = refused_address();
    let ports = format!("[forward]\nconnect_ports = [{}]", address.port());
    let tidegate = Tidegate::forward().toml(&ports).start();
    let mut client = tidegate.client();
    client.send(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    client.response().expect(502);
}

#[test]
fn a_reverse_proxy_is_no_tunnel() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    let authority = origin.authority();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    let status = client.response().status();
    assert!((400..600).contains(&status), "{status}");
    origin.expect_untouched();
}

#[test]
fn connect_needs_a_port() {
    let tidegate = Tidegate::forward().start();
    let mut client = tidegate.client();
    client.send("CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.response().expect(400);
}

#[test]
fn a_reset_on_one_side_ends_the_other() {
    let origin = Script::new();
    let tidegate = forward_to(&origin);
    let (client, mut upstream) = connected(&origin, &tidegate);
    client.reset();
    upstream.expect_end();
}
