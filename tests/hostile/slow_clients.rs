//! Clients that do not finish what they say, or do not take what they asked for.

use std::time::Duration;

use testkit::{Ask, Origin, Pattern, Reply, Script, Tidegate, own_memory_kib};

const MIB: usize = 1 << 20;

#[test]
fn a_head_that_does_not_end_is_answered_408() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\nclient_head = \"300ms\"").start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHost: a.exam");
    client.response().expect(408);
    client.expect_end();
    origin.expect_untouched();
}

#[test]
fn a_trickle_does_not_buy_time() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\nclient_head = \"300ms\"").start();
    let mut client = tidegate.client();
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\nX: ");
    let mut drop_by_drop = client.second_hand();
    // One byte every 20 ms, as long as they are taken: for longer than the test waits. The pace is the attack.
    let trickle = std::thread::spawn(move || {
        while drop_by_drop.try_send("x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    client.response().expect(408);
    client.close();
    trickle.join().unwrap();
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\nkeep_alive = \"200ms\"").start();
    let mut client = tidegate.client();
    client.get("/").expect(200);
    client.expect_end();
}

#[test]
fn a_connection_that_never_speaks_is_closed() {
    let origin = Script::new();
    let toml = "[timeouts]\nkeep_alive = \"200ms\"\nclient_head = \"200ms\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    let (answer, _) = tidegate.client().rest();
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
}

#[test]
fn a_body_that_does_not_end_is_given_up() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\nclient_body = \"300ms\"").start();
    let mut client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\nsome");
    let mut upstream = origin.accept();
    upstream.head();
    assert_eq!(upstream.exactly(4), b"some");
    upstream.expect_end();
    let (answer, _) = client.rest();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn a_client_that_stops_reading_a_hit_is_cut_and_others_go_on() {
    let origin = Origin::always(Reply::generated(Pattern(1), 24 << 20).field("Cache-Control", "max-age=60"));
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\nclient_send = \"500ms\"").start();
    tidegate.warm("/");
    let mut sleeper = tidegate.client();
    sleeper.small_receive_buffer();
    sleeper.send(Ask::get("/").bytes());
    assert_eq!(sleeper.head().status(), 200);
    let response = tidegate.get("/").expect(200).cache("hit");
    Pattern(1).compare(&response.body, 0);
    tidegate.metrics_at_rest();
    let (rest, _) = sleeper.rest();
    assert!(rest.len() < 24 << 20);
}

#[test]
fn a_client_that_stops_reading_holds_the_origin_back_not_memory() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut sleeper = tidegate.client();
    sleeper.small_receive_buffer();
    sleeper.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    let before = own_memory_kib(tidegate.pid());
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 268435456\r\n\r\n");
    let sent = upstream.send_until_blocked(&vec![7; 256 * MIB], Duration::from_millis(500));
    assert!(sent < 64 * MIB, "{sent} bytes were taken for a client that reads none");
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before);
    assert!(grown < 8 * 1024, "grew by {grown} KiB");
}

#[test]
fn requests_without_reading_answers_are_held_back() {
    let origin = Origin::always(Reply::fresh("x".repeat(1000)));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let before = own_memory_kib(tidegate.pid());
    let mut client = tidegate.client();
    client.small_receive_buffer();
    let requests = Ask::get("/").bytes().repeat(400_000);
    let sent = client.send_until_blocked(&requests, Duration::from_millis(500));
    assert!(sent < requests.len(), "all {sent} bytes of requests were taken");
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before);
    assert!(grown < 8 * 1024, "grew by {grown} KiB");
    tidegate.get("/").expect(200);
}

#[test]
fn a_client_that_half_closes_still_gets_its_answer() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    client.half_close();
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    client.response().expect(200).with_body("hi");
    client.expect_end();
}

#[test]
fn an_uncacheable_transfer_ends_when_its_client_leaves() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 100000000\r\n\r\nbeginning");
    client.head();
    client.reset();
    // The proxy has nobody to send to: it must stop taking, not take all of it.
    let sent = upstream.send_until_blocked(&vec![7; 100_000_000], Duration::from_millis(2000));
    assert!(sent < 64 * MIB, "{sent} bytes were taken for nobody");
}

#[test]
fn a_body_that_trickles_is_given_up() {
    let origin = Script::new();
    let toml = "[timeouts]\nclient_body = \"500ms\"\n[limits]\nclient_rate = \"64KiB\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    let mut client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n");
    let mut upstream = origin.accept();
    upstream.head();
    let mut drop_by_drop = client.second_hand();
    // Never idle for long, and far below the rate. The pace is the attack.
    let trickle = std::thread::spawn(move || {
        while drop_by_drop.try_send("x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let (body, _) = upstream.rest();
    assert!(body.len() < 10_000, "{} bytes were waited for", body.len());
    let (answer, _) = client.rest();
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{:?}", String::from_utf8_lossy(&answer));
    client.close();
    trickle.join().unwrap();
}

/// Takes a body in portions with a rest between them; says how much of it came.
fn sip(client: &mut testkit::Client, portion: usize, rest: Duration) -> usize {
    let mut got = 0;
    while let Ok(bytes) = client.try_some(portion) {
        if bytes.is_empty() {
            break;
        }
        got += bytes.len();
        std::thread::sleep(rest);
    }
    got
}

#[test]
fn a_client_that_sips_is_cut_and_one_that_is_only_slow_is_not() {
    const SIZE: u64 = 24 << 20;
    let origin = Origin::always(Reply::generated(Pattern(1), SIZE).field("Cache-Control", "max-age=60"));
    let toml = "[timeouts]\nclient_send = \"500ms\"\n[limits]\nclient_rate = \"4MiB\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    tidegate.warm("/");
    let mut sipper = tidegate.client();
    sipper.small_receive_buffer();
    sipper.send(Ask::get("/").bytes());
    assert_eq!(sipper.head().status(), 200);
    let got = sip(&mut sipper, 4096, Duration::from_millis(30));
    assert!((got as u64) < SIZE, "all of it came");
    // Never as much as the idle limit without taking something, and well above the rate: it takes longer than that limit
    // in all, and gets everything.
    let mut slow = tidegate.client();
    slow.send(Ask::get("/").bytes());
    let head = slow.head();
    assert_eq!(head.field("content-length").as_deref(), Some("25165824"));
    let mut got = 0;
    while got < SIZE as usize {
        got += slow.exactly((2 << 20).min(SIZE as usize - got)).len();
        std::thread::sleep(Duration::from_millis(60));
    }
}

#[test]
fn tiny_windows_cost_their_owner_time_and_nobody_else() {
    let origin = Origin::always(Reply::generated(Pattern(3), 2_000_000).field("Cache-Control", "max-age=60"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.warm("/");
    let before = own_memory_kib(tidegate.pid());
    let mut tiny: Vec<_> = (0..100).map(|_| tidegate.client()).collect();
    for client in &mut tiny {
        client.small_receive_buffer();
        client.send(Ask::get("/").bytes());
        assert_eq!(client.head().status(), 200);
    }
    Pattern(3).compare(&tidegate.get("/").expect(200).cache("hit").body, 0);
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before);
    assert!(grown < 100 * 32, "grew by {grown} KiB for a hundred clients");
    // However small the portions, what comes is right.
    let mut last = tiny.pop().unwrap();
    let body = last.exactly(2_000_000);
    Pattern(3).compare(&body, 0);
}
