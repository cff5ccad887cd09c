//! The table against a naive twin: a list of all marks that were ever set, each compared by its plain meaning.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use semantics::UnixSeconds;

use super::table::{MARKS_MAX, Mark, Table};
use super::{Epoch, Firmness, NotKept, Target, Verdict};

const ROOM: usize = 256 << 10;

fn hard(target: Target) -> Mark {
    Mark { target, firmness: Firmness::Hard }
}

fn tag(tag: &str) -> Target {
    Target::Tag(tag.as_bytes().into())
}

fn prefix(prefix: &str) -> Target {
    Target::Prefix(prefix.as_bytes().into())
}

/// What an operator did.
#[derive(Clone, Debug)]
enum Step {
    Mark(Target, Firmness),
    All,
    Restart,
}

fn words() -> impl Strategy<Value = String> {
    "[ab]{1,3}"
}

fn step() -> impl Strategy<Value = Step> {
    let target = prop_oneof![
        "/[ab]{0,3}".prop_map(|path| Target::Url(path.into_bytes().into())),
        "(/[ab]{0,3})?".prop_map(|path| Target::Prefix(path.into_bytes().into())),
        words().prop_map(|word| tag(&word)),
    ];
    let firmness =
        prop_oneof![Just(Firmness::Hard), (1_u64..100).prop_map(|at| Firmness::Soft(UnixSeconds(at))),];
    prop_oneof![
        20 => (target, firmness).prop_map(|(target, firmness)| Step::Mark(target, firmness)),
        1 => Just(Step::All),
        2 => Just(Step::Restart),
    ]
}

/// A response: its key, its tags, and the epoch in which it was asked for.
fn response() -> impl Strategy<Value = (String, String, Epoch)> {
    ("/[ab]{0,4}(\0[ab]{0,2})?", proptest::collection::vec(words(), 0..4), 0_u64..40)
        .prop_map(|(key, tags, epoch)| (key, tags.join(" "), epoch))
}

/// The last soft mark on each target counts; everything else is any mark at all.
fn naive(marks: &[Step], key: &str, tags: &str, seen: Epoch) -> Verdict {
    let mut stale: Vec<(Target, UnixSeconds)> = Vec::new();
    for (epoch, step) in (1..).zip(marks) {
        if epoch <= seen {
            continue;
        }
        match step {
            Step::All => return Verdict::Purged,
            Step::Mark(target, firmness) if target.names(key.as_bytes(), tags.as_bytes()) => match firmness {
                Firmness::Hard => return Verdict::Purged,
                Firmness::Soft(at) => {
                    stale.retain(|(other, _)| other != target);
                    stale.push((target.clone(), *at));
                }
            },
            Step::Mark(..) | Step::Restart => {}
        }
    }
    stale.iter().map(|(_, at)| *at).min().map_or(Verdict::Keep, Verdict::Stale)
}

proptest! {
    #[test]
    fn the_table_agrees_with_the_list_of_all_marks(
        steps in proptest::collection::vec(step(), 0..40),
        responses in proptest::collection::vec(response(), 1..20),
    ) {
        let mut table = Table::default();
        let mut marks = Vec::new();
        for step in steps {
            match step.clone() {
                Step::Mark(target, firmness) => table.set(Mark { target, firmness }, ROOM).unwrap(),
                Step::All => table.set_all(),
                Step::Restart => {
                    table = Table::decode(&table.encode()).unwrap();
                    continue;
                }
            }
            marks.push(step);
            prop_assert_eq!(table.epoch(), marks.len() as u64);
            for (key, tags, seen) in &responses {
                let is = table.judge(key.as_bytes(), tags.as_bytes(), *seen);
                prop_assert_eq!(is, naive(&marks, key, tags, *seen), "{} {} {}: {:?}", key, tags, seen, &marks);
            }
        }
    }

    #[test]
    fn a_stored_table_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        for bytes in [bytes.clone(), [&[1], &bytes[..]].concat()] {
            if let Ok(table) = Table::decode(&bytes) {
                prop_assert_eq!(Table::decode(&table.encode()), Ok(table));
            }
        }
    }
}

#[test]
fn a_repeated_mark_takes_no_more_room_and_a_broader_one_takes_less() {
    let mut table = Table::default();
    for _ in 0..3 * MARKS_MAX {
        table.set(hard(tag("news")), ROOM).unwrap();
    }
    assert_eq!(table.len(), 1);
    for path in ["http://a/b/c", "http://a/b/d", "http://a/b"] {
        table.set(hard(prefix(path)), ROOM).unwrap();
    }
    assert_eq!(table.len(), 2);
    table.set(hard(prefix("")), ROOM).unwrap();
    assert_eq!(table.len(), 1);
}

#[test]
fn one_mark_too_many_is_refused() {
    let mut table = Table::default();
    for n in 0..MARKS_MAX {
        table.set(hard(tag(&n.to_string())), ROOM).unwrap();
    }
    let full = Err(NotKept::Full { marks: MARKS_MAX, bytes: ROOM });
    assert_eq!(table.clone().set(hard(tag("one more")), ROOM), full);
    assert_eq!(table.clone().set(hard(tag("7")), ROOM), Ok(()), "it is there already");
    assert_eq!(table.encode().len() < ROOM, Table::decode(&table.encode()) == Ok(table));
}

#[test]
fn marks_that_take_too_many_bytes_are_refused() {
    let mut table = Table::default();
    let full = |n: usize| table.set(hard(tag(&format!("{n}{}", "x".repeat(1000)))), 64 << 10).is_err();
    assert_eq!((0..100).position(full), Some(63));
}
