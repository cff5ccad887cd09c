//! What the program says about itself while it runs: `tracing` events on standard error, as lines for people when that
//! is a terminal and as JSON objects, one a line, when it is not. `TIDEGATE_LOG` chooses what is said (`info` without
//! it): a level, or `target=level` pairs separated by commas.

use std::env::{self, VarError};
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::commands::Failure;

const VARIABLE: &str = "TIDEGATE_LOG";

/// Starts it.
pub(crate) fn start() -> Result<(), Failure> {
    let builder = tracing_subscriber::fmt().with_env_filter(filter()?).with_writer(io::stderr);
    if io::stderr().is_terminal() {
        builder.with_target(false).init();
    } else {
        builder.json().flatten_event(true).init();
    }
    Ok(())
}

fn filter() -> Result<EnvFilter, Failure> {
    let words = match env::var(VARIABLE) {
        Ok(words) => words,
        Err(VarError::NotPresent) => "info".into(),
        Err(VarError::NotUnicode(_)) => return Err(Failure::Usage(format!("{VARIABLE} is not UTF-8"))),
    };
    EnvFilter::try_new(&words).map_err(|error| {
        let right = "a level (error, warn, info, debug, trace) or target=level pairs";
        Failure::Usage(format!("{VARIABLE}=\"{words}\": {error}\n  = right: {right}"))
    })
}
