//! RFC 9112 §9: persistent connections, pipelining, HTTP/1.0 on either side.

use testkit::{Ask, Origin, Reply, Script, Tidegate};

#[test]
fn one_connection_carries_many_requests() {
    let origin = Origin::answering(|request| Reply::ok(request.head.target()));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    for path in ["/a", "/b", "/c", "/d"] {
        client.get(path).expect(200).with_body(path);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::answering(|request| Reply::fresh(request.head.target()));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/hit").expect(200);

    let mut client = tidegate.client();
    let burst: Vec<_> = ["/miss-1", "/hit", "/miss-2", "/hit"].map(|path| Ask::get(path).bytes()).concat();
    client.send(burst);
    for path in ["/miss-1", "/hit", "/miss-2", "/hit"] {
        client.response().expect(200).with_body(path);
    }
}

#[test]
fn a_pipelined_head_in_pieces_is_put_together() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET / HT");
    client.response().expect(200);
    client.send("TP/1.1\r\nHost: a.example\r\n\r");
    client.send("\n");
    client.response().expect(200);
}

#[test]
fn close_asked_by_the_client_is_obeyed_and_announced() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    for _miss_then_hit in 0..2 {
        let mut client = tidegate.client();
        let response = client.ask(Ask::get("/").field("Connection", "close")).expect(200);
        assert_eq!(response.field("connection").as_deref(), Some("close"));
        client.expect_end();
    }
}

#[test]
fn close_said_by_the_origin_does_not_close_the_client() {
    let origin = Origin::always(Reply::ok("x").field("Connection", "close").then_close());
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    for _ in 0..3 {
        let response = client.get("/").expect(200).with_body("x");
        assert!(!response.head.has("connection"), "{response:?}");
    }
    assert_eq!(origin.connections(), 3);
}

#[test]
fn an_http_1_0_client_is_closed_after_the_response() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    client.response().expect(200).with_body("x");
    client.expect_end();
}

#[test]
fn an_http_1_0_client_may_ask_to_stay() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response().expect(200).with_body("x");
    // RFC 9112 §9.3: staying must be said to an HTTP/1.0 client; closing is allowed too.
    match response.field("connection").as_deref() {
        Some("keep-alive") => drop(client.get("/").expect(200)),
        _ => client.expect_end(),
    }
}

#[test]
fn an_http_1_0_client_never_sees_chunks() {
    let origin = Origin::always(Reply::chunked(&[b"one ", b"two"]));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    let response = client.response().expect(200).with_body("one two");
    assert!(!response.head.has("transfer-encoding"), "{response:?}");
}

#[test]
fn a_body_that_ends_by_close_reaches_an_http_1_1_client_whole() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.0 200 OK\r\n\r\nuntil the ");
    upstream.send("very end");
    upstream.close();
    client.response().expect(200).with_body("until the very end");
}

#[test]
fn requests_to_the_origin_share_a_connection() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    for _ in 0..5 {
        tidegate.get("/").expect(200);
    }
    assert_eq!((origin.count(), origin.connections()), (5, 1));
}

#[test]
fn the_response_is_sent_on_before_it_is_complete() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst");
    let head = client.head();
    assert_eq!((head.status(), client.exactly(5)), (200, b"first".to_vec()));
    upstream.send("later");
    assert_eq!(client.exactly(5), b"later");
}
