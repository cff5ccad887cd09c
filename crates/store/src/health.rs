//! What is known of a device's condition: errors that count against it, work that it has not answered, and whether
//! it was given up. Time comes in; whoever finds one error too many retires the device.

use crate::types::Millis;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Health {
    retired: AtomicBool,
    errors: AtomicU64,
    strikes: Mutex<Strikes>,
    asked_bytes: AtomicU64,
}

impl Health {
    /// Counts an error; returns how many count against the device now.
    pub(crate) fn strike(&self, now: Millis, forgiven_after: Millis) -> u64 {
        self.errors.fetch_add(1, Relaxed);
        self.strikes.lock().strike(now, forgiven_after)
    }

    /// All errors since opening.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(SeqCst)
    }

    /// Says that the device is not used any more; whether this call was the first to say so.
    pub(crate) fn retire(&self) -> bool {
        !self.retired.swap(true, SeqCst)
    }

    /// Bytes that the device was asked to move and has not answered for.
    pub(crate) fn load(&self) -> u64 {
        self.asked_bytes.load(Relaxed)
    }

    pub(crate) fn ask(&self, bytes: u64) {
        self.asked_bytes.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn answer(&self, bytes: u64) {
        self.asked_bytes.fetch_sub(bytes, Relaxed);
    }
}

/// Errors less those that time has forgiven: a device that hiccups once a day is no failing one.
#[derive(Debug, Default)]
struct Strikes {
    count: u64,
    /// When the next one begins to be forgiven.
    since: Millis,
}

impl Strikes {
    fn strike(&mut self, now: Millis, forgiven_after: Millis) -> u64 {
        let forgiven = now.saturating_sub(self.since) / forgiven_after.max(1);
        self.count = self.count.saturating_sub(forgiven);
        self.since = if self.count == 0 { now } else { self.since + forgiven * forgiven_after };
        self.count += 1;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_forgives_one_error_after_the_other() {
        let mut strikes = Strikes::default();
        let rows = [(0, 1), (1, 2), (9, 3), (10, 3), (19, 4), (20, 4), (55, 2), (1000, 1), (1001, 2)];
        for (now, count) in rows {
            assert_eq!(strikes.strike(now, 10), count, "at {now}");
        }
    }
}
