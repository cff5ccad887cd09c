//! One file for each subcommand: arguments in, library calls, words out.

pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod format;
pub(crate) mod inspect;
pub(crate) mod load;
pub(crate) mod purge;
pub(crate) mod serve;

use std::fmt::Display;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage or configuration: exit code 2.
    Usage(String),
    /// Failed while running: exit code 1.
    Running(String),
    /// Everything was said already; this is the exit code.
    Told(u8),
}

impl Failure {
    pub(crate) fn running(error: impl Display) -> Self {
        Self::Running(error.to_string())
    }

    /// Says what happened and gives the code to end with.
    pub(crate) fn exit(self) -> ExitCode {
        let (message, code) = match self {
            Self::Usage(message) => (message, 2),
            Self::Running(message) => (message, 1),
            Self::Told(code) => return ExitCode::from(code),
        };
        eprintln!("tidegate: {message}");
        ExitCode::from(code)
    }
}
