//! `tidegate serve`: settings, banner, and the library does the rest.

use std::io::Write;

use proxy::Started;
use proxy::settings::{ConfigFile, Environment, LogTarget, Settings, Sources, load};
use sys::probe::Machine;

use super::{Failure, check};
use crate::banner;
use crate::cli::Serve;
use crate::logging;

pub(crate) fn run(given: Serve) -> Result<(), Failure> {
    let file = given.config.as_deref().map(check::read_config).transpose()?;
    let sources = Sources { file, flags: given.flags };
    let settings = load(&sources, &Environment::of_process()).map_err(|mistakes| check::refuse(&mistakes))?;
    logging::start()?;
    proxy::run(settings, &|| reread(&sources), announce).map_err(Failure::running)
}

/// The settings as the file has them now; the command line stays what it was.
fn reread(sources: &Sources) -> Result<Settings, Vec<String>> {
    let read = |old: &ConfigFile| {
        ConfigFile::read(&old.path).map_err(|error| vec![format!("{}: {error}", old.path.display())])
    };
    let file = sources.file.as_ref().map(read).transpose()?;
    let sources = Sources { file, flags: sources.flags.clone() };
    load(&sources, &Environment::of_process())
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

/// Says that it serves, on standard output unless that is the access log. Nobody reading it is no reason to stop.
fn announce(settings: &Settings, started: &Started) {
    let text = banner::text(&Machine::probe(), settings, started);
    let _ = match settings.log.access {
        Some(LogTarget::Stdout) => std::io::stderr().write_all(text.as_bytes()),
        _ => std::io::stdout().write_all(text.as_bytes()),
    };
}
