#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Instant;

use proptest::prelude::*;

use super::time::Clock;
use super::*;
use crate::settings::LogTarget;

const FORMATS: [LogFormat; 3] = [LogFormat::Combined, LogFormat::Json, LogFormat::Squid];

fn entry() -> Entry<'static> {
    Entry {
        at_millis: 971_186_136_250,
        nanos: 3_042_117,
        client: "10.0.0.9:4711".parse().unwrap(),
        method: b"GET",
        target: b"/a?b=c",
        host: b"www.example.com",
        version: Version::Http11,
        status: 200,
        body_bytes: 512,
        result: RequestResult::Miss,
        reason: Some("uri-miss"),
        origin: Some("10.0.0.1:8080".parse().unwrap()),
        referer: None,
        user_agent: Some(b"curl/8"),
        content_type: Some(b"text/html; charset=utf-8"),
    }
}

fn line_of(format: LogFormat, entry: &Entry<'_>) -> String {
    let mut out = Vec::new();
    format::line(&mut out, format, &mut Clock::default(), entry);
    String::from_utf8(out).unwrap()
}

#[test]
fn each_format_says_the_exchange_in_its_own_words() {
    let rows = [
        (
            LogFormat::Combined,
            "10.0.0.9 - - [10/Oct/2000:13:55:36 +0000] \"GET /a?b=c HTTP/1.1\" 200 512 \"-\" \"curl/8\" \
             miss uri-miss 0.003042\n",
        ),
        (
            LogFormat::Squid,
            "971186136.250      3 10.0.0.9 TCP_MISS/200 512 GET http://www.example.com/a?b=c - \
             HIER_DIRECT/10.0.0.1 text/html\n",
        ),
        (
            LogFormat::Json,
            "{\"time\":\"2000-10-10T13:55:36.250Z\",\"client\":\"10.0.0.9\",\"port\":4711,\"method\":\"GET\",\
             \"target\":\"/a?b=c\",\"host\":\"www.example.com\",\"version\":\"HTTP/1.1\",\"status\":200,\
             \"body_bytes\":512,\"seconds\":0.003042,\"result\":\"miss\",\"reason\":\"uri-miss\",\
             \"origin\":\"10.0.0.1:8080\",\"user_agent\":\"curl/8\",\
             \"content_type\":\"text/html; charset=utf-8\"}\n",
        ),
    ];
    for (format, expected) in rows {
        assert_eq!(line_of(format, &entry()), expected);
    }
}

#[test]
fn a_head_that_could_not_be_parsed_still_gets_its_line() {
    let refused = Entry {
        method: b"",
        target: b"",
        host: b"",
        status: 400,
        result: RequestResult::Error,
        reason: Some("bare-cr"),
        origin: None,
        user_agent: None,
        content_type: None,
        ..entry()
    };
    let combined = line_of(LogFormat::Combined, &refused);
    assert!(combined.ends_with("] \"-\" 400 512 \"-\" \"-\" error bare-cr 0.003042\n"), "{combined}");
    let squid = line_of(LogFormat::Squid, &refused);
    assert!(squid.ends_with(" NONE/400 512 - - - HIER_NONE/- -\n"), "{squid}");
    let json = line_of(LogFormat::Json, &refused);
    assert!(!json.contains("\"method\""), "{json}");
}

#[test]
fn hostile_bytes_cannot_end_a_line_or_a_field() {
    let rows: [(&[u8], &str, &str, &str); 6] = [
        (b"a\r\nb", "a\\x0d\\x0ab", "a%0d%0ab", "a\\u000d\\u000ab"),
        (b"\" 200 0 \"", "\\\" 200 0 \\\"", "%22%20200%200%20%22", "\\\" 200 0 \\\""),
        (b"\\x0a", "\\\\x0a", "%5cx0a", "\\\\x0a"),
        (b"\x1b[31m\x7f\x00", "\\x1b[31m\\x7f\\x00", "%1b[31m%7f%00", "\\u001b[31m\\u007f\\u0000"),
        (
            "ü\u{2028}\u{85}".as_bytes(),
            "\\xc3\\xbc\\xe2\\x80\\xa8\\xc2\\x85",
            "%c3%bc%e2%80%a8%c2%85",
            "ü\\u2028\\u0085",
        ),
        (b"\xff\xc3", "\\xff\\xc3", "%ff%c3", "\u{fffd}\u{fffd}"),
    ];
    for (bytes, quoted, spaceless, json) in rows {
        for (escape, expected) in [
            (escape::quoted as fn(&mut Vec<u8>, &[u8]), quoted),
            (escape::spaceless, spaceless),
            (escape::json, json),
        ] {
            let mut out = Vec::new();
            escape(&mut out, bytes);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{bytes:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_entry_is_one_line_and_json_can_be_read_back(
        method: Vec<u8>, target: Vec<u8>, host: Vec<u8>, agent: Vec<u8>, kind: Vec<u8>, nanos: u64, at in 0..u64::MAX / 2048,
    ) {
        let hostile = Entry {
            at_millis: at,
            nanos,
            method: &method,
            target: &target,
            host: &host,
            referer: Some(&target),
            user_agent: Some(&agent),
            content_type: Some(&kind),
            ..entry()
        };
        for format in FORMATS {
            let line = line_of(format, &hostile);
            prop_assert_eq!(line.chars().filter(|c| c.is_control()).count(), 1);
            prop_assert!(line.ends_with('\n'));
        }
        let squid = line_of(LogFormat::Squid, &hostile);
        prop_assert_eq!(squid.split_ascii_whitespace().count(), 10, "{}", squid);
        let json: serde_json::Value = serde_json::from_str(&line_of(LogFormat::Json, &hostile)).unwrap();
        prop_assert_eq!(json["user_agent"].as_str().unwrap(), String::from_utf8_lossy(&agent));
    }
}

fn log_to(path: &std::path::Path) -> AccessLog {
    AccessLog::open(&Log { access: Some(LogTarget::Path(path.to_owned())), format: LogFormat::Combined })
        .unwrap()
}

fn await_lines(path: &std::path::Path, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count || Instant::now() > deadline {
            return text.lines().map(str::to_owned).collect();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_line_of_every_worker_is_written_before_close_returns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let log = log_to(&path);
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let mut worker = log.worker();
            std::thread::spawn(move || (0..500).for_each(|_| worker.log(&entry())))
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    assert_eq!(log.dropped(), 0);
    assert!(log.close(Duration::from_secs(10)));
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2000);
}

#[test]
fn a_line_reaches_the_file_without_a_second_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let log = log_to(&path);
    log.worker().log(&entry());
    assert_eq!(await_lines(&path, 1).len(), 1);
}

#[test]
fn after_logrotate_new_lines_go_to_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let log = log_to(&path);
    let mut worker = log.worker();
    worker.log(&entry());
    assert_eq!(await_lines(&path, 1).len(), 1);
    fs::rename(&path, &old).unwrap();
    log.reopen();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !path.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.log(&entry());
    assert_eq!(await_lines(&path, 1).len(), 1);
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 1);
}

#[test]
fn a_log_that_nobody_reads_drops_lines_and_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let reader = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::File::open(fifo).unwrap())
    };
    let log = log_to(&fifo);
    let unread = reader.join().unwrap();
    let mut worker = log.worker();
    let started = Instant::now();
    let agent = vec![b'a'; 1000];
    for _ in 0..4000 {
        worker.log(&Entry { user_agent: Some(&agent), ..entry() });
    }
    assert!(started.elapsed() < Duration::from_secs(5), "a full log made its worker wait");
    assert!(log.dropped() > 0);
    assert!(!log.close(Duration::from_millis(50)), "nothing is read, so the thread cannot end");
    drop(unread);
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let log = log_to(std::path::Path::new("/dev/full"));
    let mut worker = log.worker();
    (0..3).for_each(|_| worker.log(&entry()));
    let dropped = log.dropped_reader();
    assert!(log.close(Duration::from_secs(10)));
    assert_eq!(dropped(), 3);
}

#[test]
fn a_log_that_is_off_starts_nothing() {
    let log = AccessLog::open(&Log::default()).unwrap();
    let mut worker = log.worker();
    assert!(!worker.is_on());
    worker.log(&entry());
    assert_eq!(log.dropped(), 0);
    assert!(log.close(Duration::ZERO));
}
