#![cfg(test)]
use super::*;

/// Seeds of each theme. All themes together come to ten thousand and a little.
const SEEDS: u64 = 1150;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs `run` for each seed, or for the one that is asked for, and adds up what the runs came to.
fn seeds(theme: &str, default: u64, run: impl Fn(u64) -> Sums + std::panic::RefUnwindSafe) -> Sums {
    let range = match number("TIDEGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIDEGATE_SEEDS").unwrap_or(default),
    };
    let sums = range.map(|seed| {
        std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|why| {
            eprintln!("replay with: TIDEGATE_SEED={seed} cargo test -p store --lib sim::tests::{theme}");
            std::panic::resume_unwind(why);
        })
    });
    let sum = sums.fold(Sums::default(), Sums::plus);
    println!("{theme}: {sum:?}");
    sum
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            lookups: self.lookups + other.lookups,
            hits: self.hits + other.hits,
            recovered: self.recovered + other.recovered,
            damaged: self.damaged + other.damaged,
            retired: self.retired + other.retired,
        }
    }
}

/// Runs a theme. What it looked at must be worth looking at, unless a single seed was asked for.
fn theme(name: &str, faults: Faults) -> Sums {
    let sums = seeds(name, SEEDS, |seed| {
        let mut sim = Sim::new(seed, faults);
        sim.run(300);
        sim.sums
    });
    if number("TIDEGATE_SEED").is_none() {
        assert!(sums.hits * 5 > sums.lookups && sums.recovered > 0, "{name} looks at too little: {sums:?}");
        assert!(sums.damaged > 0 || !(faults.rot || faults.astray), "{sums:?}");
        assert_eq!(sums.retired > 0, faults.retire(), "{sums:?}");
    }
    sums
}

#[test]
fn crashes() {
    theme("crashes", Faults::default());
}

#[test]
fn slow_devices() {
    theme("slow_devices", Faults { slow: true, ..Faults::default() });
}

#[test]
fn hung_devices() {
    theme("hung_devices", Faults { slow: true, hung: true, ..Faults::default() });
}

#[test]
fn failing_devices() {
    theme("failing_devices", Faults { errors: true, ..Faults::default() });
}

#[test]
fn bit_rot() {
    theme("bit_rot", Faults { rot: true, ..Faults::default() });
}

#[test]
fn stray_writes() {
    theme("stray_writes", Faults { astray: true, slow: true, ..Faults::default() });
}

#[test]
fn failing_and_rotting_devices() {
    theme("failing_and_rotting_devices", Faults { errors: true, rot: true, ..Faults::default() });
}

#[test]
fn devices_that_come_and_go() {
    theme("devices_that_come_and_go", Faults { moves: true, slow: true, ..Faults::default() });
}

#[test]
fn everything_at_once() {
    let all = Faults { errors: true, slow: true, hung: true, astray: true, rot: true, moves: true };
    theme("everything_at_once", all);
}

/// The power goes after each completed write and sync of a short history in turn, those of starts and of a
/// clean stop included; what was not durable is lost, kept, or anything between.
#[test]
fn a_crash_after_every_write() {
    let cut_everywhere = |seed: u64| {
        let whole = history(seed, None, Fate::Chance);
        let ends = (0..=whole.world.completed()).flat_map(|end| FATES.map(|fate| (end, fate)));
        ends.map(|(end, fate)| history(seed, Some(end), fate).sums).fold(Sums::default(), Sums::plus)
    };
    let sums = seeds("a_crash_after_every_write", 12, cut_everywhere);
    assert!(sums.recovered > 0, "{sums:?}");
}

const FATES: [Fate; 3] = [Fate::Chance, Fate::Missing, Fate::There];

fn history(seed: u64, cut: Option<u64>, fate: Fate) -> Sim {
    let mut sim = Sim::new(seed, Faults { slow: true, ..Faults::default() });
    sim.fate = fate;
    cut.into_iter().for_each(|cut| sim.world.cut_after(cut));
    sim.run(120);
    sim
}

/// The proof that the lease check can fail: without the rule, leased bytes do change.
#[test]
fn without_the_lease_rule_leased_bytes_change() {
    faults::LEASES_IGNORED.set(true);
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
        sim.finish_merge();
        sim.stop();
        let intact = keys_on(&sim);
        for key in 0..KEYS {
            let inspected = intact.contains(&key.to_le_bytes()[..]);
            assert_eq!(inspected, sim.serves(key), "seed {seed}: key {key}");
        }
    }
}

/// Keys of all objects that `inspect` finds with all of their bodies.
fn keys_on(sim: &Sim) -> std::collections::HashSet<Vec<u8>> {
    let mut read_of = |on: usize, at: u64, len: u32| Some(sim.world.see(DeviceIndex(on as u16), at, len));
    let disks = sim.world.disks().enumerate();
    let open = |(on, disk): (usize, &disk::Disk)| {
        inspect::open(disk.bytes(), &mut |at, len| read_of(on, at, len)).unwrap()
    };
    let mut devices: Vec<_> = disks.map(open).collect();
    inspect::agree(&mut devices);
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
                let whole = !extents.iter().any(ExtentRef::is_hole);
                let bad = inspect::verify_extents(&devices, extents, &mut read_of);
                if whole && bad.is_none() {
                    keys.insert(key);
                }
                assert!(!bad.is_some_and(|bad| bad.verdict.is_damage()), "{bad:?}");
            }
        }
    }
    keys
}
