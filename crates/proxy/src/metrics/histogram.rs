//! Durations in buckets whose bounds are powers of two nanoseconds: the bucket is found by counting leading zeros.
//!
//! What holds: bucket `i` counts durations in `(bound(i-1), bound(i)]`; the last bucket has no upper bound. Both ends
//! are wide enough that nothing of interest falls into them: 2 µs (a hit from memory) and 69 s.

/// Exponent of the smallest bound: 2^11 ns = 2.048 µs.
const FIRST: u32 = 11;
/// Exponent of the largest finite bound: 2^36 ns = 68.7 s.
const LAST: u32 = 36;

/// Buckets, the unbounded one included.
pub(super) const BUCKETS: usize = (LAST - FIRST + 2) as usize;

/// The bucket of a duration.
#[inline]
pub(super) const fn bucket(nanos: u64) -> usize {
    let exponent = u64::BITS - nanos.saturating_sub(1).leading_zeros();
    let index = exponent.saturating_sub(FIRST) as usize;
    if index < BUCKETS { index } else { BUCKETS - 1 }
}

/// The inclusive upper bound of a bucket in seconds.
pub(super) fn bound(index: usize) -> f64 {
    if index + 1 >= BUCKETS { f64::INFINITY } else { (1_u64 << (FIRST as usize + index)) as f64 / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_inclusive_and_the_ends_catch_the_rest() {
        let rows = [
            (0, 0),
            (1, 0),
            (2048, 0),
            (2049, 1),
            (4096, 1),
            (4097, 2),
            (1 << LAST, BUCKETS - 2),
            ((1 << LAST) + 1, BUCKETS - 1),
            (u64::MAX, BUCKETS - 1),
        ];
        for (nanos, expected) in rows {
            assert_eq!(bucket(nanos), expected, "{nanos} ns");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_duration_lies_between_its_buckets_bounds(nanos: u64) {
            let index = bucket(nanos);
            let seconds = nanos as f64 / 1e9;
            proptest::prop_assert!(seconds <= bound(index));
            proptest::prop_assert!(index == 0 || seconds > bound(index - 1));
        }
    }
}
