//! The aims for hit ratio and writes, on short traces: `examples/hit_ratio` has the long ones.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::expect_used)]

#[path = "../examples/hit_ratio/cell.rs"]
mod cell;
#[path = "../examples/hit_ratio/chance.rs"]
mod chance;
#[path = "../examples/hit_ratio/mixes.rs"]
mod mixes;
#[path = "../examples/hit_ratio/opponents.rs"]
mod opponents;
#[path = "../examples/hit_ratio/optimum.rs"]
mod optimum;
#[path = "../examples/hit_ratio/tidegate.rs"]
mod tidegate;

use cell::{Cell, Measure};
use mixes::{Disturbed, MIXES, Mix, Sizes};

/// Enough for the larger caches to have a few dozen segments. The long run has more and is held to two points; with
/// so few segments each weighs more.
const OBJECTS: u32 = 10_000;
const POINTS_BEHIND_THE_BEST: f64 = 3.5;

#[test]
fn on_a_law_that_stays_the_store_keeps_up_with_the_best() {
    keeps_up(|mix| mix.disturbed == Disturbed::Not);
}

#[test]
fn under_one_hit_wonders_the_store_keeps_up_with_the_best() {
    keeps_up(|mix| matches!(mix.disturbed, Disturbed::OneHitWonders(_)));
}

#[test]
fn under_scans_and_changes_the_store_keeps_up_with_the_best() {
    keeps_up(|mix| !matches!(mix.disturbed, Disturbed::Not | Disturbed::OneHitWonders(_)));
}

fn keeps_up(wanted: impl Fn(&Mix) -> bool) {
    for mix in MIXES.iter().filter(|mix| wanted(mix)) {
        // The longest bodies of the web are a mebibyte: a store for them has to be larger.
        let is_web = mix.sizes == Sizes::Web;
        let (shares, objects): (&[u64], u32) =
            if is_web { (&[30], 4 * OBJECTS) } else { (&[10, 30], OBJECTS) };
        for cell in Cell::measure(mix, shares, objects) {
            for measure in Measure::BOTH {
                assert!(cell.behind(measure) < POINTS_BEHIND_THE_BEST, "by {}: {cell:?}", measure.word());
                // LRU adapts at once where all popularity is dealt anew; whoever learns is behind.
                let flash = matches!(mix.disturbed, Disturbed::Flash(_));
                let floor = if flash { -2.0 } else { 0.0 };
                assert!(cell.ahead_of_lru(measure) > floor, "by {}: {cell:?}", measure.word());
            }
            assert!(cell.frequency.ratio.objects < cell.most.objects, "better than the bound: {cell:?}");
            assert!(
                cell.frequency.written < cell.all.written,
                "writes more than without admission: {cell:?}"
            );
        }
    }
}

#[test]
fn opponents_are_what_they_are_called() {
    // A cache of two objects of one byte each; what hits is known by hand.
    let asked = [0, 1, 0, 2, 0, 1, 2, 2];
    let hits = |name: &str| -> Vec<usize> {
        let make = opponents::OPPONENTS.iter().find(|(other, _)| *other == name).unwrap().1;
        let mut cache = make(2, 3);
        asked.iter().enumerate().filter(|&(_, &of)| cache.request(of, 1)).map(|(at, _)| at).collect()
    };
    assert_eq!(hits("LRU"), [2, 4, 7]);
    assert_eq!(hits("FIFO"), [2, 7]);
    assert_eq!(hits("SIEVE"), [2, 4, 7]);
}
