//! `tidegate load`: arguments in, measurements of the `load` library, tables and files out.

use std::fs;
use std::path::Path;

use indicatif::ProgressBar;
use load::overload::Run;
use load::overload::measure::{self, Event, Options};
use load::report;

use super::Failure;
use crate::cli::load::{Load, Overload, ServerMac, What};
use crate::progress;

pub(crate) fn run(given: Load) -> Result<(), Failure> {
    match given.what {
        What::Overload(given) => overload(given),
    }
}

fn overload(given: Overload) -> Result<(), Failure> {
    let mut runs = Vec::new();
    for path in &given.beside {
        runs.extend(read(path)?);
    }
    if let Some(options) = options(&given) {
        for _ in 0..given.passes {
            let run = measured(&options)?;
            print!("{}", report::text::after_cells(&run));
            runs.push(run);
        }
    }
    if let Some(path) = &given.json {
        write(path, &report::json(&runs).map_err(Failure::running)?)?;
    }
    for path in &given.report {
        let Some(form) = report::Form::of(path) else { continue };
        write(path, &form.of_runs(&runs))?;
    }
    Ok(())
}

/// What is to be measured; nothing without a target.
fn options(given: &Overload) -> Option<Options> {
    Some(Options {
        server: given.server.clone(),
        shedding: given.shedding.into(),
        backlog: given.backlog,
        target: given.target?,
        path: given.path.clone(),
        interface: given.interface.clone(),
        clients: given.clients.as_ref().map(|clients| clients.0.clone()).unwrap_or_default(),
        server_mac: match given.server_mac {
            ServerMac::Auto => None,
            ServerMac::Given(mac) => Some(mac),
        },
        rates: given.rates.clone(),
        seconds: given.secs,
        timeout: given.timeout,
        recovery: !given.no_recovery,
        burst: given.burst,
        flooder_share: given.flooder_share,
    })
}

fn measured(options: &Options) -> Result<Run, Failure> {
    let bar = progress::time();
    if options.interface.is_none() {
        eprintln!(
            "ordinary sockets: \"started\" says how much of what was asked they could offer (--interface offers more)"
        );
    }
    print!("{}", report::text::head());
    let run = measure::run(options, &mut |event| show(&bar, &event));
    bar.finish_and_clear();
    run.map_err(Failure::running)
}

fn show(bar: &ProgressBar, event: &Event<'_>) {
    match event {
        Event::Begins(what, length) => {
            bar.set_message((*what).to_owned());
            progress::show(bar, 0, length.as_millis() as u64);
        }
        Event::At(passed) => bar.set_position(passed.as_millis() as u64),
        Event::NoBystander(why) => bar.suspend(|| eprintln!("no bystander: {why}")),
        Event::Cell(cell) => bar.suspend(|| print!("{}", report::text::row(cell))),
    }
}

fn read(path: &Path) -> Result<Vec<Run>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    report::from_json(&text)
        .map_err(|error| wrong(&format!("not what `load overload --json` writes: {error}")))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::Running(format!("{}: {error}", path.display())))
}
