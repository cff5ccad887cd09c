//! Bodies that do not end where they said: never a second response, never a complete-looking short one, never kept.

use testkit::{Ask, Client, Script, Tidegate, Upstream};

const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nCache-Control: max-age=3600\r\n\r\npoison";

fn asked(origin: &Script, tidegate: &Tidegate, ask: Ask) -> (Client, Upstream) {
    let mut client = tidegate.client();
    client.send(ask.bytes());
    let mut upstream = origin.accept();
    upstream.request();
    (client, upstream)
}

/// The next request must go to a connection that the poison is not on.
#[track_caller]
fn expect_fresh_connection(origin: &Script, client: &mut Client) {
    client.send(Ask::get("/next").bytes());
    let mut upstream = origin.accept();
    assert_eq!(upstream.request().head.target(), "/next");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
    client.response().expect(200).with_body("good");
}

#[test]
fn bytes_after_a_counted_body_are_not_the_next_response() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi{POISON}"));
    client.response().expect(200).with_body("hi");
    expect_fresh_connection(&origin, &mut client);
}

#[test]
fn bytes_after_the_last_chunk_are_not_the_next_response() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream
        .send(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n{POISON}"));
    client.response().expect(200).with_body("hi");
    expect_fresh_connection(&origin, &mut client);
}

#[test]
fn bytes_after_a_response_without_body_are_not_the_next_response() {
    for (ask, head, status) in [
        (Ask::head("/"), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 200),
        (Ask::get("/"), "HTTP/1.1 204 No Content\r\n\r\n", 204),
        (
            Ask::get("/").field("If-None-Match", "\"a\""),
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
            304,
        ),
    ] {
        let origin = Script::new();
        let tidegate = Tidegate::reverse(&origin).workers(1).start();
        let (mut client, mut upstream) = asked(&origin, &tidegate, ask);
        upstream.send(format!("{head}{POISON}"));
        let method = if status == 200 { "HEAD" } else { "GET" };
        client.response_to(method).expect(status);
        expect_fresh_connection(&origin, &mut client);
    }
}

#[test]
fn a_response_that_nobody_asked_for_is_not_used() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    client.response().expect(200).with_body("hi");
    upstream.send(POISON);
    expect_fresh_connection(&origin, &mut client);
}

/// A cacheable response that ends early: the client notices, and the next one is asked for anew. Gives what came.
#[track_caller]
fn expect_broken_and_not_kept(response: &str) -> Vec<u8> {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send(response);
    upstream.close();
    let came = match client.try_head() {
        Ok(head) if head.status() == 200 => client.broken_body(&head),
        Ok(head) => {
            assert_eq!(head.status(), 502);
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
    client.response().expect(200).with_body("good").cache("fwd=uri-miss");
    came
}

#[test]
fn a_counted_body_that_is_too_short() {
    let came = expect_broken_and_not_kept(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nshort",
    );
    assert!(b"short".starts_with(&came));
}

#[test]
fn a_large_counted_body_that_is_too_short() {
    let body = "x".repeat(3_000_000);
    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3000001\r\n\r\n";
    let came = expect_broken_and_not_kept(&format!("{head}{body}"));
    assert_eq!(came.len(), body.len(), "what came before the end is delivered");
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn chunks_without_an_end() {
    for tail in ["", "5\r\nhe", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nX: y\r\n"] {
        expect_broken_and_not_kept(&format!("{CHUNKED}{tail}"));
    }
}

#[test]
fn chunks_with_a_broken_size() {
    for chunk in ["-1", "0x5", "5 ", "g", "", "fffffffffffffffff", "5;a\nb"] {
        expect_broken_and_not_kept(&format!("{CHUNKED}5\r\nhello\r\n{chunk}\r\nhello\r\n0\r\n\r\n"));
    }
}

#[test]
fn what_came_before_broken_framing_is_delivered() {
    for control in ["max-age=60", "no-store"] {
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let came = expect_broken_and_not_kept(&format!("{head}5\r\nhello\r\nnonsense\r\n"));
        assert_eq!(came, b"hello", "{control}");
    }
}

#[test]
fn chunks_with_broken_line_ends() {
    for body in
        ["5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhelloo\r\n0\r\n\r\n", "5\r\nhello\r\n0\n\n"]
    {
        expect_broken_and_not_kept(&format!("{CHUNKED}{body}"));
    }
}

#[test]
fn a_body_until_close_that_is_reset() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\r\nhalf a");
    let head = client.head();
    client.exactly(if head.has("transfer-encoding") { 1 } else { 6 });
    upstream.reset();
    let _ = client.rest();
    let (mut client, mut upstream) = asked(&origin, &tidegate, Ask::get("/"));
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
    client.response().expect(200).with_body("good");
}

/// Where only the end of the connection ends a body, a broken one must not end like a whole one.
#[test]
fn to_a_client_without_framing_a_broken_body_is_a_reset() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(format!("{CHUNKED}5\r\nhello\r\n"));
    let head = client.head();
    assert!(!head.has("content-length") && !head.has("transfer-encoding"), "{head:?}");
    client.exactly(5);
    upstream.close();
    client.broken_body(&head);
}
