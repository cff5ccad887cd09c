//! Where heads end, how they are refused, and that the cut of the bytes is never seen.

use super::*;
use crate::testing::cuts;
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

const SMALL: Limits = Limits {
    head_bytes: 400,
    fields: 4,
    target_bytes: 20,
    field_line_bytes: 60,
    trailer_bytes: 0,
    extension_bytes: 0,
};

fn whole(text: &str) -> Result<Option<usize>, Refusal> {
    let found = HeadScan::request().advance(text.as_bytes(), &SMALL)?;
    Ok(found.map(|head| head.len()))
}

/// The same, with the text arriving in pieces.
fn in_pieces(mut scan: HeadScan, bytes: &[u8], ends: &[usize]) -> Result<Option<usize>, Refusal> {
    for &end in ends {
        if let Some(head) = scan.advance(&bytes[..end], &SMALL)? {
            return Ok(Some(head.len()));
        }
    }
    Ok(None)
}

#[test]
fn a_head_ends_at_its_blank_line() {
    for (text, expected) in [
        ("", Ok(None)),
        ("GET / HTTP/1.1\r\nA: b\r\n", Ok(None)),
        ("GET / HTTP/1.1\r\nA: b\r\n\r", Ok(None)),
        ("GET / HTTP/1.1\r\nA: b\r\n\r\n", Ok(Some(24))),
        ("GET / HTTP/1.1\r\n\r\n", Ok(Some(18))),
        ("GET / HTTP/1.1\r\nA: b\r\n\r\nGET /next", Ok(Some(24))),
        ("GET / HTTP/1.1\r\n\r\n\n\n", Ok(Some(18))),
    ] {
        assert_eq!(whole(text), expected, "{text:?}");
    }
}

#[test]
fn a_few_empty_lines_may_come_before_a_request() {
    // RFC 9112 §2.2
    for (count, expected) in
        [(0, Ok(Some(18))), (1, Ok(Some(20))), (4, Ok(Some(26))), (5, Err(Refusal::EmptyLine))]
    {
        let text = "\r\n".repeat(count) + "GET / HTTP/1.1\r\n\r\n";
        assert_eq!(whole(&text), expected, "{count}");
    }
    let response = b"\r\nHTTP/1.1 200 OK\r\n\r\n";
    assert_eq!(HeadScan::response().advance(response, &SMALL), Err(Refusal::EmptyLine));
}

#[test]
fn lines_end_in_crlf_only() {
    // RFC 9112 §2.2
    for text in [
        "\n",
        "GET / HTTP/1.1\n",
        "GET / HTTP/1.1\r\nA: b\n\r\n",
        "GET / HTTP/1.1\r\n\n",
        "GET / HTTP/1.1\r\nA: b\r\n\n",
    ] {
        assert_eq!(whole(text), Err(Refusal::BareLf), "{text:?}");
    }
}

#[test]
fn limits_hold_before_the_head_is_complete() {
    let line = |length| String::from("GET / HTTP/1.1\r\n") + &"a".repeat(length);
    assert_eq!(whole(&line(62)), Ok(None));
    assert_eq!(whole(&line(63)), Err(Refusal::FieldLineTooLong));
    assert_eq!(whole(&(line(60) + "\r\n\r\n")), Ok(Some(80)));
    assert_eq!(whole(&(line(61) + "\r\n\r\n")), Err(Refusal::FieldLineTooLong));

    assert_eq!(whole(&"a".repeat(150)), Ok(None));
    assert_eq!(whole(&"a".repeat(151)), Err(Refusal::TargetTooLong));
    assert_eq!(HeadScan::response().advance(&[b'a'; 151], &SMALL), Err(Refusal::BadStatusLine));

    let fields = |count| String::from("GET / HTTP/1.1\r\n") + &"a: b\r\n".repeat(count);
    assert_eq!(whole(&fields(4)), Ok(None));
    assert_eq!(whole(&fields(5)), Err(Refusal::TooManyFields));

    let small_head = Limits { head_bytes: 30, ..SMALL };
    let mut scan = HeadScan::request();
    assert_eq!(scan.advance(&[b'a'; 30], &small_head), Ok(None));
    assert_eq!(scan.advance(&[b'a'; 31], &small_head), Err(Refusal::HeadTooLong));
}

#[test]
fn idle_until_a_start_line_begins() {
    let mut scan = HeadScan::request();
    for (bytes, idle) in
        [(&b""[..], true), (b"\r\n", true), (b"\r\nG", false), (b"\r\nGET / HTTP/1.1\r\n", false)]
    {
        assert_eq!(scan.advance(bytes, &SMALL), Ok(None));
        assert_eq!(scan.is_idle(), idle, "{bytes:?}");
    }
}

#[test]
fn each_byte_is_searched_once() {
    let limits = Limits { head_bytes: 1 << 20, field_line_bytes: 1 << 20, ..SMALL };
    let text = String::from("GET / HTTP/1.1\r\nA: ") + &"b".repeat(100_000);
    let mut scan = HeadScan::request();
    for end in 0..text.len() {
        assert_eq!(scan.advance(&text.as_bytes()[..end], &limits), Ok(None));
        assert_eq!(scan.seen, end);
    }
}

/// Text that is mostly made of what matters to the scan.
fn scraps() -> impl Strategy<Value = Vec<u8>> {
    let scrap = prop_oneof![
        8 => Just("\r\n".into()),
        1 => Just("\n".into()),
        1 => Just("\r".into()),
        2 => Just("GET / HTTP/1.1".into()),
        4 => Just("Host: a".into()),
        2 => "[a-z:]{0,90}",
    ];
    prop::collection::vec(scrap, 0..14).prop_map(|scraps: Vec<String>| scraps.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_cut_is_not_seen(text in scraps(), points in prop::collection::vec(any::<usize>(), 0..6)) {
        let ends = cuts(text.len(), &points);
        for scan in [HeadScan::request(), HeadScan::response()] {
            let expected = in_pieces(scan.clone(), &text, &[text.len()]);
            prop_assert_eq!(in_pieces(scan, &text, &ends), expected);
        }
    }
}
