use super::*;
use crate::testing::{T0, request, response, times};
use proptest::prelude::*;
use std::string::String;

/// A request and a response as text, and whether the latter is stored.
struct Row {
    section: &'static str,
    request: (&'static str, &'static str),
    response: (u16, &'static str),
    expected: Result<(), NoStore>,
}

fn row(
    section: &'static str,
    request: (&'static str, &'static str),
    response: (u16, &'static str),
    expected: Result<(), NoStore>,
) -> Row {
    Row { section, request, response, expected }
}

fn ask(method: &str, lines: &str, status: u16, fields: &str, policy: &Policy) -> Result<Stored, NoStore> {
    let request = request(method, lines);
    may_store(&RequestTraits::of(&request), &response(status, fields), times(T0), policy)
}

fn check(rows: &[Row]) {
    for Row { section, request, response, expected } in rows {
        let answer = ask(request.0, request.1, response.0, response.1, &Policy::default());
        assert_eq!(answer.map(drop), *expected, "{section}: {request:?} {response:?}");
    }
}

const FRESH: &str = "Cache-Control: max-age=60";
const GET: (&str, &str) = ("GET", "");

#[test]
fn the_method_must_be_understood() {
    check(&[
        row("§3", GET, (200, FRESH), Ok(())),
        row("§3", ("HEAD", ""), (200, FRESH), Err(NoStore::Method)),
        row("§3", ("POST", ""), (200, FRESH), Err(NoStore::Method)),
        row("§3", ("OPTIONS", ""), (200, FRESH), Err(NoStore::Method)),
        row("§3", ("get", ""), (200, FRESH), Err(NoStore::Method)),
        row("RFC 9110 §9.3.1", ("GET", "Content-Length: 3"), (200, FRESH), Err(NoStore::RequestContent)),
    ]);
}

#[test]
fn the_status_must_be_final_and_understood() {
    check(&[
        row("§3", GET, (100, FRESH), Err(NoStore::Status)),
        row("§3", GET, (103, FRESH), Err(NoStore::Status)),
        row("§3", GET, (304, FRESH), Err(NoStore::Status)),
        row("§3.3", GET, (206, FRESH), Err(NoStore::Partial)),
        row("§3", GET, (599, FRESH), Err(NoStore::Status)),
        row("§3", GET, (600, FRESH), Err(NoStore::Status)),
        row("§5.2.2.3", GET, (299, "Cache-Control: must-understand, max-age=60"), Err(NoStore::Status)),
        row("§5.2.2.3", GET, (200, "Cache-Control: must-understand, no-store, max-age=60"), Ok(())),
        row(
            "§5.2.2.3",
            GET,
            (599, "Cache-Control: must-understand, no-store, max-age=60"),
            Err(NoStore::Status),
        ),
        row("RFC 9110 §15.5.13", GET, (412, FRESH), Err(NoStore::Status)),
        row("RFC 9110 §15.5.17", GET, (416, FRESH), Err(NoStore::Status)),
        row("§3", GET, (404, FRESH), Ok(())),
        row("§3", GET, (302, FRESH), Ok(())),
        row("§3", GET, (503, FRESH), Ok(())),
    ]);
}

#[test]
fn directives_forbid_storing() {
    check(&[
        row("§5.2.2.5", GET, (200, "Cache-Control: max-age=60, no-store"), Err(NoStore::NoStore)),
        row(
            "§5.2.2.5",
            GET,
            (200, "Cache-Control: max-age=60\nCache-Control: NO-STORE"),
            Err(NoStore::NoStore),
        ),
        row("§5.2.2.7", GET, (200, "Cache-Control: max-age=60, private"), Err(NoStore::Private)),
        row("§5.2.2.7", GET, (200, "Cache-Control: max-age=60, private=\"x\""), Err(NoStore::Private)),
        row("§5.2.2.7", GET, (200, "Cache-Control: public, private, max-age=60"), Err(NoStore::Private)),
        row("§5.2.1.5", ("GET", "Cache-Control: no-store"), (200, FRESH), Err(NoStore::RequestNoStore)),
        row("§5.2.1.4", ("GET", "Cache-Control: no-cache"), (200, FRESH), Ok(())),
        row("§5.4", GET, (200, "Pragma: no-cache\nCache-Control: max-age=60"), Ok(())),
        row("§4.1", GET, (200, "Cache-Control: max-age=60\nVary: *"), Err(NoStore::VaryStar)),
        row("§4.1", GET, (200, "Cache-Control: max-age=60\nVary: Accept"), Ok(())),
    ]);
}

#[test]
fn authenticated_responses_need_leave_to_be_shared() {
    const AUTH: (&str, &str) = ("GET", "Authorization: Basic eDp5");
    check(&[
        row("§3.5", AUTH, (200, FRESH), Err(NoStore::Authorization)),
        row("§3.5", AUTH, (200, "Cache-Control: max-age=60, public"), Ok(())),
        row("§3.5", AUTH, (200, "Cache-Control: max-age=60, must-revalidate"), Ok(())),
        row("§3.5", AUTH, (200, "Cache-Control: s-maxage=60"), Ok(())),
        row("§3.5", AUTH, (200, "Cache-Control: max-age=60, proxy-revalidate"), Err(NoStore::Authorization)),
    ]);
}

#[test]
fn a_lifetime_is_explicit_or_may_be_guessed() {
    const CHANGED: &str = "Last-Modified: Sat, 08 Sep 2001 01:46:40 GMT";
    check(&[
        row("§3", GET, (200, CHANGED), Ok(())),
        row("§3", GET, (302, CHANGED), Err(NoStore::NotCacheable)),
        row("§3", GET, (302, "Expires: Sun, 09 Sep 2001 01:47:40 GMT"), Ok(())),
        row("§3", GET, (302, "Cache-Control: public\nETag: \"a\""), Ok(())),
        row("§3", GET, (404, "ETag: \"a\""), Ok(())),
        row("§4", GET, (200, ""), Err(NoStore::Useless)),
        row("§4", GET, (200, "Cache-Control: max-age=0"), Err(NoStore::Useless)),
        row("§4", GET, (200, "Expires: 0"), Err(NoStore::Useless)),
        row("§4", GET, (200, "Cache-Control: max-age=60, no-cache"), Err(NoStore::Useless)),
        row("§4", GET, (200, "Cache-Control: max-age=60, no-cache\nETag: \"a\""), Ok(())),
        row("RFC 5861 §3", GET, (200, "Cache-Control: max-age=0, stale-while-revalidate=9"), Ok(())),
    ]);
}

#[test]
fn cookies_are_not_shared_by_accident() {
    const COOKIE: &str = "Cache-Control: max-age=60\nSet-Cookie: a=b";
    check(&[
        row("§7.3", GET, (200, COOKIE), Err(NoStore::SetCookie)),
        row("§7.3", GET, (200, "Cache-Control: max-age=60, public\nSet-Cookie: a=b"), Ok(())),
        row("§7.3", GET, (200, "Cache-Control: s-maxage=60\nSet-Cookie: a=b"), Ok(())),
        row("§7.3", ("GET", "Cookie: a=b"), (200, FRESH), Ok(())),
    ]);
    let policy = Policy { store_set_cookie: true, ..Policy::default() };
    assert!(ask("GET", "", 200, COOKIE, &policy).is_ok());
}

#[test]
fn words_are_distinct_tokens() {
    let all = [
        NoStore::Method,
        NoStore::RequestNoStore,
        NoStore::RequestContent,
        NoStore::Status,
        NoStore::Partial,
        NoStore::WeakValidator,
        NoStore::NoStore,
        NoStore::Private,
        NoStore::Authorization,
        NoStore::VaryStar,
        NoStore::NotCacheable,
        NoStore::SetCookie,
        NoStore::Useless,
    ];
    for (at, reason) in all.iter().enumerate() {
        assert!(reason.word().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
        assert!(all[..at].iter().all(|earlier| earlier.word() != reason.word()));
    }
}

fn any_control() -> impl Strategy<Value = String> {
    let words = [
        "public",
        "private",
        "no-store",
        "no-cache",
        "max-age=9",
        "s-maxage=9",
        "must-revalidate",
        "must-understand",
        "max-age=x",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..4).prop_map(|chosen| chosen.join(", "))
}

proptest! {
    #[test]
    fn what_is_stored_was_forbidden_by_nobody(
        control in any_control(), status in 100..700u16, no_store: bool, authorization: bool,
    ) {
        let mut lines = String::from(if no_store { "Cache-Control: no-store" } else { "X: y" });
        lines.push_str(if authorization { "\nAuthorization: x" } else { "" });
        let fields = std::format!("Cache-Control: {control}\nETag: \"a\"");
        if ask("GET", &lines, status, &fields, &Policy::default()).is_ok() {
            prop_assert!(!no_store && !control.contains("private"));
            prop_assert!(!control.contains("no-store") || control.contains("must-understand"));
            prop_assert!((200..600).contains(&status) && status != 206 && status != 304);
            let shared = ["public", "must-revalidate", "s-maxage"].iter().any(|word| control.contains(word));
            prop_assert!(!authorization || shared);
        }
    }
}
