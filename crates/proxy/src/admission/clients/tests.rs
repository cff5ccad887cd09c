#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn who_counts_as_one_client() {
    let same = [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"),
    ];
    let other = [("10.0.0.1", "10.0.0.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1"), ("0.0.0.0", "::1")];
    for (a, b) in same {
        assert_eq!(Prefix::of(address(a)), Prefix::of(address(b)), "{a} {b}");
    }
    for (a, b) in other {
        assert_ne!(Prefix::of(address(a)), Prefix::of(address(b)), "{a} {b}");
    }
}

/// How many connections each of these clients gets when all try again and again, in turn.
fn settled(clients: u64, limit: u64) -> Vec<u64> {
    let mut held = vec![0; clients as usize];
    for _ in 0..limit {
        for n in 0..held.len() {
            let total = held.iter().sum();
            held[n] += u64::from(may_connect(held[n], total, limit));
        }
    }
    held
}

#[test]
fn connections_are_shared_and_some_are_always_left() {
    for (clients, limit) in [(1, 900), (2, 1700), (3, 2500), (10, 8100)] {
        let held = settled(clients, limit);
        let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
        assert!(most - least <= 1 + GREED, "{held:?}");
        let left = limit - held.iter().sum::<u64>();
        // The fixed point of n clients at GREED times what is left.
        assert!(left.abs_diff(limit / (1 + clients * GREED)) <= GREED, "{left} of {limit} left");
        assert!(may_connect(0, limit - left, limit));
    }
    assert!(!may_connect(0, 10, 10) && !may_connect(0, 11, 10) && !may_connect(0, 0, 0));
    assert!(may_connect(0, 0, 1));
}

#[test]
fn what_is_refused_is_taken_from_whoever_has_most() {
    let table = [
        // own, all, clients, weight
        (100, 100, 1, 1.0),
        (50, 100, 2, 1.0),
        (90, 100, 2, 1.8),
        (10, 100, 2, 0.2),
        (900, 1000, 101, 2.0),
        (1, 1000, 100, 0.1),
        (0, 0, 0, 0.0),
    ];
    for (own, all, clients, expected) in table {
        assert!((weight(own, all, clients) - expected).abs() < 1e-9, "{own} of {all}, {clients} clients");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Enter(u8),
    Leave(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![(0..6_u8).prop_map(Step::Enter), any::<usize>().prop_map(Step::Leave)];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn the_counts_agree_with_a_plain_list(steps in steps(), limit in 0..40_u64) {
        let clients = Clients::new();
        let mut present: Vec<(u8, Presence)> = Vec::new();
        for step in steps {
            match step {
                Step::Enter(who) => {
                    let held = present.iter().filter(|(other, _)| *other == who).count() as u64;
                    let came = clients.enter(IpAddr::from([10, 0, 0, who]), limit);
                    prop_assert_eq!(came.is_some(), may_connect(held, present.len() as u64, limit));
                    present.extend(came.map(|presence| (who, presence)));
                }
                Step::Leave(n) if !present.is_empty() => {
                    drop(present.swap_remove(n % present.len()));
                }
                Step::Leave(_) => {}
            }
            let asking: Vec<_> = present.iter().map(|(_, presence)| presence.asks()).collect();
            let mut by_client = BTreeMap::new();
            present.iter().for_each(|(who, _)| *by_client.entry(*who).or_insert(0) += 1);
            prop_assert_eq!(clients.requests(), present.len() as u64);
            for (who, presence) in &present {
                let expected = weight(by_client[who], present.len() as u64, by_client.len() as u64);
                prop_assert_eq!(presence.weight(), expected);
            }
            drop(asking);
            let entries: usize = clients.shards.iter().map(|shard| shard.lock().len()).sum();
            prop_assert_eq!(entries, by_client.len());
        }
        drop(present);
        prop_assert_eq!((clients.requests(), clients.asking.load(Relaxed)), (0, 0));
        prop_assert_eq!(clients.connections.load(Relaxed), 0);
    }
}
