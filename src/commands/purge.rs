//! `tidegate purge`: one request to the admin interface, one sentence about its answer.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::Failure;
use crate::cli::Purge;

/// How long the admin interface may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES: u64 = 1 << 20;

pub(crate) fn run(given: &Purge) -> Result<(), Failure> {
    let answer = ask(given.admin, &given.url).map_err(|error| unreachable(given.admin, &error))?;
    let Some((status, body)) = parse(&answer) else {
        return Err(Failure::Running(format!(
            "{}: what answers there is not tidegate's admin interface",
            given.admin
        )));
    };
    match status {
        200 => {
            println!("{}", done(&given.url, &body));
            Ok(())
        }
        400 => Err(Failure::Usage(message(&body))),
        _ => Err(Failure::Running(format!("{} answered {status}: {}", given.admin, message(&body)))),
    }
}

fn ask(admin: SocketAddr, url: &str) -> io::Result<String> {
    let body = json!({ "url": url }).to_string();
    let mut stream = TcpStream::connect_timeout(&admin, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST /api/v1/purge HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Status and JSON body. The admin interface sends whole bodies and closes when asked to.
fn parse(answer: &str) -> Option<(u16, Value)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

fn done(url: &str, body: &Value) -> String {
    match body["purged"].as_u64() {
        Some(0) => format!("{url}: nothing was stored"),
        Some(1) => format!("{url}: purged"),
        Some(n) => format!("{url}: purged, {n} stored responses"),
        None => format!("{url}: {body}"),
    }
}

fn message(body: &Value) -> String {
    body["error"]["message"].as_str().map_or_else(|| body.to_string(), str::to_owned)
}

fn unreachable(admin: SocketAddr, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nothing listens there. Is tidegate running, and is this its admin.listen (--admin ADDR)?".into()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer within {} s", PATIENCE.as_secs()),
        _ => error.to_string(),
    };
    Failure::Running(format!("{admin}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_are_not() {
        let rows = [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"purged\":2}\n",
                Some((200, json!({"purged": 2}))),
            ),
            ("HTTP/1.1 200 OK\r\n\r\n<html>", None),
            ("HTTP/1.1 2", None),
            ("SSH-2.0-x\r\n\r\n{}", None),
            ("", None),
        ];
        for (answer, expected) in rows {
            assert_eq!(parse(answer), expected, "{answer}");
        }
    }

    #[test]
    fn what_was_done_is_said_in_words() {
        assert_eq!(done("u", &json!({"purged": 0})), "u: nothing was stored");
        assert_eq!(done("u", &json!({"purged": 3})), "u: purged, 3 stored responses");
        assert_eq!(message(&json!({"error": {"word": "w", "message": "m"}})), "m");
    }
}
