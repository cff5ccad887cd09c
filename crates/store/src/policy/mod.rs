//! What is worth a device's bytes: which responses earn a write, and which objects are carried forward.
//!
//! Owns what is known of how often objects were asked for ([`counts`]), what a write costs ([`price`]), and the small
//! experiment that says whether asking that price pays ([`duel`]). What must hold: memory stays within twelve bytes for
//! each stored object plus a fixed part; a decision takes no lock that many threads want; nothing here can make an answer wrong, only
//! slower. Measured by `examples/hit_ratio` (docs/decisions/0009-what-earns-a-write.md).
//!
//! Refuses to know: segments, devices, keys. An object is a fingerprint.

mod carry;
mod counts;
mod duel;
mod price;

pub(crate) use carry::{Hot, left_after_carry, select};

use crate::fingerprint::Fingerprint;
use counts::Counts;
use duel::Duel;
use parking_lot::Mutex;
use price::Price;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Tables of counts that share the objects, so that threads seldom want the same lock.
const PARTS: usize = 64;
/// Bits of a hash that choose one: between those that choose a word there and those that choose its counters.
const PART_AT: u32 = 30;

/// What earns a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Admission {
    /// Everything that may be stored.
    All,
    /// While there is room, everything. Then what was asked for before more often than what leaves for it; and what is
    /// asked for the first time only as long as that brings more hits, which is tried out on a sample.
    #[default]
    Frequency,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Policy {
    admission: Admission,
    counts: [Mutex<Counts>; PARTS],
    price: Price,
    duel: Mutex<Duel>,
    /// The duel's verdict, where it is read without its lock.
    at_once: AtomicBool,
    /// So many low bits of a fingerprint's hash are zero in the duel's sample.
    sample_bits: AtomicU64,
    /// How often a write was not earned.
    pub(crate) not_admitted: AtomicU64,
}

impl Policy {
    pub(crate) fn new(admission: Admission) -> Self {
        Self {
            admission,
            counts: std::array::from_fn(|_| Mutex::new(Counts::new())),
            price: Price::default(),
            duel: Mutex::new(Duel::new()),
            at_once: AtomicBool::new(false),
            sample_bits: AtomicU64::new(0),
            not_admitted: AtomicU64::new(0),
        }
    }

    /// Sizes the memory for so many stored objects. To be called now and then.
    pub(crate) fn fit(&self, objects: u64) {
        if self.admission == Admission::All {
            return;
        }
        self.fit_counts(objects);
        let bits = duel::sample_bits(objects);
        self.duel.lock().fit(objects >> bits, self.sample_bits.swap(bits, Relaxed) != bits);
    }

    fn fit_counts(&self, objects: u64) {
        let requests: u64 = self.counts.iter().map(|part| part.lock().requests()).sum();
        let is_time = counts::are_enough(requests, objects);
        for part in &self.counts {
            let mut part = part.lock();
            part.fit(objects / PARTS as u64);
            if is_time {
                part.halve();
            }
        }
    }

    /// Takes note of a use of a stored object.
    pub(crate) fn used(&self, of: Fingerprint) {
        if self.admission == Admission::Frequency {
            self.count(mix(of.number()));
        }
    }

    /// Takes note that reclaim dropped an object.
    pub(crate) fn evicted(&self, of: Fingerprint) {
        if self.admission == Admission::Frequency {
            let hash = mix(of.number());
            self.price.left(self.counts(hash).lock().of(hash));
        }
    }

    /// Whether a response that was fetched just now earns a write. `is_stored`: an older version is there;
    /// `has_room`: nothing has to leave for it.
    pub(crate) fn admits(&self, of: Fingerprint, is_stored: bool, has_room: bool) -> bool {
        if self.admission == Admission::All {
            return true;
        }
        let before = self.count(mix(of.number()));
        if is_stored || has_room || self.price.is_met_by(before) || self.at_once.load(Relaxed) {
            return true;
        }
        self.not_admitted.fetch_add(1, Relaxed);
        false
    }

    /// Counts a request; says how many for the same object came before it.
    fn count(&self, hash: u64) -> u32 {
        self.sample(hash);
        self.counts(hash).lock().count(hash)
    }

    fn counts(&self, hash: u64) -> &Mutex<Counts> {
        &self.counts[(hash >> PART_AT) as usize % PARTS]
    }

    /// Shows a request to the duel, if it is in the sample. A thread that finds another one there goes on
    /// without: it is only a sample.
    fn sample(&self, hash: u64) {
        if hash & ((1 << self.sample_bits.load(Relaxed)) - 1) != 0 {
            return;
        }
        if let Some(mut duel) = self.duel.try_lock()
            && let Some(at_once) = duel.request(hash)
        {
            self.at_once.store(at_once, Relaxed);
        }
    }
}

/// The finaliser of SplitMix64: sample, counts and index slots shall not follow the same bits.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: u64) -> Fingerprint {
        Fingerprint::from_parts((number % 4096) as usize, number as u32)
    }

    #[test]
    fn who_earns_a_write() {
        let policy = Policy::new(Admission::Frequency);
        assert!(!policy.admits(object(1), false, false), "asked for the first time");
        assert!(policy.admits(object(1), false, false), "asked for before");
        assert!(policy.admits(object(2), false, true), "there is room");
        assert!(policy.admits(object(3), true, false), "a newer version of what is stored");
        assert_eq!(policy.not_admitted.load(Relaxed), 1);
    }

    #[test]
    fn what_leaves_is_the_price() {
        let policy = Policy::new(Admission::Frequency);
        (0..3).for_each(|_| policy.used(object(1)));
        (0..5_000).for_each(|_| policy.evicted(object(1)));
        let asked = (1..=9).find(|_| policy.admits(object(2), false, false));
        assert_eq!(asked, Some(4), "three times before, as what left");
        assert!(policy.admits(object(1), false, false), "left, and is asked for again");
    }

    #[test]
    fn all_is_all() {
        let policy = Policy::new(Admission::All);
        assert!((0..100).all(|n| policy.admits(object(n), false, false)));
        assert_eq!(policy.not_admitted.load(Relaxed), 0);
    }
}
