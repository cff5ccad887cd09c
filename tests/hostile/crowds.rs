//! Many connections that do nothing, and many that take what they asked for slowly or not at all: what each costs.
//!
//! Smaller crowds than those of docs/overload.md, at the same cost each. `TIDEGATE_CROWD=full` is those: 15 000 idle
//! connections and 10 000 readers, for which both processes need that many descriptors.

use testkit::{
    Ask, Client, Origin, Pattern, Reply, Tidegate, descriptors, eventually, own_memory_kib,
    raise_descriptor_limit,
};

/// How many there are: the full number or, by default, a part of it.
fn crowd(full: usize, short: usize) -> usize {
    if std::env::var("TIDEGATE_CROWD").is_ok_and(|word| word == "full") { full } else { short }
}

/// Whether there are descriptors for so many connections; both ends are on this machine, in two processes.
fn has_room(test: &str, connections: usize) -> bool {
    let limit = raise_descriptor_limit();
    let has_room = limit >= connections as u64 + 1000;
    if !has_room {
        testkit::not_run(test, &format!("only {limit} descriptors"));
    }
    has_room
}

/// Bytes of the process for each of so many connections that came since `before_kib`.
fn bytes_each(tidegate: &Tidegate, before_kib: u64, connections: usize) -> u64 {
    let grown = own_memory_kib(tidegate.pid()).saturating_sub(before_kib);
    grown * 1024 / connections as u64
}

/// Pages that TCP has in all socket buffers of this machine.
fn kernel_pages() -> u64 {
    let sockstat = std::fs::read_to_string("/proc/net/sockstat").unwrap();
    let tcp = sockstat.lines().find(|line| line.starts_with("TCP:")).unwrap();
    tcp.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn idle_connections_cost_little_and_disturb_nobody() {
    let connections = crowd(15_000, 5_000);
    if !has_room("hostile::crowds::idle_connections_cost_little_and_disturb_nobody", connections) {
        return;
    }
    let origin = Origin::always(Reply::fresh("x"));
    // None of them is to be closed before the last has come.
    let toml = "[timeouts]\nkeep_alive = \"10min\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    // The first hundred grow the pools that all later ones share.
    let mut idle: Vec<Client> = (0..100).map(|_| used(&tidegate)).collect();
    let before = own_memory_kib(tidegate.pid());
    idle.extend((0..connections).map(|_| used(&tidegate)));
    assert!(descriptors(tidegate.pid()) >= connections);
    let each = bytes_each(&tidegate, before, connections);
    println!("{connections} idle connections: {each} bytes each, {} pages in the kernel", kernel_pages());
    assert!(each <= 4096, "{each} bytes for each idle connection");

    // All of them are alive, and newcomers are served.
    tidegate.get("/").expect(200).cache("hit");
    for client in idle.iter_mut().step_by(50) {
        client.get("/").expect(200).cache("hit");
    }
    drop(idle);
    eventually("descriptors are given back", || (descriptors(tidegate.pid()) < 300).then_some(()));
}

/// A connection that has served a request and rests.
fn used(tidegate: &Tidegate) -> Client {
    let mut client = tidegate.client();
    client.get("/").expect(200);
    client
}

const BODY_BYTES: u64 = 4 << 20;

#[test]
fn readers_that_take_nothing_cost_little_and_disturb_nobody() {
    let readers = crowd(10_000, 500);
    if !has_room("hostile::crowds::readers_that_take_nothing_cost_little_and_disturb_nobody", readers) {
        return;
    }
    let origin =
        Origin::always(Reply::generated(Pattern(1), BODY_BYTES).field("Cache-Control", "max-age=3600"));
    let toml = "[timeouts]\nclient_send = \"10min\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    tidegate.warm("/");
    let mut slow: Vec<Client> = (0..20).map(|_| reader(&tidegate)).collect();
    let before = own_memory_kib(tidegate.pid());
    let kernel_before = kernel_pages();
    slow.extend((0..readers).map(|_| reader(&tidegate)));
    let each = bytes_each(&tidegate, before, readers);
    let kernel = kernel_pages().saturating_sub(kernel_before) * 4096 / readers as u64;
    println!("{readers} readers that take nothing: {each} bytes each in the process, {kernel} in the kernel");
    assert!(each <= 24 * 1024, "{each} bytes for each reader");

    // Newcomers are served, and who begins to take gets all of it.
    Pattern(1).compare(&tidegate.get("/").expect(200).cache("hit").body, 0);
    for client in slow.iter_mut().step_by(readers / 10) {
        Pattern(1).compare(&client.exactly(BODY_BYTES as usize), 0);
    }
    drop(slow);
    eventually("descriptors are given back", || (descriptors(tidegate.pid()) < 300).then_some(()));
}

/// A client that has asked for a large body, and has read its head only.
fn reader(tidegate: &Tidegate) -> Client {
    let mut client = tidegate.client();
    client.small_receive_buffer();
    client.send(Ask::get("/").bytes());
    assert_eq!(client.head().status(), 200);
    client
}
