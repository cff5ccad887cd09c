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
    let answer = ask(given.admin, &request(given)).map_err(|error| unreachable(given.admin, &error))?;
    let Some((status, body)) = parse(&answer) else {
        return Err(Failure::Running(format!(
            "{}: what answers there is not tidegate's admin interface",
            given.admin
        )));
    };
    match status {
        200 => {
            println!("{}", if given.json { body.to_string() } else { done(given, &body) });
            Ok(())
        }
        400 => Err(Failure::Usage(message(&body))),
        _ => Err(Failure::Running(format!("{} answered {status}: {}", given.admin, message(&body)))),
    }
}

/// The request's body: what was given on the command line and nothing else.
fn request(given: &Purge) -> Value {
    let Purge { url, prefix, tag, all, soft, durable, .. } = given;
    let named = [
        ("url", url.as_ref().map(|url| json!(url))),
        ("prefix", prefix.as_ref().map(|prefix| json!(prefix))),
        ("tag", tag.as_ref().map(|tag| json!(tag))),
    ];
    let switches = [("all", *all), ("soft", *soft), ("durable", *durable)];
    let switches = switches.into_iter().map(|(name, on)| (name, on.then_some(Value::Bool(true))));
    let members = named.into_iter().chain(switches);
    members.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn ask(admin: SocketAddr, body: &Value) -> io::Result<String> {
    let body = body.to_string();
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

fn done(given: &Purge, body: &Value) -> String {
    let what = match given {
        Purge { url: Some(url), .. } => url.clone(),
        Purge { prefix: Some(prefix), .. } => format!("{prefix}..."),
        Purge { tag: Some(tag), .. } => format!("tag {tag}"),
        _ => "everything".to_owned(),
    };
    match (body["purged"].as_u64(), body["mark"].as_u64()) {
        (Some(0), _) => format!("{what}: nothing was stored"),
        (Some(_), _) if given.url.is_some() => format!("{what}: purged"),
        (Some(n), _) => format!("{what}: purged, {n} stored objects"),
        (None, Some(_)) if given.soft => format!("{what}: stale from now on"),
        (None, Some(_)) => format!("{what}: purged; space is freed as it is found"),
        (None, None) => format!("{what}: {body}"),
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
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn given(words: &[&str]) -> Purge {
        let cli = Cli::try_parse_from(["tidegate", "purge"].iter().chain(words)).unwrap();
        let Some(Command::Purge(purge)) = cli.command else { panic!("purges") };
        purge
    }

    #[test]
    fn exactly_one_thing_is_purged() {
        for words in [&["purge"][..], &["purge", "u", "--all"], &["purge", "--tag", "t", "--prefix", "p"]] {
            assert!(Cli::try_parse_from(["tidegate"].iter().chain(words)).is_err(), "{words:?}");
        }
    }

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
        let rows = [
            (&["u"][..], json!({"purged": 0}), "u: nothing was stored", json!({"url": "u"})),
            (&["u", "--durable"], json!({"purged": 1}), "u: purged", json!({"url": "u", "durable": true})),
            (&["u", "--soft"], json!({"mark": 1}), "u: stale from now on", json!({"url": "u", "soft": true})),
            (
                &["--tag", "t"],
                json!({"mark": 2}),
                "tag t: purged; space is freed as it is found",
                json!({"tag": "t"}),
            ),
            (
                &["--prefix", "p"],
                json!({"mark": 2}),
                "p...: purged; space is freed as it is found",
                json!({"prefix": "p"}),
            ),
            (&["--all"], json!({"purged": 3}), "everything: purged, 3 stored objects", json!({"all": true})),
        ];
        for (words, answer, expected, asked) in rows {
            let given = given(words);
            assert_eq!((done(&given, &answer).as_str(), request(&given)), (expected, asked));
        }
        assert_eq!(message(&json!({"error": {"word": "w", "message": "m"}})), "m");
    }
}
