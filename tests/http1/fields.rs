//! What a proxy adds and takes away: `Via`, `Date`, hop-by-hop fields (RFC 9110 §7.6).

use testkit::{Address, Ask, Origin, Reply, Tidegate};

#[test]
fn via_is_added_in_both_directions() {
    let origin = Origin::always(Reply::ok("x").field("Via", "1.0 inner"));
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.ask(Ask::get("/").field("Via", "1.1 outer")).expect(200);
    let (asked, answered) = (origin.requests()[0].head.field("via"), response.field("via"));
    assert!(asked.as_deref().is_some_and(|via| via.starts_with("1.1 outer, 1.1 ")), "{asked:?}");
    assert!(answered.as_deref().is_some_and(|via| via.starts_with("1.0 inner, 1.1 ")), "{answered:?}");
}

#[test]
fn via_tells_the_version_that_was_received() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    client.response().expect(200);
    let via = origin.requests()[0].head.field("via").unwrap();
    assert!(via.starts_with("1.0 "), "{via}");
    assert!(origin.requests()[0].head.start_line.ends_with("HTTP/1.1"));
}

#[test]
fn a_request_that_was_here_before_is_refused() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let ours = origin.requests()[0].head.field("via").unwrap();
    tidegate.ask(Ask::get("/").field("Via", &ours)).expect(508);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_forward_proxy_that_is_asked_for_itself_ends_the_loop() {
    let tidegate = Tidegate::forward().start();
    let status = tidegate.get(&tidegate.address().url("/")).status();
    // The inner one may already refuse the origin-form target that the outer one sends.
    assert!(matches!(status, 508 | 400 | 403 | 502), "{status}");
}

#[test]
fn hop_by_hop_fields_of_a_request_stop_here() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let ask = Ask::get("/")
        .field("Connection", "keep-alive, X-Mine")
        .field("X-Mine", "1")
        .field("Keep-Alive", "timeout=5")
        .field("Proxy-Connection", "keep-alive")
        .field("Upgrade", "h2c")
        .field("X-Theirs", "2");
    tidegate.ask(ask).expect(200);
    let head = &origin.requests()[0].head;
    for name in ["x-mine", "keep-alive", "proxy-connection", "upgrade"] {
        assert!(!head.has(name), "{name} in {head:?}");
    }
    assert_eq!(head.field("x-theirs").as_deref(), Some("2"));
}

#[test]
fn hop_by_hop_fields_of_a_response_stop_here() {
    let reply = Reply::fresh("x")
        .field("Connection", "X-Mine")
        .field("X-Mine", "1")
        .field("Keep-Alive", "timeout=5")
        .field("Proxy-Authenticate", "Basic")
        .field("X-Theirs", "2");
    let origin = Origin::always(reply);
    let tidegate = Tidegate::reverse(&origin).start();
    for _miss_then_hit in 0..2 {
        let response = tidegate.get("/").expect(200);
        for name in ["x-mine", "keep-alive"] {
            assert!(!response.head.has(name), "{name} in {response:?}");
        }
        assert_eq!(response.field("x-theirs").as_deref(), Some("2"));
    }
}

#[test]
fn connection_cannot_name_away_what_holds_the_message_together() {
    let origin = Origin::answering(|request| Reply::ok(&request.body));
    let tidegate = Tidegate::reverse(&origin).start();
    let ask = Ask::post("/", b"body").field("Connection", "content-length, host, authorization, via");
    match tidegate.ask(ask.field("Authorization", "Basic eA==")).status() {
        // Ignored: then these fields must be there, and the message whole.
        200 => {
            let request = &origin.requests()[0];
            assert_eq!(request.body, b"body");
            assert!(request.head.has("host") && request.head.has("via") && request.head.has("authorization"));
        }
        // Refused is as good.
        status => assert_eq!((status, origin.count()), (400, 0)),
    }
}

#[test]
fn a_missing_date_is_added() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let date = tidegate.get("/").expect(200).field("date").unwrap_or_default();
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date:?}");
}

#[test]
fn fields_and_their_order_are_left_alone() {
    let reply =
        Reply::ok("x").field("Set-Cookie", "a=1").field("X-Odd", "  a,b").field("Set-Cookie", "b=2, c");
    let origin = Origin::always(reply);
    let tidegate = Tidegate::reverse(&origin).start();
    let response =
        tidegate.ask(Ask::get("/").field("Accept", "a/b;q=0.5").field("accept", "c/d")).expect(200);
    assert_eq!(response.head.all("set-cookie"), ["a=1", "b=2, c"]);
    assert_eq!(origin.requests()[0].head.all("accept"), ["a/b;q=0.5", "c/d"]);
}

/// RFC 9110 §7.6.2.
#[test]
fn max_forwards_is_counted_down_and_ends_here_at_zero() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.ask(Ask::new("OPTIONS", "/").field("Max-Forwards", "3")).expect(200);
    assert_eq!(origin.requests()[0].head.field("max-forwards").as_deref(), Some("2"));
    let last = tidegate.ask(Ask::new("OPTIONS", "/").field("Max-Forwards", "0")).expect(204);
    assert!(last.field("allow").is_some_and(|allow| allow.contains("GET")));
    tidegate.ask(Ask::new("TRACE", "/").field("Max-Forwards", "0")).expect(405);
    tidegate.ask(Ask::get("/").field("Max-Forwards", "0")).expect(200);
    assert_eq!(origin.count(), 2, "only the first and the GET went on");
}
