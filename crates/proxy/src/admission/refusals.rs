//! The pace of refusals of one worker: a client that was refused is heard again when it is its turn.
//!
//! A refusal costs about what a hit costs. Clients that keep their connections and ask again at once would have a worker do
//! nothing but refuse; so each refusal takes the next place in a line, [`APART`] from the one before, and the connection is
//! not read until then. What must hold: refusals take a bounded share of a thread, however many clients there are, up to
//! `REST_MAX / APART` of them; whoever is refused alone waits for nothing.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two refusals: about ten times what one costs.
const APART: Duration = Duration::from_micros(200);

/// The longest rest: there may be other requests behind the one that was refused.
const REST_MAX: Duration = Duration::from_millis(250);

/// A shorter rest is none: timers do not know it.
const REST_MIN: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub struct Refusals {
    /// When the last one in the line is heard again.
    last: Cell<Option<Instant>>,
}

impl Refusals {
    /// A client is refused at the moment `now`: for how long it is not heard.
    pub fn rest(&self, now: Instant) -> Duration {
        let turn = self.last.get().map_or(now, |last| last.max(now)) + APART;
        let turn = turn.min(now + REST_MAX);
        self.last.set(Some(turn));
        let rest = turn.duration_since(now);
        if rest < REST_MIN { Duration::ZERO } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_refused_alone_waits_for_nothing() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        for n in 0..100 {
            assert_eq!(refusals.rest(start + n * APART), Duration::ZERO);
        }
    }

    #[test]
    fn many_wait_in_line_and_nobody_for_too_long() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let rests: Vec<Duration> = (0..2000).map(|_| refusals.rest(start)).collect();
        assert_eq!([rests[3], rests[4], rests[99]], [Duration::ZERO, 5 * APART, 100 * APART]);
        assert_eq!([rests[1249], rests[1999]], [REST_MAX; 2]);
        assert_eq!(refusals.rest(start + 2 * REST_MAX), Duration::ZERO, "the line is gone");
    }

    /// Clients that come back as soon as they may are refused as often as there are places.
    #[test]
    fn a_crowd_is_refused_at_one_pace() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let mut heard = vec![start; 500];
        let mut refused = 0;
        for millisecond in 0..1000 {
            let now = start + Duration::from_millis(millisecond);
            for again in heard.iter_mut().filter(|again| **again <= now) {
                *again = now + refusals.rest(now).max(REST_MIN);
                refused += 1;
            }
        }
        assert!((4000..=5500).contains(&refused), "{refused}");
    }
}
