//! RFC 9111 §4.2: how long a response is fresh, and how old it is.

use testkit::{Ask, Reply};

use crate::in_front_of;

const LONG_AGO: &str = "Mon, 01 Jan 2001 00:00:00 GMT";
const FAR_AHEAD: &str = "Fri, 01 Jan 2038 00:00:00 GMT";

#[track_caller]
fn expect_second_is_hit(reply: Reply, hit: bool) {
    let (origin, tidegate) = in_front_of(reply);
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200);
    assert_eq!(origin.count() == 1, hit);
}

#[test]
fn age_of_the_inner_cache_is_added() {
    let (_origin, tidegate) = in_front_of(Reply::fresh("x").field("Age", "1000"));
    tidegate.get("/").expect(200);
    let hit = tidegate.get("/").expect(200).cache("hit");
    assert!((1000..1010).contains(&hit.age()), "{hit:?}");
}

#[test]
fn what_arrives_stale_is_not_served_again() {
    expect_second_is_hit(Reply::ok("x").field("Cache-Control", "max-age=60").field("Age", "60"), false);
}

#[test]
fn an_old_date_counts_as_age() {
    expect_second_is_hit(Reply::fresh("x").field("Date", LONG_AGO), false);
}

#[test]
fn expires_counts_from_date() {
    expect_second_is_hit(Reply::ok("x").field("Expires", FAR_AHEAD), true);
    expect_second_is_hit(Reply::ok("x").field("Expires", LONG_AGO), false);
}

#[test]
fn nonsense_in_expires_means_expired() {
    for value in ["0", "-1", "tomorrow", ""] {
        expect_second_is_hit(Reply::ok("x").field("Expires", value), false);
    }
}

#[test]
fn s_maxage_beats_max_age_beats_expires() {
    expect_second_is_hit(Reply::ok("x").field("Cache-Control", "s-maxage=60, max-age=0"), true);
    expect_second_is_hit(
        Reply::ok("x").field("Cache-Control", "max-age=60").field("Expires", LONG_AGO),
        true,
    );
    expect_second_is_hit(
        Reply::ok("x").field("Cache-Control", "max-age=0").field("Expires", FAR_AHEAD),
        false,
    );
}

#[test]
fn nonsense_in_max_age_means_stale() {
    for value in ["max-age=x", "max-age=-1", "max-age=", "max-age=1.5"] {
        expect_second_is_hit(Reply::ok("x").field("Cache-Control", value), false);
    }
}

#[test]
fn last_modified_long_ago_allows_a_guess() {
    expect_second_is_hit(Reply::ok("x").field("Last-Modified", LONG_AGO), true);
}

#[test]
fn no_cache_is_stored_and_always_validated() {
    let (origin, tidegate) =
        in_front_of(Reply::ok("x").field("Cache-Control", "no-cache, max-age=60").field("ETag", "\"a\""));
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200);
    assert_eq!(origin.count(), 2);
}

#[test]
fn freshness_runs_out() {
    let (origin, tidegate) =
        in_front_of(Reply::ok("x").field("Cache-Control", "max-age=3600").field("Age", "3599"));
    tidegate.get("/").expect(200);
    // Nothing but the clock makes a response stale; one second is the smallest step that HTTP has.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    tidegate.get("/").expect(200);
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_hit_carries_exactly_one_age_and_the_origins_date() {
    let (_origin, tidegate) = in_front_of(Reply::fresh("x").field("Age", "5"));
    let date = tidegate.get("/").expect(200).field("date");
    let hit = tidegate.get("/").expect(200).cache("hit");
    assert_eq!(hit.head.all("age").len(), 1);
    assert_eq!(hit.field("date"), date);
    tidegate.ask(Ask::head("/")).expect(200).cache("hit");
}
