//! Parts of representations: storing and combining them (RFC 9111 §3.3, §3.4; RFC 9110 §14.4, §15.3.7).
//!
//! What must hold: a part is stored only as a part of a whole whose length is known, and joined with others only if all
//! have the same strong validator; a stored part never looks like a whole. Which bytes are stored is the caller's to know.

use crate::policy::Policy;
use crate::ranges::ByteRange;
use crate::request::{Once, RequestTraits};
use crate::stored::Stored;
use crate::storing::{NoStore, authorization_allows, request_allows, response_allows};
use crate::targeted::Control;
use crate::time::Times;
use alloc::vec::Vec;
use wire::write::decimal;
use wire::{Field, Fields, ResponseHead};

/// A part that may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it says of the whole: a 200 of the whole length.
    pub stored: Stored,
    /// Which bytes it has.
    pub range: ByteRange,
    /// Bytes of the whole.
    pub length: u64,
}

/// May this 206 be stored, and as a part of what?
///
/// # Errors
/// The first reason against it. Beyond those of [`crate::may_store`]: [`NoStore::Partial`], [`NoStore::WeakValidator`].
pub fn may_store_part(
    request: &RequestTraits<'_>,
    response: &ResponseHead<'_>,
    times: Times,
    policy: &Policy,
) -> Result<Part, NoStore> {
    request_allows(request)?;
    let (range, length) = content_range(&response.fields).ok_or(NoStore::Partial)?;
    let control = Control::of(&response.fields, policy);
    let mut stored = Stored::read(200, &response.fields, &control, times, policy);
    stored.content_length = Some(length);
    response_allows(&stored, &response.fields, &control.directives, policy)?;
    authorization_allows(request, &control.directives)?;
    match stored.strong_validator() {
        None => Err(NoStore::WeakValidator),
        Some(_) => Ok(Part { stored, range, length }),
    }
}

/// Whether parts of the two are parts of the same bytes (RFC 9111 §3.4): the same strong validator and the same length.
#[must_use]
pub fn are_of_one(a: &Stored, b: &Stored) -> bool {
    let validator = a.strong_validator();
    validator.is_some() && validator == b.strong_validator() && a.content_length == b.content_length
}

/// The fields that ask for a part of what is stored with these fields, or for the whole if that has changed (RFC 9110
/// §13.1.5, §14.2). Send them in place of the client's own. `None`: there is no strong validator to compare by.
#[must_use]
pub fn part_conditions<'a>(
    stored: &Stored,
    fields: &Fields<'a>,
    range: ByteRange,
) -> Option<(Vec<u8>, Field<'a>)> {
    stored.strong_validator()?;
    let validator = fields.get("etag").or_else(|| fields.get("last-modified"))?;
    let mut value = Vec::with_capacity(48);
    value.extend_from_slice(b"bytes=");
    decimal(&mut value, range.start);
    value.push(b'-');
    decimal(&mut value, range.end.saturating_sub(1));
    Some((value, Field { name: "If-Range", value: validator }))
}

/// What a request's `Range` asks for, as far as that can be said without knowing the length of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The whole: there is no `Range`, or it asks for every byte.
    Whole,
    /// One range of bytes.
    OneRange,
    /// Anything else: several ranges, another unit, what is not understood.
    Other,
}

/// Reads the request's `Range`.
#[must_use]
pub fn wants(request: &RequestTraits<'_>) -> Wants {
    let value = match request.range {
        Once::Absent => return Wants::Whole,
        Once::Repeated => return Wants::Other,
        Once::Value(value) => value,
    };
    let Some((unit, spec)) = value.split_at_checked(6) else { return Wants::Other };
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return Wants::Other;
    }
    match spec.trim_ascii() {
        b"0-" => Wants::Whole,
        spec if is_one_range(spec) => Wants::OneRange,
        _ => Wants::Other,
    }
}

/// `first-last`, `first-` or `-length` (RFC 9110 §14.1.1, §14.1.2).
fn is_one_range(spec: &[u8]) -> bool {
    let mut ends = spec.split(|&byte| byte == b'-');
    let (Some(first), Some(last), None) = (ends.next(), ends.next(), ends.next()) else { return false };
    let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    is_digits(first) && is_digits(last) && !(first.is_empty() && last.is_empty())
}

/// The bytes that a 206 has, and how many the whole has (RFC 9110 §14.4). `None` where there are several parts, where it is
/// not said, or makes no sense.
fn content_range(fields: &Fields<'_>) -> Option<(ByteRange, u64)> {
    let mut lines = fields.all("content-range");
    let (Some(value), None) = (lines.next(), lines.next()) else { return None };
    let (unit, rest) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes ") {
        return None;
    }
    let slash = rest.iter().position(|&byte| byte == b'/')?;
    let hyphen = rest.iter().position(|&byte| byte == b'-').filter(|at| *at < slash)?;
    let (first, last) = (number(&rest[..hyphen])?, number(&rest[hyphen + 1..slash])?);
    let length = number(&rest[slash + 1..])?;
    (first <= last && last < length).then_some((ByteRange { start: first, end: last + 1 }, length))
}

fn number(digits: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{T0, T0_DATE, fields, fuzz, request, response, stored, times, traits};

    const OLD: &str = "Sun, 09 Sep 2001 01:10:00 GMT";
    const NEW: &str = "Sun, 09 Sep 2001 01:46:30 GMT";

    fn part(request_lines: &str, lines: &str) -> Result<Part, NoStore> {
        let request = request("GET", request_lines);
        may_store_part(&RequestTraits::of(&request), &response(206, lines), times(T0), &Policy::default())
    }

    #[test]
    fn a_part_is_stored_as_what_it_says_of_the_whole() {
        // RFC 9111 §3.3, RFC 9110 §15.3.7
        let lines =
            "Content-Range: bytes 100-199/5000\nContent-Length: 100\nETag: \"a\"\nCache-Control: max-age=60";
        let part = part("Range: bytes=100-199", lines).unwrap();
        assert_eq!((part.range, part.length), (ByteRange { start: 100, end: 200 }, 5000));
        assert_eq!((part.stored.status, part.stored.content_length), (200, Some(5000)));
        assert_eq!(part.stored, stored("Content-Length: 5000\nETag: \"a\"\nCache-Control: max-age=60"));
    }

    #[test]
    fn only_a_part_of_something_known_is_stored() {
        // RFC 9110 §14.4: (Content-Range, more fields, why not)
        const TAG: &str = "ETag: \"a\"";
        let old = std::format!("Date: {T0_DATE}\nLast-Modified: {OLD}");
        let new = std::format!("Date: {T0_DATE}\nLast-Modified: {NEW}");
        for (range, more, expected) in [
            ("bytes 0-0/1", TAG, None),
            ("BYTES 0-9/20", TAG, None),
            ("bytes 0-9/20", &old, None),
            ("bytes 0-9/20", &new, Some(NoStore::WeakValidator)),
            ("bytes 0-9/20", "ETag: W/\"a\"", Some(NoStore::WeakValidator)),
            ("bytes 0-9/20", "X: y", Some(NoStore::WeakValidator)),
            ("bytes 0-9/*", TAG, Some(NoStore::Partial)),
            ("bytes */20", TAG, Some(NoStore::Partial)),
            ("bytes 9-0/20", TAG, Some(NoStore::Partial)),
            ("bytes 0-20/20", TAG, Some(NoStore::Partial)),
            ("bytes 0-9/20, bytes 10-11/20", TAG, Some(NoStore::Partial)),
            ("bytes 0-99999999999999999999/20", TAG, Some(NoStore::Partial)),
            ("bytes +0-9/20", TAG, Some(NoStore::Partial)),
            ("lines 0-9/20", TAG, Some(NoStore::Partial)),
            ("bytes 0-9/20\nContent-Range: bytes 0-9/20", TAG, Some(NoStore::Partial)),
            ("bytes 0-9/20", "ETag: \"a\"\nCache-Control: no-store", Some(NoStore::NoStore)),
            ("bytes 0-9/20", "ETag: \"a\"\nVary: *", Some(NoStore::VaryStar)),
        ] {
            let lines =
                std::format!("Content-Range: {range}\n{more}\nExpires: Mon, 10 Sep 2001 01:46:40 GMT");
            assert_eq!(part("Range: bytes=0-9", &lines).err(), expected, "{range} {more}");
        }
        let lines = "Content-Range: bytes 0-9/20\nETag: \"a\"\nCache-Control: max-age=9";
        assert_eq!(part("Authorization: x", lines).err(), Some(NoStore::Authorization));
        assert_eq!(part("Cache-Control: no-store", lines).err(), Some(NoStore::RequestNoStore));
    }

    #[test]
    fn parts_are_combined_by_a_shared_strong_validator() {
        // RFC 9111 §3.4, RFC 9110 §15.3.7.3
        let old = std::format!("Date: {T0_DATE}\nLast-Modified: {OLD}");
        let new = std::format!("Date: {T0_DATE}\nLast-Modified: {NEW}");
        let tagged = std::format!("{old}\nETag: \"a\"");
        for (a, b, expected) in [
            ("ETag: \"a\"", "ETag: \"a\"", true),
            ("ETag: \"a\"", "ETag: \"b\"", false),
            ("ETag: W/\"a\"", "ETag: W/\"a\"", false),
            ("ETag: \"a\"", "ETag: W/\"a\"", false),
            (&old, &old, true),
            (&new, &new, false),
            (&tagged, &old, false),
            (&tagged, "ETag: \"a\"", true),
            ("X: y", "X: y", false),
            ("ETag: \"a\"\nContent-Length: 3", "ETag: \"a\"\nContent-Length: 4", false),
        ] {
            assert_eq!(are_of_one(&stored(a), &stored(b)), expected, "{a} | {b}");
            assert_eq!(are_of_one(&stored(b), &stored(a)), expected, "{b} | {a}");
        }
    }

    #[test]
    fn a_part_is_asked_for_under_the_strong_validator() {
        // RFC 9110 §13.1.5
        let ask = |lines: &'static str| {
            let asked = part_conditions(&stored(lines), &fields(lines), ByteRange { start: 5, end: 10 });
            asked.map(|(range, condition)| (range, condition.name, condition.value))
        };
        let expected = |value: &'static [u8]| Some((b"bytes=5-9".to_vec(), "If-Range", value));
        assert_eq!(ask("ETag: \"a\""), expected(b"\"a\""));
        let dated = "Last-Modified: Sun, 09 Sep 2001 01:10:00 GMT";
        assert_eq!(ask(dated), expected(b"Sun, 09 Sep 2001 01:10:00 GMT"));
        assert_eq!(ask("ETag: W/\"a\""), None);
        assert_eq!(ask("X: y"), None);
    }

    #[test]
    fn what_a_range_wants_is_read_without_the_length() {
        for (lines, expected) in [
            ("X: y", Wants::Whole),
            ("Range: bytes=0-", Wants::Whole),
            ("Range: Bytes=0-", Wants::Whole),
            ("Range: bytes=0-0", Wants::OneRange),
            ("Range: bytes=5-", Wants::OneRange),
            ("Range: bytes=-5", Wants::OneRange),
            ("Range: bytes=-", Wants::Other),
            ("Range: bytes=0-1,3-4", Wants::Other),
            ("Range: bytes=a-b", Wants::Other),
            ("Range: bytes=1-2-3", Wants::Other),
            ("Range: lines=0-1", Wants::Other),
            ("Range: b", Wants::Other),
            ("Range: bytes=0-1\nRange: bytes=0-1", Wants::Other),
        ] {
            assert_eq!(wants(&traits(lines)), expected, "{lines}");
        }
    }

    #[test]
    fn any_content_range_is_sound_or_none() {
        fuzz(|bytes| {
            let mut fields = Fields::new();
            fields.push("content-range", bytes);
            if let Some((range, length)) = content_range(&fields) {
                assert!(range.start < range.end && range.end <= length);
            }
        });
    }
}
