//! Which writes go out as one, case by case; then any order of events against what must hold.
#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

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
    assert_eq!(ran(joiner.next(8)), [64]);
    push(&mut joiner, 128, 64);
    assert_eq!(ran(joiner.next(8)), [] as [u64; 0], "the first is under way");
    push(&mut joiner, 256, 64);
    push(&mut joiner, 192, 64);
    joiner.answered();
    assert_eq!(ran(joiner.next(8)), [128, 192, 256], "neighbours go as one");
    assert_eq!((joiner.waiting(), joiner.under_way()), (0, 1));
}

#[test]
fn a_long_run_does_not_wait_and_does_not_grow_without_end() {
    let mut joiner = Joiner::default();
    push(&mut joiner, 0, 64);
    assert_eq!(ran(joiner.next(4)), [0]);
    push(&mut joiner, 9000, 64);
    for at in 0..32 {
        assert!(joiner.next(4).is_none(), "{at} pieces are no long run");
        push(&mut joiner, 64 + at * 64, 64);
    }
    assert_eq!(ran(joiner.next(4)).len(), 32);
    push(&mut joiner, 5120, 1024);
    assert_eq!(ran(joiner.next(4)), [5120], "large by itself");
    for at in 0..40 {
        push(&mut joiner, 2112 + at * 64, 64);
    }
    assert_eq!(ran(joiner.next(4)).len(), 32, "two mebibytes are enough");
    assert!(joiner.next(4).is_none(), "as many as the limit are under way");
    joiner.answered();
    assert_eq!(ran(joiner.next(4)), [9000], "what it came behind is answered");
    joiner.answered();
    assert!(joiner.next(4).is_none(), "the rest came behind three");
}

#[test]
fn what_is_to_go_alone_goes_alone() {
    let mut joiner = Joiner::default();
    for (at, alone) in [(0, false), (64, true), (128, false)] {
        joiner.push(at * KIB, 64 * KIB, alone, at);
    }
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(ran(joiner.next(9)));
    }
    assert_eq!(runs, [[0], [64], [128]]);
}

proptest! {
    /// Twin: a set of what waits. Everything goes out once, runs lie side by side, and something is under way while anything waits.
    #[test]
    fn everything_goes_out_once_and_in_time(
        places in prop::collection::vec((0_u64..64, any::<bool>()), 1..120),
        limit in 1_usize..4,
    ) {
        let (mut joiner, mut out, mut taken) = (Joiner::default(), Vec::new(), BTreeSet::new());
        let turn = |joiner: &mut Joiner<u64>, answer: bool| {
            if answer && joiner.under_way() > 0 {
                joiner.answered();
            }
            std::iter::from_fn(|| joiner.next(limit)).collect::<Vec<_>>()
        };
        for (place, answer) in places {
            // The log never has two writes of one place under way.
            if taken.insert(place) {
                joiner.push(place * 64 * KIB, 64 * KIB, place % 7 == 0, place);
            }
            out.extend(turn(&mut joiner, answer));
            prop_assert!(joiner.under_way() <= limit);
            prop_assert!(joiner.waiting() == 0 || joiner.under_way() > 0, "nobody would ever start it");
        }
        for left in (0..taken.len()).rev() {
            out.extend(turn(&mut joiner, true));
            prop_assert!(joiner.waiting() <= left, "no answer lets one go");
        }
        for run in &out {
            prop_assert!(run.parts.windows(2).all(|two| two[0] + 1 == two[1]));
            prop_assert!(run.parts.len() == 1 || run.parts.iter().all(|place| place % 7 != 0));
        }
        let written: Vec<u64> = out.into_iter().flat_map(|run| run.parts).collect();
        prop_assert_eq!(written.len(), taken.len());
        prop_assert_eq!(written.into_iter().collect::<BTreeSet<_>>(), taken);
    }
}
