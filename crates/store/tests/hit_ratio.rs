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

/// Enough for the largest cache to have a few hundred segments.
const OBJECTS: u32 = 12_000;

#[test]
fn the_store_keeps_up_with_the_best_policies_and_writes_little() {
    for mix in mixes::MIXES {
        // The smallest caches have too few segments here to say anything.
        for cell in Cell::measure(mix, OBJECTS).into_iter().filter(|cell| cell.share > 1) {
            println!("{cell:.1?}");
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
    assert_eq!(hits("FIFO"), [2, 6, 7]);
    assert_eq!(hits("SIEVE"), [2, 4, 7]);
}
