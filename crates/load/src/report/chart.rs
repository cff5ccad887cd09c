//! Which charts show runs: good replies by rate with the model's lines, and latency by rate, for each deadline.

use super::passes::middles;
use super::svg::{Chart, Scale, Series, Stroke, image, round_up};
use super::{Explained, explain};
use crate::model::Server;
use crate::model::fit::Shedding;
use crate::overload::{Cell, Run};

/// Points of a model's line.
const LINE_POINTS: usize = 200;

/// All charts of these runs in one image.
pub(super) fn all(runs: &[Run]) -> String {
    image(&charts(&middles(runs)))
}

fn charts(runs: &[&Run]) -> Vec<Chart> {
    let explained = explain(runs);
    let mut deadlines: Vec<u64> = runs.iter().map(|run| run.timeout_ms).collect();
    deadlines.sort_unstable();
    deadlines.dedup();
    let of = |deadline: u64| {
        let runs: Vec<(usize, &Run)> =
            runs.iter().copied().filter(|run| run.timeout_ms == deadline).enumerate().collect();
        [good(&runs, deadline, &explained), latency(&runs, deadline)]
    };
    deadlines.into_iter().flat_map(of).collect()
}

fn good(runs: &[(usize, &Run)], deadline_ms: u64, explained: &[Explained<'_>]) -> Chart {
    let offered_max = offered_max(runs);
    let good_max = runs.iter().map(|(_, run)| run.peak_per_s).fold(1.0, f64::max);
    let measured = |(colour, run): &(usize, &Run)| Series {
        name: run.title(),
        colour: *colour,
        stroke: Stroke::Measured,
        points: run.cells.iter().map(|cell| (cell.started_per_s, cell.good_per_s)).collect(),
    };
    let modelled = |(colour, run): &(usize, &Run)| {
        let of_server = explained.iter().find(|explained| explained.server == run.server)?;
        Some(model(of_server, run, *colour, offered_max))
    };
    Chart {
        title: format!("Good replies within {deadline_ms} ms"),
        x: ("connections offered a second", Scale::Linear(offered_max)),
        y: ("good replies a second", Scale::Linear(round_up(good_max / 5.0) * 6.0)),
        series: runs.iter().map(measured).chain(runs.iter().filter_map(modelled).flatten()).collect(),
    }
}

/// The model's line for a run, where its rates are known.
fn model(explained: &Explained<'_>, run: &Run, colour: usize, offered_max: f64) -> Vec<Series> {
    let deadline_s = run.timeout_ms as f64 / 1e3;
    let line = |name: &str, good: &dyn Fn(f64) -> Option<f64>| {
        let offered = (1..=LINE_POINTS).map(|n| offered_max * n as f64 / LINE_POINTS as f64);
        let points = offered.map(|offered| Some((offered, good(offered)?))).collect::<Option<Vec<_>>>()?;
        let name = format!("model: {}, {name}", run.server);
        Some(Series { name, colour, stroke: Stroke::Model, points })
    };
    let fitted = explained.fitted;
    let own = match run.shedding {
        Shedding::None => line("no shedding", &|offered| {
            let server = Server { queues: run.queues(), ..fitted.server? };
            Some(server.good_within(offered, deadline_s))
        }),
        Shedding::Syn => line("SYNs dropped", &|offered| {
            Some(crate::model::with_shedding(fitted.capacity, offered, fitted.drop_per_s?))
        }),
        Shedding::Elsewhere => line("SYNs dropped elsewhere", &|offered| Some(offered.min(fitted.capacity))),
    };
    own.into_iter().collect()
}

fn latency(runs: &[(usize, &Run)], deadline_ms: u64) -> Chart {
    let line = |(colour, run): &(usize, &Run), name: &str, stroke, of: &dyn Fn(&Cell) -> f64| Series {
        name: format!("{}, {name}", run.title()),
        colour: *colour,
        stroke,
        points: run
            .cells
            .iter()
            .filter(|cell| cell.tally.good > 0)
            .map(|cell| (cell.started_per_s, of(cell)))
            .collect(),
    };
    let both = |run: &(usize, &Run)| {
        [
            line(run, "p99", Stroke::Measured, &|cell| cell.tally.latency_ms.p99),
            line(run, "p50", Stroke::Dotted, &|cell| cell.tally.latency_ms.p50),
        ]
    };
    Chart {
        title: format!("Latency of good replies, from the planned start (deadline {deadline_ms} ms)"),
        x: ("connections offered a second", Scale::Linear(offered_max(runs))),
        y: ("milliseconds", Scale::Log(0.1, 10_f64.powf((deadline_ms.max(2) as f64).log10().ceil()))),
        series: runs.iter().flat_map(both).collect(),
    }
}

fn offered_max(runs: &[(usize, &Run)]) -> f64 {
    let cells = runs.iter().flat_map(|(_, run)| &run.cells);
    cells.map(|cell| cell.started_per_s).fold(1.0, f64::max)
}
