//! How much of the dear work to refuse, from how hard a thread is pressed. Pure: readings and the time in, a level out.
//!
//! ```text
//!  level   0 ────────────── 1 ────────────── 2 ────────────── 3
//!  refused   new connections │     misses     │   disk hits
//!            to origins      │                │                  hits from memory: never
//! ```
//! Pressure is a reading over what it may be: 1 is the target. A proportional-integral controller moves the level until the
//! pressure is 1; the classes of work are refused from the dearest on, each in a share that grows with the level.
//!
//! What must hold: pressure that does not last ([`BEGINS_AFTER`]) refuses nothing, so a burst is worked off; a level that has
//! begun ends only when the controller has brought it back to nothing, within a second of the last pressure; the level
//! never leaves its bounds, whatever the readings are.

use std::time::Duration;

use super::standing::Standing;

/// Pressure must be over the target for so long, without a break, before anything is refused. A queue that empties in
/// between is one that does its work (CoDel, RFC 8289 §4.1).
pub const BEGINS_AFTER: Duration = Duration::from_millis(100);

/// What one target's worth of excess adds to the level in a second.
const INTEGRAL: f64 = 5.0;
/// What one target's worth of *growth* adds at once.
const PROPORTIONAL: f64 = 0.1;
/// More excess counts as so much: a delay of a second is no reason to refuse for longer than one of 50 ms.
const EXCESS_MAX: f64 = 4.0;
/// A reading that comes late counts as this old at most.
const LATE: Duration = Duration::from_millis(100);
/// Below this nothing is refused.
const NEGLIGIBLE: f64 = 0.02;

/// What a request costs beyond an answer from memory, which is never refused. The dearest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A read from a device.
    DiskHit,
    /// A request to an origin.
    Miss,
    /// The same with a connection made for it.
    NewConnection,
}

impl Cost {
    /// Every cost, in the order of the levels that refuse them, the last first.
    pub const ALL: [Self; 3] = [Self::DiskHit, Self::Miss, Self::NewConnection];

    /// The level above which some of it is refused; one more, and all of it is.
    const fn begins(self) -> f64 {
        match self {
            Self::NewConnection => 0.0,
            Self::Miss => 1.0,
            Self::DiskHit => 2.0,
        }
    }

    /// The share that is refused at `level`, 0 to 1.
    #[must_use]
    pub fn refused(self, level: f64) -> f64 {
        (level - self.begins()).clamp(0.0, 1.0)
    }

    /// The word for the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DiskHit => "shed-disk-hit",
            Self::Miss => "shed-miss",
            Self::NewConnection => "shed-new-connection",
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Level {
    most: f64,
    level: f64,
    pressure: f64,
    pressed: Standing,
    last: Option<Duration>,
}

impl Level {
    /// The level at which everything but hits from memory is refused.
    pub const ALL: f64 = 3.0;

    /// Nothing is refused yet, and never more than at the level `most`.
    #[must_use]
    pub fn up_to(most: f64) -> Self {
        Self { most, level: 0.0, pressure: 0.0, pressed: Standing::default(), last: None }
    }

    /// The level from now on, when at the moment `now` of any monotone clock the pressure is `pressure`.
    pub fn decide(&mut self, now: Duration, pressure: f64) -> f64 {
        let pressure = if pressure.is_finite() { pressure.clamp(0.0, 1.0 + EXCESS_MAX) } else { 0.0 };
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last)).min(LATE);
        let growth = pressure - self.pressure;
        (self.last, self.pressure) = (Some(now), pressure);
        if !self.may_move(now, pressure) {
            return 0.0;
        }
        let step = INTEGRAL * since.as_secs_f64() * (pressure - 1.0) + PROPORTIONAL * growth;
        self.level = (self.level + step).clamp(0.0, self.most);
        if self.level < NEGLIGIBLE && pressure <= 1.0 {
            self.level = 0.0;
        }
        self.level
    }

    /// Whether there is a level already, or pressure that has lasted long enough for one.
    fn may_move(&mut self, now: Duration, pressure: f64) -> bool {
        let pressed_for = self.pressed.note(pressure > 1.0, now);
        self.level > 0.0 || pressed_for.is_some_and(|time| time >= BEGINS_AFTER)
    }
}

#[cfg(test)]
mod tests;
