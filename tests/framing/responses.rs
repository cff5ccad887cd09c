//! Hostile response heads: the client gets 502, nothing is stored, the connection to the origin is not used again.

use testkit::{Ask, Script, Tidegate};

/// Response bytes that must be refused. Each would be fresh for an hour, were it well-formed.
const HEADS: &[(&str, &str)] = &[
    (
        "length and encoding",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("lengths differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
    ("lengths differ in a list", "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!"),
    ("length with plus", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"),
    ("length with letter", "HTTP/1.1 200 OK\r\nContent-Length: 5a\r\n\r\nhello"),
    ("length empty", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nhello"),
    ("length overflows", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello"),
    ("gzip then chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ("encoding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("folded value", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
    ("bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    ("bare LF in a value", "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"),
    ("bare CR in a value", "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"),
    ("blank before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
    ("first field indented", "HTTP/1.1 200 OK\r\n Content-Length: 0\r\n\r\n"),
    ("no colon", "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 0\r\n\r\n"),
    ("empty name", "HTTP/1.1 200 OK\r\n: y\r\nContent-Length: 0\r\n\r\n"),
    ("NUL in a value", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
    ("NUL in the reason", "HTTP/1.1 200 O\0K\r\nContent-Length: 0\r\n\r\n"),
    ("status too long", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status too short", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status below 100", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status not a number", "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"),
    ("status with plus", "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("HTTP/2", "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("another protocol", "ICY 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("TLS alert", "\x15\x03\x01\0\x02\x02\x46\r\n\r\n"),
    ("no status line", "Content-Length: 0\r\n\r\n"),
    ("a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
];

#[test]
fn a_malformed_head_becomes_a_bad_gateway() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let wrong: Vec<String> = HEADS
        .iter()
        .enumerate()
        .filter_map(|(i, (name, bytes))| {
            Some(format!("{name}: {}", complaint(&origin, &tidegate, i, bytes)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn complaint(origin: &Script, tidegate: &Tidegate, number: usize, bytes: &str) -> Option<String> {
    let path = format!("/{number}");
    let mut client = tidegate.client();
    client.send(Ask::get(&path).bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(with_freshness(bytes));
    match client.try_head() {
        Ok(head) if head.status() == 502 => {}
        other => return Some(format!("answered {other:?}")),
    }
    if upstream.try_request().is_ok() {
        return Some("the connection was used again".into());
    }
    asked_again(origin, tidegate, &path)
}

/// Makes it worth storing, so that "not stored" proves something.
fn with_freshness(bytes: &str) -> String {
    let freshness = "\r\nCache-Control: max-age=3600\r\n\r\n";
    if bytes.contains("\r\n\r\n") { bytes.replacen("\r\n\r\n", freshness, 1) } else { bytes.to_owned() }
}

fn asked_again(origin: &Script, tidegate: &Tidegate, path: &str) -> Option<String> {
    let mut client = tidegate.client();
    client.send(Ask::get(path).bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood");
    upstream.close();
    let response = client.response();
    (response.body != b"good").then(|| format!("then {response:?}"))
}

#[test]
fn too_long_and_too_many() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let value = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "a".repeat(200_000));
    let fields = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(5000));
    for bytes in [value, fields] {
        let mut client = tidegate.client();
        client.send(Ask::get("/").bytes());
        let mut upstream = origin.accept();
        upstream.request();
        let _ = upstream.try_send(&bytes);
        client.response().expect(502);
    }
}
