//! The `Cache-Status` field (RFC 9211): how this cache handled the request, one list member named `tidegate`.
//! It is typed so that no impossible combination can be written: a hit has no `fwd`, a forwarded request has no
//! `hit`.

use crate::time::Seconds;
use alloc::vec::Vec;
use wire::fields::is_token;

/// The name of this cache in the list.
pub const NAME: &str = "tidegate";

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Answered from the store, or by another server.
    pub outcome: Outcome,
    /// A reason word.
    pub detail: Option<&'a str>,
}

/// Answered from the store, or by another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `hit`: nobody else was asked.
    Hit {
        /// How long the response stays fresh.
        ttl: Ttl,
    },
    /// `fwd`: the request went on towards the origin.
    Forwarded(Forwarded),
    /// Neither: answered here without a stored response (an error made here).
    Generated,
}

/// The parameters of a forwarded request (RFC 9211 §2.2–2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Why.
    pub why: Forward,
    /// What the next server answered, where that is not the status sent on.
    pub status: Option<u16>,
    /// Whether the response is being stored.
    pub stored: bool,
    /// Whether the request shared another's exchange.
    pub collapsed: bool,
}

impl Forwarded {
    /// Forwarded for this reason, and nothing else to say.
    #[must_use]
    pub fn because(why: Forward) -> Self {
        Self { why, status: None, stored: false, collapsed: false }
    }
}

/// Remaining freshness, negative when stale (RFC 9211 §2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Fresh for so long.
    Fresh(Seconds),
    /// Stale for so long.
    Stale(Seconds),
}

/// Why a request was forwarded (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was told not to handle it.
    Bypass,
    /// Its method needs it.
    Method,
    /// Nothing is stored under its URI.
    UriMiss,
    /// Something is, but for other request fields.
    VaryMiss,
    /// Nothing usable is stored, and the cache does not say whether by URI or fields.
    Miss,
    /// The client wanted it.
    Request,
    /// What is stored is stale.
    Stale,
    /// Only a part is stored.
    Partial,
}

impl Forward {
    /// The token of RFC 9211 §2.2.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl<'a> CacheStatus<'a> {
    /// A fresh hit.
    #[must_use]
    pub fn hit(ttl: Seconds) -> Self {
        Self { outcome: Outcome::Hit { ttl: Ttl::Fresh(ttl) }, detail: None }
    }

    /// A stale hit.
    #[must_use]
    pub fn stale_hit(staleness: Seconds, detail: &'a str) -> Self {
        Self { outcome: Outcome::Hit { ttl: Ttl::Stale(staleness) }, detail: Some(detail) }
    }

    /// A forwarded request.
    #[must_use]
    pub fn forwarded(forwarded: Forwarded) -> Self {
        Self { outcome: Outcome::Forwarded(forwarded), detail: None }
    }

    /// Appends the list member to `out`. What other caches said comes before it in the list: their lines first.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(NAME.as_bytes());
        match self.outcome {
            Outcome::Hit { ttl } => write_hit(out, ttl),
            Outcome::Forwarded(forwarded) => write_forwarded(out, forwarded),
            Outcome::Generated => {}
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            write_detail(out, detail);
        }
    }
}

fn write_hit(out: &mut Vec<u8>, ttl: Ttl) {
    out.extend_from_slice(b"; hit; ttl=");
    match ttl {
        Ttl::Fresh(span) => write_number(out, span.0),
        Ttl::Stale(span) => {
            if span > Seconds::ZERO {
                out.push(b'-');
            }
            write_number(out, span.0);
        }
    }
}

fn write_forwarded(out: &mut Vec<u8>, forwarded: Forwarded) {
    out.extend_from_slice(b"; fwd=");
    out.extend_from_slice(forwarded.why.word().as_bytes());
    if let Some(status) = forwarded.status {
        out.extend_from_slice(b"; fwd-status=");
        write_number(out, u64::from(status));
    }
    if forwarded.stored {
        out.extend_from_slice(b"; stored");
    }
    if forwarded.collapsed {
        out.extend_from_slice(b"; collapsed");
    }
}

/// A structured-field token where the reason is one, else a string of its printable characters (RFC 9651 §3.3).
fn write_detail(out: &mut Vec<u8>, detail: &str) {
    if detail.starts_with(|first: char| first.is_ascii_alphabetic()) && is_token(detail.as_bytes()) {
        return out.extend_from_slice(detail.as_bytes());
    }
    out.push(b'"');
    for byte in detail.bytes().filter(|byte| (b' '..=b'~').contains(byte)) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// The largest integer of a structured field (RFC 9651 §3.3.1).
const LARGEST_INTEGER: u64 = 999_999_999_999_999;

fn write_number(out: &mut Vec<u8>, number: u64) {
    wire::write::decimal(out, number.min(LARGEST_INTEGER));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sfv::{BareItem, List, ListEntry, Parser};
    use std::string::String;

    fn text(status: &CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn forwarded(why: Forward) -> Forwarded {
        Forwarded::because(why)
    }

    #[test]
    fn members_are_written_as_users_know_them() {
        // RFC 9211 §2
        let stored = Forwarded { stored: true, ..forwarded(Forward::UriMiss) };
        let validated = Forwarded { status: Some(304), ..forwarded(Forward::Stale) };
        let collapsed = Forwarded { collapsed: true, ..forwarded(Forward::UriMiss) };
        for (status, expected) in [
            (CacheStatus::hit(Seconds(3500)), "tidegate; hit; ttl=3500"),
            (CacheStatus::stale_hit(Seconds(5), "max-stale"), "tidegate; hit; ttl=-5; detail=max-stale"),
            (CacheStatus::stale_hit(Seconds(0), "max-stale"), "tidegate; hit; ttl=0; detail=max-stale"),
            (CacheStatus::forwarded(stored), "tidegate; fwd=uri-miss; stored"),
            (CacheStatus::forwarded(validated), "tidegate; fwd=stale; fwd-status=304"),
            (CacheStatus::forwarded(collapsed), "tidegate; fwd=uri-miss; collapsed"),
            (
                CacheStatus { outcome: Outcome::Generated, detail: Some("only-if-cached") },
                "tidegate; detail=only-if-cached",
            ),
            (
                CacheStatus {
                    detail: Some("two \"words\""),
                    ..CacheStatus::forwarded(forwarded(Forward::Bypass))
                },
                "tidegate; fwd=bypass; detail=\"two \\\"words\\\"\"",
            ),
        ] {
            assert_eq!(text(&status), expected);
        }
    }

    #[test]
    fn every_forward_reason_has_the_registered_token() {
        // RFC 9211 §2.2
        use Forward::*;
        let all = [Bypass, Method, UriMiss, VaryMiss, Miss, Request, Stale, Partial];
        let words = ["bypass", "method", "uri-miss", "vary-miss", "miss", "request", "stale", "partial"];
        assert_eq!(all.map(Forward::word), words);
    }

    fn any_outcome() -> impl Strategy<Value = Outcome> {
        let forward = (prop::option::of(100..1000u16), any::<bool>(), any::<bool>()).prop_map(|parts| {
            let (status, stored, collapsed) = parts;
            Outcome::Forwarded(Forwarded { why: Forward::VaryMiss, status, stored, collapsed })
        });
        let fresh = any::<u64>().prop_map(|span| Outcome::Hit { ttl: Ttl::Fresh(Seconds(span)) });
        let stale = any::<u64>().prop_map(|span| Outcome::Hit { ttl: Ttl::Stale(Seconds(span)) });
        prop_oneof![forward, fresh, stale, Just(Outcome::Generated)]
    }

    proptest! {
        #[test]
        fn what_is_written_parses_as_a_list_of_one_item(outcome in any_outcome(), detail in prop::option::of(".*")) {
            let status = CacheStatus { outcome, detail: detail.as_deref() };
            let list: List = Parser::new(&text(&status)).parse().unwrap();
            let [ListEntry::Item(item)] = list.as_slice() else { panic!("{list:?}") };
            let has = |name: &str| item.params.get(name).is_some();
            prop_assert_eq!(has("hit"), matches!(outcome, Outcome::Hit { .. }));
            prop_assert_eq!(has("ttl"), has("hit"));
            prop_assert_eq!(has("fwd"), matches!(outcome, Outcome::Forwarded(_)));
            if let Outcome::Forwarded(forwarded) = outcome {
                prop_assert_eq!(has("stored"), forwarded.stored);
                prop_assert_eq!(has("collapsed"), forwarded.collapsed);
                prop_assert_eq!(has("fwd-status"), forwarded.status.is_some());
            }
            prop_assert_eq!(has("detail"), detail.is_some());
            prop_assert!(matches!(&item.bare_item, BareItem::Token(name) if name.as_str() == NAME));
        }
    }
}
