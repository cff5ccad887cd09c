//! Hostile chunked requests: the head is fine, so the origin may have seen it. It must never see a complete
//! message, nor what comes after.

use std::time::Duration;

use testkit::{End, Script, Tidegate};

const HEAD: &str = "POST /upload HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";

const BODIES: &[(&str, &str)] = &[
    ("plus", "+5\r\nhello\r\n0\r\n\r\n"),
    ("minus", "-5\r\nhello\r\n0\r\n\r\n"),
    ("hex prefix", "0x5\r\nhello\r\n0\r\n\r\n"),
    ("blank before", " 5\r\nhello\r\n0\r\n\r\n"),
    ("blank after", "5 \r\nhello\r\n0\r\n\r\n"),
    ("no digits", "\r\nhello\r\n0\r\n\r\n"),
    ("not hex", "g\r\nhello\r\n0\r\n\r\n"),
    ("underscore", "0_5\r\nhello\r\n0\r\n\r\n"),
    ("overflow", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("many zeros", "00000000000000000000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("bare LF after the size", "5\nhello\r\n0\r\n\r\n"),
    ("bare CR after the size", "5\rhello\r\n0\r\n\r\n"),
    ("bare LF after the data", "5\r\nhello\n0\r\n\r\n"),
    ("no line end after the data", "5\r\nhello0\r\n\r\n"),
    ("data longer than said", "3\r\nhello\r\n0\r\n\r\n"),
    ("bare LF in an extension", "5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ("NUL in an extension", "5;a\0b\r\nhello\r\n0\r\n\r\n"),
    ("bare LF after the last chunk", "5\r\nhello\r\n0\n\n"),
    ("folded trailer", "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
    ("blank before the colon of a trailer", "5\r\nhello\r\n0\r\nX : a\r\n\r\n"),
    ("bare LF in a trailer", "5\r\nhello\r\n0\r\nX: a\nY: b\r\n\r\n"),
    ("trailer without a colon", "5\r\nhello\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n"),
];

#[test]
fn broken_chunks_never_become_a_whole_request() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let wrong: Vec<String> = BODIES
        .iter()
        .filter_map(|(name, body)| Some(format!("{name}: {}", complaint(&origin, &tidegate, body)?)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn complaint(origin: &Script, tidegate: &Tidegate, body: &str) -> Option<String> {
    let mut client = tidegate.client();
    client.send(HEAD);
    let _ = client.try_send(body);
    let _ = client.try_send("GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let (answer, end) = client.rest_within(Duration::from_secs(2));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if end == End::Open {
        return Some(format!("the connection stays open after {answer:?}"));
    }
    if !answer.is_empty() && !answer.starts_with("HTTP/1.1 400") {
        return Some(format!("answered {answer:?}"));
    }
    let mut upstream = origin.accept_within(Duration::ZERO)?;
    let seen = String::from_utf8_lossy(&upstream.rest().0).into_owned();
    let body = seen.split_once("\r\n\r\n").map_or("", |(_head, body)| body);
    let whole = body.ends_with("0\r\n\r\n") || seen.contains("smuggled");
    whole.then(|| format!("the origin saw {seen:?}"))
}

#[test]
fn endless_extensions_and_trailers_are_cut() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    for flood in [format!("5;{}", "a".repeat(4 << 20)), format!("0\r\n{}", "X: y\r\n".repeat(700_000))] {
        let mut client = tidegate.client();
        client.send(HEAD);
        let _ = client.try_send(flood);
        let (answer, _) = client.rest();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
}

#[test]
fn what_follows_a_counted_body_is_the_next_request() {
    let origin = testkit::Origin::answering(|request| testkit::Reply::ok(request.head.target()));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("POST /one HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabcGET /two HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.response().expect(200).with_body("/one");
    client.response().expect(200).with_body("/two");
    assert_eq!(origin.requests()[0].body, b"abc");
}
