//! Hostile request heads: each is refused with its status, the connection closes, the origin sees nothing.

use std::time::Duration;

use testkit::{End, Script, Tidegate};

/// A head that must be refused: its name, its bytes, the statuses that say so.
type Case = (&'static str, &'static str, &'static [u16]);

const BAD: &[u16] = &[400];
const BAD_OR_UNKNOWN: &[u16] = &[400, 501];

const LENGTHS: &[Case] = &[
    (
        "length and encoding",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "encoding and length",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "lengths differ",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        BAD,
    ),
    (
        "length repeated",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        BAD,
    ),
    ("length list", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", BAD),
    ("length with plus", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", BAD),
    ("length with minus", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\nhello", BAD),
    ("length in hex", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", BAD),
    ("length with letter", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5a\r\n\r\nhello", BAD),
    ("length with blank", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\nhello", BAD),
    ("length with underscore", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\nhello", BAD),
    ("length empty", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello", BAD),
    (
        "length overflows",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
        BAD,
    ),
    ("length quoted", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\nhello", BAD),
];

const ENCODINGS: &[Case] = &[
    (
        "chunked twice",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "chunked in two lines",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "chunked not last",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "gzip then chunked",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    ("identity", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", BAD_OR_UNKNOWN),
    (
        "identity and chunked",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "unknown coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "quoted coding",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "coding with parameter",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "coding with vertical tab",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    ("empty coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", BAD_OR_UNKNOWN),
    (
        "encoding in HTTP/1.0",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD_OR_UNKNOWN,
    ),
    (
        "encoding hidden by a blank",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "encoding hidden by a fold",
        "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "encoding behind a bare CR",
        "POST / HTTP/1.1\r\nHost: a\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
    (
        "encoding behind a bare LF",
        "POST / HTTP/1.1\r\nHost: a\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        BAD,
    ),
];

const FIELDS: &[Case] = &[
    ("folded value", "GET / HTTP/1.1\r\nHost: a\r\nX: one\r\n two\r\n\r\n", BAD),
    ("folded with tab", "GET / HTTP/1.1\r\nHost: a\r\nX: one\r\n\ttwo\r\n\r\n", BAD),
    ("first field indented", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", BAD),
    ("bare LF everywhere", "GET / HTTP/1.1\nHost: a\n\n", BAD),
    ("bare LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", BAD),
    ("bare LF as the last line", "GET / HTTP/1.1\r\nHost: a\r\n\n", BAD),
    ("bare CR in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", BAD),
    ("CR CR LF", "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", BAD),
    ("blank before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n", BAD),
    ("tab before the colon", "GET / HTTP/1.1\r\nHost: a\r\nX\t: y\r\n\r\n", BAD),
    ("empty name", "GET / HTTP/1.1\r\nHost: a\r\n: y\r\n\r\n", BAD),
    ("no colon", "GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", BAD),
    ("NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", BAD),
    ("NUL in a name", "GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n", BAD),
    ("escape in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: \x1b[31m\r\n\r\n", BAD),
    ("bracket in a name", "GET / HTTP/1.1\r\nHost: a\r\nX[1]: y\r\n\r\n", BAD),
    ("non-ASCII name", "GET / HTTP/1.1\r\nHost: a\r\nXé: y\r\n\r\n", BAD),
];

const HOSTS: &[Case] = &[
    ("no host", "GET / HTTP/1.1\r\nX: y\r\n\r\n", BAD),
    ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", BAD),
    ("the same host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", BAD),
    ("host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", BAD),
    ("host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", BAD),
    ("host with user information", "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", BAD),
    ("host with a blank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", BAD),
    ("host with a bad port", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", BAD),
    ("broken IPv6 host", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", BAD),
    ("absolute target with user information", "GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
];

const LINES: &[Case] = &[
    ("no version", "GET /\r\n\r\n", BAD),
    ("HTTP/0.9", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", &[400, 505]),
    ("HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", &[505]),
    ("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[505]),
    ("lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", BAD),
    ("version with a letter", "GET / HTTP/1.1x\r\nHost: a\r\n\r\n", BAD),
    ("version with two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", BAD),
    ("two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("blank before the version", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("blank after the version", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", BAD),
    ("tab as separator", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("blank in the target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("CR in the target", "GET /a\rb HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("fragment in the target", "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("target without a slash", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("asterisk with GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("method with a colon", "GE:T / HTTP/1.1\r\nHost: a\r\n\r\n", BAD),
    ("TLS hello", "\x16\x03\x01\x02\0\x01\0\r\n\r\n", BAD),
    ("another protocol", "EHLO mail.example\r\n\r\n", BAD),
];

/// How long a refusal may take before the row counts as wrong.
const SOON: Duration = Duration::from_secs(2);

/// Plays each case on a connection of its own and gathers all that went wrong.
fn play(cases: &[Case]) {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let wrong: Vec<String> = cases.iter().filter_map(|case| verdict(&origin, &tidegate, case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn verdict(origin: &Script, tidegate: &Tidegate, (name, bytes, statuses): &Case) -> Option<String> {
    let mut client = tidegate.client();
    // What follows must not become a request of its own.
    client.send(bytes);
    let _ = client.try_send("GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let (answer, end) = client.rest_within(SOON);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status: u16 = text.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0);
    if !statuses.contains(&status) || text.contains("\nHTTP/1.1 ") || end == End::Open {
        return Some(format!("{name}: expected one of {statuses:?} and a close, got {text:?} and {end:?}"));
    }
    let reached = origin.accept_within(Duration::ZERO).is_some();
    reached.then(|| format!("{name}: the origin was contacted"))
}

#[test]
fn content_length() {
    play(LENGTHS);
}

#[test]
fn transfer_encoding() {
    play(ENCODINGS);
}

#[test]
fn field_lines() {
    play(FIELDS);
}

#[test]
fn host() {
    play(HOSTS);
}

#[test]
fn request_line() {
    play(LINES);
}

#[test]
fn too_long_and_too_many() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(20_000));
    let value = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(100_000));
    let fields = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(2000));
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", "X: yyyyyyyyyyyyyyyyyyy\r\n".repeat(20_000));
    for (bytes, status) in [(target, 414), (value, 431), (fields, 431), (endless, 431)] {
        let mut client = tidegate.client();
        let _ = client.try_send(&bytes);
        let text = String::from_utf8_lossy(&client.rest().0).into_owned();
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {text:?}");
    }
    origin.expect_untouched();
}

#[test]
fn blank_lines_before_a_request_are_skipped_but_not_for_ever() {
    let origin = testkit::Origin::always(testkit::Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    client.response().expect(200);
    let _ = client.try_send("\r\n".repeat(100_000));
    let _ = client.rest();
}

#[test]
fn a_refusal_leaves_other_connections_alone() {
    let origin = testkit::Origin::always(testkit::Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut good = tidegate.client();
    good.get("/").expect(200);
    for _ in 0..20 {
        let mut bad = tidegate.client();
        bad.send("GET / HTTP/1.1\r\nHost : a\r\n\r\n");
        bad.response().expect(400);
    }
    good.get("/").expect(200);
}
