//! Which share of new connections to drop, from the time that they wait to be accepted. Pure: readings in, share out.
//!
//! The delay is the depth of the accept queue over the rate at which it is emptied (Little's law). A proportional-integral
//! controller on it, after PIE (Pan et al. 2013, RFC 8033), holds the queue short and the server busy: all that can be
//! served is accepted, within a few milliseconds, and what cannot is dropped while it has cost nothing.
//!
//! What must hold: an idle server and connections that all come at once see no drop; a lasting overload settles near
//! [`TARGET`], and where it begins few wait for longer than [`BURST_DELAY`]; when it ends, so do the drops, within a fifth
//! of a second.

use std::time::Duration;

use super::standing::Standing;

/// Readings are taken this often while connections wait or are dropped. Slower (20 ms) lost control.
pub const PERIOD: Duration = Duration::from_millis(2);

/// Time in the accept queue that is aimed for.
const TARGET: f64 = 0.005;
/// A queue that is over the target for less long is a burst, or a moment in which the processor was elsewhere: it is
/// worked off, and nothing is dropped for it (the interval of CoDel, RFC 8289 §3.2, is of the same kind).
const BURST: Duration = Duration::from_millis(40);
/// The time in the queue, in seconds, from which those who still come are no burst. Of connections that all come at once the
/// SYNs are there before the queue is so long: interrupts go first.
const BURST_DELAY: f64 = 0.030;
/// A reading that comes late counts as this old at most.
const LATE: f64 = 0.020;
/// What a target's worth of delay adds to the share in one period.
const INTEGRAL: f64 = 0.0125;
/// What a target's worth of *growth* adds at once.
const PROPORTIONAL: f64 = 0.125;
/// Five hundred times what can be served. Some always get through.
pub(super) const SHARE_MAX: f64 = 0.998;
/// Below this nothing is dropped.
const SHARE_MIN: f64 = 0.001;

/// What is known at one moment of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When, on any monotone clock.
    pub now: Duration,
    /// Connections that wait to be accepted.
    pub depth: u32,
    /// Connections accepted since the listener was opened.
    pub accepted: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct QueueDelay {
    rate: AcceptRate,
    share: f64,
    delay: f64,
    last: Option<Reading>,
    /// The delay over the target, while nothing is dropped.
    over: Standing,
    arrivals: Arrivals,
}

impl QueueDelay {
    /// The share of new connections, 0 to 1, that is to be dropped from now on.
    pub fn decide(&mut self, reading: Reading) -> f64 {
        self.rate.observe(reading);
        let delay = self.rate.per_second().map_or(0.0, |rate| f64::from(reading.depth) / rate);
        let since = self.last.map_or(Duration::ZERO, |last| reading.now.saturating_sub(last.now));
        let excess = self.arrivals.excess(reading, self.rate.per_second());
        if self.share == 0.0 && self.stands(reading.now, since, delay) {
            self.share = excess;
        }
        if self.share > 0.0 {
            let periods = since.as_secs_f64().min(LATE) / PERIOD.as_secs_f64();
            let over = (delay - TARGET) / TARGET;
            let growth = (delay - self.delay) / TARGET;
            let share = self.share + periods * INTEGRAL * over + PROPORTIONAL * growth;
            self.share = if share < SHARE_MIN { 0.0 } else { share.min(SHARE_MAX) };
        }
        (self.delay, self.last) = (delay, Some(reading));
        self.share
    }

    /// Whether the delay is more than a burst may cost, or has been over the target for longer than a burst is. Without a
    /// reading for as long, nobody waited.
    fn stands(&mut self, now: Duration, since: Duration, delay: f64) -> bool {
        if since > BURST {
            self.over = Standing::default();
        }
        let over_for = self.over.note(delay > TARGET, now);
        delay > BURST_DELAY || over_for.is_some_and(|time| time >= BURST)
    }

    /// Seconds that a connection accepted now has waited, as far as is known.
    #[must_use]
    pub fn delay_seconds(&self) -> f64 {
        self.delay
    }
}

/// Who has come of late, beside who could have been accepted meanwhile.
///
/// A queue alone does not tell a flood from a moment in which the processor was elsewhere: in both it is long all of a sudden.
/// But then those who came meanwhile are no more than always, and the queue is worked off.
#[derive(Debug, Default)]
struct Arrivals {
    /// When so many had come; the older one first.
    marks: [Option<(Duration, u64)>; 2],
}

impl Arrivals {
    /// Between two marks: what is looked at is once to twice as old.
    const STEP: Duration = Duration::from_millis(15);
    /// A mark this old is from before the queue was.
    const OLD: Duration = Duration::from_millis(100);

    /// The share of those who came of late that is more than could be accepted: what the integral would take dozens of periods
    /// to find, while the queue grows.
    fn excess(&mut self, reading: Reading, rate: Option<f64>) -> f64 {
        let come = reading.accepted + u64::from(reading.depth);
        let age = |at: Duration| reading.now.saturating_sub(at);
        self.marks = self.marks.map(|mark| mark.filter(|(at, _)| age(*at) < Self::OLD));
        let [_, newer] = self.marks;
        if newer.is_none_or(|(at, _)| age(at) >= Self::STEP) {
            self.marks = [newer, Some((reading.now, come))];
        }
        let [older, newer] = self.marks;
        let (Some((since, then)), Some(rate)) = (older.or(newer), rate) else { return 0.0 };
        let arrived = come.saturating_sub(then) as f64;
        let acceptable = rate * age(since).as_secs_f64();
        if arrived > acceptable { (1.0 - acceptable / arrived).min(SHARE_MAX) } else { 0.0 }
    }
}

/// How fast connections are accepted when they need not be waited for.
///
/// Only windows in which the queue was never short say anything: in all others the clients set the pace, and taking that for
/// ours would make any small queue look long.
#[derive(Debug, Default)]
struct AcceptRate {
    window: Option<Window>,
    per_second: Option<f64>,
    measured_at: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    since: Duration,
    accepted: u64,
}

impl AcceptRate {
    /// Length of a window.
    const WINDOW: Duration = Duration::from_millis(20);
    /// Length above which a window has seen too little.
    const WINDOW_MAX: Duration = Duration::from_millis(100);
    /// Depth above which we set the pace, as long as nothing is known: more than one turn accepts.
    const BUSY_DEPTH: f64 = crate::listener::ACCEPTS_A_TURN as f64;
    /// Weight of the newest window.
    const WEIGHT: f64 = 0.3;
    /// What was measured longer ago says nothing about now.
    const FRESH: Duration = Duration::from_secs(10);

    fn observe(&mut self, reading: Reading) {
        if reading.now.saturating_sub(self.measured_at) > Self::FRESH {
            self.per_second = None;
        }
        let short = self.per_second.map_or(Self::BUSY_DEPTH, |rate| rate * TARGET / 2.0);
        if f64::from(reading.depth) <= short {
            self.window = None;
            return;
        }
        let begun = Window { since: reading.now, accepted: reading.accepted };
        let window = *self.window.get_or_insert(begun);
        let length = reading.now.saturating_sub(window.since);
        if length < Self::WINDOW {
            return;
        }
        self.window = Some(begun);
        if length > Self::WINDOW_MAX {
            return; // nobody knows what happened in between
        }
        let accepted = reading.accepted.saturating_sub(window.accepted);
        let rate = (accepted as f64 / length.as_secs_f64()).max(1.0);
        self.per_second = Some(self.per_second.map_or(rate, |known| known + Self::WEIGHT * (rate - known)));
        self.measured_at = reading.now;
    }

    fn per_second(&self) -> Option<f64> {
        self.per_second
    }
}

#[cfg(test)]
mod tests;
