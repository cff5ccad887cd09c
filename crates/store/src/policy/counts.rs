//! How often objects were asked for lately, stored or not. Four to twelve bytes for each stored object.
//!
//! Buckets of eight entries, each a tag of twelve bits and a count of four. An object that is not in its bucket takes
//! the place of the one that was asked for least there, of several the one that came first: what is asked for once
//! pushes out its like, and what is asked for often stays. Two objects of one bucket share a tag, and with it
//! a count, once in 4096 times.
//!
//! Counts age as TinyLFU's do (Einziger, Friedman and Manes 2017): they are halved after ten requests for each
//! stored object, *all at one stroke*. Halved one after the other they could not be compared: measured, it costs two points.

const ENTRIES: usize = 8;
const COUNT_BITS: u32 = 4;
const COUNT_MAX: u16 = (1 << COUNT_BITS) - 1;
/// Bits of a hash that are the tag; the upper ones choose the bucket, the lower ones the duel's sample.
const TAG_AT: u32 = 16;
const TAG_MAX: u64 = 0xfff;
const BUCKETS_MIN: usize = 8;
/// Stored objects for each bucket, at most.
const OBJECTS_A_BUCKET: u64 = 4;
/// Requests for each stored object that are enough to forget half of them.
const HALVED_AFTER: u64 = 10;
const OBJECTS_MIN: u64 = 64;

/// Whether so many requests are enough to halve the counts, with so many objects stored.
pub(super) fn are_enough(requests: u64, objects: u64) -> bool {
    requests > HALVED_AFTER * objects.max(OBJECTS_MIN)
}

/// The newest entry first. One that nobody has is 0.
type Bucket = [u16; ENTRIES];

/// See the module.
#[derive(Debug)]
pub(super) struct Counts {
    /// Their number is a power of two.
    buckets: Vec<Bucket>,
    requests: u64,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self { buckets: vec![[0; ENTRIES]; BUCKETS_MIN], requests: 0 }
    }

    /// Makes room for so many stored objects. What is counted stays so; where memory is given back, the objects
    /// that were asked for most.
    pub(super) fn fit(&mut self, objects: u64) {
        let wanted = objects.div_ceil(OBJECTS_A_BUCKET);
        while (self.buckets.len() as u64) < wanted {
            // An object is in one of the two, and what is left in the other one gives way soon.
            self.buckets = self.buckets.iter().flat_map(|bucket| [*bucket; 2]).collect();
        }
        while self.buckets.len() > BUCKETS_MIN && self.buckets.len() as u64 / 3 >= wanted {
            self.buckets = self.buckets.chunks(2).map(most_asked).collect();
        }
    }

    /// Counts a request, by the object's hash; says how many came before it.
    pub(super) fn count(&mut self, hash: u64) -> u32 {
        self.requests += 1;
        let at = self.bucket(hash);
        let bucket = &mut self.buckets[at];
        if let Some(entry) = bucket.iter_mut().find(|entry| is_of(**entry, hash)) {
            let before = *entry & COUNT_MAX;
            *entry += u16::from(before < COUNT_MAX);
            return before.into();
        }
        let least = (0..ENTRIES).rev().min_by_key(|&at| bucket[at] & COUNT_MAX).unwrap_or(ENTRIES - 1);
        bucket.copy_within(..least, 1);
        bucket[0] = tag(hash) << COUNT_BITS | 1;
        0
    }

    /// How often the object was asked for.
    pub(super) fn of(&self, hash: u64) -> u32 {
        let entry = self.buckets[self.bucket(hash)].iter().find(|entry| is_of(**entry, hash));
        entry.map_or(0, |entry| (entry & COUNT_MAX).into())
    }

    /// Requests that were counted, half of those before it was halved.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Forgets half of everything.
    pub(super) fn halve(&mut self) {
        self.requests /= 2;
        for entry in self.buckets.as_flattened_mut() {
            *entry = *entry & !COUNT_MAX | (*entry & COUNT_MAX) >> 1;
        }
    }

    fn bucket(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.buckets.len().ilog2())) as usize
    }
}

fn tag(hash: u64) -> u16 {
    (hash >> TAG_AT & TAG_MAX) as u16
}

fn is_of(entry: u16, hash: u64) -> bool {
    entry >> COUNT_BITS == tag(hash)
}

/// The entries of several buckets that were asked for most.
fn most_asked(buckets: &[Bucket]) -> Bucket {
    let mut entries = buckets.concat();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry & COUNT_MAX));
    std::array::from_fn(|at| entries.get(at).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::mix;
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn it_counts_as_a_map_does_while_all_have_room() {
        let (mut counts, mut twin) = (Counts::new(), HashMap::new());
        counts.fit(4_000);
        for step in 0..40_000_u64 {
            let of = mix(mix(step) % 500);
            let known = twin.entry(of).or_insert(0_u32);
            assert_eq!(counts.of(of), *known);
            assert_eq!(counts.count(of), *known, "step {step}");
            *known = (*known + 1).min(COUNT_MAX.into());
            if are_enough(counts.requests(), 500) {
                counts.halve();
                twin.values_mut().for_each(|count| *count /= 2);
            }
        }
    }

    #[test]
    fn a_bucket_loses_the_least_asked_and_of_those_the_first() {
        let mut counts = Counts::new();
        let object = |number: u64| number << TAG_AT;
        for number in 1..=8 {
            counts.count(object(number));
        }
        for number in [1, 2, 3] {
            counts.count(object(number));
        }
        counts.count(object(9));
        let known = |counts: &Counts| (1..=9).filter(|&of| counts.of(object(of)) > 0).collect::<Vec<_>>();
        assert_eq!(known(&counts), [1, 2, 3, 5, 6, 7, 8, 9]);
        counts.halve();
        assert_eq!(known(&counts), [1, 2, 3], "twice, halved, is once");
    }

    #[test]
    fn memory_follows_what_is_stored_and_what_is_asked_for_often_stays() {
        let mut counts = Counts::new();
        let often = |counts: &Counts| (0..40).filter(|&of| counts.of(mix(of)) > 1).count();
        for of in (0..3).flat_map(|_| 0..40) {
            counts.count(mix(of));
        }
        let before = often(&counts);
        for objects in [1_000_000, 700_000, 3_000, 500_000, 100] {
            counts.fit(objects);
            let per_object = size_of_val(&*counts.buckets) as f64 / objects as f64;
            assert!((4.0..=12.0).contains(&per_object), "{per_object} bytes for each of {objects}");
            assert_eq!(often(&counts), before, "{objects}");
        }
        assert!(before > 30, "{before} of forty");
    }
}
