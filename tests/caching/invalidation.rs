//! RFC 9111 §4.4: an unsafe method that succeeds makes stored responses doubtful.

use testkit::{Ask, Origin, Reply, Tidegate};

use crate::answering;

/// Holds `/a` and `/b`; unsafe methods are answered with `status` and these fields.
fn holding(status: u16, fields: &'static [(&'static str, &'static str)]) -> (Origin, Tidegate) {
    let (origin, tidegate) = answering(move |request| match request.head.method() {
        "GET" => Reply::fresh(request.head.target()),
        _ => fields.iter().fold(Reply::status(status, ""), |reply, (name, value)| reply.field(name, value)),
    });
    for path in ["/a", "/b"] {
        tidegate.get(path).expect(200);
        tidegate.get(path).expect(200).cache("hit");
    }
    (origin, tidegate)
}

#[test]
fn a_success_invalidates_its_target_only() {
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let (_origin, tidegate) = holding(200, &[]);
        tidegate.ask(Ask::new(method, "/a").field("Content-Length", "0")).expect(200);
        tidegate.get("/a").expect(200).cache_lacks("hit");
        tidegate.get("/b").expect(200).cache("hit");
    }
}

#[test]
fn a_redirect_counts_as_success() {
    let (_origin, tidegate) = holding(303, &[]);
    tidegate.ask(Ask::post("/a", b"x")).expect(303);
    tidegate.get("/a").cache_lacks("hit");
}

#[test]
fn an_error_invalidates_nothing() {
    for status in [400, 403, 500] {
        let (_origin, tidegate) = holding(status, &[]);
        tidegate.ask(Ask::post("/a", b"x")).expect(status);
        tidegate.get("/a").cache("hit");
    }
}

#[test]
fn location_on_the_same_host_is_invalidated_too() {
    for field in [("Location", "/b"), ("Content-Location", "/b"), ("Location", "http://www.example.com/b")] {
        let fields: &'static [_] = Box::leak(Box::new([field]));
        let (_origin, tidegate) = holding(201, fields);
        tidegate.ask(Ask::post("/a", b"x")).expect(201);
        tidegate.get("/b").expect(200).cache_lacks("hit");
    }
}

#[test]
fn location_on_another_host_is_left_alone() {
    let (_origin, tidegate) = holding(201, &[("Location", "http://other.example/b")]);
    tidegate.ask(Ask::get("/b").field("Host", "other.example")).expect(200);
    tidegate.ask(Ask::post("/a", b"x")).expect(201);
    tidegate.ask(Ask::get("/b").field("Host", "other.example")).expect(200).cache("hit");
}

#[test]
fn safe_methods_invalidate_nothing() {
    let (_origin, tidegate) = holding(200, &[]);
    tidegate.ask(Ask::new("OPTIONS", "/a")).expect(200);
    tidegate.ask(Ask::head("/a")).expect(200);
    tidegate.get("/a").cache("hit");
}

#[test]
fn all_variants_go_at_once() {
    let (_origin, tidegate) = answering(|request| match request.head.method() {
        "GET" => Reply::fresh("x").field("Vary", "Accept-Language"),
        _ => Reply::status(204, ""),
    });
    let ask = |language: &str| Ask::get("/").field("Accept-Language", language);
    tidegate.ask(ask("de"));
    tidegate.ask(ask("en"));
    tidegate.ask(Ask::post("/", b"x"));
    tidegate.ask(ask("de")).cache_lacks("hit");
    tidegate.ask(ask("en")).cache_lacks("hit");
}
