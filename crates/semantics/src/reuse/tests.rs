use super::*;
use crate::testing::{T0, request, stored, traits};
use proptest::prelude::*;

fn at(seconds: u64) -> UnixSeconds {
    UnixSeconds(T0 + seconds)
}

fn fresh(age: u64, ttl: u64) -> Reuse {
    Reuse::Fresh { age: Seconds(age), ttl: Seconds(ttl) }
}

fn stale(age: u64, staleness: u64, why: Permission) -> Reuse {
    let revalidate = why == Permission::WhileRevalidate;
    Reuse::Stale { age: Seconds(age), staleness: Seconds(staleness), why, revalidate }
}

fn validate(why: Obstacle) -> Reuse {
    Reuse::Validate { why }
}

/// (section, response directives, request lines, seconds later, expected)
type Row = (&'static str, &'static str, &'static str, u64, Reuse);

fn check(rows: &[Row]) {
    for (section, control, lines, later, expected) in rows {
        let stored = stored(&std::format!("Cache-Control: {control}"));
        let answer = may_reuse(&traits(lines), &stored, at(*later));
        assert_eq!(answer, *expected, "{section}: {control} | {lines} | +{later}");
    }
}

#[test]
fn fresh_until_the_lifetime_has_passed() {
    check(&[
        ("§4.2", "max-age=10", "", 0, fresh(0, 10)),
        ("§4.2", "max-age=10", "", 9, fresh(9, 1)),
        ("§4.2", "max-age=10", "", 10, validate(Obstacle::Stale)),
        ("§4.2", "max-age=0", "", 0, validate(Obstacle::Stale)),
        ("§4.2.1", "max-age=10, s-maxage=5", "", 5, validate(Obstacle::MustRevalidate)),
        ("§5.2.2.4", "max-age=10, no-cache", "", 0, validate(Obstacle::NoCache)),
        ("§5.2.2.4", "max-age=10, no-cache=\"a\"", "", 0, validate(Obstacle::NoCache)),
        ("§5.2.1.5", "max-age=10", "Cache-Control: no-store", 0, fresh(0, 10)),
    ]);
}

#[test]
fn the_client_may_ask_for_fresher() {
    check(&[
        ("§5.2.1.4", "max-age=10", "Cache-Control: no-cache", 1, validate(Obstacle::RequestNoCache)),
        ("§5.4", "max-age=10", "Pragma: no-cache", 1, validate(Obstacle::RequestNoCache)),
        ("§5.2.1.1", "max-age=10", "Cache-Control: max-age=5", 5, fresh(5, 5)),
        ("§5.2.1.1", "max-age=10", "Cache-Control: max-age=5", 6, validate(Obstacle::RequestMaxAge)),
        ("§5.2.1.1", "max-age=10", "Cache-Control: max-age=0", 0, validate(Obstacle::RequestMaxAge)),
        ("§5.2.1.1", "max-age=10", "Cache-Control: max-age=x", 0, validate(Obstacle::RequestMaxAge)),
        ("§5.2.1.3", "max-age=10", "Cache-Control: min-fresh=5", 5, fresh(5, 5)),
        ("§5.2.1.3", "max-age=10", "Cache-Control: min-fresh=5", 6, validate(Obstacle::RequestMinFresh)),
        ("RFC 8246 §2", "max-age=10, immutable", "Cache-Control: max-age=0", 1, fresh(1, 9)),
        (
            "RFC 8246 §2",
            "max-age=10, immutable",
            "Cache-Control: max-age=0",
            11,
            validate(Obstacle::RequestMaxAge),
        ),
        (
            "RFC 8246 §2",
            "max-age=10, immutable",
            "Cache-Control: no-cache",
            1,
            validate(Obstacle::RequestNoCache),
        ),
    ]);
}

#[test]
fn stale_needs_leave_and_no_prohibition() {
    use Permission::{MaxStale, WhileRevalidate};
    const ANY: &str = "Cache-Control: max-stale";
    const FIVE: &str = "Cache-Control: max-stale=5";
    check(&[
        ("§5.2.1.2", "max-age=10", ANY, 1000, stale(1000, 990, MaxStale)),
        ("§5.2.1.2", "max-age=10", FIVE, 15, stale(15, 5, MaxStale)),
        ("§5.2.1.2", "max-age=10", FIVE, 16, validate(Obstacle::Stale)),
        ("§5.2.1.2", "max-age=10", "Cache-Control: max-stale=x", 11, validate(Obstacle::Stale)),
        ("§5.2.2.2", "max-age=10, must-revalidate", ANY, 11, validate(Obstacle::MustRevalidate)),
        ("§5.2.2.8", "max-age=10, proxy-revalidate", ANY, 11, validate(Obstacle::MustRevalidate)),
        ("§5.2.2.10", "s-maxage=10", ANY, 11, validate(Obstacle::MustRevalidate)),
        ("§5.2.2.4", "max-age=10, no-cache", ANY, 11, validate(Obstacle::NoCache)),
        (
            "§5.2.1.4",
            "max-age=10",
            "Cache-Control: max-stale, no-cache",
            11,
            validate(Obstacle::RequestNoCache),
        ),
        ("RFC 5861 §3", "max-age=10, stale-while-revalidate=5", "", 9, fresh(9, 1)),
        ("RFC 5861 §3", "max-age=10, stale-while-revalidate=5", "", 14, stale(14, 4, WhileRevalidate)),
        ("RFC 5861 §3", "max-age=10, stale-while-revalidate=5", "", 15, validate(Obstacle::Stale)),
        ("RFC 5861 §3", "max-age=10, stale-while-revalidate=5", FIVE, 14, stale(14, 4, WhileRevalidate)),
        ("§4.2.4", "s-maxage=10, stale-while-revalidate=5", "", 11, validate(Obstacle::MustRevalidate)),
        (
            "§5.2.1.1",
            "max-age=10, stale-while-revalidate=5",
            "Cache-Control: max-age=99",
            11,
            validate(Obstacle::Stale),
        ),
        (
            "§5.2.1.1",
            "max-age=10, stale-while-revalidate=5",
            "Cache-Control: max-age=99, max-stale=1",
            11,
            stale(11, 1, WhileRevalidate),
        ),
    ]);
}

#[test]
fn only_get_and_head_are_answered() {
    // RFC 9111 §4
    let stored = stored("Cache-Control: max-age=10");
    for (method, expected) in [
        ("GET", fresh(0, 10)),
        ("HEAD", fresh(0, 10)),
        ("POST", validate(Obstacle::Method)),
        ("OPTIONS", validate(Obstacle::Method)),
    ] {
        let request = RequestTraits::of(&request(method, ""));
        assert_eq!(may_reuse(&request, &stored, at(0)), expected, "{method}");
        assert_eq!(may_serve_on_error(&request, &stored, at(0)), method != "POST" && method != "OPTIONS");
    }
}

#[test]
fn vary_star_matches_nothing() {
    // RFC 9111 §4.1
    let stored = stored("Cache-Control: max-age=10\nVary: *");
    assert_eq!(may_reuse(&traits(""), &stored, at(0)), validate(Obstacle::VaryStar));
    assert!(!may_serve_on_error(&traits(""), &stored, at(0)));
}

#[test]
fn only_if_cached_is_seen() {
    // RFC 9111 §5.2.1.7: may_reuse says what is needed, the caller answers 504 instead
    let request = traits("Cache-Control: only-if-cached");
    assert!(request.only_if_cached());
    assert_eq!(may_reuse(&request, &stored("Cache-Control: max-age=1"), at(2)), validate(Obstacle::Stale));
}

#[test]
fn an_error_of_the_origin_may_be_covered() {
    // RFC 5861 §4, RFC 9111 §4.2.4: (response directives, request lines, seconds later, expected)
    for (control, lines, later, expected) in [
        ("max-age=10, stale-if-error=5", "", 14, true),
        ("max-age=10, stale-if-error=5", "", 15, false),
        ("max-age=10", "", 10, false),
        ("max-age=10", "Cache-Control: stale-if-error=5", 14, true),
        ("max-age=10", "Cache-Control: stale-if-error=5", 15, false),
        ("max-age=10", "Cache-Control: max-stale=5", 15, true),
        ("max-age=10", "Cache-Control: max-age=1", 9, true),
        ("max-age=10", "Cache-Control: no-cache", 9, false),
        ("max-age=10, no-cache, stale-if-error=5", "", 1, false),
        ("max-age=10, must-revalidate, stale-if-error=5", "", 11, false),
        ("max-age=10, proxy-revalidate, stale-if-error=5", "", 11, false),
        ("s-maxage=10, stale-if-error=5", "", 11, false),
    ] {
        let stored = stored(&std::format!("Cache-Control: {control}"));
        assert_eq!(
            may_serve_on_error(&traits(lines), &stored, at(later)),
            expected,
            "{control} | {lines} | {later}"
        );
    }
    assert!([500, 502, 503, 504].into_iter().all(is_origin_error));
    assert!(![200, 404, 501, 505, 429].into_iter().any(is_origin_error));
}

#[test]
fn reasons_go_to_the_right_forward_parameter() {
    // RFC 9211 §2.2
    for (why, word, forward) in [
        (Obstacle::Method, "method", Forward::Method),
        (Obstacle::VaryStar, "vary-star", Forward::VaryMiss),
        (Obstacle::NoCache, "no-cache", Forward::Stale),
        (Obstacle::RequestNoCache, "request-no-cache", Forward::Request),
        (Obstacle::RequestMaxAge, "request-max-age", Forward::Request),
        (Obstacle::RequestMinFresh, "request-min-fresh", Forward::Request),
        (Obstacle::MustRevalidate, "must-revalidate", Forward::Stale),
        (Obstacle::Stale, "stale", Forward::Stale),
    ] {
        assert_eq!((why.word(), why.forward()), (word, forward));
    }
    assert_eq!(Permission::WhileRevalidate.word(), "stale-while-revalidate");
    assert_eq!(Permission::MaxStale.word(), "max-stale");
}

proptest! {
    #[test]
    fn answers_agree_with_the_numbers(
        lifetime in 0..100u64, window in 0..50u64, later in 0..200u64,
        max_age in prop::option::of(0..100u64), min_fresh in prop::option::of(0..100u64),
        max_stale in prop::option::of(0..100u64),
    ) {
        let stored = stored(&std::format!("Cache-Control: max-age={lifetime}, stale-while-revalidate={window}"));
        let mut request = traits("");
        request.directives.max_age = max_age.map(Seconds);
        request.directives.min_fresh = min_fresh.map(Seconds);
        request.directives.max_stale = max_stale.map(|bound| crate::directives::MaxStale::UpTo(Seconds(bound)));
        match may_reuse(&request, &stored, at(later)) {
            Reuse::Fresh { age, ttl } => {
                prop_assert!(ttl > Seconds::ZERO);
                prop_assert_eq!((age.0, age.0 + ttl.0), (later, lifetime));
                prop_assert!(max_age.is_none_or(|bound| age.0 <= bound));
                prop_assert!(min_fresh.is_none_or(|bound| ttl.0 >= bound));
            }
            Reuse::Stale { age, staleness, why, .. } => {
                prop_assert_eq!((age.0, staleness.0), (later, later - lifetime));
                prop_assert!(max_age.is_none_or(|bound| age.0 <= bound));
                match why {
                    Permission::WhileRevalidate => prop_assert!(staleness.0 < window),
                    Permission::MaxStale => prop_assert!(staleness.0 <= max_stale.unwrap()),
                }
            }
            Reuse::Validate { .. } => {
                let asked = max_age.is_some() || min_fresh.is_some();
                prop_assert!(later >= lifetime || asked);
            }
        }
    }
}
