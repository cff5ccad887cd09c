//! RFC 9111 §2 and §4.1: scheme, authority, path, query; then the fields that `Vary` names.

use testkit::{Address, Ask, Origin, Reply, Tidegate};

use crate::answering;

#[test]
fn the_query_is_part_of_the_key() {
    let (_origin, tidegate) = answering(|request| Reply::fresh(request.head.target()));
    for target in ["/a", "/a?", "/a?b", "/a?b=", "/a?B", "/A"] {
        tidegate.get(target).expect(200).with_body(target).cache("fwd=uri-miss");
        tidegate.get(target).expect(200).with_body(target).cache("hit");
    }
}

#[test]
fn the_host_is_part_of_the_key_in_any_case() {
    let (origin, tidegate) = answering(|request| Reply::fresh(request.head.field("host").unwrap()));
    for host in ["a.example", "b.example", "a.example:8080"] {
        tidegate.ask(Ask::get("/").field("Host", host)).expect(200).with_body(host).cache("fwd=uri-miss");
    }
    tidegate.ask(Ask::get("/").field("Host", "A.Example")).with_body("a.example").cache("hit");
    tidegate.ask(Ask::get("/").field("Host", "a.example:80")).with_body("a.example").cache("hit");
    assert_eq!(origin.count(), 3);
}

#[test]
fn forward_mode_keeps_origins_apart() {
    let (one, two) = (Origin::always(Reply::fresh("one")), Origin::always(Reply::fresh("two")));
    let tidegate = Tidegate::forward().start();
    for _miss_then_hit in 0..2 {
        tidegate.get(&one.url("/")).expect(200).with_body("one");
        tidegate.get(&two.url("/")).expect(200).with_body("two");
    }
    assert_eq!((one.count(), two.count()), (1, 1));
}

fn by_language() -> (Origin, Tidegate) {
    answering(|request| {
        let language = request.head.field("accept-language").unwrap_or("none".into());
        Reply::fresh(language).field("Vary", "Accept-Language")
    })
}

#[test]
fn variants_live_side_by_side() {
    let (origin, tidegate) = by_language();
    for language in ["de", "en", "fr"] {
        let ask = Ask::get("/").field("Accept-Language", language);
        tidegate.ask(ask).expect(200).with_body(language);
    }
    for language in ["en", "de", "fr", "de"] {
        let ask = Ask::get("/").field("Accept-Language", language);
        tidegate.ask(ask).expect(200).with_body(language).cache("hit");
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn another_variant_is_a_vary_miss() {
    let (_origin, tidegate) = by_language();
    tidegate.ask(Ask::get("/").field("Accept-Language", "de")).cache("fwd=uri-miss");
    tidegate.ask(Ask::get("/").field("Accept-Language", "en")).with_body("en").cache("fwd=vary-miss");
}

#[test]
fn an_absent_field_matches_only_absence() {
    let (_origin, tidegate) = by_language();
    tidegate.get("/").expect(200).with_body("none");
    tidegate.ask(Ask::get("/").field("Accept-Language", "de")).with_body("de");
    tidegate.get("/").with_body("none").cache("hit");
}

#[test]
fn several_lines_are_one_value() {
    let (origin, tidegate) = by_language();
    tidegate.ask(Ask::get("/").field("Accept-Language", "de").field("Accept-Language", "en")).expect(200);
    tidegate.ask(Ask::get("/").field("Accept-Language", "de, en")).expect(200).cache("hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn vary_star_never_matches() {
    let (origin, tidegate) = answering(|_| Reply::fresh("x").field("Vary", "*"));
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_response_without_vary_serves_all_until_one_varies() {
    let (_origin, tidegate) = answering(|request| match request.head.field("accept-language") {
        None => Reply::fresh("plain").field("Vary", "Accept-Language"),
        Some(language) => Reply::fresh(language).field("Vary", "Accept-Language, Cookie"),
    });
    tidegate.get("/").with_body("plain");
    let (de, en) =
        (Ask::get("/").field("Accept-Language", "de"), Ask::get("/").field("Accept-Language", "en"));
    tidegate.ask(de.clone()).with_body("de");
    tidegate.ask(de.clone().field("Cookie", "a=1")).with_body("de").cache_lacks("hit");
    tidegate.ask(en).with_body("en");
    tidegate.ask(de).with_body("de").cache("hit");
}
