//! Handling a received validation request (RFC 9111 §4.3.2) by evaluating its preconditions (RFC 9110 §13) against
//! a stored response that may be served.
//!
//! `If-Match` and `If-Unmodified-Since` are evaluated too: a cache may ignore them, but a client that sends them
//! with a `GET` wants that one representation, and is told so without a trip to the origin.

use crate::request::{Lines, RequestTraits};
use crate::stored::Stored;
use crate::time::UnixSeconds;
use wire::etag::{EntityTag, is_any, list};
use wire::{Field, Fields, date};

/// What the preconditions make of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it (or a range of it).
    Serve,
    /// Send 304 (Not Modified) with [`not_modified_fields`].
    NotModified,
    /// Send 412 (Precondition Failed).
    PreconditionFailed,
}

/// Evaluates the preconditions of a `GET` or `HEAD` in the order of RFC 9110 §13.2.2; `If-Range`, the last step,
/// is [`crate::ranges`]. `now` places the century of two-digit years.
#[must_use]
pub fn evaluate(request: &RequestTraits<'_>, stored: &Stored, now: UnixSeconds) -> Verdict {
    // RFC 9110 §13.2.1: no preconditions on what would not have been a success.
    if request.conditions.is_empty() || !(200..300).contains(&stored.status) {
        return Verdict::Serve;
    }
    if !unchanged(request, stored, now) {
        return Verdict::PreconditionFailed;
    }
    if changed(request, stored, now) { Verdict::Serve } else { Verdict::NotModified }
}

/// Steps 1 and 2: `If-Match`, or else `If-Unmodified-Since`. A time that is none is ignored, as is any where the
/// modification date is not known (RFC 9110 §13.1.4).
fn unchanged(request: &RequestTraits<'_>, stored: &Stored, now: UnixSeconds) -> bool {
    let conditions = &request.conditions;
    if !conditions.if_match.is_empty() {
        return names(&conditions.if_match, stored, |one, other| one.strong_eq(other));
    }
    let since = conditions.if_unmodified_since.value().and_then(|value| date::parse(value, now.0));
    match (since, stored.last_modified) {
        (Some(since), Some(last_modified)) => last_modified.0 <= since,
        _ => true,
    }
}

/// Steps 3 and 4: `If-None-Match`, or else `If-Modified-Since`, which is ignored if it is no date. For a response
/// without `Last-Modified` its date stands in (RFC 9111 §4.3.2).
fn changed(request: &RequestTraits<'_>, stored: &Stored, now: UnixSeconds) -> bool {
    let conditions = &request.conditions;
    if !conditions.if_none_match.is_empty() {
        return !names(&conditions.if_none_match, stored, |one, other| one.weak_eq(other));
    }
    let since = conditions.if_modified_since.value().and_then(|value| date::parse(value, now.0));
    since.is_none_or(|since| stored.last_modified.unwrap_or(stored.date).0 > since)
}

/// Whether the lines are `*` or list the stored response's entity tag. What is malformed names nothing, and ends
/// its line.
fn names(lines: &Lines<'_>, stored: &Stored, equal: fn(&EntityTag<'_>, &EntityTag<'_>) -> bool) -> bool {
    let listed =
        |own: EntityTag<'_>| lines.iter().any(|line| list(line).flatten().any(|tag| equal(&tag, &own)));
    lines.iter().any(|line| is_any(line)) || stored.etag().is_some_and(listed)
}

/// The stored fields that belong into a 304 (RFC 9110 §15.4.5): all but the description of content that is not
/// sent. `Last-Modified` goes only where no entity tag does better.
pub fn not_modified_fields<'s, 'a>(stored: &'s Fields<'a>) -> impl Iterator<Item = &'s Field<'a>> {
    let has_etag = stored.contains("etag");
    stored.iter().filter(move |field| !describes_content(field.name, has_etag))
}

fn describes_content(name: &str, has_etag: bool) -> bool {
    const METADATA: [&str; 8] = [
        "content-type",
        "content-length",
        "content-encoding",
        "content-language",
        "content-range",
        "content-digest",
        "repr-digest",
        "transfer-encoding",
    ];
    let is = |metadata: &str| name.eq_ignore_ascii_case(metadata);
    METADATA.into_iter().any(is) || has_etag && is("last-modified")
}

#[cfg(test)]
mod tests {
    use super::Verdict::{NotModified, PreconditionFailed, Serve};
    use super::*;
    use crate::testing::{T0, fields, request, response, stored, times, traits};
    use std::vec::Vec;

    const BEFORE: &str = "Sun, 09 Sep 2001 01:00:00 GMT";
    const CHANGE: &str = "Sun, 09 Sep 2001 01:10:00 GMT";
    const AFTER: &str = "Sun, 09 Sep 2001 01:20:00 GMT";

    fn verdict(stored_lines: &str, lines: &str) -> Verdict {
        evaluate(&traits(lines), &stored(stored_lines), UnixSeconds(T0))
    }

    #[test]
    fn entity_tags_decide() {
        // RFC 9110 §13.1.1, §13.1.2; RFC 9111 §4.3.2: (stored ETag, request, verdict)
        for (etag, lines, expected) in [
            ("\"a\"", "X: y", Serve),
            ("\"a\"", "If-None-Match: \"a\"", NotModified),
            ("\"a\"", "If-None-Match: W/\"a\"", NotModified),
            ("W/\"a\"", "If-None-Match: \"a\"", NotModified),
            ("\"a\"", "If-None-Match: \"b\", \"a\"", NotModified),
            ("\"a\"", "If-None-Match: \"b\"\nIf-None-Match: \"a\"", NotModified),
            ("\"a\"", "If-None-Match: *", NotModified),
            ("\"a\"", "If-None-Match: \"b\"", Serve),
            ("\"a\"", "If-None-Match: a", Serve),
            ("\"a\"", "If-None-Match:", Serve),
            ("\"a\"", "If-Match: \"a\"", Serve),
            ("\"a\"", "If-Match: *", Serve),
            ("\"a\"", "If-Match: W/\"a\"", PreconditionFailed),
            ("W/\"a\"", "If-Match: W/\"a\"", PreconditionFailed),
            ("\"a\"", "If-Match: \"b\"", PreconditionFailed),
            ("\"a\"", "If-Match:", PreconditionFailed),
            ("\"a\"", "If-Match: \"a\"\nIf-None-Match: \"a\"", NotModified),
            ("\"a\"", "If-Match: \"b\"\nIf-None-Match: \"a\"", PreconditionFailed),
            ("a", "If-None-Match: a", Serve),
        ] {
            assert_eq!(verdict(&std::format!("ETag: {etag}"), lines), expected, "{etag} | {lines}");
        }
    }

    #[test]
    fn dates_decide_where_no_tag_does() {
        // RFC 9110 §13.1.3, §13.1.4, §13.2.2: (precondition, its date, verdict)
        for (name, date, expected) in [
            ("If-Modified-Since", BEFORE, Serve),
            ("If-Modified-Since", CHANGE, NotModified),
            ("If-Modified-Since", AFTER, NotModified),
            ("If-Modified-Since", "Sunday, 09-Sep-01 01:20:00 GMT", NotModified),
            ("If-Modified-Since", "soon", Serve),
            ("If-Unmodified-Since", BEFORE, PreconditionFailed),
            ("If-Unmodified-Since", CHANGE, Serve),
            ("If-Unmodified-Since", AFTER, Serve),
            ("If-Unmodified-Since", "soon", Serve),
        ] {
            let stored = std::format!("ETag: \"a\"\nLast-Modified: {CHANGE}");
            let ask = |more: &str| verdict(&stored, &std::format!("{name}: {date}{more}"));
            assert_eq!(ask(""), expected, "{name}: {date}");
            assert_eq!(ask(&std::format!("\n{name}: {date}")), Serve, "repeated {name}");
            assert_eq!(
                ask("\nIf-None-Match: \"a\""),
                if expected == PreconditionFailed { expected } else { NotModified }
            );
            assert_eq!(ask("\nIf-Match: \"b\""), PreconditionFailed);
        }
        let overruled = std::format!("If-None-Match: \"b\"\nIf-Modified-Since: {AFTER}");
        assert_eq!(verdict(&std::format!("ETag: \"a\"\nLast-Modified: {CHANGE}"), &overruled), Serve);
    }

    #[test]
    fn without_last_modified_the_date_stands_in() {
        // RFC 9111 §4.3.2: the stored response was received, or dated, at 01:46:40
        for (stored, since, expected) in [
            ("X: y", "Sun, 09 Sep 2001 01:46:40 GMT", NotModified),
            ("X: y", "Sun, 09 Sep 2001 01:46:39 GMT", Serve),
            ("Date: Sun, 09 Sep 2001 01:10:00 GMT", CHANGE, NotModified),
            ("Date: Sun, 09 Sep 2001 01:10:00 GMT", BEFORE, Serve),
        ] {
            assert_eq!(
                verdict(stored, &std::format!("If-Modified-Since: {since}")),
                expected,
                "{stored} {since}"
            );
        }
        assert_eq!(verdict("X: y", &std::format!("If-Unmodified-Since: {BEFORE}")), Serve);
    }

    #[test]
    fn only_successes_have_preconditions() {
        // RFC 9110 §13.2.1
        for (status, expected) in [(200, NotModified), (203, NotModified), (404, Serve), (301, Serve)] {
            let stored =
                Stored::from_head(&response(status, "ETag: \"a\""), times(T0), &crate::Policy::default());
            let verdict = evaluate(&traits("If-None-Match: \"a\""), &stored, UnixSeconds(T0));
            assert_eq!(verdict, expected, "{status}");
        }
    }

    #[test]
    fn head_is_judged_as_get() {
        let head = request("HEAD", "If-None-Match: \"a\"");
        let verdict = evaluate(&RequestTraits::of(&head), &stored("ETag: \"a\""), UnixSeconds(T0));
        assert_eq!(verdict, NotModified);
    }

    #[test]
    fn a_304_carries_what_updates_the_client() {
        // RFC 9110 §15.4.5
        let stored = fields(
            "Content-Type: a\nContent-Length: 1\nContent-Encoding: b\nContent-Location: /c\nDate: d\nETag: \"e\"\n\
             Vary: f\nCache-Control: g\nExpires: h\nLast-Modified: i\nContent-Security-Policy: j\nX-K: l",
        );
        let names: Vec<&str> = not_modified_fields(&stored).map(|field| field.name).collect();
        let expected = [
            "Content-Location",
            "Date",
            "ETag",
            "Vary",
            "Cache-Control",
            "Expires",
            "Content-Security-Policy",
            "X-K",
        ];
        assert_eq!(names, expected);
        let untagged = fields("Last-Modified: i\nContent-Type: a");
        let names: Vec<&str> = not_modified_fields(&untagged).map(|field| field.name).collect();
        assert_eq!(names, ["Last-Modified"]);
    }
}
