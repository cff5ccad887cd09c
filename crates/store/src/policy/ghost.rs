//! The ghost: objects that are not stored and were asked for not long ago. A byte each.
//!
//! Buckets of eight tags of a byte, each bucket a first-in-first-out queue in one atomic word: a new tag pushes out
//! the oldest. No lock is held and no list kept. Two objects of one bucket share a tag once in 255 times, so three
//! in a hundred strangers look known: they are stored a request too early, which costs a write and nothing else.

use super::mix;
use crate::fingerprint::Fingerprint;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const TAGS: u64 = 8;
const BUCKETS_MIN: u64 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Ghost(RwLock<Box<[AtomicU64]>>);

impl Ghost {
    pub(super) fn new() -> Self {
        Self(RwLock::new(empty(BUCKETS_MIN)))
    }

    /// Makes room for as many objects as are stored. What was remembered is forgotten where the size changes,
    /// which happens only when the number of stored objects moved by a third or more.
    pub(super) fn fit(&self, objects: u64) {
        let wanted = (objects / TAGS).max(BUCKETS_MIN);
        let now = self.0.read().len() as u64;
        if wanted * 3 < now * 2 || wanted * 3 > now * 4 {
            *self.0.write() = empty(wanted);
        }
    }

    /// Remembers an object; the one that was remembered longest in its bucket goes.
    pub(super) fn remember(&self, of: Fingerprint) {
        let buckets = self.0.read();
        let (bucket, tag) = place(&buckets, of);
        let _ = bucket.fetch_update(Relaxed, Relaxed, |tags| Some(tags << 8 | tag));
    }

    /// Whether an object is remembered. It is not any more.
    pub(super) fn take(&self, of: Fingerprint) -> bool {
        let buckets = self.0.read();
        let (bucket, tag) = place(&buckets, of);
        bucket.fetch_update(Relaxed, Relaxed, |tags| without(tags, tag)).is_ok()
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        size_of_val(&**self.0.read())
    }
}

fn empty(buckets: u64) -> Box<[AtomicU64]> {
    (0..buckets).map(|_| AtomicU64::new(0)).collect()
}

/// An object's bucket, and its tag there: never 0, which marks a free place.
fn place(buckets: &[AtomicU64], of: Fingerprint) -> (&AtomicU64, u64) {
    let hash = mix(of.number());
    let bucket = (u128::from(hash) * buckets.len() as u128) >> 64;
    (&buckets[bucket as usize], hash % 255 + 1)
}

/// The bucket without the newest such tag, if it has one: older ones move up.
fn without(tags: u64, tag: u64) -> Option<u64> {
    let at = (0..TAGS).find(|at| tags >> (8 * at) & 0xff == tag)?;
    let newer = tags & ((1 << (8 * at)) - 1);
    let older = tags.checked_shr(8 * (at as u32 + 1)).unwrap_or(0);
    Some(newer | older << (8 * at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn object(number: u64) -> Fingerprint {
        Fingerprint::from_parts((number % 4096) as usize, (number as u32).wrapping_mul(0x9e37_79b9))
    }

    #[test]
    fn a_bucket_is_a_queue() {
        let mut twin: VecDeque<u64> = VecDeque::new();
        let mut tags = 0;
        for step in 0_u64..10_000 {
            let tag = mix(step) % 12 + 1;
            if mix(step) >> 32 & 1 == 0 {
                tags = tags << 8 | tag;
                twin.push_front(tag);
                twin.truncate(8);
            } else {
                let at = twin.iter().position(|&other| other == tag);
                at.and_then(|at| twin.remove(at));
                assert_eq!(without(tags, tag).is_some(), at.is_some());
                tags = without(tags, tag).unwrap_or(tags);
            }
            let shown: Vec<u64> = (0..8).map(|at| tags >> (8 * at) & 0xff).collect();
            let wanted: Vec<u64> = (0..8).map(|at| twin.get(at).copied().unwrap_or(0)).collect();
            assert_eq!(shown, wanted, "step {step}");
        }
    }

    #[test]
    fn it_remembers_about_as_many_as_are_stored() {
        let ghost = Ghost::new();
        ghost.fit(10_000);
        (0..100_000).for_each(|n| ghost.remember(object(n)));
        let recent = (95_000..100_000).filter(|&n| ghost.take(object(n))).count();
        let old = (0..50_000).filter(|&n| ghost.take(object(n))).count();
        let strangers = (200_000..210_000).filter(|&n| ghost.take(object(n))).count();
        assert!(recent > 4_500, "{recent} of the last 5 000");
        assert!(old < 50_000 * 4 / 100, "{old} of those long gone");
        assert!(strangers < 10_000 * 4 / 100, "{strangers} strangers");
    }

    #[test]
    fn memory_follows_what_is_stored() {
        let ghost = Ghost::new();
        ghost.fit(1_000_000);
        assert_eq!(ghost.bytes(), 1_000_000);
        ghost.remember(object(1));
        ghost.fit(1_200_000);
        assert!(ghost.take(object(1)), "a small change forgets nothing");
        ghost.fit(100);
        assert_eq!(ghost.bytes(), 512);
    }
}
