//! What became of each request, and what that amounts to.
//!
//! What must hold: every planned request has exactly one outcome, so that the parts sum up to what was asked. Latency
//! counts from the planned start: a server that stalls delays all who should have started meanwhile, and they are counted
//! too.

use serde::{Deserialize, Serialize};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The whole reply came in time, with a status of 2xx.
    Good,
    /// A reply of 5xx came in time.
    Shed,
    /// Nothing whole came in time.
    Late,
    /// It was reset, cut short, or something else was answered.
    Failed,
    /// The generator could not start it in time.
    NotStarted,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When it was to start, since the beginning of the plan.
    pub planned_ns: u64,
    /// So long after its planned start it was started.
    pub behind_ns: u64,
    /// From the planned start to the end of the reply; of those that are good.
    pub latency_ns: u64,
    /// Which of the client addresses it came from.
    pub source: usize,
    /// Whether the handshake was completed.
    pub established: bool,
    /// How it ended.
    pub fate: Fate,
}

impl Outcome {
    /// Ends it, so long after the beginning of the plan. A reply that nobody looked at until it was late is late.
    pub(crate) fn end(&mut self, fate: Fate, now_ns: u64, timeout_ns: u64) {
        self.latency_ns = now_ns.saturating_sub(self.planned_ns);
        let replied = matches!(fate, Fate::Good | Fate::Shed);
        self.fate = if replied && self.latency_ns > timeout_ns { Fate::Late } else { fate };
    }
}

/// Everything that was planned, in the order of its planned start.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// One for each planned request.
    pub all: Vec<Outcome>,
    /// Frames that were lost on this side: the receive ring was full, or the interface refused them.
    pub lost_frames: u64,
}

/// Counts, and the latency of what was good.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Planned.
    pub asked: u64,
    /// Offered to the server in time.
    pub started: u64,
    /// With a completed handshake.
    pub established: u64,
    /// Answered whole, with 2xx, in time.
    pub good: u64,
    /// Answered with 5xx.
    pub shed: u64,
    /// Not answered in time.
    pub late: u64,
    /// Reset, cut short, or answered with something else.
    pub failed: u64,
    /// Of the good ones.
    pub latency_ms: Quantiles,
    /// How late requests were started: what this side adds to the latency.
    #[serde(default)]
    pub behind_ms: Quantiles,
}

/// Of some latencies, in milliseconds; 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// Half is faster.
    pub p50: f64,
    /// Nine in ten are faster.
    pub p90: f64,
    /// 99 in 100 are faster.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Tally {
    /// Of these outcomes.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        let mut tally = Self::default();
        let (mut latencies, mut behind) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            tally.asked += 1;
            if outcome.fate != Fate::NotStarted {
                tally.started += 1;
                behind.push(outcome.behind_ns);
            }
            tally.established += u64::from(outcome.established);
            match outcome.fate {
                Fate::Good => {
                    tally.good += 1;
                    latencies.push(outcome.latency_ns);
                }
                Fate::Shed => tally.shed += 1,
                Fate::Late => tally.late += 1,
                Fate::Failed => tally.failed += 1,
                Fate::NotStarted => {}
            }
        }
        tally.latency_ms = Quantiles::of(latencies);
        tally.behind_ms = Quantiles::of(behind);
        tally
    }

    /// Good of what was started; 1 where nothing was.
    pub fn good_share(&self) -> f64 {
        if self.started == 0 { 1.0 } else { self.good as f64 / self.started as f64 }
    }
}

impl Quantiles {
    /// Of latencies in nanoseconds: the smallest that is not below so many of them.
    pub fn of(mut latencies_ns: Vec<u64>) -> Self {
        latencies_ns.sort_unstable();
        let at = |share: f64| {
            let rank = (latencies_ns.len() as f64 * share).ceil().max(1.0) as usize;
            latencies_ns.get(rank - 1).map_or(0.0, |ns| *ns as f64 / 1e6)
        };
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(fate: Fate, latency_ms: u64) -> Outcome {
        let latency_ns = latency_ms * 1_000_000;
        Outcome { planned_ns: 0, behind_ns: 2_000_000, latency_ns, source: 0, established: true, fate }
    }

    #[test]
    fn parts_sum_up_to_what_was_asked() {
        let fates = [Fate::Good, Fate::Good, Fate::Shed, Fate::Late, Fate::Failed, Fate::NotStarted];
        let outcomes = fates.map(|fate| outcome(fate, 3));
        let tally = Tally::of(&outcomes);
        assert_eq!(tally.asked, 6);
        assert_eq!(tally.started, tally.good + tally.shed + tally.late + tally.failed);
        assert_eq!((tally.started, tally.good, tally.good_share()), (5, 2, 0.4));
        assert_eq!((tally.latency_ms.p50, tally.behind_ms.p99), (3.0, 2.0));
        assert_eq!(Tally::of([]).good_share(), 1.0);
    }

    #[test]
    fn a_reply_that_is_seen_too_late_is_late() {
        for (now_ns, fate, expected) in
            [(110, Fate::Good, Fate::Good), (111, Fate::Good, Fate::Late), (111, Fate::Failed, Fate::Failed)]
        {
            let mut request = Outcome { planned_ns: 10, ..outcome(Fate::Late, 0) };
            request.end(fate, now_ns, 100);
            assert_eq!((request.fate, request.latency_ns), (expected, now_ns - 10));
        }
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let found = Quantiles::of((1..=1000).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(found, Quantiles { p50: 500.0, p90: 900.0, p99: 990.0, max: 1000.0 });
        assert_eq!(Quantiles::of(vec![2_500_000]), Quantiles { p50: 2.5, p90: 2.5, p99: 2.5, max: 2.5 });
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }
}
