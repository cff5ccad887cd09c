//! `tidegate doctor`: what this machine offers, whether that is fine for these settings, and what to change and why.
//!
//! What must hold: nothing is changed; the advice is a function of readings and settings alone; where something cannot be
//! read, that is what is said. The exit code is 1 when something should be changed.

mod finding;
mod machine;
mod receive;
mod store;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use proxy::settings::{Environment, Settings, Sources, load};
use sys::device::DirectReads;
use sys::probe::{Machine, Network, Privileges};

use super::{Failure, check};
use crate::cli::Doctor;
use finding::{Finding, Verdict};

/// All that was read.
struct Readings {
    machine: Machine,
    network: Network,
    privileges: Option<Privileges>,
    /// The store's devices, and whether they can be read past the page cache.
    devices: Vec<(PathBuf, std::io::Result<DirectReads>)>,
}

pub(crate) fn run(given: &Doctor) -> Result<(), Failure> {
    let file = given.config.as_deref().map(check::read_config).transpose()?;
    let with_store = file.is_some();
    let sources = Sources { file, flags: Vec::new() };
    let settings = load(&sources, &Environment::of_process()).map_err(|mistakes| check::refuse(&mistakes))?;
    let findings = examine(&read(&settings, with_store), &settings);
    if given.json {
        println!("{}", finding::as_json(&findings));
    } else {
        print!("{}", finding::as_text(&findings));
    }
    let change = findings.iter().any(|finding| finding.verdict == Verdict::Change);
    if change { Err(Failure::Told(1)) } else { Ok(()) }
}

/// The devices are only looked at where somebody named them: the default one may not be there yet.
fn read(settings: &Settings, with_store: bool) -> Readings {
    let paths = settings.store.devices.iter().map(|device| device.path.clone()).filter(|_| with_store);
    let device = |path: PathBuf| {
        let answer = sys::device::direct_reads(&path);
        (path, answer)
    };
    Readings {
        machine: Machine::probe(),
        network: Network::read(Path::new("/")),
        privileges: Privileges::of_process(Path::new("/")),
        devices: paths.map(device).collect(),
    }
}

/// What the readings mean for these settings, in the order in which one would look.
fn examine(readings: &Readings, settings: &Settings) -> Vec<Finding> {
    let mut findings = machine::findings(readings, settings);
    findings.extend(receive::findings(readings, settings));
    findings.extend(store::findings(readings));
    findings
}
