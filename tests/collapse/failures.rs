//! An origin that fails mid-body: every reader gets a broken length, and the object is not kept.

use testkit::{Script, Tidegate};

use crate::{asking, expect_first_half, half_filled};

#[test]
fn all_readers_see_the_break_and_nothing_is_kept() {
    for reset in [false, true] {
        let origin = Script::new();
        let tidegate = Tidegate::reverse(&origin).start();
        let (mut leader, upstream) = half_filled(&origin, &tidegate);
        let mut followers: Vec<_> = (0..5).map(|_| asking(&tidegate)).collect();
        followers.iter_mut().for_each(|follower| drop(expect_first_half(follower)));
        if reset {
            upstream.reset()
        } else {
            upstream.close()
        }
        for client in followers.iter_mut().chain([&mut leader]) {
            client.expect_end();
        }
        let mut client = asking(&tidegate);
        let mut upstream = origin.accept();
        upstream.request();
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood");
        client.response().expect(200).with_body("good");
    }
}

#[test]
fn followers_of_a_broken_chunked_fill_miss_the_last_chunk() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut leader = asking(&tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst \r\n",
    );
    let leading = leader.head();
    let mut follower = asking(&tidegate);
    let following = follower.head();
    upstream.close();
    assert_eq!(leader.broken_body(&leading), b"first ");
    assert_eq!(follower.broken_body(&following), b"first ");
}

#[test]
fn an_origin_that_goes_quiet_mid_body_is_given_up() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\norigin_body = \"300ms\"").start();
    let (mut leader, _upstream) = half_filled(&origin, &tidegate);
    let mut follower = asking(&tidegate);
    expect_first_half(&mut follower);
    leader.expect_end();
    follower.expect_end();
}
