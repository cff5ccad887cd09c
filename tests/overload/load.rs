//! Overload by load: more requests on kept connections than one worker can serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::{Ask, Client, Origin, Reply, Tidegate, eventually};

/// Kept connections that ask for what is not stored, each as soon as it has its answer.
const CONNECTIONS: usize = 64;

#[test]
fn misses_beyond_what_can_be_done_are_refused_and_hits_are_not() {
    let origin = Origin::answering(|request| match request.head.target() {
        "/hit" => Reply::fresh("hit"),
        _ => Reply::ok("miss").field("Cache-Control", "no-store"),
    });
    // With a target of a millisecond 64 clients are too many for any machine.
    let toml = "[overload]\nmemory = 1.0\nloop_delay = \"1ms\"\n";
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(toml).start();
    let mut client = tidegate.client();
    client.get("/hit").expect(200);
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    let load: Vec<_> = (0..4)
        .map(|thread| {
            let (stop, served) = (Arc::clone(&stop), Arc::clone(&served));
            let clients = (0..CONNECTIONS / 4).map(|_| tidegate.client()).collect();
            thread::spawn(move || misses(thread, clients, &stop, &served))
        })
        .collect();
    eventually("misses are refused", || {
        client.get("/hit").expect(200).cache("hit");
        (crate::shed(&tidegate, "request") > 100.0).then_some(())
    });
    assert!(served.load(Relaxed) > 0, "no miss was served");
    for _ in 0..200 {
        client.get("/hit").expect(200).cache("hit");
    }
    stop.store(true, Relaxed);
    for thread in load {
        thread.join().unwrap();
    }
    eventually("it is over", || (tidegate.metrics().sum("tidegate_overloaded") == 0.0).then_some(()));
    client.get("/miss").expect(200);
}

/// Asks on all connections, then reads all answers, again and again.
fn misses(thread: usize, mut clients: Vec<Client>, stop: &AtomicBool, served: &AtomicU64) {
    let mut n = 0;
    while !stop.load(Relaxed) {
        for client in &mut clients {
            n += 1;
            client.send(Ask::get(&format!("/{thread}/{n}")).bytes());
        }
        for client in &mut clients {
            let response = client.response().expect_one_of(&[200, 503]);
            served.fetch_add(u64::from(response.status() == 200), Relaxed);
        }
    }
}
