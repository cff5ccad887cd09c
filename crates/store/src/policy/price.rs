//! The price of a write: how often what leaves the store was asked for.
//!
//! Who wants to enter was asked for *before* more often than that. So the price finds its level by itself: where
//! objects leave that are asked for often, little is let in, what is there stays longer, and counts age meanwhile.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Who leaves moves the price by the difference divided by this.
const INERTIA: i64 = 256;
/// The price is kept in parts of a request.
const PARTS: i64 = 1 << 16;

/// See the module. Threads that meet here may lose each other's news: one of many.
#[derive(Debug, Default)]
pub(super) struct Price(AtomicU32);

impl Price {
    /// An object left that was asked for so often.
    pub(super) fn left(&self, count: u32) {
        let now = i64::from(self.0.load(Relaxed));
        let moved = now + (i64::from(count) * PARTS - now) / INERTIA;
        self.0.store(u32::try_from(moved).unwrap_or(0), Relaxed);
    }

    /// Whether it is met by an object that was asked for so often before.
    pub(super) fn is_met_by(&self, before: u32) -> bool {
        i64::from(before) * PARTS > i64::from(self.0.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_leaves() {
        let price = Price::default();
        assert!(!price.is_met_by(0) && price.is_met_by(1));
        (0..2_000).for_each(|_| price.left(1));
        assert!(price.is_met_by(1), "as often as what leaves, and now once more");
        (0..2_000).for_each(|at| price.left(1 + at % 2));
        assert!(!price.is_met_by(1) && price.is_met_by(2));
        (0..4_000).for_each(|_| price.left(0));
        assert!(price.is_met_by(1) && !price.is_met_by(0));
    }
}
