use super::*;
use crate::testing::{T0, fields, response, times, traits};
use crate::time::{Seconds, UnixSeconds};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

const LATER: u64 = T0 + 100;

fn lines(fields: &Fields<'_>) -> Vec<String> {
    let line = |field: &Field<'_>| std::format!("{}: {}", field.name, String::from_utf8_lossy(field.value));
    fields.iter().map(line).collect()
}

fn ask<'o>(request: &str, stored_lines: &'o str, status: u16, new: &'o str) -> AfterValidation<'o> {
    let head = response(200, stored_lines);
    let stored = Stored::from_head(&head, times(T0), &Policy::default());
    let answer = response(status, new);
    after_validation(&traits(request), &stored, &head.fields, &answer, times(LATER), &Policy::default())
}

fn word(answer: &AfterValidation<'_>) -> &'static str {
    match answer {
        AfterValidation::Freshened(_) => "freshened",
        AfterValidation::NotOurs(why) => why.word(),
        AfterValidation::Replaced => "replaced",
        AfterValidation::Failed => "failed",
    }
}

#[test]
fn conditions_carry_the_validators_as_written() {
    // RFC 9111 §4.3.1
    for (stored, expected) in [
        ("ETag: W/\"a\"", &["If-None-Match: W/\"a\""][..]),
        ("Last-Modified: Sun Sep  9 01:47:40 2001", &["If-Modified-Since: Sun Sep  9 01:47:40 2001"]),
        ("Last-Modified: x\nETag: y", &["If-None-Match: y", "If-Modified-Since: x"]),
        ("ETag:", &[]),
        ("X: y", &[]),
    ] {
        let mut sent = Fields::new();
        conditions(&fields(stored)).for_each(|field| sent.push(field.name, field.value));
        assert_eq!(lines(&sent), expected, "{stored}");
    }
}

#[test]
fn the_clients_own_conditions_are_known() {
    for name in ["If-Match", "if-none-match", "IF-MODIFIED-SINCE", "If-Unmodified-Since", "If-Range", "Range"]
    {
        assert!(is_condition(name), "{name}");
    }
    assert!(!is_condition("Accept-Ranges") && !is_condition("If"));
}

#[test]
fn a_304_must_speak_of_the_stored_response() {
    // RFC 9111 §4.3.4: (stored, 304, answer)
    const MONDAY: &str = "Last-Modified: Mon, 03 Sep 2001 00:00:00 GMT";
    const SAME_MONDAY: &str = "Last-Modified: Mon Sep  3 00:00:00 2001";
    const TUESDAY: &str = "Last-Modified: Tue, 04 Sep 2001 00:00:00 GMT";
    for (stored, new, expected) in [
        ("ETag: \"a\"", "ETag: \"a\"", "freshened"),
        ("ETag: \"a\"", "ETag: \"b\"", "304-other-etag"),
        ("ETag: \"a\"", "ETag: W/\"a\"", "freshened"),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", "freshened"),
        ("ETag: W/\"a\"", "ETag: \"a\"", "304-other-etag"),
        ("ETag: W/\"a\"", "ETag: W/\"b\"", "304-other-etag"),
        (MONDAY, "ETag: \"a\"", "304-other-etag"),
        ("ETag: a", "ETag: a", "freshened"),
        ("ETag: a", "ETag: b", "304-other-etag"),
        (MONDAY, MONDAY, "freshened"),
        (MONDAY, SAME_MONDAY, "freshened"),
        (MONDAY, TUESDAY, "304-other-last-modified"),
        ("ETag: \"a\"", TUESDAY, "304-other-last-modified"),
        ("ETag: \"a\"", "X: y", "freshened"),
        ("X: y", "X: y", "freshened"),
    ] {
        assert_eq!(word(&ask("", stored, 304, new)), expected, "{stored} | {new}");
    }
}

#[test]
fn other_answers_replace_or_fail() {
    // RFC 9111 §4.3.3
    for (status, expected) in [
        (200, "replaced"),
        (404, "replaced"),
        (206, "replaced"),
        (500, "failed"),
        (503, "failed"),
        (504, "failed"),
    ] {
        assert_eq!(word(&ask("", "ETag: \"a\"", status, "ETag: \"a\"")), expected, "{status}");
    }
}

#[test]
fn fields_of_a_304_replace_stored_ones() {
    // RFC 9111 §3.2: (stored, 304, merged)
    for (stored, new, expected) in [
        ("A: 1\nB: 2", "b: 3", &["A: 1", "b: 3"][..]),
        ("A: 1\nA: 2", "A: 3", &["A: 3"]),
        ("A: 1", "A: 2\nA: 3", &["A: 2", "A: 3"]),
        ("A: 1", "B: 2", &["A: 1", "B: 2"]),
        ("Content-Length: 5", "Content-Length: 0", &["Content-Length: 5"]),
        ("X: y", "Content-Length: 0", &["X: y"]),
        ("Content-Encoding: gzip", "content-encoding: br", &["Content-Encoding: gzip"]),
        ("X: y", "Content-Range: bytes 0-0/1", &["X: y"]),
        ("X: y", "Transfer-Encoding: chunked", &["X: y"]),
        ("X: y", "Set-Cookie: a=b", &["X: y"]),
        ("Set-Cookie: a=b", "Set-Cookie: c=d", &["Set-Cookie: a=b"]),
        ("Content-Type: a", "Content-Type: b", &["Content-Type: b"]),
        ("X: 1", "Connection: x\nX: 2\nKeep-Alive: 3\nProxy-Authenticate: 4", &["X: 1"]),
        ("Age: 9\nDate: 1", "X: y", &["X: y"]),
        ("Age: 9\nDate: 1", "Date: 2\nAge: 3", &["Date: 2", "Age: 3"]),
    ] {
        assert_eq!(lines(&merge_fields(&fields(stored), &fields(new))), expected, "{stored} | {new}");
    }
}

#[test]
fn a_freshened_response_counts_from_its_validation() {
    // RFC 9111 §4.3.4, §4.2.3
    let stored = "Cache-Control: max-age=60\nAge: 50\nDate: Sun, 09 Sep 2001 01:45:00 GMT\nETag: \"a\"";
    let AfterValidation::Freshened(freshened) =
        ask("", stored, 304, "Cache-Control: max-age=30\nETag: \"a\"")
    else {
        panic!("not freshened");
    };
    assert_eq!(freshened.keep, Keep::Update);
    assert_eq!(freshened.stored.status, 200);
    assert_eq!(freshened.stored.age(UnixSeconds(LATER)), Seconds::ZERO);
    assert_eq!(freshened.stored.ttl(UnixSeconds(LATER + 10)), Seconds(20));
}

#[test]
fn a_304_can_end_or_bypass_storing() {
    // RFC 9111 §3, §3.5, §5.2.1.5: (request, 304, what happens to the stored response)
    for (request, new, expected) in [
        ("", "X: y", Keep::Update),
        ("", "Cache-Control: no-store", Keep::Drop(NoStore::NoStore)),
        ("", "Cache-Control: private", Keep::Drop(NoStore::Private)),
        ("", "Vary: *", Keep::Drop(NoStore::VaryStar)),
        ("Cache-Control: no-store", "X: y", Keep::Leave(NoStore::RequestNoStore)),
        ("Authorization: a", "X: y", Keep::Leave(NoStore::Authorization)),
        ("Authorization: a", "Cache-Control: public", Keep::Update),
        ("Authorization: a", "Cache-Control: no-store", Keep::Drop(NoStore::NoStore)),
    ] {
        let answer = ask(request, "Cache-Control: max-age=9\nETag: \"a\"", 304, new);
        let AfterValidation::Freshened(freshened) = answer else { panic!("{request} {new}") };
        assert_eq!(freshened.keep, expected, "{request} | {new}");
    }
}

#[test]
fn a_head_response_confirms_or_ages_the_stored_one() {
    // RFC 9111 §4.3.5
    const STORED: &str = "ETag: \"a\"\nLast-Modified: x\nContent-Length: 5";
    for (status, new, expected) in [
        (200, STORED, AfterHead::Same),
        (200, "X: y", AfterHead::Same),
        (200, "ETag: \"b\"", AfterHead::Changed),
        (200, "Last-Modified: z", AfterHead::Changed),
        (200, "Content-Length: 6", AfterHead::Changed),
        (404, "ETag: \"b\"", AfterHead::Unrelated),
        (304, "ETag: \"b\"", AfterHead::Unrelated),
    ] {
        assert_eq!(after_head(&fields(STORED), &response(status, new)), expected, "{status} {new}");
    }
}

proptest! {
    #[test]
    fn merging_keeps_every_field_of_one_side(
        stored in prop::collection::vec("[abc]: [0-9]", 0..6), new in prop::collection::vec("[abcd]: [0-9]", 0..6),
    ) {
        let (stored, new) = (stored.join("\n"), new.join("\n"));
        let (stored, new) = (fields(&stored), fields(&new));
        let merged = merge_fields(&stored, &new);
        for name in ["a", "b", "c", "d"] {
            let side = if new.contains(name) { &new } else { &stored };
            prop_assert!(merged.all(name).eq(side.all(name)), "{name}");
        }
        let again = merge_fields(&merged, &new);
        prop_assert_eq!(lines(&again).len(), lines(&merged).len());
    }
}
