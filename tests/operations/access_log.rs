//! One line for each request, in three formats, and never two by one request.

use std::fs;

use rustix::process::Signal;
use testkit::{Ask, Origin, Reply, Tidegate, eventually};

fn logging(format: &str) -> (Origin, Tidegate, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let origin = Origin::answering(|request| Reply::fresh(request.head.target()));
    let toml = format!("[log]\naccess = \"{}/access\"\nformat = \"{format}\"", home.path().display());
    let tidegate = Tidegate::reverse(&origin).toml(&toml).start();
    (origin, tidegate, home)
}

/// The lines of the log once there are `count`.
#[track_caller]
fn lines(home: &tempfile::TempDir, name: &str, count: usize) -> Vec<String> {
    eventually("the lines are written", || {
        let text = fs::read_to_string(home.path().join(name)).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
}

#[test]
fn json_has_the_facts() {
    let (_origin, tidegate, home) = logging("json");
    // On one connection, so that the lines have an order.
    let mut client = tidegate.client();
    client
        .ask(
            Ask::get("/a?b=c")
                .field("User-Agent", "test \"agent\" \\ 1")
                .field("Referer", "http://r.example/"),
        )
        .expect(200);
    client.get("/a?b=c").expect(200);
    let lines = lines(&home, "access", 2);
    let entries: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = &lines[0];
    assert!(text.contains("/a?b=c") && text.contains("127.0.0.1") && text.contains("200"), "{text}");
    let agent = entries[0].as_object().unwrap().values().any(|value| value == "test \"agent\" \\ 1");
    assert!(agent, "{text}");
    let hit = entries[1].as_object().unwrap().values().any(|value| value == "hit");
    assert!(hit, "{}", lines[1]);
}

#[test]
fn combined_looks_like_a_web_servers() {
    let (_origin, tidegate, home) = logging("combined");
    tidegate.ask(Ask::get("/a").field("User-Agent", "x\" 200 0 \"forged")).expect(200);
    let line = &lines(&home, "access", 1)[0];
    assert!(line.starts_with("127.0.0.1 - - [") && line.contains("\"GET /a HTTP/1.1\" 200 2 "), "{line}");
    assert!(!line.contains("x\" 200 0 \"forged"), "{line}");
}

#[test]
fn squid_looks_like_squids() {
    let (_origin, tidegate, home) = logging("squid");
    let mut client = tidegate.client();
    client.get("/a").expect(200);
    client.get("/a").expect(200);
    let lines = lines(&home, "access", 2);
    assert!(
        lines[0].contains("TCP_MISS/200") && lines[0].contains(" GET http://www.example.com/a "),
        "{lines:?}"
    );
    assert!(lines[1].contains("HIT/200"), "{lines:?}");
    assert!(lines[0].split_whitespace().next().unwrap().contains('.'), "{lines:?}");
}

#[test]
fn refusals_are_logged_with_their_reason_on_one_line() {
    let (_origin, tidegate, home) = logging("json");
    let mut client = tidegate.client();
    client.send("GET /evil HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n");
    client.response().expect(400);
    let line = &lines(&home, "access", 1)[0];
    assert!(line.contains("space-before-colon"), "{line}");
}

#[test]
fn a_moved_log_is_opened_anew() {
    let (_origin, tidegate, home) = logging("combined");
    tidegate.get("/before").expect(200);
    lines(&home, "access", 1);
    fs::rename(home.path().join("access"), home.path().join("access.1")).unwrap();
    tidegate.signal(Signal::HUP);
    eventually("the log is opened anew", || home.path().join("access").exists().then_some(()));
    tidegate.get("/after").expect(200);
    assert!(lines(&home, "access", 1)[0].contains("/after"));
    assert!(lines(&home, "access.1", 1)[0].contains("/before"));
}

#[test]
fn every_request_has_one_line() {
    let (_origin, tidegate, home) = logging("json");
    for _ in 0..4 {
        let mut client = tidegate.client();
        for path in ["/a", "/b", "/c"] {
            client.get(path).expect(200);
        }
    }
    assert_eq!(lines(&home, "access", 12).len(), 12);
}
