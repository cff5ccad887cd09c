use super::*;
use crate::testing::{T0, fuzz, request, response, stored, times, traits};
use proptest::prelude::*;
use std::string::String;

fn parts(expected: &[(u64, u64)]) -> RangeAnswer {
    RangeAnswer::Parts(expected.iter().map(|(start, end)| ByteRange { start: *start, end: *end }).collect())
}

#[test]
fn range_sets_select_bytes() {
    // RFC 9110 §14.1.1, §14.1.2, §14.2; of 1000 bytes
    use RangeAnswer::{Unsatisfiable, Whole};
    for (value, expected) in [
        ("bytes=0-0", parts(&[(0, 1)])),
        ("bytes=0-499", parts(&[(0, 500)])),
        ("BYTES=0-499", parts(&[(0, 500)])),
        ("bytes=500-", parts(&[(500, 1000)])),
        ("bytes=0-", parts(&[(0, 1000)])),
        ("bytes=0-99999999999999999999999", parts(&[(0, 1000)])),
        ("bytes=-1", parts(&[(999, 1000)])),
        ("bytes=-1000", parts(&[(0, 1000)])),
        ("bytes=-1001", parts(&[(0, 1000)])),
        ("bytes=-99999999999999999999999", parts(&[(0, 1000)])),
        ("bytes=999-999", parts(&[(999, 1000)])),
        ("bytes=1000-", Unsatisfiable),
        ("bytes=1000-2000", Unsatisfiable),
        ("bytes=99999999999999999999999-", Unsatisfiable),
        ("bytes=-0", Unsatisfiable),
        ("bytes=-0, 1000-", Unsatisfiable),
        ("bytes=1000-, 0-0", parts(&[(0, 1)])),
        ("bytes=0-0,500-500", parts(&[(0, 1), (500, 501)])),
        ("bytes=500-500, 0-0 ,", parts(&[(500, 501), (0, 1)])),
        ("bytes=0-9,5-20", parts(&[(0, 21)])),
        ("bytes=0-9,90-99", parts(&[(0, 100)])),
        ("bytes=0-9,91-99", parts(&[(0, 10), (91, 100)])),
        ("bytes=0-9,300-309,150-159", parts(&[(0, 10), (300, 310), (150, 160)])),
        ("bytes=500-509,0-9,5-505", parts(&[(0, 510)])),
        ("bytes=0-9,500-509,5-20", parts(&[(0, 21), (500, 510)])),
        ("bytes=500-509,0-9,200-209,8-20", parts(&[(500, 510), (0, 21), (200, 210)])),
        ("bytes=5-4", Whole),
        ("bytes=0-1,5-4", Whole),
        ("bytes=a-b", Whole),
        ("bytes=", Whole),
        ("bytes=,", Whole),
        ("bytes=-", Whole),
        ("bytes=1", Whole),
        ("bytes=--1", Whole),
        ("bytes=+1-2", Whole),
        ("bytes=1 - 2", Whole),
        ("bytes 1-2", Whole),
        ("bytes =1-2", Whole),
        ("lines=1-2", Whole),
        ("", Whole),
    ] {
        assert_eq!(select(value.as_bytes(), 1000), expected, "{value}");
    }
}

#[test]
fn an_empty_representation_has_no_ranges() {
    // RFC 9110 §14.1.2
    for value in ["bytes=0-", "bytes=0-0", "bytes=-0", "bytes=-5"] {
        assert_eq!(select(value.as_bytes(), 0), RangeAnswer::Unsatisfiable, "{value}");
    }
}

#[test]
fn many_ranges_are_answered_with_the_whole() {
    // RFC 9110 §14.2, §17.15
    let spread = |count: u64, step: u64| {
        let specs: Vec<String> = (0..count).map(|at| std::format!("{}-{}", at * step, at * step)).collect();
        std::format!("bytes={}", specs.join(","))
    };
    let count = |answer| match answer {
        RangeAnswer::Parts(parts) => parts.len(),
        RangeAnswer::Whole | RangeAnswer::Unsatisfiable => 0,
    };
    assert_eq!(count(select(spread(16, 1000).as_bytes(), 100_000)), MAX_PARTS);
    assert_eq!(count(select(spread(17, 1000).as_bytes(), 100_000)), 0);
    assert_eq!(count(select(spread(64, 1).as_bytes(), 100_000)), 1);
    assert_eq!(count(select(spread(65, 1).as_bytes(), 100_000)), 0);
}

fn answer(method: &str, status: u16, stored_lines: &str, lines: &str) -> RangeAnswer {
    let stored = Stored::from_head(&response(status, stored_lines), times(T0), &crate::Policy::default());
    let request = request(method, lines);
    ranges(&RequestTraits::of(&request), &stored, 10, UnixSeconds(T0))
}

#[test]
fn only_a_get_of_a_200_is_cut() {
    // RFC 9110 §14.2: (method, status, request lines, cut)
    for (method, status, lines, cut) in [
        ("GET", 200, "Range: bytes=0-1", true),
        ("HEAD", 200, "Range: bytes=0-1", false),
        ("POST", 200, "Range: bytes=0-1", false),
        ("GET", 404, "Range: bytes=0-1", false),
        ("GET", 203, "Range: bytes=0-1", false),
        ("GET", 200, "X: y", false),
        ("GET", 200, "Range: bytes=0-1\nRange: bytes=2-3", false),
    ] {
        assert_eq!(answer(method, status, "", lines) != RangeAnswer::Whole, cut, "{method} {status} {lines}");
    }
}

#[test]
fn if_range_needs_a_strong_match() {
    // RFC 9110 §13.1.5, §8.8.2.2: (stored, If-Range, cut); stored without Date at 01:46:40
    const OLD: &str = "Sun, 09 Sep 2001 01:10:00 GMT";
    const NEW: &str = "Sun, 09 Sep 2001 01:46:30 GMT";
    let old = std::format!("Last-Modified: {OLD}");
    let new = std::format!("Last-Modified: {NEW}");
    for (stored_lines, if_range, cut) in [
        ("ETag: \"a\"", "\"a\"", true),
        ("ETag: \"a\"", "\"b\"", false),
        ("ETag: \"a\"", "W/\"a\"", false),
        ("ETag: W/\"a\"", "W/\"a\"", false),
        ("ETag: W/\"a\"", "\"a\"", false),
        ("ETag: \"a\"", "a", false),
        ("ETag: \"a\"", "*", false),
        ("ETag: \"a\"", "", false),
        (&old, OLD, true),
        (&old, "Sun Sep  9 01:10:00 2001", true),
        (&old, "Sun, 09 Sep 2001 01:10:01 GMT", false),
        (&new, NEW, false),
        ("X: y", OLD, false),
    ] {
        let lines = std::format!("Range: bytes=0-1\nIf-Range: {if_range}");
        assert_eq!(
            answer("GET", 200, stored_lines, &lines) != RangeAnswer::Whole,
            cut,
            "{stored_lines} {if_range}"
        );
    }
    let repeated = "Range: bytes=0-1\nIf-Range: \"a\"\nIf-Range: \"a\"";
    assert_eq!(answer("GET", 200, "ETag: \"a\"", repeated), RangeAnswer::Whole);
    let alone = ranges(&traits("If-Range: \"b\""), &stored("ETag: \"a\""), 10, UnixSeconds(T0));
    assert_eq!(alone, RangeAnswer::Whole);
}

#[test]
fn content_range_counts_the_last_byte_in() {
    // RFC 9110 §14.4, §15.5.17
    let mut out = Vec::new();
    write_content_range(&mut out, ByteRange { start: 0, end: 500 }, 1234);
    assert_eq!(out, b"bytes 0-499/1234");
    out.clear();
    write_unsatisfied_range(&mut out, 1234);
    assert_eq!(out, b"bytes */1234");
}

/// What must hold of every answer.
fn assert_sound(value: &[u8], length: u64) {
    let RangeAnswer::Parts(parts) = select(value, length) else { return };
    assert!((1..=MAX_PARTS).contains(&parts.len()));
    for (at, part) in parts.iter().enumerate() {
        assert!(part.start < part.end && part.end <= length, "{part:?} of {length}");
        assert!(parts[..at].iter().all(|other| !are_near(*other, *part)), "{parts:?}");
    }
}

#[test]
fn any_bytes_select_sound_parts() {
    fuzz(|bytes| {
        let (length, value) = bytes.split_at(bytes.len().min(2));
        let length = length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        assert_sound(value, length);
        assert_sound(&[b"bytes=", value].concat(), length);
        assert_sound(&[b"bytes=", value].concat(), u64::MAX);
    });
}

proptest! {
    #[test]
    fn parts_hold_every_byte_asked_for(
        specs in prop::collection::vec((0..3000u64, 0..300u64), 1..12), length in 1..3000u64,
    ) {
        let texts: Vec<String> = specs.iter().map(|(at, more)| std::format!("{at}-{}", at + more)).collect();
        let value = std::format!("bytes={}", texts.join(","));
        assert_sound(value.as_bytes(), length);
        let wanted = |at: u64| specs.iter().any(|(start, more)| (*start..=start + more).contains(&at));
        match select(value.as_bytes(), length) {
            RangeAnswer::Parts(parts) => {
                let sent = |at: u64| parts.iter().any(|part| (part.start..part.end).contains(&at));
                prop_assert!((0..length).all(|at| !wanted(at) || sent(at)));
            }
            RangeAnswer::Unsatisfiable => prop_assert!(!(0..length).any(wanted)),
            RangeAnswer::Whole => prop_assert!(false, "{value}"),
        }
    }
}
