use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn location(n: u32) -> Location {
    Location::new(n % 1000, n % 4096 * 64, 64 + n % 100 * 64, true, false)
}

#[derive(Debug, Clone)]
enum Op {
    Insert(u32, u32),
    Remove(u32),
    RemoveIfOther(u32),
    Retain(u32),
}

fn op() -> impl Strategy<Value = Op> {
    // Tags in a few clusters, so that runs grow long and reach the end of the table.
    let tag = prop_oneof![0..40_u32, (u32::MAX - 40)..=u32::MAX, any::<u32>()];
    prop_oneof![
        8 => (tag.clone(), any::<u32>()).prop_map(|(tag, n)| Op::Insert(tag, n)),
        4 => tag.clone().prop_map(Op::Remove),
        1 => tag.prop_map(Op::RemoveIfOther),
        1 => (2..20_u32).prop_map(Op::Retain),
    ]
}

proptest! {
    #[test]
    fn a_shard_is_a_map(ops in prop::collection::vec(op(), 0..600)) {
        let mut shard = Shard::default();
        let mut twin: HashMap<u32, Location> = HashMap::new();
        for op in ops {
            match op {
                Op::Insert(tag, n) => {
                    prop_assert_eq!(shard.insert(tag, location(n)), twin.insert(tag, location(n)));
                }
                Op::Remove(tag) => prop_assert_eq!(shard.remove_if(tag, |_| true), twin.remove(&tag)),
                Op::RemoveIfOther(tag) => prop_assert_eq!(shard.remove_if(tag, |_| false), None),
                Op::Retain(n) => {
                    let gone = shard.retain(|at| at.segment() % n != 0);
                    twin.retain(|tag, at| at.segment() % n != 0 || { assert!(gone.contains(tag)); false });
                }
            }
            shard.assert_sound();
            prop_assert_eq!(shard.len(), twin.len());
        }
        for (tag, at) in twin {
            prop_assert_eq!(shard.get(tag), Some(at));
        }
    }
}

/// An empty index, into which nothing is merged any more.
fn merged() -> Index {
    let index = Index::merging();
    index.end_merging();
    index
}

#[test]
fn what_is_merged_in_is_outranked_by_all_that_is_known() {
    let index = Index::merging();
    let [there, removed, swept, decided, new] = [1, 2, 3, 4, 5].map(|tag| Fingerprint::from_parts(7, tag));
    for (of, segment) in [(there, 1), (removed, 2), (swept, 3)] {
        assert_eq!(index.merge(of, || Some(location(segment))), Merged::Entered);
    }
    index.remove_if(removed, |_| true);
    index.sweep(|at| at.segment() == 3);
    assert!(index.decide(decided) && !index.decide(decided) && !index.decide(removed));
    for of in [there, removed, swept, decided] {
        assert_eq!(index.merge(of, || Some(location(9))), Merged::Outranked, "{of:?}");
    }
    assert_eq!(index.merge(new, || None), Merged::Void);
    assert_eq!(index.merge(new, || Some(location(9))), Merged::Entered);
    index.insert(removed, || location(8));
    index.end_merging();
    assert!(!index.decide(Fingerprint::from_parts(8, 8)));
    let found = [there, removed, swept, decided, new].map(|of| index.get(of).map(Location::segment));
    assert_eq!(found, [Some(1), Some(8), None, None, Some(9)]);
}

#[test]
fn an_entry_that_moved_is_left_alone() {
    let index = merged();
    let of = Fingerprint::from_parts(5, 6);
    assert_eq!(index.insert(of, || location(1)), None);
    assert!(!index.replace(of, location(2), || location(3)));
    assert!(index.replace(of, location(1), || location(3)));
    index.set_verified(of, location(1));
    assert_eq!(index.remove_if(of, |at| at.same_place(location(1))), None);
    assert_eq!(index.get(of), Some(location(3)));
}

#[test]
fn uses_are_counted_by_lookups_only() {
    let index = merged();
    let of = Fingerprint::from_parts(5, 6);
    index.insert(of, || location(1));
    index.get(of);
    assert_eq!(index.lookup(of, |at| Some(at.hits())), Some(1));
    assert_eq!(index.lookup(of, |at| Some(at.hits())), Some(2));
    assert_eq!(index.insert(of, || location(2)).map(Location::hits), Some(2));
    assert_eq!(index.get(of).map(Location::hits), Some(0));
}

/// The promise: 16 bytes an object, whenever one looks, and back when objects go.
#[test]
fn a_million_objects_take_sixteen_bytes_each() {
    let index = merged();
    let print = |n: u64| Fingerprint::from(crate::KeyHash(crate::testing::mix(n).into()));
    let mut worst: f64 = 0.0;
    for n in 0..1_000_000_u64 {
        index.insert(print(n), || location(n as u32));
        if n >= 750_000 && n % 10_000 == 0 {
            let (entries, bytes) = index.size();
            worst = worst.max(bytes as f64 / entries as f64);
        }
    }
    println!("{worst:.2} bytes an object at most from 750 000 to 1 000 000 objects");
    assert!(worst <= 16.0, "{worst}");
    let gone = index.sweep(|at| at.segment() >= 10);
    assert!(gone.len() > 980_000);
    assert!(index.size().1 < 1 << 20, "{:?}", index.size());
}

/// Resident bytes of this process.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Fills an index; calls `note` with the time of every insert that rebuilt its table.
fn fill(objects: u64, mut note: impl FnMut(std::time::Duration)) -> Index {
    let index = merged();
    for n in 0..objects {
        let of = Fingerprint::from(crate::KeyHash(crate::testing::mix(n).into()));
        let bytes = || index.shards[of.shard()].lock().table.bytes();
        let (had, started) = (bytes(), std::time::Instant::now());
        index.insert(of, || location(n as u32));
        let took = started.elapsed();
        if bytes() != had {
            note(took);
        }
    }
    index
}

/// The figures of `bench/results/index.md`. Each run rebuilds the same tables at the same inserts, so the
/// shortest of five times is the insert's own, without what else the machine did meanwhile.
#[test]
#[ignore = "a measurement, for a release build"]
fn ten_million_objects_measured() {
    const OBJECTS: u64 = 10_000_000;
    let before = resident_bytes();
    let index = fill(OBJECTS, |_| {});
    let resident = resident_bytes() - before;
    let (entries, bytes) = index.size();
    let each = |bytes: u64| bytes as f64 / entries as f64;
    println!("{entries} objects, {bytes} bytes of tables: {:.2} each", each(bytes));
    println!("{resident} bytes resident: {:.2} each", each(resident));
    drop(index);
    let mut shortest = Vec::new();
    for _ in 0..5 {
        let mut times = Vec::new();
        fill(OBJECTS, |took| times.push(took));
        shortest.resize(times.len(), std::time::Duration::MAX);
        times.iter().zip(&mut shortest).for_each(|(time, least)| *least = (*least).min(*time));
    }
    shortest.sort_unstable();
    let part = |per_mille: usize| shortest[(shortest.len() - 1) * per_mille / 1000];
    let [half, most, longest] = [500, 990, 1000].map(part);
    println!("{} rebuilds: p50 {half:?}, p99 {most:?}, longest {longest:?}", shortest.len());
    assert!(each(bytes) <= 16.0);
}
