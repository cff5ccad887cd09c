//! What a server does past its peak: each request on a connection of its own, open loop, at rates below and far above
//! what it can serve.
//!
//! The results are values here ([`Run`]), written and read as JSON; [`measure`] makes them, [`crate::report`] tells them.
//! A run has one *cell* for each rate, and then, at the highest of them: how soon after the flood service is full again,
//! what becomes of a burst on an idle server, and how those fare who share the server with one that floods it.

pub mod measure;
mod peak;

use serde::{Deserialize, Serialize};

pub use crate::bystander::Seen;
use crate::model::Queues;
use crate::model::fit::{Series, Shedding};
use crate::outcome::{Fate, Outcome, Tally};

/// Everything that was measured of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which server; runs of the same one are explained by the same rates.
    pub server: String,
    /// What it does with connections that are too many, by the word of who measures.
    pub shedding: Shedding,
    /// How many connections it lets wait, by the word of who measures.
    pub backlog: u32,
    /// Address and path that were asked.
    pub target: String,
    /// How connections were made.
    pub by: By,
    /// Client addresses that took turns.
    pub sources: usize,
    /// A reply that takes longer is late.
    pub timeout_ms: u64,
    /// How long each rate was offered.
    pub seconds: f64,
    /// By rate, ascending.
    pub cells: Vec<Cell>,
    /// The most good replies a second in a cell.
    pub peak_per_s: f64,
    /// Of the cells that asked for no less than that at the peak: the fewest good replies, as a share of the peak.
    pub lowest_past_peak: f64,
    /// After a flood at the highest rate.
    pub recovery: Option<Recovery>,
    /// So many at once, on an idle server.
    pub burst: Option<Tally>,
    /// Where one address floods.
    pub fairness: Option<Fairness>,
}

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// By a TCP client in user space.
    Packets,
    /// By the kernel's.
    Sockets,
}

/// One rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Requests a second that were planned.
    pub asked_per_s: f64,
    /// Requests a second that were offered.
    pub started_per_s: f64,
    /// Whole replies a second, in time.
    pub good_per_s: f64,
    /// The counts behind it.
    pub tally: Tally,
    /// Frames lost on this side: a reason to doubt the cell.
    pub lost_frames: u64,
    /// What a client saw that was there before.
    pub bystander: Option<Seen>,
}

/// The time after a flood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Rate of the flood.
    pub flood_per_s: f64,
    /// Rate after it.
    pub calm_per_s: f64,
    /// Until full service, in steps of 50 ms; nothing if it never came.
    pub full_service_ms: Option<u64>,
    /// Share of good replies in each 50 ms after the flood.
    pub good_shares: Vec<f64>,
}

/// How those fare who share a server with a flooder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    /// Requests a second of all together.
    pub asked_per_s: f64,
    /// The flooder's share of them.
    pub flooder_share: f64,
    /// Its requests.
    pub flooder: Tally,
    /// Those of all others.
    pub others: Tally,
    /// Good replies to the others, as a share of what is fair: what they asked for, or an equal part of the peak each,
    /// whichever is less.
    pub of_fair_share: f64,
}

impl Run {
    /// The name in tables and charts.
    pub fn title(&self) -> String {
        let sheds = match self.shedding {
            Shedding::None => "no shedding",
            Shedding::Syn => "SYNs dropped",
            Shedding::Elsewhere => "SYNs dropped elsewhere",
        };
        format!("{}, {sheds}", self.server)
    }

    /// Whether both measured the same: the server, what it does with too many connections, and what counts as late.
    pub fn is_pass_of_the_same(&self, other: &Self) -> bool {
        (&self.server, self.shedding, self.timeout_ms) == (&other.server, other.shedding, other.timeout_ms)
    }

    /// Good replies a second when so many are asked for, between the cells on either side; nothing beyond them.
    pub fn good_at(&self, asked_per_s: f64) -> Option<f64> {
        let is_around = |pair: &&[Cell]| (pair[0].asked_per_s..=pair[1].asked_per_s).contains(&asked_per_s);
        let pair = self.cells.windows(2).find(is_around)?;
        let way = (asked_per_s - pair[0].asked_per_s) / (pair[1].asked_per_s - pair[0].asked_per_s);
        Some(pair[0].good_per_s + way * (pair[1].good_per_s - pair[0].good_per_s))
    }

    /// Cells that ask for no less than the peak.
    pub fn past_the_peak(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| cell.asked_per_s >= self.peak_per_s)
    }

    /// As the model takes it.
    pub fn series(&self) -> Series {
        let points = self.cells.iter().map(|cell| (cell.started_per_s, cell.good_per_s)).collect();
        Series {
            shedding: self.shedding,
            deadline_s: self.timeout_ms as f64 / 1e3,
            queues: self.queues(),
            points,
        }
    }

    /// As the model takes it.
    pub fn queues(&self) -> Queues {
        Queues { serve: f64::from(self.backlog), ..Queues::default() }
    }

    /// Fills in what follows from the cells.
    fn sum_up(&mut self) {
        self.cells.sort_by(|a, b| a.asked_per_s.total_cmp(&b.asked_per_s));
        let good: Vec<f64> = self.cells.iter().map(|cell| cell.good_per_s).collect();
        let peak = (0..good.len()).max_by(|a, b| good[*a].total_cmp(&good[*b])).unwrap_or(0);
        self.peak_per_s = good.get(peak).copied().unwrap_or(0.0);
        let lowest = good[peak..].iter().copied().fold(self.peak_per_s, f64::min);
        self.lowest_past_peak = if self.peak_per_s > 0.0 { lowest / self.peak_per_s } else { 0.0 };
    }
}

impl Cell {
    fn of(asked_per_s: f64, seconds: f64, tally: Tally, lost_frames: u64, bystander: Option<Seen>) -> Self {
        let (started_per_s, good_per_s) = (tally.started as f64 / seconds, tally.good as f64 / seconds);
        Self { asked_per_s, started_per_s, good_per_s, tally, lost_frames, bystander }
    }
}

/// A step of the recovery.
const BIN_NS: u64 = 50_000_000;
/// Full service: so many of the requests of a step are good.
const FULL: f64 = 0.99;

impl Recovery {
    /// From what was planned after `calm_ns`.
    fn of(outcomes: &[Outcome], calm_ns: u64, flood_per_s: f64, calm_per_s: f64) -> Self {
        let calm = outcomes.iter().filter(|outcome| outcome.planned_ns >= calm_ns);
        let mut bins: Vec<(u64, u64)> = Vec::new();
        for outcome in calm.filter(|outcome| outcome.fate != Fate::NotStarted) {
            let bin = ((outcome.planned_ns - calm_ns) / BIN_NS) as usize;
            bins.resize(bins.len().max(bin + 1), (0, 0));
            bins[bin].0 += 1;
            bins[bin].1 += u64::from(outcome.fate == Fate::Good);
        }
        let share =
            |&(started, good): &(u64, u64)| if started == 0 { 1.0 } else { good as f64 / started as f64 };
        let good_shares: Vec<f64> = bins.iter().map(share).collect();
        let full_from = good_shares.iter().rposition(|share| *share < FULL).map_or(0, |last| last + 1);
        let full_service_ms =
            (full_from < good_shares.len()).then_some(full_from as u64 * BIN_NS / 1_000_000);
        Self { flood_per_s, calm_per_s, full_service_ms, good_shares }
    }
}

impl Fairness {
    /// Of a plan in which the first of `sources` addresses floods, against a server that peaks at `peak_per_s`.
    fn of(outcomes: &[Outcome], sources: usize, seconds: f64, flooder_share: f64, peak_per_s: f64) -> Self {
        let from =
            |is_flooder: bool| outcomes.iter().filter(move |outcome| (outcome.source == 0) == is_flooder);
        let (flooder, others) = (Tally::of(from(true)), Tally::of(from(false)));
        let equal_parts_per_s = peak_per_s * (sources - 1) as f64 / sources as f64;
        let fair_per_s = (others.started as f64 / seconds).min(equal_parts_per_s);
        let of_fair_share = if fair_per_s > 0.0 { others.good as f64 / seconds / fair_per_s } else { 0.0 };
        let asked_per_s = outcomes.len() as f64 / seconds;
        Self { asked_per_s, flooder_share, flooder, others, of_fair_share }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn outcome(planned_ms: u64, source: usize, fate: Fate) -> Outcome {
        let planned_ns = planned_ms * 1_000_000;
        Outcome { planned_ns, behind_ns: 0, latency_ns: 1_000_000, source, established: true, fate }
    }

    /// A run with these good rates at 1000, 2000 and so on.
    pub(crate) fn run(shedding: Shedding, timeout_ms: u64, good: &[f64]) -> Run {
        let cell = |(n, good): (usize, &f64)| {
            let tally = Tally {
                asked: 1000 * (n as u64 + 1),
                started: 1000 * (n as u64 + 1),
                good: *good as u64,
                ..Tally::default()
            };
            Cell::of(1000.0 * (n + 1) as f64, 1.0, tally, 0, Some(Seen::default()))
        };
        let mut run = Run {
            server: "a <server>".into(),
            shedding,
            backlog: 400,
            target: "10.0.0.1:80/x".into(),
            by: By::Packets,
            sources: 6,
            timeout_ms,
            seconds: 1.0,
            cells: good.iter().enumerate().map(cell).collect(),
            peak_per_s: 0.0,
            lowest_past_peak: 0.0,
            recovery: None,
            burst: None,
            fairness: None,
        };
        run.sum_up();
        run
    }

    #[test]
    fn the_lowest_past_the_peak_is_a_share_of_it() {
        for (good, peak, lowest) in [
            (&[1000.0, 1900.0, 950.0, 1200.0][..], 1900.0, 0.5),
            (&[1000.0, 2000.0], 2000.0, 1.0),
            (&[500.0, 2000.0, 2000.0], 2000.0, 1.0),
            (&[0.0, 0.0], 0.0, 0.0),
            (&[], 0.0, 0.0),
        ] {
            let run = run(Shedding::None, 100, good);
            assert_eq!((run.peak_per_s, run.lowest_past_peak), (peak, lowest), "{good:?}");
        }
    }

    #[test]
    fn between_cells_is_a_straight_line() {
        let run = run(Shedding::None, 100, &[1000.0, 2000.0, 500.0]);
        let at = [1000.0, 1500.0, 2500.0, 3000.0].map(|asked| run.good_at(asked));
        assert_eq!(at, [Some(1000.0), Some(1500.0), Some(1250.0), Some(500.0)]);
        assert_eq!((run.good_at(999.0), run.good_at(3001.0)), (None, None));
        assert_eq!(run.past_the_peak().count(), 2);
    }

    #[test]
    fn recovery_is_when_no_bad_step_follows() {
        let calm_ms = 1000;
        let outcomes = |bad: &[u64]| -> Vec<Outcome> {
            let fate = |at: u64| if bad.contains(&(at / 50)) { Fate::Late } else { Fate::Good };
            let flood = (0..calm_ms).map(|at| outcome(at, 0, Fate::Late));
            flood.chain((0..500).map(|at| outcome(calm_ms + at, 0, fate(at)))).collect()
        };
        for (bad, expected) in [(&[][..], Some(0)), (&[0], Some(50)), (&[0, 2], Some(150)), (&[9], None)] {
            let recovery = Recovery::of(&outcomes(bad), calm_ms * 1_000_000, 80e3, 10e3);
            assert_eq!(recovery.full_service_ms, expected, "{bad:?}");
            assert_eq!(recovery.good_shares.len(), 10);
        }
        assert_eq!(Recovery::of(&[], 0, 1.0, 1.0).full_service_ms, None, "nothing was seen");
    }

    #[test]
    fn fair_is_what_was_asked_for_or_an_equal_part() {
        // Ten a second, one of them from another: it gets one of its four, or one of the two that are its part.
        let outcomes: Vec<_> = (0..10)
            .map(|n| {
                let source = usize::from(n >= 6);
                outcome(n, source, if n == 9 || n < 3 { Fate::Good } else { Fate::Late })
            })
            .collect();
        let fairness = |peak| Fairness::of(&outcomes, 2, 1.0, 0.6, peak);
        assert_eq!((fairness(100.0).of_fair_share, fairness(4.0).of_fair_share), (0.25, 0.5));
        assert_eq!((fairness(4.0).flooder.good, fairness(4.0).others.asked), (3, 4));
    }

    #[test]
    fn a_run_is_read_as_it_was_written() {
        let mut run = run(Shedding::Elsewhere, 100, &[1000.0, 1500.0]);
        run.recovery = Some(Recovery {
            flood_per_s: 1.0,
            calm_per_s: 2.0,
            full_service_ms: Some(50),
            good_shares: vec![0.5],
        });
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Run>(&text).unwrap(), run);
        assert!(text.contains("\"shedding\":\"elsewhere\"") && text.contains("\"by\":\"packets\""), "{text}");
    }
}
