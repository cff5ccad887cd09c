//! Range requests (RFC 9110 §14) answered from a whole stored representation.
//!
//! What must hold: a part lies within the representation and is not empty; no two parts overlap, so that together
//! they are never longer than it; there are never more than [`MAX_PARTS`]. A request for more is answered with the
//! whole, as RFC 9110 §14.2 allows, so that no header can multiply work.

use crate::multipart::write_text;
use crate::request::{Method, Once, RequestTraits};
use crate::stored::Stored;
use crate::time::UnixSeconds;
use alloc::vec::Vec;
use smallvec::SmallVec;
use wire::date;
use wire::etag::EntityTag;
use wire::fields::list;
use wire::write::decimal;

/// Parts that one response has at most.
pub const MAX_PARTS: usize = 16;

/// Ranges that are read of one request at most; one with more is answered with the whole.
pub const MAX_RANGES: usize = 64;

/// Parts closer to each other than this are sent as one: about what a part's head costs (RFC 9110 §15.3.7.2).
const COALESCE_BYTES: u64 = 80;

/// A part of a representation: bytes `start` up to but without `end`. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The offset of the first byte.
    pub start: u64,
    /// The offset after the last byte.
    pub end: u64,
}

impl ByteRange {
    /// How many bytes it has; at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "no range is empty")]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// The parts to send, in the order asked for.
pub type Parts = SmallVec<[ByteRange; 4]>;

/// How to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeAnswer {
    /// With the whole representation, 200.
    Whole,
    /// With these parts, 206; one part plainly, several as `multipart/byteranges`.
    Parts(Parts),
    /// With 416 and [`write_unsatisfied_range`].
    Unsatisfiable,
}

/// Which part of the stored response, `length` bytes long, answers the request? `now` places the century of
/// two-digit years.
///
/// Only `GET` has ranges (RFC 9110 §14.2), and only a 200 is cut here. Whatever is not understood is ignored.
#[must_use]
pub fn ranges(request: &RequestTraits<'_>, stored: &Stored, length: u64, now: UnixSeconds) -> RangeAnswer {
    let Once::Value(value) = request.range else { return RangeAnswer::Whole };
    if request.method != Method::Get || stored.status != 200 || !if_range_holds(request.if_range, stored, now)
    {
        return RangeAnswer::Whole;
    }
    select(value, length)
}

/// `If-Range` (RFC 9110 §13.1.5): a strong entity tag, or the exact date of a `Last-Modified` that is strong.
fn if_range_holds(if_range: Once<'_>, stored: &Stored, now: UnixSeconds) -> bool {
    let value = match if_range {
        Once::Absent => return true,
        Once::Repeated => return false,
        Once::Value(value) => value,
    };
    if let Some(tag) = EntityTag::parse(value) {
        return stored.etag().is_some_and(|own| own.strong_eq(&tag));
    }
    let at = date::parse(value, now.0).map(UnixSeconds);
    at.is_some() && at == stored.last_modified && stored.last_modified_is_strong()
}

/// Evaluates a `Range` value on a representation of `length` bytes.
#[must_use]
pub fn select(value: &[u8], length: u64) -> RangeAnswer {
    let Some(set) = byte_range_set(value) else { return RangeAnswer::Whole };
    let mut parts = Parts::new();
    for (count, text) in list(set).enumerate() {
        match RangeSpec::parse(text) {
            Some(spec) if count < MAX_RANGES => {
                spec.on(length).into_iter().for_each(|range| add(&mut parts, range))
            }
            _ => return RangeAnswer::Whole,
        }
    }
    answer(parts, set)
}

fn answer(parts: Parts, set: &[u8]) -> RangeAnswer {
    if list(set).next().is_none() || parts.len() > MAX_PARTS {
        RangeAnswer::Whole
    } else if parts.is_empty() {
        RangeAnswer::Unsatisfiable
    } else {
        RangeAnswer::Parts(parts)
    }
}

/// What follows `bytes=`; range units have no case (RFC 9110 §14.1). Other units are not known here.
fn byte_range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// Adds a part in the place of the first that it overlaps or nearly touches, together with all of those.
fn add(parts: &mut Parts, mut range: ByteRange) {
    let mut place = parts.len();
    let mut at = 0;
    while at < parts.len() {
        if are_near(parts[at], range) {
            let part = parts.remove(at);
            range = ByteRange { start: part.start.min(range.start), end: part.end.max(range.end) };
            place = place.min(at);
        } else {
            at += 1;
        }
    }
    parts.insert(place.min(parts.len()), range);
}

fn are_near(a: ByteRange, b: ByteRange) -> bool {
    a.start <= b.end.saturating_add(COALESCE_BYTES) && b.start <= a.end.saturating_add(COALESCE_BYTES)
}

/// One `range-spec` (RFC 9110 §14.1.1, §14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeSpec {
    /// `first-`
    From(u64),
    /// `first-last`, both included.
    Between(u64, u64),
    /// `-length`
    Suffix(u64),
}

impl RangeSpec {
    fn parse(text: &[u8]) -> Option<Self> {
        let hyphen = text.iter().position(|&byte| byte == b'-')?;
        match (&text[..hyphen], &text[hyphen + 1..]) {
            (b"", suffix) => Some(Self::Suffix(number(suffix)?)),
            (first, b"") => Some(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The bytes it means, if it is satisfiable.
    fn on(self, length: u64) -> Option<ByteRange> {
        let (start, end) = match self {
            Self::From(first) => (first, length),
            Self::Between(first, last) => (first, last.saturating_add(1).min(length)),
            Self::Suffix(suffix) => (length.saturating_sub(suffix), length),
        };
        (start < end).then_some(ByteRange { start, end })
    }
}

/// Digits; larger numbers than `u64` holds count as the largest, which lies behind every end.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| digits.iter().fold(0, add))
}

/// Appends the value of `Content-Range` for one part (RFC 9110 §14.4): `bytes 0-499/1234`.
pub fn write_content_range(out: &mut Vec<u8>, range: ByteRange, length: u64) {
    write_text(out, "bytes ");
    decimal(out, range.start);
    write_text(out, "-");
    decimal(out, range.end - 1);
    write_text(out, "/");
    decimal(out, length);
}

/// Appends the value of `Content-Range` for a 416 (RFC 9110 §15.5.17): `bytes */1234`.
pub fn write_unsatisfied_range(out: &mut Vec<u8>, length: u64) {
    write_text(out, "bytes */");
    decimal(out, length);
}

#[cfg(test)]
mod tests;
