#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

struct House {
    server: AdminServer,
    recovering: Arc<AtomicBool>,
}

fn house() -> House {
    let recovering = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&recovering);
    let metrics = Metrics::new();
    metrics.worker().connection_opened();
    let state = AdminState {
        ready: Box::new(move || if asked.load(Ordering::Relaxed) { Err("recovering") } else { Ok(()) }),
        metrics,
        status: Box::new(|| Status { version: "9.9.9", workers: 2, ..Status::default() }),
        purge: Box::new(|request| {
            let purged = match request.what {
                What::Url(url) => {
                    Purged { purged: Some((url.authority == "www.example.com").into()), ..Purged::default() }
                }
                What::Prefix(_) | What::Tag(_) => Purged { mark: Some(7), ..Purged::default() },
                What::All => return Box::pin(async { Err(AdminError::TooManyMarks("enough".into())) }),
            };
            Box::pin(async move { Ok(Purged { durable: request.durable.then_some(true), ..purged }) })
        }),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    House { server: serve(listener, Arc::new(state)).unwrap(), recovering }
}

/// Sends bytes as they are and returns all that comes back.
fn say(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(house: &House, line: &str, body: &str) -> String {
    let length = body.len();
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
    say(house.server.address(), request.as_bytes())
}

#[test]
fn each_path_answers_its_method() {
    let house = house();
    let rows = [
        ("GET /healthz", "", "200 OK", "{\"status\":\"ok\"}\n"),
        ("GET /healthz?from=balancer", "", "200 OK", "{\"status\":\"ok\"}\n"),
        ("GET /readyz", "", "200 OK", "{\"status\":\"ready\"}\n"),
        ("GET /metrics", "", "200 OK", "\ntidegate_connections 1\n"),
        ("GET /api/v1/status", "", "200 OK", "\"version\":\"9.9.9\""),
        ("POST /api/v1/purge", "{\"url\":\"http://WWW.example.com/a\"}", "200 OK", "{\"purged\":1}\n"),
        ("POST /api/v1/purge", "{\"url\":\"http://other.example/a\"}", "200 OK", "{\"purged\":0}\n"),
        ("POST /api/v1/purge", "{\"tag\":\"t\"}", "200 OK", "{\"mark\":7}\n"),
        (
            "POST /api/v1/purge",
            "{\"prefix\":\"http://a\",\"durable\":true}",
            "200 OK",
            "{\"mark\":7,\"durable\":true}\n",
        ),
        ("POST /api/v1/purge", "{\"all\":true}", "507 ", "\"word\":\"too-many-marks\""),
        ("POST /api/v1/purge", "{", "400 ", "\"word\":\"bad-request\""),
        ("GET /api/v1/purge", "", "405 ", "\r\nallow: POST\r\n"),
        ("DELETE /metrics", "", "405 ", "\r\nallow: GET, HEAD\r\n"),
        ("GET /", "", "404 ", "\"word\":\"not-found\""),
    ];
    for (line, body, status, part) in rows {
        let answer = ask(&house, line, body);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
        assert!(answer.contains(part), "{line}: {answer}");
    }
}

#[test]
fn readiness_is_asked_each_time() {
    let house = house();
    house.recovering.store(true, Ordering::Relaxed);
    let answer = ask(&house, "GET /readyz", "");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("{\"status\":\"recovering\"}\n"), "{answer}");
    assert!(ask(&house, "GET /healthz", "").starts_with("HTTP/1.1 200 "), "alive, though not ready");
    house.recovering.store(false, Ordering::Relaxed);
    assert!(ask(&house, "GET /readyz", "").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_body_has_a_bound() {
    let house = house();
    let longest = format!("{{\"tag\":\"{}\"}}", "x".repeat(routes::BODY_BYTES - 10));
    assert_eq!(longest.len(), routes::BODY_BYTES);
    assert!(ask(&house, "POST /api/v1/purge", &longest).contains("longer than 1024 bytes"));
    let too_long =
        format!("POST /api/v1/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", 1_u64 << 40);
    let answer = say(house.server.address(), too_long.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn a_web_page_and_a_rebound_name_are_refused_before_anything_is_done() {
    let house = house();
    let body = "{\"url\":\"http://www.example.com/a\"}";
    let rows = [
        ("Host: 127.0.0.1\r\nOrigin: http://evil.example", "403 "),
        ("Host: evil.example\r\nOrigin: http://evil.example", "421 "),
        ("Host: 127.0.0.1", "200 "),
    ];
    for (fields, status) in rows {
        let length = body.len();
        let request =
            format!("POST /api/v1/purge HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}");
        let answer = say(house.server.address(), request.as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{fields}: {answer}");
    }
}

#[test]
fn two_requests_on_one_connection_are_answered_in_order() {
    let house = house();
    let answer = say(
        house.server.address(),
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "a HEAD has no body: {answer}");
}

#[test]
fn dropping_it_frees_the_address_and_ends_the_conversations() {
    let house = house();
    let address = house.server.address();
    let mut open = TcpStream::connect(address).unwrap();
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(open.read(&mut [0; 256]).unwrap() > 0);
    drop(house);
    assert_eq!(open.read(&mut [0; 1024]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}
