//! When each request is to start and from which address: decided before the first one, whatever the server does.
//!
//! What must hold: starts never depend on replies (open loop), and they come in order of time. Times are nanoseconds
//! since the beginning of the plan. Refuses to know how requests are made.

use std::time::Duration;

/// A start that is later than this is not made: the generator could not keep up, and says so instead of measuring itself.
const LAG_MAX: Duration = Duration::from_millis(5);

/// What is to be offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// One after the other.
    pub steps: Vec<Step>,
    /// A reply that takes longer than this, from the planned start, is late.
    pub timeout: Duration,
    /// The share of requests that comes from the first address; the others take turns. Without it all take turns.
    pub flooder_share: Option<f64>,
}

/// A part of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// So many a second, evenly, for so long.
    Rate {
        /// Requests a second.
        per_s: f64,
        /// How long.
        seconds: f64,
    },
    /// So many at once.
    Burst(u64),
}

impl Step {
    /// How many requests it has.
    pub fn count(&self) -> u64 {
        match *self {
            Self::Rate { per_s, seconds } => (per_s * seconds).round().max(0.0) as u64,
            Self::Burst(count) => count,
        }
    }

    /// How long it takes, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        match *self {
            Self::Rate { seconds, .. } => (seconds * 1e9) as u64,
            Self::Burst(_) => 0,
        }
    }

    fn nth_ns(&self, n: u64) -> u64 {
        match *self {
            Self::Rate { per_s, .. } => (n as f64 * 1e9 / per_s) as u64,
            Self::Burst(_) => 0,
        }
    }

    /// A burst takes as long as it takes to send it.
    fn lag_max(&self, timeout: Duration) -> Duration {
        match self {
            Self::Rate { .. } => LAG_MAX.min(timeout / 2),
            Self::Burst(_) => timeout,
        }
    }
}

/// One request to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// When it is to start.
    pub at_ns: u64,
    /// When it is too late for that.
    pub expires_ns: u64,
    /// Which of the client addresses it comes from.
    pub source: usize,
}

impl Plan {
    /// One rate from all addresses.
    pub fn steady(per_s: f64, seconds: f64, timeout: Duration) -> Self {
        Self { steps: vec![Step::Rate { per_s, seconds }], timeout, flooder_share: None }
    }

    /// How many requests it has.
    pub fn count(&self) -> u64 {
        self.steps.iter().map(Step::count).sum()
    }

    /// All starts in order, from `sources` addresses.
    pub fn starts(&self, sources: usize) -> impl Iterator<Item = Start> + '_ {
        let mut begin_ns = 0;
        let steps = self.steps.iter().flat_map(move |step| {
            let offset_ns = begin_ns;
            begin_ns += step.length_ns();
            let lag_ns = step.lag_max(self.timeout).as_nanos() as u64;
            (0..step.count()).map(move |n| (offset_ns + step.nth_ns(n), lag_ns))
        });
        steps.enumerate().map(move |(n, (at_ns, lag_ns))| Start {
            at_ns,
            expires_ns: at_ns + lag_ns,
            source: self.source(n as u64, sources),
        })
    }

    fn source(&self, n: u64, sources: usize) -> usize {
        let Some(share) = self.flooder_share.filter(|_| sources > 1) else { return n as usize % sources };
        let before = |n: u64| (n as f64 * share) as u64;
        let flooded = before(n);
        if before(n + 1) > flooded { 0 } else { 1 + (n - flooded) as usize % (sources - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_even_and_in_order() {
        let steps = vec![
            Step::Rate { per_s: 1000.0, seconds: 0.01 },
            Step::Burst(3),
            Step::Rate { per_s: 100.0, seconds: 0.02 },
        ];
        let plan = Plan { steps, timeout: Duration::from_millis(100), flooder_share: None };
        let starts: Vec<Start> = plan.starts(2).collect();
        let at: Vec<u64> = starts.iter().map(|start| start.at_ns / 1_000_000).collect();
        assert_eq!(at, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 20]);
        assert_eq!(starts.len() as u64, plan.count());
        assert!(starts.iter().enumerate().all(|(n, start)| start.source == n % 2));
        let lags: Vec<u64> =
            starts.iter().map(|start| (start.expires_ns - start.at_ns) / 1_000_000).collect();
        assert_eq!((lags[0], lags[10], lags[13]), (5, 100, 5));
    }

    #[test]
    fn a_flooder_has_its_share_and_the_others_take_turns() {
        let plan = Plan { flooder_share: Some(0.9), ..Plan::steady(10_000.0, 1.0, LAG_MAX) };
        let mut counts = [0; 6];
        plan.starts(6).for_each(|start| counts[start.source] += 1);
        assert_eq!(counts, [9000, 200, 200, 200, 200, 200]);
        assert!(plan.starts(1).all(|start| start.source == 0));
    }
}
