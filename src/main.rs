//! The program `tidegate`: reads the command line, hands settings to the library, turns the outcome into an exit code.
//!
//! Exit codes: 0 done, 1 failed while running, 2 bad usage or configuration. Nothing is decided here that a
//! library could decide.

#![forbid(unsafe_code)]

mod banner;
mod cli;
mod commands;
mod logging;
mod progress;
mod table;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use commands::Failure;

/// Large buffers come and go with every miss. The system's allocator gives each back to the kernel and pays for its
/// page faults again: a quarter of the CPU time of a 13 KiB miss (docs/decisions/0006-allocator.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command.unwrap_or(Command::Serve(cli.serve)) {
        Command::Serve(given) => commands::serve::run(given),
        Command::Check(given) => commands::check::run(&given),
        Command::Format(given) => commands::format::run(&given),
        Command::Inspect(given) => commands::inspect::run(&given),
        Command::Purge(given) => commands::purge::run(&given),
        Command::Load(given) => commands::load::run(given),
        Command::Doctor(given) => commands::doctor::run(&given),
    };
    done.map_or_else(Failure::exit, |()| ExitCode::SUCCESS)
}
