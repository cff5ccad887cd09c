//! The duel: should an object that is asked for the first time be written?
//!
//! Mostly not: it is not asked for again before its segment is taken back, and what it displaces is. But where
//! popularity changes faster than the cache turns over, waiting for more requests costs a hit or two for each object
//! that becomes popular. No rule knows beforehand, so both are tried: two caches of numbers, one for each answer, see
//! the requests for a sample of the objects (miniature simulation: Waldspurger, Saemundsson, Ahmad and Park, ATC
//! 2017), and the store follows the one that has more hits.
//!
//! To change over is not free (the log has to turn over before it pays), so the verdict changes only for a
//! difference of one percent of the requests over twenty turnovers of the sample. All objects count as equally large.

use super::counts::{Counts, are_enough};
use super::left_after_carry;
use super::price::Price;
use std::collections::{HashMap, VecDeque};

/// Objects in the sample that are stored at a time; the index's, divided by a power of two.
const SAMPLE_MAX: u64 = 4096;
const SAMPLE_MIN: u64 = 64;
/// Requests between two looks at the score, in capacities of a cache.
const LOOK_EVERY: u64 = 2;
/// What is kept of the score at each look.
const KEPT: f64 = 0.9;
/// Share of the requests that makes a difference.
const MARGIN: f64 = 0.01;
const USES_MAX: u32 = 3;

/// How many bits of a hash have to be zero, for a sample of this many stored objects.
pub(super) fn sample_bits(objects: u64) -> u64 {
    (0..40).find(|bits| objects >> bits <= SAMPLE_MAX).unwrap_or(40)
}

/// See the module.
#[derive(Debug)]
pub(super) struct Duel {
    at_once: Shadow,
    earned: Shadow,
    counts: Counts,
    capacity: u64,
    requests: u64,
    /// Whether the objects that are asked for the first time are better written.
    verdict: bool,
}

impl Duel {
    pub(super) fn new() -> Self {
        Self {
            at_once: Shadow::default(),
            earned: Shadow::default(),
            counts: Counts::new(),
            capacity: SAMPLE_MIN,
            requests: 0,
            verdict: false,
        }
    }

    /// Gives both caches room for `objects`. `anew`: another sample is taken from now on.
    pub(super) fn fit(&mut self, objects: u64, anew: bool) {
        if anew {
            *self = Self { verdict: self.verdict, ..Self::new() };
        }
        self.capacity = objects.max(SAMPLE_MIN);
        self.counts.fit(self.capacity);
    }

    /// Takes a request of the sample, by the object's hash; gives the verdict when it was looked at.
    pub(super) fn request(&mut self, of: u64) -> Option<bool> {
        if are_enough(self.counts.requests(), self.capacity) {
            self.counts.halve();
        }
        let (capacity, before) = (self.capacity as usize, self.counts.count(of));
        let counts = &self.counts;
        self.at_once.request(of, capacity, counts, |_| true);
        self.earned.request(of, capacity, counts, |price| price.is_met_by(before));
        self.requests += 1;
        let due = self.requests >= self.capacity * LOOK_EVERY;
        due.then(|| self.look())
    }

    fn look(&mut self) -> bool {
        let lead = self.at_once.hits - self.earned.hits;
        let needed = MARGIN * self.requests as f64 / (1.0 - KEPT);
        self.verdict = if self.verdict { lead > -needed } else { lead > needed };
        self.requests = 0;
        self.at_once.hits *= KEPT;
        self.earned.hits *= KEPT;
        self.verdict
    }
}

/// A cache of numbers that works as the store does, object by object.
#[derive(Debug, Default)]
struct Shadow {
    /// Queue: objects in the sample of a duel.
    queue: VecDeque<u64>,
    /// Queue: objects in the sample of a duel.
    uses: HashMap<u64, u32>,
    price: Price,
    hits: f64,
}

impl Shadow {
    fn request(&mut self, of: u64, capacity: usize, counts: &Counts, admits: impl Fn(&Price) -> bool) {
        if let Some(uses) = self.uses.get_mut(&of) {
            *uses = (*uses + 1).min(USES_MAX);
            self.hits += 1.0;
        } else if self.queue.len() < capacity || admits(&self.price) {
            self.make_room(capacity, counts);
            self.queue.push_back(of);
            self.uses.insert(of, 0);
        }
    }

    fn make_room(&mut self, capacity: usize, counts: &Counts) {
        while self.queue.len() >= capacity {
            let Some(oldest) = self.queue.pop_front() else { return };
            match self.uses.remove(&oldest) {
                Some(uses @ 1..) => {
                    self.uses.insert(oldest, left_after_carry(uses));
                    self.queue.push_back(oldest);
                }
                _ => self.price.left(counts.of(oldest)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the duel says after requests for objects that `of` numbers.
    fn verdict(of: impl Fn(u64) -> u64) -> bool {
        let mut duel = Duel::new();
        duel.fit(200, true);
        (0..200_000)
            .map(|at| duel.request(super::super::mix(of(at))))
            .fold(false, |last, now| now.unwrap_or(last))
    }

    fn chance(at: u64, below: u64) -> u64 {
        super::super::mix(at) % below
    }

    #[test]
    fn one_hit_wonders_are_not_worth_a_write() {
        let wonder = |at: u64| 1_000_000 + at;
        assert!(!verdict(|at| if at % 2 == 0 { wonder(at) } else { chance(at, 250) }));
    }

    #[test]
    fn what_is_asked_for_twice_and_soon_is() {
        // Each object twice, a hundred requests apart, and never again.
        assert!(verdict(|at| at / 200 * 100 + at % 100));
    }

    #[test]
    fn the_sample_is_bounded() {
        assert_eq!([0, 4096, 4097, 8194, 100_000_000].map(sample_bits), [0, 0, 1, 2, 15]);
        let mut duel = Duel::new();
        duel.fit(SAMPLE_MAX, true);
        (0..100_000).for_each(|at| _ = duel.request(super::super::mix(chance(at, 50_000))));
        for shadow in [&duel.at_once, &duel.earned] {
            assert!(shadow.queue.len() as u64 <= SAMPLE_MAX);
            assert_eq!(shadow.queue.len(), shadow.uses.len());
        }
    }
}
