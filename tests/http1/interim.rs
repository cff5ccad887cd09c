//! RFC 9110 §15.2 and §10.1.1: interim responses and `Expect: 100-continue`.

use testkit::{Ask, Script, Tidegate};

const EXPECTING: &str =
    "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn continue_comes_before_the_body_goes() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(EXPECTING);
    let mut upstream = origin.accept();
    let head = upstream.head();
    assert_eq!(head.field("expect").as_deref(), Some("100-continue"));
    upstream.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.interim().status(), 100);
    client.send("body");
    assert_eq!(upstream.exactly(4), b"body");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn a_refusal_comes_without_the_body() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(EXPECTING);
    let mut upstream = origin.accept();
    upstream.head();
    upstream.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(417);
}

#[test]
fn an_upload_is_not_held_back_when_the_client_does_not_wait() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(EXPECTING);
    client.send("body");
    let mut upstream = origin.accept();
    upstream.head();
    assert_eq!(upstream.exactly(4), b"body");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn early_hints_are_passed_on_at_once() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
    let hints = client.interim();
    assert_eq!((hints.status(), hints.field("link").as_deref()), (103, Some("</style.css>; rel=preload")));
    upstream.send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.interim().status(), 102);
    client.response().expect(200).with_body("ok");
}

#[test]
fn an_http_1_0_client_gets_no_interim_response() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n");
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn interim_responses_without_end_are_cut() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\norigin_first_byte = \"500ms\"").start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    let babbling =
        std::thread::spawn(move || while upstream.try_send("HTTP/1.1 102 Processing\r\n\r\n").is_ok() {});
    let start = std::time::Instant::now();
    let last = loop {
        assert!(start.elapsed() < testkit::PATIENCE, "still going on");
        match client.try_head() {
            Ok(head) if head.status() < 200 => {}
            other => break other,
        }
    };
    assert!(last.as_ref().map_or(true, |head| matches!(head.status(), 502 | 504)), "{last:?}");
    babbling.join().unwrap();
}
