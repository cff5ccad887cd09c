//! Random ranges of a few objects over a store that is too small for them, with damage in between: every byte is the
//! origin's.

use testkit::{Ask, Noise, Origin, Pattern, Tidegate, flip_bit};

use crate::Representation;

const TARGETS: u64 = 12;
const SIZE: u64 = 9_000_000;
const SEED: u64 = 20_261;

fn at(target: u64) -> Representation {
    Representation { pattern: Pattern(target), ..Representation::new(SIZE) }
}

#[test]
fn random_ranges_under_reclaim_and_damage() {
    let origin = Origin::answering(|request| {
        let target = request.head.target().trim_start_matches('/').parse().unwrap();
        at(target).answer(request)
    });
    let mut tidegate =
        Tidegate::reverse(&origin).memory("1MiB").store("80MiB").toml("[store]\nadmission = \"all\"").start();
    let mut noise = Noise::new(SEED);
    let (mut hits, mut partial) = (0, 0);
    for round in 0..6 {
        for _ in 0..60 {
            let target = noise.below(TARGETS);
            let ask = Ask::get(&format!("/{target}"));
            let start = noise.below(SIZE);
            let end = (start + 1 + noise.below(3_000_000)).min(SIZE);
            let is_whole = noise.below(10) == 0;
            let response = if is_whole {
                tidegate.ask(ask)
            } else {
                tidegate.ask(ask.field("Range", &format!("bytes={start}-{}", end - 1)))
            };
            match is_whole {
                true => at(target).expect_whole(&response),
                false => at(target).expect_part(&response, start, end),
            }
            let status = response.field("cache-status").unwrap();
            hits += usize::from(status.contains("; hit"));
            partial += usize::from(status.contains("fwd=partial"));
        }
        tidegate.stop();
        // Slot 0 with the superblocks is left out.
        (0..20 * round).for_each(|_| flip_bit(&tidegate.store_path(), (16 << 20) + noise.below(64 << 20)));
        tidegate.restart();
    }
    assert!(hits > 20 && partial > 20, "{hits} hits, {partial} partial, seed {SEED}");
}
