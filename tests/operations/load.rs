//! `tidegate load overload` as an operator uses it: against a running cache, against nobody, and with mistakes.

use serde_json::Value;
use testkit::{Origin, Reply, Tidegate, refused_address};

#[test]
fn mistakes_are_answered_with_what_is_right() {
    for (arguments, right) in [
        (&["--rates", "10"][..], "--target"),
        (&["--target", "127.0.0.1:1", "--timeout", "100"], "100ms or 1s"),
        (&["--target", "127.0.0.1:1", "--rates", "fast"], "auto, or 1 to 1000000"),
        (&["--target", "127.0.0.1:1", "--interface", "eth0"], "--clients"),
        (&["--target", "127.0.0.1:1", "--interface", "lo", "--clients", "10.0.0.9-10.0.0.1"], "FIRST-LAST"),
        (&["--target", "127.0.0.1:1", "--report", "x.pdf"], ".html, .svg or .md"),
        (&["--target", "127.0.0.1:1", "--flooder-share", "90"], "0 to 1"),
        (&["--beside", "/nonexistent/file.json"], "/nonexistent/file.json"),
    ] {
        let run = Tidegate::run(&[&["load", "overload"], arguments].concat()).expect(2);
        assert!(run.stderr.contains(right), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let (target, _reserved) = refused_address();
    let target = target.to_string();
    let run = Tidegate::run(&["load", "overload", "--target", &target, "--rates", "10"]).expect(1);
    assert!(run.stderr.contains("gave no reply"), "{}", run.stderr);
}

#[test]
fn what_was_measured_is_told_and_written() {
    let origin = Origin::always(Reply::fresh("hello"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.warm("/a");
    let file = |name: &str| tidegate.home().join(name).to_string_lossy().into_owned();
    let (json, page, again) = (file("run.json"), file("run.html"), file("again.md"));
    let target = tidegate.address().to_string();
    let run = Tidegate::run(&[
        "load",
        "overload",
        "--target",
        &target,
        "--path",
        "/a",
        "--rates",
        "200",
        "--secs",
        "0.5",
        "--timeout",
        "5s",
        "--burst",
        "20",
        "--no-recovery",
        "--json",
        &json,
        "--report",
        &page,
    ])
    .expect(0);
    assert!(run.stdout.contains("asked/s") && run.stdout.contains("20 at once: 20 good"), "{}", run.stdout);
    assert!(run.stderr.contains("ordinary sockets"), "{}", run.stderr);
    let runs: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let tally = &runs[0]["cells"][0]["tally"];
    assert_eq!((&tally["asked"], &tally["good"]), (&100.into(), &tally["started"]), "{tally}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("<svg "));
    Tidegate::run(&["load", "overload", "--beside", &json, "--report", &again]).expect(0);
    assert!(std::fs::read_to_string(&again).unwrap().contains("20 of 20"));
}

#[test]
fn passes_are_measured_and_kept_each_and_told_together() {
    let origin = Origin::always(Reply::fresh("hello"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.warm("/a");
    let file = |name: &str| tidegate.home().join(name).to_string_lossy().into_owned();
    let (json, again) = (file("run.json"), file("again.md"));
    let target = tidegate.address().to_string();
    let mut arguments = vec!["load", "overload", "--target", &target, "--path", "/a", "--rates", "100"];
    arguments.extend(["--secs", "0.2", "--timeout", "5s", "--no-recovery", "--json", &json]);
    let run = Tidegate::run(&[&arguments[..], &["--passes", "2"]].concat()).expect(0);
    assert_eq!(run.stdout.matches("lowest past the peak").count(), 2, "{}", run.stdout);
    // A further one beside them is the third of the same.
    let beside = ["--beside", &json, "--report", &again];
    Tidegate::run(&[&arguments[..], &beside].concat()).expect(0);
    let runs: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    let page = std::fs::read_to_string(&again).unwrap();
    assert_eq!((page.matches("### ").count(), page.matches("of 3 passes").count()), (1, 1), "{page}");
}
