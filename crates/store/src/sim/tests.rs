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
fn devices_that_fail_and_rot_give_misses() {
    seeds("fail_and_rot", 200, Faults { errors: true, rot: true, ..Faults::default() });
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

/// What `inspect` sees after a clean stop is what the store serves, no more and no less.
#[test]
fn inspect_sees_what_was_stored() {
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Faults::default());
        sim.run(300);
        sim.stop();
        let intact = keys_on(&sim);
        for key in 0..KEYS {
            let inspected = intact.contains(&key.to_le_bytes()[..]);
            let found = sim.fetch(key);
            let served = found.and_then(|(found, bytes)| sim.check(key, &found, &bytes)).is_some();
            assert_eq!(inspected, served, "seed {seed}: key {key}");
        }
    }
}

/// Keys of all objects that `inspect` finds with their bodies.
fn keys_on(sim: &Sim) -> std::collections::HashSet<Vec<u8>> {
    let mut read_of = |on: usize, at: u64, len: u32| Some(sim.disks[on].see(at, len).to_vec());
    let disks = sim.disks.iter().enumerate();
    let open = |(on, disk): (usize, &Disk)| {
        inspect::open(disk.bytes(), &mut |at, len| read_of(on, at, len)).unwrap()
    };
    let devices: Vec<_> = disks.map(open).collect();
    let mut newest = inspect::Newest::default();
    for (on, device) in devices.iter().enumerate() {
        let mut read = |at, len| read_of(on, at, len);
        assert_eq!((device.bad_superblocks(&mut read), device.merge(&mut newest, &mut read)), (0, 0));
    }
    let mut keys = std::collections::HashSet::new();
    for (on, device) in devices.iter().enumerate() {
        for segment in &device.segments {
            let entries = device.entries(segment, &mut |at, len| read_of(on, at, len));
            for entry in entries.iter().filter(|entry| newest.counts(entry)) {
                let (mut key, mut extents) = (Vec::new(), Vec::new());
                let verdict = device.verify(segment, entry, &mut |at, len| read_of(on, at, len), |record| {
                    key = record.key.to_vec();
                    if let Body::Extents(table) = record.body() {
                        extents.extend(table.iter());
                    }
                });
                assert_eq!(verdict, inspect::Verdict::Intact);
                let body = inspect::verify_extents(&devices, extents, &mut read_of);
                if body == inspect::Verdict::Intact {
                    keys.insert(key);
                }
                assert!(!body.is_damage(), "{body:?}");
            }
        }
    }
    keys
}
