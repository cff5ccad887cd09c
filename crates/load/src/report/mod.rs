//! Results for people and for machines: a table on a terminal, JSON, Markdown, a chart, and a page that has it all.
//!
//! What must hold: every number of a page is in the results; what the model says is drawn as a line and called that. Every
//! text is written whole, without a clock, a network or a file: the same results give the same bytes.

mod chart;
mod html;
mod markdown;
mod svg;
pub mod text;

use std::path::Path;

use crate::model::fit::{Fitted, fit};
use crate::model::{Queues, Server};
use crate::overload::Run;

/// What a report is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A page with charts and tables, in one file.
    Html,
    /// The charts alone.
    Svg,
    /// Tables.
    Markdown,
}

impl Form {
    /// By the end of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" => Some(Self::Html),
            "svg" => Some(Self::Svg),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// The report of these runs.
    pub fn of_runs(self, runs: &[Run]) -> String {
        match self {
            Self::Html => html::page(runs),
            Self::Svg => chart::all(runs),
            Self::Markdown => markdown::document(runs),
        }
    }
}

/// Runs as JSON.
///
/// # Errors
/// A number that JSON has no word for.
pub fn json(runs: &[Run]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(runs).map(|text| text + "\n")
}

/// Runs from JSON.
///
/// # Errors
/// Where it is not what [`json`] writes.
pub fn from_json(text: &str) -> serde_json::Result<Vec<Run>> {
    serde_json::from_str(text)
}

/// What explains the runs of one server.
struct Explained<'a> {
    server: &'a str,
    fitted: Fitted,
}

/// For each server in turn, the rates that its runs tell.
fn explain(runs: &[Run]) -> Vec<Explained<'_>> {
    let mut servers: Vec<&str> = runs.iter().map(|run| run.server.as_str()).collect();
    servers.dedup();
    let of = |server| {
        let series: Vec<_> = runs.iter().filter(|run| run.server == server).map(Run::series).collect();
        Some(Explained { server, fitted: fit(&series, Queues::default())? })
    };
    servers.into_iter().filter_map(of).collect()
}

impl Explained<'_> {
    /// Good replies a second without shedding, where that is known.
    fn without_shedding(&self, offered: f64, deadline_s: f64) -> Option<f64> {
        self.fitted.server.map(|server: Server| server.good_within(offered, deadline_s))
    }
}
