//! Rows on a terminal, as they come.

use std::fmt::Write;

use crate::overload::{Cell, Run};

/// Above the rows.
pub fn head() -> String {
    format!(
        "{:>8} {:>9} {:>8} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8}  bystander p50, p99\n",
        "asked/s", "started/s", "good/s", "shed/s", "late/s", "failed/s", "p50 ms", "p90 ms", "p99 ms"
    )
}

/// One rate.
pub fn row(cell: &Cell) -> String {
    let seconds = cell.tally.asked as f64 / cell.asked_per_s;
    let per_s = |count: u64| count as f64 / seconds;
    let tally = &cell.tally;
    let latency = tally.latency_ms;
    let mut line = format!(
        "{:>8.0} {:>9.0} {:>8.0} {:>7.0} {:>8.0} {:>8.0} {:>8.2} {:>8.2} {:>8.2}",
        cell.asked_per_s,
        cell.started_per_s,
        cell.good_per_s,
        per_s(tally.shed),
        per_s(tally.late),
        per_s(tally.failed),
        latency.p50,
        latency.p90,
        latency.p99
    );
    if let Some(seen) = cell.bystander {
        let _ = write!(line, "  {:.2} ms, {:.2} ms", seen.latency_ms.p50, seen.latency_ms.p99);
        if seen.failed > 0 {
            let _ = write!(line, ", {} of {} failed", seen.failed, seen.failed + seen.answered);
        }
    }
    if cell.lost_frames > 0 {
        let _ = write!(line, "  ({} frames lost here)", cell.lost_frames);
    }
    line + "\n"
}

/// What follows the rows.
pub fn after_cells(run: &Run) -> String {
    sentences(run).into_iter().map(|sentence| sentence + "\n").collect()
}

/// What is not in the table, in sentences.
pub(super) fn sentences(run: &Run) -> Vec<String> {
    let mut out = vec![format!(
        "peak {:.0}/s; lowest past the peak {:.1} % of it",
        run.peak_per_s,
        100.0 * run.lowest_past_peak
    )];
    if let Some(recovery) = &run.recovery {
        let after = match recovery.full_service_ms {
            Some(ms) => format!("full service after {ms} ms"),
            None => "no full service within what was watched".to_owned(),
        };
        let (flood, calm) = (recovery.flood_per_s, recovery.calm_per_s);
        out.push(format!("{flood:.0}/s and then {calm:.0}/s: {after}"));
    }
    if let Some(burst) = &run.burst {
        let (good, asked, slowest) = (burst.good, burst.asked, burst.latency_ms.max);
        out.push(format!("{asked} at once: {good} good, the slowest after {slowest:.0} ms"));
    }
    if let Some(fairness) = &run.fairness {
        out.push(format!(
            "one address sends {:.0} % of {:.0}/s: the others get {:.1} % of their fair share ({} of {} good), it gets {} of {}",
            100.0 * fairness.flooder_share,
            fairness.asked_per_s,
            100.0 * fairness.of_fair_share,
            fairness.others.good,
            fairness.others.started,
            fairness.flooder.good,
            fairness.flooder.started
        ));
    }
    out
}
