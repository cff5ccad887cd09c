//! Bytes that were stored and are lost: reclaimed, damaged. They are a hole, and come from the origin.

use testkit::{Ask, Origin, Reply, Tidegate, eventually, find_in_file, flip_bit};

use crate::{Representation, asked, hit, part};

const MIB: u64 = 1 << 20;

#[track_caller]
fn damage(tidegate: &Tidegate, all: Representation, offset: u64) {
    let places = find_in_file(&tidegate.store_path(), &all.pattern.bytes(offset, 32));
    assert!(!places.is_empty(), "the bytes are not on the device");
    places.iter().for_each(|place| flip_bit(&tidegate.store_path(), place + 5));
}

#[test]
fn a_damaged_extent_is_fetched_while_the_rest_is_sent() {
    for at in [0, 100, 5 * MIB / 2] {
        let all = Representation::new(4 * MIB);
        let origin = all.origin();
        let mut tidegate = Tidegate::reverse(&origin).start();
        all.expect_whole(&tidegate.get("/"));
        tidegate.stop();
        damage(&tidegate, all, at / 8 * 8);
        tidegate.restart();
        all.expect_whole(&tidegate.get("/"));
        let first = at / MIB * MIB;
        assert_eq!(asked(&origin), ["all".to_owned(), format!("bytes={first}-{}", first + MIB - 1)]);
        assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 1.0);
        all.expect_whole(&tidegate.warm("/"));
        // The repair lasts.
        tidegate.stop();
        tidegate.restart();
        all.expect_whole(&tidegate.get("/").cache("hit"));
        assert_eq!(origin.count(), 2);
    }
}

#[test]
fn damage_that_cannot_be_repaired_breaks_off_and_is_forgotten() {
    let all = Representation::new(4 * MIB);
    let origin = Origin::answering(move |_| {
        Reply::generated(all.pattern, all.size).field("Cache-Control", "max-age=60")
    });
    let mut tidegate = Tidegate::reverse(&origin).start();
    all.expect_whole(&tidegate.get("/"));
    tidegate.stop();
    damage(&tidegate, all, 3 * MIB + 800);
    tidegate.restart();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    assert_eq!(client.head().status(), 200);
    let mut at = 0;
    while let Some(bytes) = client.try_some(1 << 20).ok().filter(|bytes| !bytes.is_empty()) {
        all.pattern.compare(&bytes, at);
        at += bytes.len() as u64;
    }
    // A reset takes what the client has not read yet with it.
    assert!(at <= 3 * MIB, "{at} bytes");
    all.expect_whole(&tidegate.get("/"));
    assert_eq!(origin.count(), 2);
}

/// More hot objects than the store holds: records outlive extents.
#[test]
fn a_reclaimed_extent_is_fetched_again() {
    let all = Representation::new(12 * MIB);
    let origin = all.origin();
    let tidegate =
        Tidegate::reverse(&origin).memory("1MiB").store("96MiB").toml("[store]\nadmission = \"all\"").start();
    let holes = || asked(&origin).iter().filter(|range| *range != "all").count();
    eventually("extents of an object that is there are reclaimed", || {
        for number in 0..10 {
            let target = format!("/{number}");
            all.expect_whole(&tidegate.get(&target));
            // A use of the record alone.
            tidegate.ask(Ask::head(&target)).expect(200);
        }
        (holes() > 3).then_some(())
    });
    assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 0.0);
}

#[test]
fn a_damaged_record_loses_the_object_and_nothing_more() {
    let all = Representation::new(4 * MIB);
    let origin = all.origin();
    let mut tidegate = Tidegate::reverse(&origin).start();
    tidegate.ask(part(MIB, 2 * MIB)).expect(206);
    hit(&tidegate, MIB, 2 * MIB);
    tidegate.stop();
    for place in find_in_file(&tidegate.store_path(), b"application/x-pattern") {
        flip_bit(&tidegate.store_path(), place);
    }
    tidegate.restart();
    all.expect_part(&tidegate.ask(part(MIB, 2 * MIB)), MIB, 2 * MIB);
    assert_eq!(origin.count(), 2);
}
