//! `tidegate check`: every mistake in a configuration file, or what it amounts to.

use std::path::Path;

use proxy::settings::table::SETTINGS;
use proxy::settings::{ConfigFile, Environment, Mistake, Settings, Sources, load};
use serde_json::json;

use super::Failure;
use crate::cli::Check;

pub(crate) fn run(given: &Check) -> Result<(), Failure> {
    let sources = Sources { file: Some(read_config(&given.file)?), flags: Vec::new() };
    let outcome = load(&sources, &Environment::of_process());
    if given.json {
        return as_json(&outcome);
    }
    let settings = outcome.map_err(|mistakes| refuse(&mistakes))?;
    print!("{}", summary(&given.file, &settings));
    Ok(())
}

fn as_json(outcome: &Result<Settings, Vec<Mistake>>) -> Result<(), Failure> {
    let mistakes = outcome.as_ref().err().map_or(&[][..], Vec::as_slice);
    println!("{}", json!({"ok": mistakes.is_empty(), "mistakes": mistakes}));
    if mistakes.is_empty() { Ok(()) } else { Err(Failure::Told(2)) }
}

/// Reads a configuration file; that it cannot be read is a mistake in usage.
pub(crate) fn read_config(path: &Path) -> Result<ConfigFile, Failure> {
    ConfigFile::read(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// All mistakes in one message.
pub(crate) fn refuse(mistakes: &[Mistake]) -> Failure {
    let count = match mistakes.len() {
        1 => "one mistake".to_owned(),
        n => format!("{n} mistakes"),
    };
    let texts: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Failure::Usage(format!("{count} in the configuration\n\n{}\n", texts.join("\n\n")))
}

fn summary(file: &Path, settings: &Settings) -> String {
    let mut out = format!("{}: no mistakes\n\n", file.display());
    for line in listen(settings) {
        out += &format!("listen   {line}\n");
    }
    for site in &settings.sites {
        let origins: Vec<_> = site.origins.iter().map(|origin| origin.authority()).collect();
        out += &format!("site     {} from {}\n", site.hosts.join(", "), origins.join(", "));
    }
    for device in &settings.store.devices {
        let size = device.size.map(|bytes| format!(", {}", proxy::settings::units::show_size(bytes)));
        out += &format!("store    {}{}\n", device.path.display(), size.unwrap_or_default());
    }
    let values: Vec<Vec<String>> = SETTINGS
        .iter()
        .map(|setting| vec![setting.name.into(), "=".into(), setting.show(settings)])
        .collect();
    format!("{out}\n{}", crate::table::lay_out(&values, &[]))
}

fn listen(settings: &Settings) -> Vec<String> {
    settings.listen.iter().map(|listen| format!("{} {}", listen.address, listen.mode.word())).collect()
}
