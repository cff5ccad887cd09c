//! Mistakes in settings are named with their place; what is right is accepted.

use std::net::TcpListener;

use testkit::{Run, Tidegate, eventually};

/// Runs `tidegate check` on this text.
fn check(text: &str) -> Run {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("tidegate.toml");
    std::fs::write(&file, text).unwrap();
    Tidegate::run(&["check", &file.display().to_string()])
}

fn told(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

/// Whether a message names this line and column, as `3:1` or in words.
fn names(run: &Run, line: usize, column: usize) -> bool {
    let text = told(run);
    text.contains(&format!("{line}:{column}")) || text.contains(&format!("line {line}, column {column}"))
}

const GOOD: &str = "workers = 2\n\
    [[listen]]\naddress = \"127.0.0.1:0\"\nmode = \"reverse\"\n\
    [[site]]\nhosts = [\"www.example.com\"]\norigins = [\"http://127.0.0.1:9000\"]\n\
    [memory]\nsize = \"64MiB\"\n\
    [store]\nio = \"page-cache\"\ncheckpoint = \"2s\"\n\
    [[store.device]]\npath = \"/tmp/tidegate-check-only\"\nsize = \"64MiB\"\n\
    [forward]\nallow = [\"127.0.0.0/8\", \"::1\"]\nconnect_ports = [443]\n\
    [overload]\nkernel_cpu = 0.75\n\
    [log]\naccess = \"stdout\"\nformat = \"json\"\n\
    [admin]\nlisten = \"127.0.0.1:3129\"\n";

#[test]
fn a_good_file_passes() {
    check(GOOD).expect(0);
}

#[test]
fn a_misspelt_name_is_placed_and_the_right_one_offered() {
    let run = check("workers = 2\n[memory]\nsiez = \"64MiB\"\n").expect(2);
    assert!(names(&run, 3, 1) && told(&run).contains("siez") && told(&run).contains("size"), "{run:#?}");
}

#[test]
fn a_bad_value_is_placed_and_the_right_form_shown() {
    let run = check("[memory]\nsize = \"64 elephants\"\n").expect(2);
    assert!(names(&run, 2, 8) && told(&run).contains("MiB"), "{run:#?}");
}

#[test]
fn a_broken_file_is_placed() {
    let run = check("workers = 2\n[memory\nsize = 1\n").expect(2);
    assert!(told(&run).contains("2:") || told(&run).contains("line 2"), "{run:#?}");
}

#[test]
fn every_mistake_is_told_at_once() {
    let run = check(
        "workers = \"many\"\n[memory]\nsize = \"-1\"\n[log]\nformat = \"xml\"\n[[listen]]\naddress = \"nowhere\"\n",
    );
    for line in [1, 3, 5, 7] {
        let text = told(&run);
        assert!(
            text.contains(&format!(":{line}:")) || text.contains(&format!("line {line},")),
            "line {line}: {run:#?}"
        );
    }
    assert_eq!(run.code, 2);
}

#[test]
fn serve_refuses_what_check_refuses() {
    let run = Tidegate::forward().toml("[memory]\nsiez = \"64MiB\"").refused();
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("siez") && run.stderr.contains("2:1"), "{run:#?}");
}

#[test]
fn unknown_flags_and_commands_are_usage_errors() {
    for arguments in [&["serve", "--no-such-flag"][..], &["no-such-command"], &["check"], &["--listen"]] {
        let run = Tidegate::run(arguments);
        assert_eq!(run.code, 2, "{run:?}");
    }
}

#[test]
fn a_file_that_is_not_there() {
    let run = Tidegate::run(&["check", "/nonexistent/tidegate.toml"]).expect(2);
    assert!(told(&run).contains("/nonexistent/tidegate.toml"), "{run:?}");
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = Tidegate::forward().arg("--listen").arg(&address).refused();
    assert!(run.code == 1 && run.stderr.contains(&address), "{run:?}");
}

#[test]
fn help_and_version_are_there() {
    let help = Tidegate::run(&["--help"]).expect(0).stdout;
    for command in ["serve", "check", "format", "inspect", "purge"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(Tidegate::run(&["--version"]).expect(0).stdout.starts_with("tidegate "));
}

#[test]
fn the_start_says_what_to_try() {
    let tidegate = Tidegate::forward().start();
    eventually("a line to try is printed", || {
        let said = tidegate.stdout() + &tidegate.stderr();
        (said.contains("curl") && said.contains(&tidegate.address().to_string())).then_some(())
    });
}
