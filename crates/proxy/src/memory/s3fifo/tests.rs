use super::*;
use proptest::prelude::*;

#[test]
fn a_scan_does_not_push_out_what_is_asked_for() {
    let mut tier = S3Fifo::new(1000);
    for hot in 0..40u128 {
        tier.put(hot, hot, 10);
        tier.get(hot);
    }
    for cold in 1000..3000u128 {
        tier.put(cold, cold, 10);
        for hot in 0..40 {
            tier.get(hot);
        }
    }
    let kept = (0..40).filter(|hot| tier.get(*hot).is_some()).count();
    assert_eq!(kept, 40, "two thousand one-hit values went past forty hot ones");
}

#[test]
fn what_left_unasked_and_comes_again_enters_the_main_queue() {
    let mut tier = S3Fifo::new(100);
    for hash in 0..20u128 {
        tier.put(hash, (), 10);
    }
    assert!(tier.get(0).is_none());
    tier.put(0, (), 10);
    assert_eq!(tier.main.bytes, 10);
}

#[test]
fn a_value_over_a_fourth_of_the_room_is_not_taken() {
    let mut tier = S3Fifo::new(100);
    tier.put(1, (), 26);
    assert!(tier.is_empty());
}

#[test]
fn a_value_replaced_for_ever_does_not_make_the_queues_grow() {
    let mut tier = S3Fifo::new(1000);
    for version in 0..10_000 {
        tier.put(7, version, 10);
    }
    assert!(tier.small.order.len() < 100, "{}", tier.small.order.len());
}

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u32),
    Get(u8),
    Remove(u8),
    Evict,
    Retain(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (any::<u8>(), 1u32..60).prop_map(|(k, w)| Op::Put(k, w)),
        any::<u8>().prop_map(Op::Get),
        any::<u8>().prop_map(Op::Remove),
        Just(Op::Evict),
        any::<u8>().prop_map(Op::Retain),
    ]
}

proptest! {
    /// Against a plain map: never a value that was replaced or removed, never over the capacity, sums always right.
    #[test]
    fn agrees_with_a_plain_map(ops in proptest::collection::vec(op(), 1..400)) {
        let mut tier = S3Fifo::new(400);
        let mut newest = std::collections::HashMap::new();
        for (version, op) in ops.into_iter().enumerate() {
            match op {
                Op::Put(k, w) => { tier.put(u128::from(k), version, w); newest.insert(k, version); }
                Op::Get(k) => if let Some(found) = tier.get(u128::from(k)) {
                    prop_assert_eq!(Some(found), newest.get(&k));
                },
                Op::Remove(k) => { tier.remove(u128::from(k)); newest.remove(&k); }
                Op::Evict => {
                    let before = tier.len();
                    let evicted = tier.evict();
                    prop_assert_eq!(tier.len(), before - usize::from(evicted.is_some()));
                    prop_assert_eq!(evicted.is_none(), before == 0);
                    newest.retain(|_, version| Some(*version) != evicted);
                }
                Op::Retain(n) => {
                    let keep = |version: &usize| version % 5 != usize::from(n % 5);
                    tier.retain(keep);
                    newest.retain(|_, version| keep(version));
                    prop_assert!(tier.places.values().all(|place| keep(&place.value)));
                }
            }
            prop_assert!(tier.bytes() <= 400);
            let sum: u64 = tier.places.values().map(|p| u64::from(p.weight)).sum();
            prop_assert_eq!(tier.bytes(), sum);
        }
    }
}
