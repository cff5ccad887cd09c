//! RFC 5861 and RFC 9111 §4.2.4: serving stale, when it is allowed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use testkit::{Ask, Origin, Reply, Script, Tidegate, eventually};

/// Answers `first` until told to fail, then with `then`.
fn failing(first: Reply, then: Reply) -> (Origin, Tidegate, Arc<AtomicBool>) {
    let failing = Arc::new(AtomicBool::new(false));
    let fail = failing.clone();
    let (origin, tidegate) =
        crate::answering(move |_| if fail.load(Ordering::SeqCst) { then.clone() } else { first.clone() });
    (origin, tidegate, failing)
}

fn stale_with(directive: &str) -> Reply {
    Reply::ok("body")
        .field("Cache-Control", &format!("max-age=10, {directive}"))
        .field("Age", "20")
        .field("ETag", "\"v1\"")
}

#[test]
fn stale_while_revalidate_answers_at_once_and_asks_behind() {
    let (release, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (origin, tidegate) = crate::answering(move |request| {
        if request.head.has("if-none-match") {
            gate.lock().unwrap().recv().unwrap();
            return Reply::fresh("new").field("ETag", "\"v2\"");
        }
        stale_with("stale-while-revalidate=60")
    });
    tidegate.get("/").expect(200).with_body("body");
    // The origin is held at the gate: only a cache that does not wait for it can answer.
    tidegate.get("/").expect(200).with_body("body").cache("hit");
    tidegate.get("/").expect(200).with_body("body").cache("hit");
    release.send(()).unwrap();
    eventually("the new version is there", || (tidegate.get("/").text() == "new").then_some(()));
    assert_eq!(origin.count(), 2);
}

#[test]
fn stale_while_revalidate_has_an_end() {
    let (origin, tidegate) = crate::in_front_of(stale_with("stale-while-revalidate=5"));
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200).cache("fwd=stale");
    assert_eq!(origin.count(), 2);
}

#[test]
fn stale_if_error_hides_a_server_error() {
    for error in [500, 502, 503, 504] {
        let (_origin, tidegate, fail) =
            failing(stale_with("stale-if-error=60"), Reply::status(error, "down"));
        tidegate.get("/").expect(200);
        fail.store(true, Ordering::SeqCst);
        tidegate.get("/").expect(200).with_body("body");
    }
}

#[test]
fn stale_if_error_hides_a_dead_origin() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.reply(stale_with("stale-if-error=60").field("Connection", "close"));
    upstream.close();
    client.response().expect(200);
    drop(origin);
    client.get("/").expect(200).with_body("body");
}

#[test]
fn without_permission_an_error_is_an_error() {
    let (_origin, tidegate, fail) =
        failing(stale_with("must-revalidate, stale-if-error=60"), Reply::status(503, "down"));
    tidegate.get("/").expect(200);
    fail.store(true, Ordering::SeqCst);
    let status = tidegate.get("/").status();
    assert!(status == 503 || status == 504, "{status}");
}

#[test]
fn stale_if_error_has_an_end() {
    let (_origin, tidegate, fail) = failing(stale_with("stale-if-error=5"), Reply::status(503, "down"));
    tidegate.get("/").expect(200);
    fail.store(true, Ordering::SeqCst);
    tidegate.get("/").expect(503);
}

#[test]
fn a_client_error_is_not_hidden() {
    let (_origin, tidegate, fail) = failing(stale_with("stale-if-error=60"), Reply::status(404, "gone"));
    tidegate.get("/").expect(200);
    fail.store(true, Ordering::SeqCst);
    tidegate.get("/").expect(404);
}
