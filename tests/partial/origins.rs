//! What origins answer to a question for a part, other than that part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{Ask, Origin, Pattern, Reply, Request, Tidegate};

use crate::{Representation, asked, hit, part};

const MIB: u64 = 1 << 20;

/// An origin whose representation changes when told, and how it answers then.
fn changing(
    first: Representation,
    then: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (Origin, Arc<AtomicBool>) {
    let changed = Arc::new(AtomicBool::new(false));
    let origin = Origin::answering({
        let changed = Arc::clone(&changed);
        move |request| if changed.load(Ordering::SeqCst) { then(request) } else { first.answer(request) }
    });
    (origin, changed)
}

fn with_one_part(origin: &Origin) -> Tidegate {
    let tidegate = Tidegate::reverse(origin).start();
    tidegate.ask(part(0, MIB)).expect(206);
    hit(&tidegate, 0, MIB);
    tidegate
}

const NEW: Representation = Representation { pattern: Pattern(99), size: 3 * MIB, etag: "\"v2\"" };

#[test]
fn a_representation_that_has_changed_replaces_the_parts_of_the_old_one() {
    let (origin, changed) = changing(Representation::new(4 * MIB), |request| NEW.answer(request));
    let tidegate = with_one_part(&origin);
    changed.store(true, Ordering::SeqCst);
    // Stored and fresh: nobody has told the cache. What is missing tells it, before the first byte is sent.
    NEW.expect_whole(&tidegate.get("/"));
    NEW.expect_whole(&tidegate.warm("/"));
}

#[test]
fn a_part_of_the_new_representation_is_not_joined_with_the_old_one() {
    // This origin does not know If-Range.
    let (origin, changed) = changing(Representation::new(4 * MIB), |request| {
        let range = request.head.field("range").and_then(|range| NEW.range(&range));
        let reply = match range {
            Some((start, end)) => NEW.part(start, end),
            None => Reply::generated(NEW.pattern, NEW.size),
        };
        reply
            .field("ETag", NEW.etag)
            .field("Cache-Control", "max-age=60")
            .field("Content-Type", "application/x-pattern")
    });
    let tidegate = with_one_part(&origin);
    changed.store(true, Ordering::SeqCst);
    NEW.expect_part(&tidegate.ask(part(MIB - 10, MIB + 10)), MIB - 10, MIB + 10);
    NEW.expect_part(&tidegate.ask(part(0, 100)), 0, 100);
    NEW.expect_whole(&tidegate.get("/"));
}

#[test]
fn a_change_in_the_middle_of_a_transfer_breaks_it_off() {
    let old = Representation::new(40 * MIB);
    let (origin, changed) = changing(old, |request| NEW.answer(request));
    let tidegate = Tidegate::reverse(&origin).start();
    for (start, end) in [(0, MIB), (2 * MIB, 30 * MIB)] {
        tidegate.ask(part(start, end)).expect(206);
        hit(&tidegate, start, end);
    }
    let mut client = tidegate.client();
    client.small_receive_buffer();
    client.send(Ask::get("/").bytes());
    assert_eq!(client.head().status(), 200);
    old.pattern.expect(&mut client, 0, 2 * MIB);
    // The last hole is asked for when it is reached.
    changed.store(true, Ordering::SeqCst);
    let mut at = 2 * MIB;
    while let Some(bytes) = client.try_some(1 << 20).ok().filter(|bytes| !bytes.is_empty()) {
        old.pattern.compare(&bytes, at);
        at += bytes.len() as u64;
    }
    // A reset takes what the client has not read yet with it.
    assert!((2 * MIB..=30 * MIB).contains(&at), "what is stored is sent, and nothing else: {at}");
    NEW.expect_whole(&tidegate.get("/"));
}

#[test]
fn an_origin_without_ranges_gives_all_and_all_is_stored() {
    let all = Representation::new(3 * MIB);
    let origin = Origin::answering(move |_| {
        Reply::generated(all.pattern, all.size)
            .field("ETag", all.etag)
            .field("Cache-Control", "max-age=60")
            .field("Content-Type", "application/x-pattern")
    });
    let tidegate = Tidegate::reverse(&origin).start();
    all.expect_part(&tidegate.ask(part(100, MIB + 100)), 100, MIB + 100);
    all.expect_whole(&tidegate.warm("/"));
    all.expect_part(&tidegate.ask(part(MIB, 2 * MIB)).cache("hit"), MIB, 2 * MIB);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_416_is_passed_on_and_not_stored() {
    let all = Representation::new(1000);
    let origin = all.origin();
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.ask(part(5000, 6000)).expect(416);
    assert_eq!(response.field("content-range").as_deref(), Some("bytes */1000"));
    all.expect_whole(&tidegate.get("/"));
}

#[test]
fn a_416_for_a_hole_means_that_the_representation_has_changed() {
    const SHORT: Representation = Representation { pattern: Pattern(5), size: 1000, etag: "\"v2\"" };
    // This origin does not know If-Range.
    let (origin, changed) = changing(Representation::new(4 * MIB), |request| {
        match request.head.field("range").map(|range| SHORT.range(&range)) {
            Some(None) => Reply::status(416, "").field("Content-Range", "bytes */1000"),
            _ => SHORT.answer(request),
        }
    });
    let tidegate = with_one_part(&origin);
    changed.store(true, Ordering::SeqCst);
    SHORT.expect_whole(&tidegate.get("/"));
    SHORT.expect_whole(&tidegate.warm("/"));
}

#[test]
fn what_has_no_strong_validator_is_not_combined() {
    for weak in ["W/\"v1\"", "none"] {
        let all = Representation::new(4 * MIB);
        let origin = Origin::answering(move |request| {
            let range = request.head.field("range").and_then(|range| all.range(&range));
            let reply = match range {
                Some((start, end)) => all.part(start, end),
                None => Reply::generated(all.pattern, all.size),
            };
            let reply = reply.field("Cache-Control", "max-age=60");
            if weak == "none" { reply } else { reply.field("ETag", weak) }
        });
        let tidegate = Tidegate::reverse(&origin).start();
        for _ in 0..2 {
            let response = tidegate.ask(part(0, 1000)).expect(206);
            all.pattern.compare(&response.body, 0);
        }
        assert_eq!(asked(&origin), ["bytes=0-999", "bytes=0-999"]);
        all.expect_whole(&tidegate.get("/"));
        all.expect_whole(&tidegate.warm("/"));
        assert_eq!(origin.count(), 3);
        let response = tidegate.ask(part(5, 1000)).expect(206).cache("hit");
        all.pattern.compare(&response.body, 5);
    }
}

#[test]
fn a_whole_of_unknown_length_is_passed_and_not_stored() {
    let origin = Origin::answering(|_| {
        Reply::status(206, "2345")
            .field("Content-Range", "bytes 2-5/*")
            .field("ETag", "\"v1\"")
            .field("Cache-Control", "max-age=60")
    });
    let tidegate = Tidegate::reverse(&origin).start();
    for _ in 0..2 {
        tidegate.ask(part(2, 6)).expect(206).with_body("2345");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_part_that_is_not_what_its_head_says_is_not_stored() {
    let all = Representation::new(4 * MIB);
    let head = move |request: &Request| {
        let (start, end) = all.range(&request.head.field("range")?)?;
        Some(format!("bytes {start}-{}/{}", end - 1, all.size))
    };
    for shorter in [true, false] {
        let origin = Origin::answering(move |request| match head(request) {
            None => all.answer(request),
            Some(said) => {
                let bytes = all.pattern.bytes(0, if shorter { 500 } else { 1500 });
                Reply::chunked(&[&bytes])
                    .field("Content-Range", &said)
                    .field("ETag", all.etag)
                    .field("Cache-Control", "max-age=60")
                    .into_status(206)
            }
        });
        let tidegate = Tidegate::reverse(&origin).start();
        let mut client = tidegate.client();
        client.send(part(0, 1000).bytes());
        client.head();
        let mut left = 1000;
        while left > 0
            && let Ok(bytes) = client.try_some(left)
            && !bytes.is_empty()
        {
            left -= bytes.len();
        }
        assert_eq!(left > 0, shorter);
        all.expect_whole(&tidegate.get("/"));
        assert_eq!(asked(&origin), ["bytes=0-999", "all"], "shorter {shorter}");
    }
}

#[test]
fn an_origin_that_gives_less_is_asked_for_the_rest() {
    let all = Representation::new(4 * MIB);
    let origin = Origin::answering(move |request| {
        let range = request.head.field("range").and_then(|range| all.range(&range));
        match range {
            Some((start, end)) => all
                .part(start, end.min(start + MIB))
                .field("ETag", all.etag)
                .field("Cache-Control", "max-age=60")
                .field("Content-Type", "application/x-pattern"),
            None => all.answer(request),
        }
    });
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.ask(part(MIB / 2, MIB)).expect(206);
    hit(&tidegate, MIB / 2, MIB);
    all.expect_whole(&tidegate.get("/"));
    assert_eq!(origin.count(), 5, "{:?}", asked(&origin));
}
