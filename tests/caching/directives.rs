//! RFC 9111 §5.2.1: what a request may ask of the cache.

use testkit::{Ask, Reply};

use crate::{answering, in_front_of};

fn asking(directive: &str) -> Ask {
    Ask::get("/").field("Cache-Control", directive)
}

/// Whether a request with this directive is served from a stored response of this age, fresh for 100 seconds.
#[track_caller]
fn is_served(age: &str, directive: &str) -> bool {
    let (origin, tidegate) = in_front_of(
        Reply::ok("x").field("Cache-Control", "max-age=100").field("Age", age).field("ETag", "\"a\""),
    );
    tidegate.get("/").expect(200);
    tidegate.ask(asking(directive)).expect(200);
    origin.count() == 1
}

#[test]
fn requests_decide_how_old_is_too_old() {
    for (age, directive, expected) in [
        ("10", "no-cache", false),
        ("10", "max-age=0", false),
        ("10", "max-age=5", false),
        ("10", "max-age=50", true),
        ("10", "min-fresh=50", true),
        ("60", "min-fresh=50", false),
        ("150", "max-stale", true),
        ("150", "max-stale=100", true),
        ("150", "max-stale=10", false),
        ("150", "max-age=100", false),
        ("150", "max-age=300, max-stale=100", true),
        ("10", "nonsense", true),
    ] {
        assert_eq!(is_served(age, directive), expected, "age {age}, {directive}");
    }
}

#[test]
fn pragma_counts_only_without_cache_control() {
    let (origin, tidegate) = in_front_of(Reply::fresh("x"));
    tidegate.get("/").expect(200);
    tidegate.ask(asking("max-age=1000").field("Pragma", "no-cache")).expect(200).cache("hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn must_revalidate_forbids_what_max_stale_allows() {
    for forbidding in ["must-revalidate", "proxy-revalidate", "s-maxage=50"] {
        let reply =
            Reply::ok("x").field("Cache-Control", &format!("max-age=50, {forbidding}")).field("Age", "80");
        let (origin, tidegate) = in_front_of(reply.field("ETag", "\"a\""));
        tidegate.get("/").expect(200);
        tidegate.ask(asking("max-stale")).expect(200);
        assert_eq!(origin.count(), 2, "{forbidding}");
    }
}

#[test]
fn only_if_cached_never_goes_on() {
    let (origin, tidegate) = in_front_of(Reply::fresh("x"));
    tidegate.ask(asking("only-if-cached")).expect(504);
    assert_eq!(origin.count(), 0);
    tidegate.get("/").expect(200);
    tidegate.ask(asking("only-if-cached")).expect(200).with_body("x").cache("hit");
    assert_eq!(origin.count(), 1);
}

#[test]
fn no_cache_brings_the_new_version_for_all() {
    let counter = std::sync::atomic::AtomicUsize::new(0);
    let (_origin, tidegate) = answering(move |_| {
        Reply::fresh(counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string())
    });
    tidegate.get("/").with_body("0");
    tidegate.ask(asking("no-cache")).with_body("1").cache("fwd=request");
    tidegate.get("/").with_body("1").cache("hit");
}

#[test]
fn a_purged_url_is_asked_for_again() {
    let (origin, tidegate) = in_front_of(Reply::fresh("x"));
    tidegate.get("/a").expect(200);
    tidegate.get("/b").expect(200);
    let purged = tidegate.purge("http://www.example.com/a");
    assert_eq!(purged.status(), 200, "{purged:?}");
    tidegate.get("/a").expect(200).cache_lacks("hit");
    tidegate.get("/b").expect(200).cache("hit");
    assert_eq!(origin.count(), 3);
}
