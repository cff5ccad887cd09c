//! RFC 9111 §3: what is stored and what is not.

use testkit::{Ask, Reply};

use crate::{answering, in_front_of};

#[test]
fn a_fresh_response_is_stored_and_served() {
    let (origin, tidegate) = in_front_of(Reply::fresh("hello").field("X-Kept", "yes"));
    tidegate.get("/").expect(200).with_body("hello").cache("fwd=uri-miss").cache("stored");
    let hit = tidegate.get("/").expect(200).with_body("hello").cache("hit");
    assert_eq!(hit.field("x-kept").as_deref(), Some("yes"));
    assert!(hit.age() < 10);
    let ttl = hit.cache_parameters().iter().find_map(|p| p.strip_prefix("ttl=")?.parse::<i64>().ok());
    assert!(ttl.is_some_and(|ttl| (3500..=3600).contains(&ttl)), "{hit:?}");
    assert_eq!(origin.count(), 1);
}

/// Asks twice; says whether the second answer came from the cache.
#[track_caller]
fn is_stored(reply: Reply, ask: Ask) -> bool {
    let (origin, tidegate) = in_front_of(reply);
    let statuses = [tidegate.ask(ask.clone()).status(), tidegate.ask(ask).status()];
    assert_eq!(statuses[0], statuses[1]);
    origin.count() == 1
}

fn with(cache_control: &str) -> Reply {
    Reply::ok("x").field("Cache-Control", cache_control)
}

#[test]
fn response_directives() {
    for (cache_control, expected) in [
        ("max-age=60", true),
        ("s-maxage=60", true),
        ("public, max-age=60", true),
        ("MAX-AGE=60", true),
        ("max-age=\"60\"", true),
        ("no-store", false),
        ("no-store, max-age=60", false),
        ("max-age=60, No-Store", false),
        ("private, max-age=60", false),
        ("max-age=60, s-maxage=0", false),
        ("unknown, max-age=60", true),
        ("unknown=\"no-store\", max-age=60", true),
        ("max-age=99999999999999999999", true),
    ] {
        assert_eq!(is_stored(with(cache_control), Ask::get("/")), expected, "{cache_control}");
    }
}

#[test]
fn a_response_without_any_freshness_is_asked_for_again() {
    assert!(!is_stored(Reply::ok("x"), Ask::get("/")));
}

#[test]
fn authorization_needs_permission() {
    let ask = || Ask::get("/").field("Authorization", "Basic eDp5");
    assert!(!is_stored(with("max-age=60"), ask()));
    for allowed in ["public, max-age=60", "s-maxage=60", "must-revalidate, max-age=60"] {
        assert!(is_stored(with(allowed), ask()), "{allowed}");
    }
}

#[test]
fn a_request_with_no_store_leaves_nothing_behind() {
    let (origin, tidegate) = in_front_of(Reply::fresh("x"));
    tidegate.ask(Ask::get("/").field("Cache-Control", "no-store")).expect(200).cache_lacks("stored");
    tidegate.get("/").expect(200).cache("fwd=uri-miss");
    assert_eq!(origin.count(), 2);
}

#[test]
fn statuses() {
    for (status, expected) in
        [(200, true), (203, true), (204, true), (301, true), (404, true), (410, true), (500, true)]
    {
        let reply = if status == 204 {
            Reply::status(204, "").field("Cache-Control", "max-age=60")
        } else {
            Reply::status(status, "x").field("Cache-Control", "max-age=60")
        };
        assert_eq!(is_stored(reply, Ask::get("/")), expected, "{status}");
    }
}

#[test]
fn statuses_without_explicit_freshness() {
    for status in [302, 307, 403, 500, 503] {
        let reply = Reply::status(status, "x").field("Last-Modified", "Mon, 01 Jan 2001 00:00:00 GMT");
        assert!(!is_stored(reply, Ask::get("/")), "{status}");
    }
}

#[test]
fn cookies_are_not_shared_by_accident() {
    assert!(!is_stored(with("max-age=60").field("Set-Cookie", "session=1"), Ask::get("/")));
    assert!(is_stored(with("public, max-age=60").field("Set-Cookie", "theme=dark"), Ask::get("/")));
}

#[test]
fn a_part_is_not_taken_for_the_whole() {
    let (origin, tidegate) = answering(|request| match request.head.field("range") {
        Some(_) => Reply::status(206, "el")
            .field("Content-Range", "bytes 1-2/5")
            .field("Cache-Control", "max-age=60"),
        None => Reply::fresh("hello"),
    });
    let first = tidegate.ask(Ask::get("/").field("Range", "bytes=1-2"));
    assert!(matches!((first.status(), first.body.as_slice()), (206, b"el") | (200, b"hello")), "{first:?}");
    tidegate.get("/").expect(200).with_body("hello");
    assert!(origin.count() <= 2);
}

#[test]
fn an_answer_to_post_is_not_an_answer_to_get() {
    let (origin, tidegate) = answering(|request| Reply::fresh(request.head.method()));
    tidegate.ask(Ask::post("/", b"x")).expect(200).with_body("POST").cache("fwd=method");
    tidegate.get("/").expect(200).with_body("GET");
    assert_eq!(origin.count(), 2);
}

#[test]
fn must_understand_stores_what_is_understood() {
    assert!(is_stored(with("must-understand, no-store, max-age=60"), Ask::get("/")));
    let unknown = Reply::status(299, "x").field("Cache-Control", "must-understand, no-store, max-age=60");
    assert!(!is_stored(unknown, Ask::get("/")));
}

#[test]
fn an_unknown_method_is_passed_and_not_stored() {
    assert!(!is_stored(with("max-age=60"), Ask::new("REPORT", "/")));
}

#[test]
fn every_response_says_what_the_cache_did() {
    let (_origin, tidegate) = answering(|request| match request.head.target() {
        "/stored" => Reply::fresh("x"),
        "/missing" => Reply::status(404, ""),
        _ => Reply::ok("x").field("Cache-Control", "no-store"),
    });
    for ask in [
        Ask::get("/stored"),
        Ask::get("/stored"),
        Ask::get("/missing"),
        Ask::get("/no"),
        Ask::post("/p", b"x"),
        Ask::head("/h"),
    ] {
        let response = tidegate.ask(ask);
        assert!(!response.cache_parameters().is_empty(), "{response:?}");
    }
}

#[test]
fn an_inner_caches_status_stays_in_front() {
    let (_origin, tidegate) = in_front_of(Reply::fresh("x").field("Cache-Status", "inner; hit"));
    for _miss_then_hit in 0..2 {
        let value = tidegate.get("/").field("cache-status").unwrap();
        assert!(value.starts_with("inner; hit, tidegate"), "{value}");
    }
}
