//! Clients that send too much of something, or nothing at all, in great numbers.

use testkit::{
    Ask, Client, Origin, Reply, Script, Tidegate, descriptors, eventually, not_run, own_memory_kib,
};

#[test]
fn connections_that_send_nothing_give_way_when_descriptors_are_short() {
    let test = "hostile::floods::connections_that_send_nothing_give_way_when_descriptors_are_short";
    if !testkit::have("prlimit") {
        return not_run(test, "needs prlimit");
    }
    const LIMIT: usize = 400;
    let origin = Origin::always(Reply::fresh("x"));
    // Long enough that no limit of its own ends an idle connection here.
    let toml = "[timeouts]\nkeep_alive = \"1h\"\nclient_head = \"1h\"";
    let limit = format!("--nofile={LIMIT}:{LIMIT}");
    let tidegate = Tidegate::reverse(&origin).toml(toml).under(&["prlimit", &limit]).start();
    let silent: Vec<Client> = (0..LIMIT + 100).map(|_| tidegate.client()).collect();
    // Only who comes while descriptors are short shows that they are.
    eventually("room was made", || {
        tidegate.get("/").expect(200);
        (descriptors(tidegate.pid()) < LIMIT - LIMIT / 16).then_some(())
    });
    drop(silent);
}

#[test]
fn a_new_connection_has_as_long_for_its_first_byte_as_for_a_head() {
    let origin = Script::new();
    let toml = "[timeouts]\nkeep_alive = \"1h\"\nclient_head = \"200ms\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    tidegate.client().expect_end();
}

const KIB: u64 = 1024;

/// A request that is not yet complete, of so many bytes.
fn unfinished(bytes: usize) -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a.example\r\n".to_vec();
    while head.len() < bytes {
        head.extend_from_slice(format!("X-{}: {}\r\n", head.len(), "y".repeat(900)).as_bytes());
    }
    head
}

#[test]
fn long_heads_share_a_bounded_memory_and_short_ones_go_on() {
    let origin = Origin::always(Reply::fresh("x"));
    let toml = "[limits]\nhead_memory = \"1MiB\"";
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(toml).start();
    tidegate.get("/").expect(200);
    let before = own_memory_kib(tidegate.pid());
    let mut flood: Vec<Client> = (0..100).map(|_| tidegate.client()).collect();
    for client in &mut flood {
        client.send(unfinished(40_000));
    }
    // Fifteen windows of 68 KiB are all that a mebibyte has room for.
    eventually("the others are refused", || (tidegate.metrics().requests("error") >= 85.0).then_some(()));
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before);
    assert!(grown < 4 * KIB, "grew by {grown} KiB");
    tidegate.get("/").expect(200).cache("hit");
    let answers: Vec<u16> =
        flood.iter_mut().filter_map(|client| client.try_head().ok()).map(|head| head.status()).collect();
    let [refused, too_slow] = [503, 408].map(|status| answers.iter().filter(|is| **is == status).count());
    assert!(refused >= 85 && refused + too_slow == answers.len(), "{answers:?}");
    drop(flood);
    let long = || {
        let mut client = tidegate.client();
        client.send([unfinished(40_000), b"\r\n".to_vec()].concat());
        client.head().status()
    };
    eventually("the memory is there again", || (long() == 200).then_some(()));
}

#[test]
fn heads_without_end_are_cut_off_at_their_limits() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let endless = [unfinished(70_000), vec![b'z'; 1 << 20]].concat();
    let many_fields = [b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec(), b"a: b\r\n".repeat(10_000)].concat();
    let long_target = [b"GET /".to_vec(), vec![b'x'; 1 << 20]].concat();
    for (flood, status) in [(endless, 431), (many_fields, 431), (long_target, 414)] {
        let mut client = tidegate.client();
        let _ = client.try_send(flood);
        // Whatever is sent behind the refusal is thrown away for a moment, so the answer is not lost.
        assert_eq!(client.head().status(), status);
    }
    origin.expect_untouched();
}

#[test]
fn a_pipelined_flood_is_answered_in_order_and_others_get_their_turn() {
    const REQUESTS: usize = 20_000;
    let origin = Origin::always(Reply::fresh("x".repeat(100)));
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    tidegate.get("/").expect(200);
    let mut flooder = tidegate.client();
    let mut sender = flooder.second_hand();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(Ask::get("/").bytes().repeat(REQUESTS)));
        scope.spawn(move || {
            for _ in 0..REQUESTS {
                flooder.response().expect(200).cache("hit");
            }
        });
        let mut bystander = tidegate.client();
        for _ in 0..50 {
            bystander.get("/").expect(200).cache("hit");
        }
    });
}

#[test]
fn what_nobody_reads_leaves_the_kernel_too() {
    let origin = Origin::always(Reply::fresh("x".repeat(200_000)));
    let toml = "[timeouts]\nkeep_alive = \"300ms\"\nclient_send = \"1s\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    tidegate.warm("/");
    let mut sleeper = tidegate.client();
    sleeper.small_receive_buffer();
    sleeper.send(Ask::get("/").bytes());
    assert_eq!(sleeper.head().status(), 200);
    // The kernel had room for all of the body, so the proxy has closed; the connection is the kernel's alone.
    let ends = (tidegate.address().port(), sleeper.local_address().port());
    eventually("the kernel has given it up", || (!has_connection(ends)).then_some(()));
}

/// Whether the kernel of this machine has a connection from one local port to another.
fn has_connection((from, to): (u16, u16)) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = format!(":{from:04X} 0100007F:{to:04X} ");
    table.contains(&ends)
}

#[test]
fn buffers_are_nearly_always_at_hand() {
    let origin = Origin::always(Reply::fresh("x".repeat(3000)));
    let tidegate = Tidegate::reverse(&origin).start();
    for round in 0..40 {
        let mut clients: Vec<Client> = (0..12).map(|_| tidegate.client()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.get("/hot").expect(200);
            client.get(&format!("/{round}/{at}")).expect(200);
            client.ask(Ask::post("/", &vec![7; 1000 * at])).expect(200);
            client.send(Ask::get("/hot").bytes().repeat(5));
            (0..5).for_each(|_| drop(client.response().expect(200)));
        }
    }
    // Workers hand their counts over at each tick.
    let (hits, misses) = eventually("they are counted", || {
        let metrics = tidegate.metrics();
        let of = |name: &str| metrics.sum(&format!("tidegate_buffer_pool_{name}_total"));
        Some((of("hits"), of("misses"))).filter(|(hits, misses)| hits + misses > 1000.0)
    });
    println!("{hits} buffers were at hand, {misses} were not");
    assert!(hits / (hits + misses) >= 0.92, "{hits} of {}", hits + misses);
}

#[test]
fn memory_comes_back_after_a_burst() {
    const CLIENTS: usize = 700;
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let before = own_memory_kib(tidegate.pid());
    let mut burst: Vec<Client> = (0..CLIENTS).map(|_| tidegate.client()).collect();
    burst.iter_mut().for_each(|client| client.send(unfinished(30_000)));
    let grown = || own_memory_kib(tidegate.pid()).saturating_sub(before);
    let all = CLIENTS as u64 * 30;
    eventually("the heads are in memory", || (grown() > all).then_some(()));
    drop(burst);
    eventually("most of it has gone back", || (grown() < all / 3).then_some(()));
    tidegate.get("/").expect(200).cache("hit");
}
