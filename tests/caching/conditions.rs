//! RFC 9110 §13: conditional requests answered from the cache.

use testkit::{Ask, Origin, Reply, Tidegate};

use crate::{answering, in_front_of};

const MODIFIED: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const BEFORE: &str = "Sun, 31 Dec 2000 00:00:00 GMT";
const AFTER: &str = "Tue, 02 Jan 2001 00:00:00 GMT";

/// A cache that holds one object with both validators.
fn holding() -> (Origin, Tidegate) {
    let reply =
        Reply::fresh("body").field("ETag", "\"v1\"").field("Last-Modified", MODIFIED).field("X-Other", "1");
    let (origin, tidegate) = in_front_of(reply);
    tidegate.get("/").expect(200);
    (origin, tidegate)
}

#[test]
fn each_condition_has_its_answer() {
    let (origin, tidegate) = holding();
    for (name, value, status) in [
        ("If-None-Match", "\"v1\"", 304),
        ("If-None-Match", "W/\"v1\"", 304),
        ("If-None-Match", "\"v0\", \"v1\"", 304),
        ("If-None-Match", "*", 304),
        ("If-None-Match", "\"v2\"", 200),
        ("If-None-Match", "v1", 200),
        ("If-Modified-Since", MODIFIED, 304),
        ("If-Modified-Since", AFTER, 304),
        ("If-Modified-Since", BEFORE, 200),
        ("If-Modified-Since", "nonsense", 200),
        ("If-Match", "\"v1\"", 200),
        ("If-Match", "*", 200),
        ("If-Match", "\"v2\"", 412),
        ("If-Match", "W/\"v1\"", 412),
        ("If-Unmodified-Since", AFTER, 200),
        ("If-Unmodified-Since", BEFORE, 412),
    ] {
        let status_got = tidegate.ask(Ask::get("/").field(name, value)).status();
        assert_eq!(status_got, status, "{name}: {value}");
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_tag_goes_before_the_date() {
    let (_origin, tidegate) = holding();
    let ask =
        |tag: &str, date: &str| Ask::get("/").field("If-None-Match", tag).field("If-Modified-Since", date);
    tidegate.ask(ask("\"v2\"", AFTER)).expect(200);
    tidegate.ask(ask("\"v1\"", BEFORE)).expect(304);
}

#[test]
fn a_304_carries_what_the_client_needs_and_no_body() {
    let (_origin, tidegate) = holding();
    let mut client = tidegate.client();
    let response = client.ask(Ask::get("/").field("If-None-Match", "\"v1\"")).expect(304).cache("hit");
    for name in ["etag", "cache-control", "date"] {
        assert!(response.head.has(name), "no {name} in {response:?}");
    }
    client.get("/").expect(200).with_body("body");
}

#[test]
fn head_is_conditional_too() {
    let (_origin, tidegate) = holding();
    tidegate.ask(Ask::head("/").field("If-None-Match", "\"v1\"")).expect(304);
}

#[test]
fn a_304_on_a_miss_goes_to_the_client_and_is_not_stored() {
    let (_origin, tidegate) = answering(|request| match request.head.has("if-none-match") {
        true => Reply::not_modified().field("ETag", "\"v1\"").field("Cache-Control", "max-age=60"),
        false => Reply::fresh("body").field("ETag", "\"v1\""),
    });
    tidegate.ask(Ask::get("/").field("If-None-Match", "\"v1\"")).expect(304);
    tidegate.get("/").expect(200).with_body("body");
}

#[test]
fn conditions_of_unsafe_methods_are_the_origins() {
    let (origin, tidegate) = holding();
    tidegate.ask(Ask::new("PUT", "/").field("If-Match", "\"v9\"").field("Content-Length", "0"));
    assert_eq!(origin.requests()[1].head.field("if-match").as_deref(), Some("\"v9\""));
}
