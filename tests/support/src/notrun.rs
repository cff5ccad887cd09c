//! Tests that cannot run here say so. They never pass in silence.

use std::io::Write;
use std::process::{Command, Stdio};

/// Reports that a test did not run. Goes past the test runner's capture to the real standard error.
pub fn not_run(test: &str, reason: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {reason}");
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is installed.
pub fn have(program: &str) -> bool {
    let found =
        Command::new("sh").arg("-c").arg(format!("command -v {program}")).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}
