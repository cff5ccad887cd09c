#![cfg(test)]
use super::*;

/// Runs seeds (or the one that is asked for) and returns hits, lookups and objects found after starts.
fn seeds(name: &str, default: u64, faults: Faults) -> (u64, u64, u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let range = match number("TIDEGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIDEGATE_SEEDS").unwrap_or(default),
    };
    let mut sums = (0, 0, 0);
    for seed in range {
        let run = std::panic::catch_unwind(|| {
            let mut sim = Sim::new(seed, faults);
            sim.run(400);
            (sim.hits, sim.lookups, sim.recovered)
        });
        match run {
            Ok((hits, lookups, recovered)) => {
                sums = (sums.0 + hits, sums.1 + lookups, sums.2 + recovered);
            }
            Err(why) => {
                eprintln!("replay with TIDEGATE_SEED={seed} cargo test -p store sim::tests::{name}");
                std::panic::resume_unwind(why);
            }
        }
    }
    println!("{name}: {} hits of {} lookups, {} objects found after starts", sums.0, sums.1, sums.2);
    sums
}

#[test]
fn crashes_lose_nothing_checkpointed_and_bring_nothing_back() {
    let (hits, lookups, recovered) = seeds("crashes", 600, Faults::default());
    assert!(hits * 4 > lookups, "the test looks at too little: {hits} of {lookups}");
    assert!(recovered > 0);
}

#[test]
fn devices_that_fail_give_misses() {
    seeds("devices_that_fail", 300, Faults { errors: true, ..Faults::default() });
}

#[test]
fn bit_rot_gives_misses() {
    seeds("bit_rot", 300, Faults { rot: true, ..Faults::default() });
}

#[test]
fn devices_may_come_and_go() {
    seeds("devices_may_come", 300, Faults { moves: true, ..Faults::default() });
}

/// The proof that the lease check can fail: without the rule, leased bytes do change.
#[test]
fn without_the_lease_rule_leased_bytes_change() {
    testing::LEASES_IGNORED.set(true);
    let caught = (0..40).any(|seed| {
        std::panic::catch_unwind(|| Sim::new(seed, Faults::default()).run(2000)).is_err_and(|why| {
            why.downcast_ref::<String>().is_some_and(|text| text.contains("leased bytes changed"))
        })
    });
    assert!(caught);
}

/// What `inspect` sees after a clean stop is what the store had: every object intact, under its key.
#[test]
fn inspect_sees_what_was_stored() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Faults::default());
        sim.run(300);
        sim.stop();
        let mut intact = std::collections::HashSet::new();
        for disk in &sim.disks {
            let mut read = |at: u64, len: u32| Some(disk.see(at, len).to_vec());
            let device = inspect::open(disk.bytes(), &mut read).unwrap();
            for segment in 1..=device.superblock.geometry.segments() {
                let entries = match device.segment(segment, &mut read) {
                    inspect::SegmentState::Open(entries) | inspect::SegmentState::Sealed(entries) => entries,
                    inspect::SegmentState::Free => continue,
                    inspect::SegmentState::Damaged => panic!("segment {segment}"),
                };
                let sequence = device.sequence(segment, &mut read).unwrap();
                for entry in &entries {
                    let verdict = device.verify(segment, sequence, entry, &mut read, |record| {
                        intact.insert(record.key.to_vec());
                    });
                    assert!(verdict.is_none_or(|verdict| verdict == inspect::Verdict::Intact), "{verdict:?}");
                }
            }
        }
        for key in 0..KEYS {
            assert!(sim.fetch(key).is_none() || intact.contains(&key.to_le_bytes()[..]), "key {key}");
        }
    }
}
