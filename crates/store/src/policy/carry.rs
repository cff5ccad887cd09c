//! What reclaim carries forward: what was used since it was written, the most used first. Pure.
//!
//! An object that was carried keeps half of its uses, so that one that is used now and then is not lost because one
//! round went by without, and one that has cooled down leaves after two rounds (with the four states of the
//! index: 3 → 1 → 0). S3-FIFO's main queue counts down by one instead; halving gives the same hit ratio within
//! half a point and writes less.

/// Something in the segment that is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hot {
    /// Uses since it was written, saturating at 3; at least 1.
    pub(crate) uses: u32,
    /// Bytes that carrying it writes.
    pub(crate) bytes: u32,
    /// Whether a part of it is worth carrying where not all of it fits.
    pub(crate) divisible: bool,
}

/// What an object's uses count for once it was carried.
pub(crate) fn left_after_carry(uses: u32) -> u32 {
    uses / 2
}

/// Splits what might be carried into what is, with the bytes that it may take, and what is not.
///
/// At most `percent` of the segment is carried, and in proportion less when fewer segments are free than reclaim
/// keeps (`free` of `wanted`): then space is more urgent than hits. Most used first, and of those the smallest:
/// more objects for the same bytes.
pub(crate) fn select<T>(
    mut candidates: Vec<T>,
    segment_bytes: u32,
    percent: u32,
    (free, wanted): (usize, usize),
    hot: impl Fn(&T) -> Hot,
) -> (Vec<(T, u32)>, Vec<T>) {
    let share = free.min(wanted) as u64 * u64::from(percent) / wanted.max(1) as u64;
    let mut budget = u64::from(segment_bytes) * share / 100;
    candidates.sort_by_key(|of| {
        let Hot { uses, bytes, .. } = hot(of);
        (std::cmp::Reverse(uses), bytes)
    });
    let (mut carried, mut left) = (Vec::new(), Vec::new());
    for of in candidates {
        let Hot { bytes, divisible, .. } = hot(&of);
        let granted = match u32::try_from(budget).unwrap_or(u32::MAX) {
            room if bytes <= room => bytes,
            room if divisible => room,
            _ => 0,
        };
        budget = budget.saturating_sub(u64::from(granted));
        if granted > 0 { carried.push((of, granted)) } else { left.push(of) }
    }
    (carried, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hot(uses: u32, bytes: u32) -> Hot {
        Hot { uses, bytes, divisible: false }
    }

    fn carried(candidates: &[Hot], percent: u32, free: usize) -> Vec<Hot> {
        let (carried, _) = select(candidates.to_vec(), 1000, percent, (free, 4), |of| *of);
        carried.into_iter().map(|(of, _)| of).collect()
    }

    #[test]
    fn the_most_used_come_first_and_the_share_is_kept() {
        let all = [hot(1, 100), hot(3, 400), hot(2, 150), hot(3, 300), hot(1, 50)];
        assert_eq!(carried(&all, 100, 4).len(), 5);
        assert_eq!(carried(&all, 70, 4), [hot(3, 300), hot(3, 400)]);
        assert_eq!(carried(&all, 60, 4), [hot(3, 300), hot(2, 150), hot(1, 50), hot(1, 100)]);
        assert_eq!(carried(&all, 0, 4), []);
    }

    #[test]
    fn less_is_carried_when_space_is_short() {
        let all: Vec<Hot> = (0..10).map(|_| hot(1, 100)).collect();
        let counts = [0, 1, 2, 3, 4, 9].map(|free| carried(&all, 80, free).len());
        assert_eq!(counts, [0, 2, 4, 6, 8, 8]);
    }

    #[test]
    fn what_can_be_divided_takes_what_is_left() {
        let large = Hot { divisible: true, ..hot(3, 900) };
        let (carried, left) = select(vec![large, hot(3, 100), hot(1, 50)], 1000, 80, (4, 4), |of| *of);
        assert_eq!((carried, left), (vec![(hot(3, 100), 100), (large, 700)], vec![hot(1, 50)]));
    }
}
