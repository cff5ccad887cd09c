//! Tables in Markdown: for each run its rates and what is not in the table, then what the model makes of them.

use std::fmt::Write;

use super::text::sentences;
use super::{Explained, explain};
use crate::overload::{By, Cell, Run};

/// The columns of a run's table.
pub(super) const COLUMNS: [&str; 13] = [
    "asked/s",
    "started/s",
    "good/s",
    "shed",
    "late",
    "failed",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "bystander p50 ms",
    "p99 ms",
    "failed",
    "frames lost here",
];

/// Tables of all runs.
pub(super) fn document(runs: &[Run]) -> String {
    let mut out = String::new();
    for run in runs {
        let _ = writeln!(out, "### {}, within {} ms\n\n{}\n", run.title(), run.timeout_ms, how(run));
        let _ = writeln!(out, "| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        for cell in &run.cells {
            let _ = writeln!(out, "| {} |", cells(cell).join(" | "));
        }
        out.push('\n');
        sentences(run).iter().for_each(|sentence| out += &format!("- {sentence}\n"));
        out.push('\n');
    }
    let explained = explain(runs);
    if !explained.is_empty() {
        out += "### The model\n\n";
        explained.iter().for_each(|explained| out += &format!("- {}\n", rates(explained)));
    }
    out
}

/// How a run was made.
pub(super) fn how(run: &Run) -> String {
    let by = match run.by {
        By::Packets => "a TCP client in user space",
        By::Sockets => "ordinary sockets",
    };
    format!("`{}`, by {by}, {} client addresses, {} s for each rate.", run.target, run.sources, run.seconds)
}

/// A row of a run's table.
pub(super) fn cells(cell: &Cell) -> Vec<String> {
    let tally = &cell.tally;
    let whole = |value: f64| format!("{value:.0}");
    let ms = |value: f64| format!("{value:.2}");
    let seen = |of: &dyn Fn(&crate::overload::Seen) -> String| cell.bystander.as_ref().map_or("–".into(), of);
    vec![
        whole(cell.asked_per_s),
        whole(cell.started_per_s),
        whole(cell.good_per_s),
        tally.shed.to_string(),
        tally.late.to_string(),
        tally.failed.to_string(),
        ms(tally.latency_ms.p50),
        ms(tally.latency_ms.p90),
        ms(tally.latency_ms.p99),
        seen(&|seen| ms(seen.latency_ms.p50)),
        seen(&|seen| ms(seen.latency_ms.p99)),
        seen(&|seen| seen.failed.to_string()),
        cell.lost_frames.to_string(),
    ]
}

/// What was fitted, in a sentence.
pub(super) fn rates(explained: &Explained<'_>) -> String {
    let fitted = &explained.fitted;
    let mut out = format!("{}: capacity {:.0}/s", explained.server, fitted.capacity);
    if let Some(server) = fitted.server {
        let _ = write!(
            out,
            "; receives {:.0}/s (μ1), serves {:.0}/s (μ2), slope past the peak without shedding {:.2}",
            server.receive_per_s,
            server.serve_per_s,
            -server.serve_per_s / server.receive_per_s
        );
    }
    if let Some(drop_per_s) = fitted.drop_per_s {
        let _ = write!(out, "; drops {drop_per_s:.0}/s (μd), {:.2} µs each", 1e6 / drop_per_s);
    }
    let _ = write!(
        out,
        ". Points are off by {:.1} % of the capacity (root of the mean square)",
        100.0 * fitted.error
    );
    out
}
