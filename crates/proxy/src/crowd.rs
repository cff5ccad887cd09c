//! Short of descriptors: idle connections give way to those that have something to ask.
//!
//! A flood of connections that send nothing takes descriptors, and little else. So idle time is what is short then: each
//! sign of shortage halves it, each second without a sign doubles it again, up to what the settings say. What must hold:
//! a connection that was idle for less than a second is never ended by this.

use std::cell::Cell;
use std::time::Duration;

use pump::patience::TICK;

/// Halvings at most: of a day, they leave less than a second.
const HALVINGS_MAX: u32 = 17;

/// The least that idle time is cut to.
const KEPT_MIN: Duration = Duration::from_secs(1);

/// Ticks between two halvings, so that the first has had its effect.
const SIGN_TICKS: u64 = 5;

/// Ticks without a sign after which one halving is taken back.
const CALM_TICKS: u64 = 10;

/// How short descriptors are, for one thread. Time is counted in ticks of its timers.
#[derive(Debug, Default)]
pub struct Crowd {
    halvings: Cell<u32>,
    /// When there was the last sign that counted.
    seen: Cell<u64>,
}

impl Crowd {
    /// Descriptors are short. True when idle connections are to look whether they are over.
    pub fn sign(&self, now: u64) -> bool {
        let halvings = self.halvings_at(now);
        if halvings > 0 && now < self.seen.get() + SIGN_TICKS {
            return false;
        }
        self.halvings.set((halvings + 1).min(HALVINGS_MAX));
        self.seen.set(now);
        true
    }

    /// Whether a connection that is idle since `since`, and may be for `limit`, is over.
    #[must_use]
    pub fn is_over(&self, since: u64, now: u64, limit: Duration) -> bool {
        let halvings = self.halvings_at(now);
        if halvings == 0 {
            return false;
        }
        let kept = (limit / (1 << halvings)).max(KEPT_MIN);
        let idle = TICK * u32::try_from(now - since).unwrap_or(u32::MAX);
        idle >= kept
    }

    fn halvings_at(&self, now: u64) -> u32 {
        let calm = (now - self.seen.get()) / CALM_TICKS;
        self.halvings.get().saturating_sub(u32::try_from(calm).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Seconds of idle time that are over at tick `now`; 0: none is.
    fn over_after(crowd: &Crowd, now: u64) -> u64 {
        (1..=60).find(|seconds| crowd.is_over(now - seconds * 10, now, LIMIT)).unwrap_or(0)
    }

    #[test]
    fn idle_time_is_halved_by_each_sign_and_comes_back_with_calm() {
        let crowd = Crowd::default();
        assert_eq!(over_after(&crowd, 1000), 0);
        let steps = [
            (1000, true, 30),
            (1001, false, 30),
            (1005, true, 15),
            (1010, true, 8),
            (1015, true, 4),
            (1020, true, 2),
            (1025, true, 1),
            (1030, true, 1),
        ];
        for (now, counts, over) in steps {
            assert_eq!((crowd.sign(now), over_after(&crowd, now)), (counts, over), "at {now}");
        }
        for (now, over) in
            [(1039, 1), (1040, 1), (1050, 2), (1060, 4), (1070, 8), (1080, 15), (1090, 30), (1100, 0)]
        {
            assert_eq!(over_after(&crowd, now), over, "at {now}");
        }
    }

    #[test]
    fn who_has_just_fallen_idle_stays() {
        let crowd = Crowd::default();
        for now in (1000..2000).step_by(5) {
            crowd.sign(now);
            assert!(!crowd.is_over(now - 9, now, Duration::from_millis(1)));
        }
    }
}
