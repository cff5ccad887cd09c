//! Tables in Markdown: for each run its rates and what is not in the table, then what the model makes of them.

use std::fmt::Write;

use super::passes::{Passes, middles};
use super::text::sentences;
use super::{Explained, explain};
use crate::model::Server;
use crate::overload::{By, Cell, Recovery, Run};

/// The columns of a run's table.
pub(super) const COLUMNS: [&str; 14] = [
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
    "started late, p99 ms",
    "frames lost here",
];

/// The columns of the table that has one row for each thing that was measured.
pub(super) const SUMMARY: [&str; 12] = [
    "server",
    "within ms",
    "peak/s",
    "of the first",
    "% of the peak at 1.3 × the peak",
    "% of the peak at the highest rate",
    "worst p99 ms past the peak",
    "bystander, worst p50 ms",
    "worst p99 ms",
    "full service after, ms",
    "burst, good",
    "others beside a flooder, % of their fair share",
];

/// Tables of all runs.
pub(super) fn document(runs: &[Run]) -> String {
    let passes = Passes::of(runs);
    let mut out = format!("| {} |\n|{}\n", SUMMARY.join(" | "), "---|".repeat(SUMMARY.len()));
    summaries(&passes).iter().for_each(|row| out += &format!("| {} |\n", row.join(" | ")));
    out.push('\n');
    for of_one in &passes {
        let run = of_one.middle();
        let _ = writeln!(out, "### {}, within {} ms\n\n{}\n", run.title(), run.timeout_ms, how(of_one));
        let _ = writeln!(out, "| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
        for cell in &run.cells {
            let _ = writeln!(out, "| {} |", cells(cell).join(" | "));
        }
        out.push('\n');
        sentences(run).iter().for_each(|sentence| out += &format!("- {sentence}\n"));
        out.push('\n');
    }
    let explained = explain(&middles(runs));
    if !explained.is_empty() {
        out += "### The model\n\n";
        explained.iter().for_each(|explained| out += &format!("- {}\n", rates(explained)));
    }
    out
}

/// One row for each thing that was measured.
pub(super) fn summaries(passes: &[Passes<'_>]) -> Vec<Vec<String>> {
    passes.iter().map(|of_one| summary(of_one, &passes[0])).collect()
}

fn summary(passes: &Passes<'_>, first: &Passes<'_>) -> Vec<String> {
    let shown = passes.middle();
    let number = |digits: usize, of: &dyn Fn(&Run) -> Option<f64>| passes.spread(of).text(digits, "–");
    let of_peak = |good: fn(&Run) -> Option<f64>| number(1, &|run| Some(100.0 * good(run)? / run.peak_per_s));
    let worst =
        |of: fn(&Cell) -> Option<f64>| number(2, &|run| run.past_the_peak().filter_map(of).reduce(f64::max));
    let full_service_ms =
        |recovery: &Recovery| recovery.full_service_ms.map_or(f64::INFINITY, |ms| ms as f64);
    let burst_asked = shown.burst.as_ref().map(|burst| format!(" of {}", burst.asked)).unwrap_or_default();
    let highest_per_s = shown.cells.last().map_or(0.0, |cell| cell.asked_per_s);
    vec![
        shown.title(),
        shown.timeout_ms.to_string(),
        number(0, &|run| Some(run.peak_per_s)),
        passes.beside(first, |run, first| Some(run.peak_per_s / first.peak_per_s)).text(2, "–"),
        of_peak(|run| run.good_at(1.3 * run.peak_per_s)),
        format!("{} at {highest_per_s:.0}/s", of_peak(|run| Some(run.cells.last()?.good_per_s))),
        worst(|cell| Some(cell.tally.latency_ms.p99)),
        worst(|cell| Some(cell.bystander?.latency_ms.p50)),
        worst(|cell| Some(cell.bystander?.latency_ms.p99)),
        passes.spread(|run| run.recovery.as_ref().map(full_service_ms)).text(0, "not seen"),
        number(0, &|run| Some(run.burst.as_ref()?.good as f64)) + &burst_asked,
        number(1, &|run| Some(100.0 * run.fairness.as_ref()?.of_fair_share)),
    ]
}

/// How a run was made, and of how many it is the one that is shown.
pub(super) fn how(passes: &Passes<'_>) -> String {
    let run = passes.middle();
    let by = match run.by {
        By::Packets => "a TCP client in user space",
        By::Sockets => "ordinary sockets",
    };
    let passes = match passes.count() {
        1 => String::new(),
        count => format!("; of {count} passes the one whose peak is in the middle"),
    };
    format!(
        "`{}`, by {by}, {} client addresses, {} s for each rate{passes}.",
        run.target, run.sources, run.seconds
    )
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
        ms(tally.behind_ms.p99),
        cell.lost_frames.to_string(),
    ]
}

/// What was fitted, in a sentence.
pub(super) fn rates(explained: &Explained<'_>) -> String {
    let fitted = &explained.fitted;
    let mut out = format!("{}: capacity {:.0}/s", explained.server, fitted.capacity);
    if let Some(server) = fitted.server {
        let Server { receive_per_s, serve_per_s, .. } = server;
        let caution =
            if fitted.tells_receiving() { "" } else { " (receiving takes less than the points are off by)" };
        let _ = write!(
            out,
            "; receives {receive_per_s:.0}/s (μ1), serves {serve_per_s:.0}/s (μ2), slope past the peak without shedding {:.2}{caution}",
            -serve_per_s / receive_per_s
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
