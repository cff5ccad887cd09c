//! Requests that arrive during a fill stream the same object from its beginning; the origin is asked once.

use testkit::{Ask, Pattern, Script, Tidegate};

use crate::{asking, expect_first_half, expect_second_half, half_filled, send_second_half};

#[test]
fn all_stream_along_and_the_origin_is_asked_once() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut leader, mut upstream) = half_filled(&origin, &tidegate);
    let mut followers: Vec<_> = (0..20).map(|_| asking(&tidegate)).collect();
    // Each has the first half, the origin still holds the second: they stream, they do not wait for the end.
    let heads: Vec<_> = followers.iter_mut().map(expect_first_half).collect();
    send_second_half(&mut upstream);
    expect_second_half(&mut leader);
    followers.iter_mut().for_each(expect_second_half);
    origin.expect_untouched();
    let collapsed = heads.iter().filter(|h| h.field("cache-status").is_some_and(|s| s.contains("collapsed")));
    assert_eq!(collapsed.count(), 20, "{:?}", heads[0]);
}

#[test]
fn requests_that_wait_for_the_head_get_the_same_response() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut clients: Vec<_> = (0..20).map(|_| asking(&tidegate)).collect();
    let mut upstream = origin.accept();
    upstream.request();
    assert!(
        origin.accept_within(std::time::Duration::from_millis(100)).is_none(),
        "a second request went out"
    );
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello");
    for client in &mut clients {
        client.response().expect(200).with_body("hello");
    }
    origin.expect_untouched();
}

#[test]
fn a_chunked_fill_is_followed_too() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut leader = asking(&tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst \r\n",
    );
    leader.head();
    let mut follower = asking(&tidegate);
    let head = follower.head();
    upstream.send("6\r\nsecond\r\n0\r\n\r\n");
    assert_eq!(follower.body(&head), b"first second");
    tidegate.warm("/").with_body("first second");
    origin.expect_untouched();
}

#[test]
fn what_is_stale_already_is_for_those_who_asked_before_it_came() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut leader = asking(&tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=10\r\nAge: 20\r\nContent-Length: 7\r\n\r\nold");
    let leading = leader.head();
    let mut late = asking(&tidegate);
    let mut second = origin.accept();
    second.request();
    second.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=10\r\nContent-Length: 3\r\n\r\nnew");
    late.response().expect(200).with_body("new").cache("fwd=uri-miss");
    upstream.send(" one");
    assert_eq!(leader.body(&leading), b"old one");
    tidegate.get("/").expect(200).with_body("new").cache("hit");
}

/// A chunk is announced while its bytes are in memory; when the client takes the rest of them they are on a device.
#[test]
fn a_chunk_that_a_slow_client_takes_late_is_not_cut_by_another() {
    const ALL: usize = 4_000_000;
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut slow = tidegate.client();
    slow.small_receive_buffer();
    slow.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n");
    upstream.send(format!("{ALL:x}\r\n"));
    upstream.send(Pattern(1).bytes(0, ALL));
    upstream.send("\r\n0\r\n\r\n");
    let head = slow.head();
    tidegate.wait_stored(1);
    let body = slow.body(&head);
    assert_eq!(body.len(), ALL);
    Pattern(1).compare(&body, 0);
}

#[test]
fn the_fill_goes_on_when_its_client_leaves() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (leader, mut upstream) = half_filled(&origin, &tidegate);
    let mut follower = asking(&tidegate);
    expect_first_half(&mut follower);
    leader.reset();
    send_second_half(&mut upstream);
    expect_second_half(&mut follower);
    Pattern(1).compare(&tidegate.get("/").expect(200).body, 0);
    origin.expect_untouched();
}

#[test]
fn the_fill_goes_on_when_nobody_is_left() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (leader, mut upstream) = half_filled(&origin, &tidegate);
    leader.reset();
    send_second_half(&mut upstream);
    // A fill that is about to end may be followed instead of hit; it is never fetched twice.
    Pattern(1).compare(&tidegate.get("/").expect(200).body, 0);
    origin.expect_untouched();
}

#[test]
fn a_fill_without_clients_can_be_given_up() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[fill]\nfinish_without_client = false").start();
    let (leader, mut upstream) = half_filled(&origin, &tidegate);
    leader.reset();
    let (rest, _) = upstream.rest();
    assert!(rest.is_empty());
}

#[test]
fn a_client_that_does_not_read_slows_nobody() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let size = 24 << 20;
    let mut sleeper = tidegate.client();
    sleeper.small_receive_buffer();
    sleeper.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {size}\r\n\r\n"));
    let mut follower = asking(&tidegate);
    let sending =
        std::thread::spawn(move || (0..24).for_each(|i| upstream.send(Pattern(2).bytes(i << 20, 1 << 20))));
    assert_eq!(follower.head().status(), 200);
    Pattern(2).expect(&mut follower, 0, size);
    sending.join().unwrap();
    // And the one that slept gets all of it when it wakes.
    sleeper.head();
    Pattern(2).expect(&mut sleeper, 0, size);
}

#[test]
fn a_range_during_a_fill_is_answered_rightly() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut leader, mut upstream) = half_filled(&origin, &tidegate);
    let mut follower = tidegate.client();
    follower.send(Ask::get("/").field("Range", "bytes=1000-1999").bytes());
    send_second_half(&mut upstream);
    expect_second_half(&mut leader);
    if let Some(mut second) = origin.accept_within(std::time::Duration::from_millis(50)) {
        second.request();
        second.send("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1000-1999/1200000\r\nContent-Length: 1000\r\n\r\n");
        second.send(Pattern(1).bytes(1000, 1000));
    }
    let response = follower.response();
    let start = if response.status() == 206 { 1000 } else { 0 };
    Pattern(1).compare(&response.body, start);
}

#[test]
fn head_during_a_fill_does_not_wait_for_the_body() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (_leader, _upstream) = half_filled(&origin, &tidegate);
    let mut follower = tidegate.client();
    follower.send(Ask::head("/").bytes());
    if let Some(mut second) = origin.accept_within(std::time::Duration::from_millis(50)) {
        second.request();
        second.send(crate::head_of_two_halves());
    }
    follower.response_to("HEAD").expect(200).with_body("");
}

#[test]
fn different_objects_do_not_wait_for_each_other() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (_leader, _upstream) = half_filled(&origin, &tidegate);
    let mut other = tidegate.client();
    other.send(Ask::get("/other").bytes());
    let mut second = origin.accept();
    assert_eq!(second.request().head.target(), "/other");
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    other.response().expect(200).with_body("hi");
}
