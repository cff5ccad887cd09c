//! Which writes go out as one, case by case; then any order of events against what must hold.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

const KIB: u64 = 1 << 10;

/// Offsets in KiB of the parts of a run.
fn ran(run: Option<Run<u64>>) -> Vec<u64> {
    run.map_or_else(Vec::new, |run| {
        assert_eq!(run.offset, run.parts[0] * KIB);
        run.parts
    })
}

fn push(joiner: &mut Joiner<u64>, at_kib: u64, len_kib: u64) {
    joiner.push(at_kib * KIB, len_kib * KIB, false, at_kib);
}

#[test]
fn an_idle_device_gets_a_write_at_once() {
    let mut joiner = Joiner::default();
    push(&mut joiner, 64, 64);
    assert_eq!(ran(joiner.next(8, Occasion::Asked)), [64]);
    push(&mut joiner, 128, 64);
    assert_eq!(ran(joiner.next(8, Occasion::Asked)), [] as [u64; 0], "the first is under way");
    push(&mut joiner, 256, 64);
    push(&mut joiner, 192, 64);
    joiner.answered();
    assert_eq!(ran(joiner.next(8, Occasion::Answered)), [128, 192, 256], "neighbours go as one");
    assert_eq!((joiner.waiting(), joiner.under_way()), (0, 1));
}

#[test]
fn a_full_run_does_not_wait_and_does_not_grow_without_end() {
    let mut joiner = Joiner::default();
    push(&mut joiner, 0, 64);
    assert_eq!(ran(joiner.next(3, Occasion::Asked)), [0]);
    push(&mut joiner, 9000, 64);
    for at in 0..16 {
        assert!(joiner.next(3, Occasion::Asked).is_none(), "{at} pieces are no full run");
        push(&mut joiner, 64 + at * 64, 64);
    }
    assert_eq!(ran(joiner.next(3, Occasion::Asked)).len(), 16);
    for at in 0..40 {
        push(&mut joiner, 2048 + at * 64, 64);
    }
    assert_eq!(ran(joiner.next(3, Occasion::Asked)).len(), 32, "two mebibytes are enough");
    assert!(joiner.next(3, Occasion::Asked).is_none(), "as many as the limit are under way");
    joiner.answered();
    assert_eq!(ran(joiner.next(3, Occasion::Answered)), [9000], "the oldest goes next, however small");
}

#[test]
fn what_is_to_go_alone_goes_alone() {
    let mut joiner = Joiner::default();
    for (at, alone) in [(0, false), (64, true), (128, false)] {
        joiner.push(at * KIB, 64 * KIB, alone, at);
    }
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(ran(joiner.next(9, Occasion::Answered)));
    }
    assert_eq!(runs, [[0], [64], [128]]);
}

proptest! {
    /// Twin: a set of what waits. Everything goes out once, whole runs lie side by side, and nothing waits for more
    /// answers than were older than it.
    #[test]
    fn everything_goes_out_once_and_in_time(
        places in prop::collection::vec((0_u64..64, any::<bool>()), 1..120),
        limit in 1_usize..4,
    ) {
        let (mut joiner, mut out, mut taken) = (Joiner::default(), Vec::new(), std::collections::BTreeSet::new());
        for (place, answer) in places {
            // The log never has two writes of one place under way.
            if taken.insert(place) {
                joiner.push(place * 64 * KIB, 64 * KIB, place % 7 == 0, place);
            }
            out.extend(joiner.next(limit, Occasion::Asked));
            if answer && joiner.under_way() > 0 {
                joiner.answered();
                let oldest = joiner.by_age.iter().find(|key| joiner.waiting.contains_key(*key)).copied();
                let next = joiner.next(limit, Occasion::Answered);
                prop_assert_eq!(next.is_some(), oldest.is_some());
                if let (Some(run), Some((offset, _))) = (&next, oldest) {
                    prop_assert!(run.parts.contains(&(offset / 64 / KIB)), "the oldest waits on");
                }
                out.extend(next);
            }
            prop_assert!(joiner.under_way() <= limit);
            prop_assert!(joiner.waiting() == 0 || joiner.under_way() > 0, "nobody would ever start it");
        }
        while joiner.under_way() > 0 {
            joiner.answered();
            out.extend(joiner.next(limit, Occasion::Answered));
        }
        for run in &out {
            prop_assert!(run.parts.windows(2).all(|two| two[0] + 1 == two[1]));
            prop_assert!(run.parts.len() == 1 || run.parts.iter().all(|place| place % 7 != 0));
        }
        let written: Vec<u64> = out.into_iter().flat_map(|run| run.parts).collect();
        prop_assert_eq!(written.len(), taken.len());
        prop_assert_eq!(written.into_iter().collect::<std::collections::BTreeSet<_>>(), taken);
    }
}
