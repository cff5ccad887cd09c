//! Parts are stored as they come, joined with others, and completed where more is wanted.

use testkit::{Ask, Tidegate};

use crate::{Representation, asked, hit, part};

const MIB: u64 = 1 << 20;

/// Asks for these parts, and waits until they are stored.
#[track_caller]
fn store_parts(tidegate: &Tidegate, parts: &[(u64, u64)]) {
    for &(start, end) in parts {
        tidegate.ask(part(start, end));
        hit(tidegate, start, end);
    }
}

#[test]
fn a_range_on_a_miss_asks_for_that_range_alone() {
    // Ten gigabytes: whoever fetched all of it would not come back in time, nor have room.
    let all = Representation::new(10_000_000_000);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    let (start, end) = (5_000_000_000, 5_000_100_000);
    let response = tidegate.ask(part(start, end));
    all.expect_part(&response, start, end);
    assert!(response.field("cache-status").unwrap().contains("fwd=uri-miss; stored"), "{response:?}");
    all.expect_part(&hit(&tidegate, start, end), start, end);
    all.expect_part(&hit(&tidegate, start + 1000, end - 1), start + 1000, end - 1);
    assert_eq!(asked(&origin), ["bytes=5000000000-5000099999"]);
    let head = tidegate.ask(Ask::head("/")).expect(200).cache("hit");
    assert_eq!(head.field("content-length").as_deref(), Some("10000000000"));
    assert_eq!(origin.count(), 1);
}

#[test]
fn only_what_is_missing_of_a_range_is_asked_for() {
    let all = Representation::new(8 * MIB);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    all.expect_part(&tidegate.ask(part(MIB, 2 * MIB)), MIB, 2 * MIB);
    hit(&tidegate, MIB, 2 * MIB);
    all.expect_part(&tidegate.ask(part(4 * MIB, 5 * MIB)), 4 * MIB, 5 * MIB);
    hit(&tidegate, 4 * MIB, 5 * MIB);
    let across = tidegate.ask(part(MIB + 100, 5 * MIB - 100));
    all.expect_part(&across, MIB + 100, 5 * MIB - 100);
    assert!(across.field("cache-status").unwrap().contains("fwd=partial; stored"), "{across:?}");
    hit(&tidegate, MIB, 5 * MIB);
    assert_eq!(asked(&origin), ["bytes=1048576-2097151", "bytes=4194304-5242879", "bytes=2097152-4194303"]);
    assert!(origin.requests()[2].head.field("if-range").as_deref() == Some("\"v1\""));
}

#[test]
fn a_request_for_all_asks_for_the_holes() {
    let all = Representation::new(5 * MIB + 777);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    for (start, end) in [(MIB, 2 * MIB), (3 * MIB, 3 * MIB + 5000)] {
        all.expect_part(&tidegate.ask(part(start, end)), start, end);
        hit(&tidegate, start, end);
    }
    all.expect_whole(&tidegate.get("/"));
    all.expect_whole(&tidegate.warm("/"));
    let holes = ["bytes=0-1048575", "bytes=2097152-3145727", "bytes=3150728-5243656"];
    assert_eq!(asked(&origin)[2..], holes);
}

#[test]
fn ranges_of_all_kinds_are_cut_from_what_is_stored() {
    let all = Representation::new(100_000);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    let suffix = tidegate.ask(Ask::get("/").field("Range", "bytes=-40000"));
    all.expect_part(&suffix, 60_000, 100_000);
    hit(&tidegate, 60_000, 100_000);
    for (range, start, end) in [
        ("bytes=70000-", 70_000, 100_000),
        ("bytes=-10", 99_990, 100_000),
        ("bytes=60000-999999", 60_000, 100_000),
    ] {
        let response = tidegate.ask(Ask::get("/").field("Range", range)).cache("hit");
        all.expect_part(&response, start, end);
    }
    tidegate.ask(Ask::get("/").field("Range", "bytes=100000-")).expect(416);
    assert_eq!(origin.count(), 1);
    let several = tidegate.ask(Ask::get("/").field("Range", "bytes=60000-60009,80000-80009"));
    assert!(
        several.expect(206).cache("hit").field("content-type").unwrap().starts_with("multipart/byteranges")
    );
    assert_eq!(origin.count(), 1);
    // Several ranges with a hole among them are for the origin, as the client wrote them.
    tidegate.ask(Ask::get("/").field("Range", "bytes=0-9,80000-80009"));
    assert_eq!(asked(&origin)[1..], ["bytes=0-9,80000-80009"]);
}

#[test]
fn a_purge_takes_all_parts() {
    let all = Representation::new(4 * MIB);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    store_parts(&tidegate, &[(0, MIB), (2 * MIB, 3 * MIB)]);
    tidegate.purge("http://www.example.com/");
    for (start, end) in [(0, MIB), (2 * MIB, 3 * MIB)] {
        all.expect_part(&tidegate.ask(part(start, end)), start, end);
    }
    assert_eq!(origin.count(), 4);
}

#[test]
fn parts_survive_stop_and_start() {
    let all = Representation::new(6 * MIB);
    let origin = all.origin();
    let mut tidegate = Tidegate::reverse(&origin).start();
    store_parts(&tidegate, &[(0, 100), (MIB, 3 * MIB)]);
    tidegate.stop();
    tidegate.restart();
    all.expect_part(&tidegate.ask(part(0, 100)).cache("hit"), 0, 100);
    all.expect_part(&tidegate.ask(part(MIB, 3 * MIB)).cache("hit"), MIB, 3 * MIB);
    all.expect_whole(&tidegate.get("/"));
    assert_eq!(asked(&origin)[2..], ["bytes=100-1048575", "bytes=3145728-6291455"]);
}

#[test]
fn one_validation_is_for_all_parts() {
    let all = Representation::new(4 * MIB);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    store_parts(&tidegate, &[(0, MIB), (2 * MIB, 3 * MIB)]);
    let reload = part(100, 200).field("Cache-Control", "no-cache");
    let response = tidegate.ask(reload);
    all.expect_part(&response, 100, 200);
    assert!(response.field("cache-status").unwrap().contains("fwd-status=304"), "{response:?}");
    all.expect_part(&hit(&tidegate, 2 * MIB, 3 * MIB), 2 * MIB, 3 * MIB);
    assert_eq!(origin.count(), 3);
    assert_eq!(origin.requests()[2].head.field("if-none-match").as_deref(), Some("\"v1\""));
    all.expect_whole(&tidegate.get("/"));
}

#[test]
fn if_range_is_for_what_is_stored() {
    let all = Representation::new(2 * MIB);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    // On a miss the origin's answer decides.
    all.expect_part(&tidegate.ask(part(0, 1000).field("If-Range", "\"v1\"")), 0, 1000);
    all.expect_whole(&tidegate.ask(part(0, 1000).field("If-Range", "\"v0\"")));
    all.expect_part(&tidegate.ask(part(500, 1500).field("If-Range", "\"v1\"")), 500, 1500);
    all.expect_whole(&tidegate.ask(part(500, 1500).field("If-Range", "W/\"v1\"")));
}

#[test]
fn only_if_cached_does_not_fetch_holes() {
    let all = Representation::new(2 * MIB);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.ask(part(0, 1000));
    hit(&tidegate, 0, 1000);
    let stored = part(0, 500).field("Cache-Control", "only-if-cached");
    all.expect_part(&tidegate.ask(stored), 0, 500);
    tidegate.ask(part(0, 2000).field("Cache-Control", "only-if-cached")).expect(504);
    all.expect_part(&hit(&tidegate, 0, 1000), 0, 1000);
    assert_eq!(origin.count(), 1);
}

#[test]
fn what_came_before_the_origin_broke_off_is_not_fetched_again() {
    let all = Representation::new(4 * MIB);
    let origin = testkit::Origin::answering(move |request| {
        if request.head.has("range") {
            return all.answer(request);
        }
        testkit::Reply::cut_short(all.pattern, all.size, 3 * MIB + 5)
            .field("ETag", all.etag)
            .field("Cache-Control", "max-age=3600")
            .field("Content-Type", "application/x-pattern")
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    client.head();
    all.pattern.expect(&mut client, 0, 3 * MIB);
    tidegate.wait_stored(1);
    hit(&tidegate, 0, 3 * MIB);
    all.expect_whole(&tidegate.get("/"));
    assert_eq!(asked(&origin), ["all", "bytes=3145728-4194303"]);
}
