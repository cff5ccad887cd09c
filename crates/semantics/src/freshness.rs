//! Calculating the freshness lifetime (RFC 9111 §4.2.1) and the heuristic one (§4.2.2).
//!
//! The first of `s-maxage`, `max-age`, `Expires` that is there decides, even if it is nonsense: then the
//! lifetime is zero. Only where none is there, the heuristic may speak.

use crate::policy::Policy;
use crate::targeted::Control;
use crate::time::{Seconds, UnixSeconds};
use wire::{Fields, date};

/// Where a lifetime came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `s-maxage`.
    SMaxage,
    /// `max-age`.
    MaxAge,
    /// `Expires`.
    Expires,
    /// A share of the time since `Last-Modified`.
    Heuristic,
    /// Nothing: the lifetime is zero.
    Nothing,
}

impl Source {
    /// Whether the origin said it (RFC 9111 §4.2: explicit expiration).
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::SMaxage | Self::MaxAge | Self::Expires)
    }
}

/// What a lifetime is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'r, 'a> {
    /// The status code.
    pub status: u16,
    /// Its cache control.
    pub control: &'r Control,
    /// Its fields.
    pub fields: &'r Fields<'a>,
    /// Its `Date`, or when it was received.
    pub date: UnixSeconds,
    /// Its `Last-Modified`.
    pub last_modified: Option<UnixSeconds>,
}

/// The freshness lifetime and its source.
#[must_use]
pub fn lifetime(basis: &Basis<'_, '_>, policy: &Policy) -> (Seconds, Source) {
    let (lifetime, source) = explicit(basis)
        .or_else(|| heuristic(basis, policy).map(|lifetime| (lifetime, Source::Heuristic)))
        .unwrap_or((Seconds::ZERO, Source::Nothing));
    (lifetime.min(policy.lifetime_max), source)
}

fn explicit(basis: &Basis<'_, '_>) -> Option<(Seconds, Source)> {
    let directives = &basis.control.directives;
    let s_maxage = directives.s_maxage.map(|span| (span, Source::SMaxage));
    let max_age = || directives.max_age.map(|span| (span, Source::MaxAge));
    s_maxage.or_else(max_age).or_else(|| expires(basis).map(|span| (span, Source::Expires)))
}

/// `Expires` minus `Date`. What is no date, `0` above all, is in the past (RFC 9111 §5.3); of several lines the
/// first counts (§4.2.1). A targeted field replaces it (RFC 9213 §2.1).
fn expires(basis: &Basis<'_, '_>) -> Option<Seconds> {
    if basis.control.targeted {
        return None;
    }
    let value = basis.fields.get("expires")?;
    let at = date::parse(value, basis.date.0).map_or(UnixSeconds(0), UnixSeconds);
    Some(at.since(basis.date))
}

/// RFC 9111 §4.2.2: for status codes that allow it, or where the origin said `public`.
fn heuristic(basis: &Basis<'_, '_>, policy: &Policy) -> Option<Seconds> {
    if !is_heuristically_cacheable(basis.status) && !basis.control.directives.public {
        return None;
    }
    let unchanged_for = basis.date.since(basis.last_modified?);
    let share = unchanged_for.0.saturating_mul(u64::from(policy.heuristic_percent)) / 100;
    Some(Seconds(share).min(policy.heuristic_max))
}

/// Status codes defined as heuristically cacheable (RFC 9110 §15.1).
#[must_use]
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::Stored;
    use crate::testing::{T0, response, stored, times};

    fn of(lines: &str) -> (u64, Source) {
        let stored = stored(lines);
        (stored.lifetime.0, stored.source)
    }

    #[test]
    fn the_first_explicit_source_decides() {
        // RFC 9111 §4.2.1, §5.3; everything is received at 01:46:40
        const SOON: &str = "Expires: Sun, 09 Sep 2001 01:47:40 GMT";
        for (lines, expected) in [
            ("Cache-Control: max-age=5", (5, Source::MaxAge)),
            ("Cache-Control: max-age=5, s-maxage=9", (9, Source::SMaxage)),
            ("Cache-Control: max-age=5, s-maxage=x", (0, Source::SMaxage)),
            ("Expires: Sun, 09 Sep 2001 01:47:40 GMT", (60, Source::Expires)),
            ("Expires: Sunday, 09-Sep-01 01:47:40 GMT", (60, Source::Expires)),
            ("Expires: Sun Sep  9 01:47:40 2001", (60, Source::Expires)),
            ("Expires: 0", (0, Source::Expires)),
            ("Expires: -1", (0, Source::Expires)),
            ("Expires:", (0, Source::Expires)),
            ("Expires: Sun, 09 Sep 2001 01:45:40 GMT", (0, Source::Expires)),
            ("Expires: Sun, 09 Sep 2001 01:47:40 GMT\nExpires: 0", (60, Source::Expires)),
            (
                "Date: Sun, 09 Sep 2001 01:47:00 GMT\nExpires: Sun, 09 Sep 2001 01:47:40 GMT",
                (40, Source::Expires),
            ),
            ("Date: nonsense\nExpires: Sun, 09 Sep 2001 01:47:40 GMT", (60, Source::Expires)),
            ("X: y", (0, Source::Nothing)),
        ] {
            assert_eq!(of(lines), expected, "{lines}");
        }
        assert_eq!(of(&std::format!("Cache-Control: max-age=5\n{SOON}")), (5, Source::MaxAge));
        assert_eq!(of(&std::format!("Cache-Control: max-age=0\n{SOON}")), (0, Source::MaxAge));
    }

    #[test]
    fn the_heuristic_is_a_bounded_share_of_the_time_unchanged() {
        // RFC 9111 §4.2.2
        for (lines, expected) in [
            ("Last-Modified: Sun, 09 Sep 2001 01:45:00 GMT", (10, Source::Heuristic)),
            ("Last-Modified: Sat, 09 Sep 2000 01:45:00 GMT", (86_400, Source::Heuristic)),
            ("Last-Modified: Sun, 09 Sep 2001 01:50:00 GMT", (0, Source::Heuristic)),
            ("Last-Modified: yesterday", (0, Source::Nothing)),
            ("Last-Modified: Sun, 09 Sep 2001 01:45:00 GMT\nExpires: 0", (0, Source::Expires)),
        ] {
            assert_eq!(of(lines), expected, "{lines}");
        }
    }

    #[test]
    fn the_heuristic_needs_a_status_that_allows_it_or_public() {
        // RFC 9111 §4.2.2, RFC 9110 §15.1
        const LINES: &str = "Last-Modified: Sun, 09 Sep 2001 01:45:00 GMT";
        const PUBLIC: &str = "Last-Modified: Sun, 09 Sep 2001 01:45:00 GMT\nCache-Control: public";
        for status in 100..600 {
            let source =
                |lines| Stored::from_head(&response(status, lines), times(T0), &Policy::default()).source;
            assert_eq!(source(LINES) == Source::Heuristic, is_heuristically_cacheable(status), "{status}");
            assert_eq!(source(PUBLIC), Source::Heuristic, "{status}");
        }
    }

    #[test]
    fn the_policy_bounds_every_lifetime() {
        let policy = Policy { lifetime_max: Seconds(100), ..Policy::default() };
        let head = response(200, "Cache-Control: max-age=5000");
        assert_eq!(Stored::from_head(&head, times(T0), &policy).lifetime, Seconds(100));
    }
}
