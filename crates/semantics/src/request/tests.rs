use super::*;
use crate::testing::{fields, request, traits};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;
use wire::Fields;

#[test]
fn a_plain_request_says_nothing() {
    let plain = traits("Host: a\nUser-Agent: b\nAccept: */*\nAccept-Encoding: gzip\nCookie: c\nReferer: d");
    assert_eq!(plain, RequestTraits::nothing(Method::Get));
    assert!(plain.conditions.is_empty());
}

#[test]
fn methods_are_told_apart_with_case() {
    // RFC 9110 §9.1, §9.2.1
    for (token, expected) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("OPTIONS", Method::OtherSafe),
        ("TRACE", Method::OtherSafe),
        ("POST", Method::Unsafe),
        ("DELETE", Method::Unsafe),
        ("get", Method::Unsafe),
        ("PROPFIND", Method::Unsafe),
    ] {
        assert_eq!(Method::of(token), expected, "{token}");
    }
}

#[test]
fn pragma_counts_only_without_cache_control() {
    // RFC 9111 §5.4
    for (lines, expected) in [
        ("Pragma: no-cache", true),
        ("pragma: x, NO-CACHE", true),
        ("Pragma: cache", false),
        ("Pragma: no-cache\nCache-Control: max-age=5", false),
        ("Cache-Control: max-age=5\nPragma: no-cache", false),
        ("Cache-Control: no-cache", true),
    ] {
        assert_eq!(traits(lines).directives.no_cache, expected, "{lines}");
    }
}

#[test]
fn every_trait_is_found_in_any_case() {
    let all = traits(
        "RANGE: a\nif-range: b\nIF-MATCH: c\nif-match: d\nIf-None-Match: e\nAUTHORIZATION: f\n\
         If-Modified-Since: g\nif-unmodified-since: h\nContent-Length: 5",
    );
    assert_eq!((all.range, all.if_range), (Once::Value(b"a"), Once::Value(b"b")));
    assert_eq!(all.conditions.if_match.as_slice(), [b"c", b"d"]);
    assert_eq!(all.conditions.if_none_match.as_slice(), [b"e"]);
    assert_eq!(all.conditions.if_modified_since.value(), Some(&b"g"[..]));
    assert_eq!(all.conditions.if_unmodified_since.value(), Some(&b"h"[..]));
    assert!(all.authorization && all.content && !all.conditions.is_empty());
}

#[test]
fn what_must_not_repeat_is_remembered_as_repeated() {
    assert_eq!(traits("Range: a\nRange: a").range, Once::Repeated);
    assert_eq!(traits("Range: a\nRange: a\nRange: a").range, Once::Repeated);
    assert_eq!(Once::Repeated.value(), None);
}

#[test]
fn content_is_a_length_or_a_coding() {
    for (lines, expected) in
        [("Content-Length: 0", false), ("Content-Length: 1", true), ("Transfer-Encoding: chunked", true)]
    {
        assert_eq!(RequestTraits::of(&request("GET", lines)).content, expected, "{lines}");
    }
}

#[test]
fn directives_can_be_set_aside() {
    let deaf = traits("Cache-Control: no-cache, only-if-cached\nRange: a").without_directives();
    assert!(!deaf.directives.no_cache && !deaf.only_if_cached());
    assert_eq!(deaf.range, Once::Value(b"a"));
}

/// The naive twin: a search through all fields for each trait.
fn slow(fields: &Fields<'static>) -> RequestTraits<'static> {
    let once = |name: &'static str| match fields.all(name).collect::<Vec<_>>().as_slice() {
        [] => Once::Absent,
        [value] => Once::Value(value),
        _ => Once::Repeated,
    };
    let mut directives = RequestDirectives::default();
    fields.all("cache-control").for_each(|value| directives.read(value));
    let pragma = wire::fields::has_token(fields, "pragma", "no-cache");
    directives.no_cache |= pragma && !fields.contains("cache-control");
    let conditions = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    RequestTraits {
        method: Method::Get,
        directives,
        authorization: fields.contains("authorization"),
        content: fields.all("content-length").any(|value| value != b"0")
            || fields.contains("transfer-encoding"),
        conditions: Conditions {
            if_match: fields.all("if-match").collect(),
            if_none_match: fields.all("if-none-match").collect(),
            if_modified_since: once("if-modified-since"),
            if_unmodified_since: once("if-unmodified-since"),
            any: conditions.into_iter().any(|name| fields.contains(name)),
        },
        range: once("range"),
        if_range: once("if-range"),
    }
}

const NAMES: [&str; 20] = [
    "Cache-Control",
    "cache-control",
    "PRAGMA",
    "Pragma",
    "Authorization",
    "Content-Length",
    "Transfer-Encoding",
    "If-Match",
    "IF-NONE-MATCH",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-Range",
    "Range",
    "Host",
    "Accept",
    "Referer",
    "X-If-Match",
    "User-Agent",
    "Accept-Encoding",
    "Accept-Language",
];
const VALUES: [&str; 8] =
    ["0", "1", "no-cache", "max-age=3", "max-stale", "no-store, x", "\"a\"", "bytes=0-1"];

proptest! {
    #[test]
    fn one_pass_finds_what_a_search_finds(
        lines in prop::collection::vec((prop::sample::select(&NAMES), prop::sample::select(&VALUES)), 0..12),
    ) {
        let text: Vec<String> = lines.iter().map(|(name, value)| std::format!("{name}: {value}")).collect();
        let text: &'static str = String::leak(text.join("\n"));
        prop_assert_eq!(traits(text), slow(&fields(text)));
    }
}
