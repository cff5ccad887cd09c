//! Several clients that want parts of one object at once.

use testkit::{Ask, Script, Tidegate, Upstream};

use crate::{Representation, head_of_part, hit, part};

const MIB: u64 = 1 << 20;

/// The origin's side of a connection that brought the first thousand bytes, which are stored.
fn with_its_beginning(all: Representation, origin: &Script, tidegate: &Tidegate) -> Upstream {
    let mut first = tidegate.client();
    first.send(part(0, 1000).bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(head_of_part(all, 0, 1000, ""));
    upstream.send(all.pattern.bytes(0, 1000));
    all.expect_part(&first.response(), 0, 1000);
    hit(tidegate, 0, 1000);
    upstream
}

#[test]
fn the_same_range_is_asked_for_once() {
    let all = Representation::new(1000 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut clients: Vec<_> = (0..10)
        .map(|_| {
            let mut client = tidegate.client();
            client.send(part(5 * MIB, 6 * MIB).bytes());
            client
        })
        .collect();
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(head_of_part(all, 5 * MIB, 6 * MIB, ""));
    upstream.send(all.pattern.bytes(5 * MIB, MIB as usize));
    for client in &mut clients {
        all.expect_part(&client.response(), 5 * MIB, 6 * MIB);
    }
    origin.expect_untouched();
}

#[test]
fn the_same_hole_is_asked_for_once_and_followed_from_where_it_is_wanted() {
    let all = Representation::new(100 * MIB);
    let origin = Script::new();
    // One worker: the pooled connection is the one that is taken.
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let mut upstream = with_its_beginning(all, &origin, &tidegate);
    // Both want bytes of the hole behind it; the second from further on.
    let mut leader = tidegate.client();
    leader.send(part(500, 2 * MIB).bytes());
    assert_eq!(upstream.request().head.field("range").as_deref(), Some("bytes=1000-2097151"));
    upstream.send(head_of_part(all, 1000, 2 * MIB, ""));
    upstream.send(all.pattern.bytes(1000, MIB as usize));
    let head = leader.head();
    assert_eq!(head.status(), 206);
    all.pattern.expect(&mut leader, 500, MIB);
    let mut follower = tidegate.client();
    follower.send(part(MIB / 2, 2 * MIB - 5).bytes());
    let head = follower.head();
    let status = head.field("cache-status").unwrap();
    assert!(status.contains("fwd=partial") && status.contains("collapsed"), "{status}");
    upstream.send(all.pattern.bytes(MIB + 1000, (MIB - 1000) as usize));
    all.pattern.expect(&mut leader, MIB + 500, MIB - 500);
    all.pattern.expect(&mut follower, MIB / 2, 2 * MIB - 5 - MIB / 2);
    origin.expect_untouched();
}

#[test]
fn two_parts_that_arrive_at_once_are_both_kept() {
    let all = Representation::new(100 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut transfers = Vec::new();
    for start in [0, 10 * MIB, 20 * MIB] {
        let mut client = tidegate.client();
        client.send(part(start, start + MIB).bytes());
        let mut upstream = origin.accept();
        upstream.request();
        upstream.send(head_of_part(all, start, start + MIB, ""));
        transfers.push((start, client, upstream));
    }
    for (start, _, upstream) in &mut transfers {
        upstream.send(all.pattern.bytes(*start, MIB as usize));
    }
    for (start, client, _) in &mut transfers {
        all.expect_part(&client.response(), *start, *start + MIB);
    }
    for start in [0, 10 * MIB, 20 * MIB] {
        all.expect_part(&hit(&tidegate, start, start + MIB), start, start + MIB);
    }
    origin.expect_untouched();
}

#[test]
fn a_purge_while_a_part_arrives_wins() {
    let all = Representation::new(100 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(part(0, MIB).bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(head_of_part(all, 0, MIB, ""));
    upstream.send(all.pattern.bytes(0, 1000));
    client.head();
    all.pattern.expect(&mut client, 0, 1000);
    tidegate.purge("http://www.example.com/");
    upstream.send(all.pattern.bytes(1000, (MIB - 1000) as usize));
    all.pattern.expect(&mut client, 1000, MIB - 1000);
    let cached = part(0, 1000).field("Cache-Control", "only-if-cached");
    for _ in 0..20 {
        tidegate.ask(cached.clone()).expect(504);
    }
}

#[test]
fn a_client_that_leaves_does_not_have_the_rest_fetched() {
    let all = Representation::new(60 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").field("Range", "bytes=1048576-").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(head_of_part(all, MIB, 60 * MIB, ""));
    upstream.send(all.pattern.bytes(MIB, 2 * MIB as usize));
    client.head();
    all.pattern.expect(&mut client, MIB, 2 * MIB);
    client.reset();
    // The connection ends before 57 MiB have come; what came before stays.
    let mut at = 3 * MIB;
    while at < 60 * MIB && upstream.try_send(all.pattern.bytes(at, MIB as usize)).is_ok() {
        at += MIB;
    }
    assert!(at < 40 * MIB, "all was taken");
    all.expect_part(&hit(&tidegate, MIB, 3 * MIB), MIB, 3 * MIB);
}

#[test]
fn a_range_near_the_front_of_a_fill_follows_it() {
    let all = Representation::new(4 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut leader = tidegate.client();
    leader.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(format!(
        "HTTP/1.1 200 OK\r\nETag: {}\r\nCache-Control: max-age=60\r\nContent-Type: application/x-pattern\r\n\
         Content-Length: {}\r\n\r\n",
        all.etag, all.size
    ));
    upstream.send(all.pattern.bytes(0, MIB as usize));
    leader.head();
    all.pattern.expect(&mut leader, 0, MIB);
    let mut follower = tidegate.client();
    follower.send(part(MIB + 5, 2 * MIB).bytes());
    upstream.send(all.pattern.bytes(MIB, 3 * MIB as usize));
    all.expect_part(&follower.response(), MIB + 5, 2 * MIB);
    all.pattern.expect(&mut leader, MIB, 3 * MIB);
    origin.expect_untouched();
}

#[test]
fn what_the_store_could_not_hold_is_not_fetched_hole_by_hole() {
    let all = Representation::new(10_000 * MIB);
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let mut upstream = with_its_beginning(all, &origin, &tidegate);
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    assert!(!upstream.request().head.has("range"), "all of it is asked for, and goes past the store");
    client.reset();
    all.expect_part(&hit(&tidegate, 0, 1000), 0, 1000);
}
