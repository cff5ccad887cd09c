//! RFC 9111 §4.3: a stale response is asked about, and a 304 makes it fresh again.

use testkit::{Ask, Origin, Pattern, Reply, Request, Tidegate, eventually};

use crate::answering;

/// Stale as soon as it arrives, but it can be validated.
fn stale(body: &str) -> Reply {
    Reply::ok(body).field("Cache-Control", "max-age=10").field("Age", "20")
}

fn has_tag(request: &Request, tag: &str) -> bool {
    request.head.field("if-none-match").is_some_and(|field| field == tag)
}

fn validating(first: Reply, not_modified: Reply) -> (Origin, Tidegate) {
    answering(move |request| {
        let conditional = request.head.has("if-none-match") || request.head.has("if-modified-since");
        if conditional { not_modified.clone() } else { first.clone() }
    })
}

#[test]
fn a_304_refreshes_without_a_body() {
    let (origin, tidegate) = validating(
        stale("body").field("ETag", "\"v1\"").field("X-Old", "kept").field("X-New", "before"),
        Reply::not_modified()
            .field("ETag", "\"v1\"")
            .field("Cache-Control", "max-age=3600")
            .field("X-New", "after"),
    );
    tidegate.get("/").expect(200).with_body("body");
    tidegate.get("/").expect(200).with_body("body").cache("fwd=stale").cache("fwd-status=304");
    assert!(has_tag(&origin.requests()[1], "\"v1\""));
    let hit = tidegate.get("/").expect(200).with_body("body").cache("hit");
    assert_eq!(hit.field("x-old").as_deref(), Some("kept"));
    assert_eq!(hit.field("x-new").as_deref(), Some("after"));
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_304_never_changes_the_length() {
    let (_origin, tidegate) = validating(
        stale("body").field("ETag", "\"v1\""),
        Reply::not_modified()
            .field("ETag", "\"v1\"")
            .field("Cache-Control", "max-age=3600")
            .field("Content-Length", "99"),
    );
    for _ in 0..3 {
        tidegate.get("/").expect(200).with_body("body");
    }
}

#[test]
fn last_modified_validates_too() {
    let date = "Mon, 01 Jan 2001 00:00:00 GMT";
    let (origin, tidegate) = validating(
        stale("body").field("Last-Modified", date),
        Reply::not_modified().field("Cache-Control", "max-age=3600"),
    );
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200).with_body("body");
    assert_eq!(origin.requests()[1].head.field("if-modified-since").as_deref(), Some(date));
    tidegate.get("/").cache("hit");
}

#[test]
fn a_200_replaces_what_was_stored() {
    let (origin, tidegate) = answering(|request| match request.head.has("if-none-match") {
        false => stale("old").field("ETag", "\"v1\""),
        true => Reply::fresh("new").field("ETag", "\"v2\""),
    });
    tidegate.get("/").with_body("old");
    tidegate.get("/").with_body("new").cache("fwd=stale");
    tidegate.get("/").with_body("new").cache("hit");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_large_body_survives_a_304() {
    let pattern = Pattern(11);
    let (origin, tidegate) = validating(
        Reply::generated(pattern, 3_000_000)
            .field("Cache-Control", "max-age=10")
            .field("Age", "20")
            .field("ETag", "\"v1\""),
        Reply::not_modified().field("ETag", "\"v1\"").field("Cache-Control", "max-age=3600"),
    );
    for _stored_validated_hit in 0..3 {
        let response = tidegate.get("/").expect(200);
        assert_eq!(response.body.len(), 3_000_000);
        pattern.compare(&response.body, 0);
        tidegate.wait_stored(1);
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn the_clients_condition_is_answered_after_validation() {
    let (origin, tidegate) = validating(
        stale("body").field("ETag", "\"v1\""),
        Reply::not_modified().field("ETag", "\"v1\"").field("Cache-Control", "max-age=3600"),
    );
    tidegate.get("/").expect(200);
    tidegate.ask(Ask::get("/").field("If-None-Match", "\"v1\"")).expect(304);
    tidegate.ask(Ask::get("/").field("If-None-Match", "\"v0\"")).expect(200).with_body("body");
    assert!(origin.count() <= 3);
}

#[test]
fn each_variant_is_validated_by_its_own_tag() {
    let (_origin, tidegate) = answering(|request| {
        let language = request.head.field("accept-language").unwrap_or_default();
        let tag = format!("\"{language}\"");
        let reply = match request.head.field("if-none-match") {
            Some(field) if field.contains(&tag) => Reply::not_modified(),
            _ => Reply::ok(&language),
        };
        reply
            .field("ETag", &tag)
            .field("Vary", "Accept-Language")
            .field("Cache-Control", "max-age=10")
            .field("Age", "20")
    });
    for _ in 0..3 {
        for language in ["de", "en"] {
            tidegate.ask(Ask::get("/").field("Accept-Language", language)).expect(200).with_body(language);
        }
    }
}

#[test]
fn a_server_error_during_validation_is_passed_on() {
    let (_origin, tidegate) = answering(|request| match request.head.has("if-none-match") {
        false => stale("body").field("ETag", "\"v1\"").field("Cache-Control", "must-revalidate"),
        true => Reply::status(503, "down"),
    });
    tidegate.get("/").expect(200);
    let status = tidegate.get("/").status();
    assert!(status == 503 || status == 504, "{status}");
}

#[test]
fn validators_survive_in_strength() {
    let (origin, tidegate) = validating(
        stale("body").field("ETag", "W/\"weak\""),
        Reply::not_modified().field("ETag", "W/\"weak\"").field("Cache-Control", "max-age=3600"),
    );
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200).with_body("body");
    assert!(has_tag(&origin.requests()[1], "W/\"weak\""));
    tidegate.get("/").cache("hit");
}

#[test]
fn a_304_costs_the_store_a_head_and_many_share_a_write() {
    let origin = Origin::answering(|request| {
        let reply = match request.head.has("if-none-match") {
            true => Reply::not_modified(),
            false if request.head.target() == "/small" => Reply::generated(Pattern(1), 15_000),
            false => Reply::generated(Pattern(2), 3_000_000),
        };
        reply.field("ETag", "\"v1\"").field("Cache-Control", "max-age=10").field("Age", "20")
    });
    let settings = "[store]\ncheckpoint = \"1h\"\nadmission = \"all\"";
    let tidegate = Tidegate::reverse(&origin).toml(settings).start();
    let validate = || {
        for (target, pattern) in [("/small", Pattern(1)), ("/large", Pattern(2))] {
            pattern.compare(&tidegate.get(target).expect(200).cache("fwd-status=304").body, 0);
        }
    };
    for target in ["/small", "/large"] {
        tidegate.get(target).expect(200);
    }
    eventually("both are stored", || {
        let small = tidegate.get("/small").expect(200).cache_parameters();
        let large = tidegate.get("/large").expect(200).cache_parameters();
        (small.contains(&"fwd-status=304".into()) && large.contains(&"fwd-status=304".into())).then_some(())
    });
    let before = tidegate.metrics_at_rest();
    (0..100).for_each(|_| validate());
    let cost = tidegate.metrics_at_rest().since(&before);
    let admitted = cost.sum("tidegate_store_admitted_bytes_total");
    assert!(admitted > 100.0 * 100.0, "the store hears of the new heads: {admitted} bytes");
    assert!(admitted < 200.0 * 1000.0, "and of nothing else: {admitted} bytes");
    let written = cost.sum("tidegate_store_written_bytes_total");
    assert!(written <= f64::from(1 << 20), "they share a write: {written} bytes");
}
