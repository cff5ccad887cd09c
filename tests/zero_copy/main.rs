//! Where body bytes go, proven twice: by what the process asks of the kernel, and by its own ledger.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod reads;

use testkit::{Address, Ask, Origin, Pattern, Reply, Script, Strace, Syscall, Tidegate, have, not_run};

const MIB: u64 = 1 << 20;

/// A head, a request, timers, wake-ups: what is not a body is far below this.
const SMALL: u64 = 16 * 1024;

/// The trace of what happens in `conversation`, or the reason why there is none.
fn traced(tidegate: &Tidegate, conversation: impl FnOnce()) -> Result<Vec<Syscall>, String> {
    traced_for(Strace::TRANSFERS, tidegate, conversation)
}

/// The same for these calls.
fn traced_for(calls: &str, tidegate: &Tidegate, conversation: impl FnOnce()) -> Result<Vec<Syscall>, String> {
    if !have("strace") {
        return Err("strace is missing".into());
    }
    let strace = Strace::attach(tidegate.pid(), calls)?;
    conversation();
    // The last bytes may arrive before the call that sent them has returned; after this it has.
    tidegate.admin(Ask::get("/healthz")).expect(200);
    Ok(strace.stop())
}

fn moved<'a>(calls: impl Iterator<Item = &'a Syscall>) -> u64 {
    calls.map(Syscall::moved).sum()
}

fn user_bytes(calls: &[Syscall]) -> u64 {
    moved(calls.iter().filter(|call| call.reads() || call.writes()))
}

/// A cache that has one object of 1 MiB on its device and nothing of it in its own memory.
fn holding_one_mib() -> (Origin, Tidegate) {
    let origin = Origin::always(Reply::generated(Pattern(1), MIB).field("Cache-Control", "max-age=3600"));
    let mut tidegate = Tidegate::reverse(&origin).start();
    tidegate.warm("/");
    tidegate.stop();
    tidegate.restart();
    // The first hit verifies the checksum and warms the pages.
    tidegate.get("/").expect(200).cache("hit");
    (origin, tidegate)
}

#[test]
fn a_hit_of_one_mib_never_enters_user_memory() {
    let (_origin, tidegate) = holding_one_mib();
    let mut client = tidegate.client();
    client.get("/").expect(200).cache("hit");
    let calls = traced(&tidegate, || {
        let response = client.get("/").expect(200).cache("hit");
        Pattern(1).compare(&response.body, 0);
    });
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::a_hit_of_one_mib_never_enters_user_memory", &why),
    };
    let lent = moved(calls.iter().filter(|call| call.name == "sendfile"));
    assert_eq!(lent, MIB, "{calls:#?}");
    assert!(user_bytes(&calls) < SMALL, "{calls:#?}");
}

#[test]
fn the_ledger_knows_a_hit_of_one_mib() {
    let (_origin, tidegate) = holding_one_mib();
    let before = tidegate.metrics_at_rest();
    tidegate.get("/").expect(200).cache("hit");
    let spent = tidegate.metrics_at_rest().since(&before);
    assert_eq!((spent.route("sendfile"), spent.route("copy")), (MIB as f64, 0.0));
    assert_eq!(spent.get("tidegate_user_copied_body_bytes_total"), 0.0);
}

/// An uncacheable response of 1 MiB, whose body comes after its head has arrived.
fn pass_one_mib(origin: &Script, tidegate: &Tidegate) {
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(format!("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: {MIB}\r\n\r\n"));
    assert_eq!(client.head().status(), 200);
    upstream.send(Pattern(2).bytes(0, MIB as usize));
    Pattern(2).expect(&mut client, 0, MIB);
}

#[test]
fn an_uncacheable_miss_of_one_mib_never_enters_user_memory() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let calls = match traced(&tidegate, || pass_one_mib(&origin, &tidegate)) {
        Ok(calls) => calls,
        Err(why) => {
            return not_run("zero_copy::an_uncacheable_miss_of_one_mib_never_enters_user_memory", &why);
        }
    };
    let spliced_in =
        moved(calls.iter().filter(|c| c.name == "splice" && c.receives_from(&origin.authority())));
    assert_eq!(spliced_in, MIB, "{calls:#?}");
    assert!(user_bytes(&calls) < SMALL, "{calls:#?}");
}

#[test]
fn the_ledger_knows_an_uncacheable_miss_of_one_mib() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let before = tidegate.metrics_at_rest();
    pass_one_mib(&origin, &tidegate);
    let spent = tidegate.metrics_at_rest().since(&before);
    assert_eq!((spent.route("splice"), spent.route("copy")), (MIB as f64, 0.0));
    assert_eq!(spent.get("tidegate_user_copied_body_bytes_total"), 0.0);
}

/// The same with a body that arrives together with the head: what came with it is copied, and only that.
#[test]
fn what_arrives_with_the_head_is_the_only_copy() {
    let origin = Origin::always(Reply::generated(Pattern(3), MIB).field("Cache-Control", "no-store"));
    let tidegate = Tidegate::reverse(&origin).start();
    let before = tidegate.metrics_at_rest();
    let response = tidegate.get("/").expect(200);
    Pattern(3).compare(&response.body, 0);
    let spent = tidegate.metrics_at_rest().since(&before);
    let copied = spent.get("tidegate_user_copied_body_bytes_total");
    assert!(copied <= 64.0 * 1024.0, "{copied} bytes were copied");
    assert_eq!(
        ["memory", "sendfile", "splice", "copy"].map(|route| spent.route(route)).iter().sum::<f64>(),
        MIB as f64
    );
}

#[test]
fn a_cacheable_miss_of_one_mib_is_received_once() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let head = format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: {MIB}\r\n\r\n");
    let calls = traced(&tidegate, || {
        let mut client = tidegate.client();
        client.send(Ask::get("/").bytes());
        let mut upstream = origin.accept();
        upstream.request();
        upstream.send(&head);
        upstream.send(Pattern(4).bytes(0, MIB as usize));
        let response = client.response().expect(200);
        Pattern(4).compare(&response.body, 0);
        tidegate.warm("/");
    });
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::a_cacheable_miss_of_one_mib_is_received_once", &why),
    };
    let received = moved(calls.iter().filter(|call| call.receives_from(&origin.authority())));
    assert_eq!(received, MIB + head.len() as u64, "{calls:#?}");
    assert!(
        calls.iter().all(|call| call.name != "tee" && call.name != "sendfile" || call.moved() <= MIB),
        "{calls:#?}"
    );
}

#[test]
fn small_objects_come_from_memory() {
    let origin = Origin::always(Reply::fresh("x".repeat(4000)));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let before = tidegate.metrics_at_rest();
    tidegate.get("/").expect(200).cache("hit");
    let spent = tidegate.metrics_at_rest().since(&before);
    assert_eq!(spent.route("memory"), 4000.0);
}

#[test]
fn a_small_hit_is_one_receive_and_one_send() {
    let origin = Origin::always(Reply::fresh("x".repeat(4000)));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.get("/").expect(200);
    client.get("/").expect(200).cache("hit");
    let me = client.local_address().to_string();
    let calls = match traced(&tidegate, || drop(client.get("/").expect(200).cache("hit"))) {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::a_small_hit_is_one_receive_and_one_send", &why),
    };
    let mine: Vec<_> = calls.iter().filter(|call| call.arguments.contains(&me) && call.result > 0).collect();
    let sends = mine.iter().filter(|call| call.writes()).count();
    assert_eq!((sends, mine.len() - sends), (1, 1), "{mine:#?} of {calls:#?}");
}

#[test]
fn only_who_must_send_more_is_acknowledged_at_once() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.warm("/");
    let mut peers = Vec::new();
    let mut answered = |parts: &[&str]| {
        let mut client = tidegate.client();
        for part in parts {
            client.send(part);
            // Nobody answers half a request: this only has the halves come one by one.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        client.response().expect(200);
        peers.push(client.local_address().to_string());
    };
    let calls = traced_for("setsockopt", &tidegate, || {
        answered(&["GET / HTTP/1.1\r\nHost: a\r\n\r\n"]);
        answered(&["GET / HTTP/1.1\r\n", "Host: a\r\n\r\n"]);
        answered(&["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n", "body"]);
    });
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::only_who_must_send_more_is_acknowledged_at_once", &why),
    };
    let hurried = |peer: &String| {
        calls.iter().any(|call| call.arguments.contains("TCP_QUICKACK, [1]") && call.arguments.contains(peer))
    };
    assert_eq!(peers.iter().map(hurried).collect::<Vec<_>>(), [false, true, true], "{calls:#?}");
}

#[test]
fn a_tunnel_is_spliced() {
    let origin = Script::new();
    let toml = format!("[forward]\nconnect_ports = [{}]", origin.address().port());
    let tidegate = Tidegate::forward().toml(&toml).start();
    let mut client = tidegate.client();
    let authority = origin.authority();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    assert_eq!(client.head().status(), 200);
    let mut upstream = origin.accept();
    let calls = traced(&tidegate, || {
        upstream.send(Pattern(5).bytes(0, MIB as usize));
        Pattern(5).expect(&mut client, 0, MIB);
    });
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::a_tunnel_is_spliced", &why),
    };
    assert_eq!(
        moved(calls.iter().filter(|c| c.name == "splice" && c.receives_from(&authority))),
        MIB,
        "{calls:#?}"
    );
    assert!(user_bytes(&calls) < SMALL, "{calls:#?}");
}

#[test]
fn a_chunked_miss_is_framed_in_user_memory_and_moved_outside() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let before = tidegate.metrics_at_rest();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream
        .send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n");
    let head = client.head();
    upstream.send(Pattern(6).bytes(0, MIB as usize));
    upstream.send("\r\n0\r\n\r\n");
    Pattern(6).compare(&client.body(&head), 0);
    client.close();
    let spent = tidegate.metrics_at_rest().since(&before);
    assert!(spent.get("tidegate_user_copied_body_bytes_total") <= 64.0 * 1024.0, "{spent:?}");
}
