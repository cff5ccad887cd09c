//! SIGTERM drains: what is under way is finished, nothing new begins, the exit code is 0.

use rustix::process::Signal;
use testkit::{Address, Ask, Client, Origin, Reply, Script, Tidegate, eventually};

/// A transfer that has begun and that the origin holds back.
fn transfer(origin: &Script, tidegate: &Tidegate) -> (Client, testkit::Upstream, testkit::Head) {
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nfirst");
    let head = client.head();
    (client, upstream, head)
}

fn wait_closed(tidegate: &Tidegate) {
    eventually("new connections are refused", || {
        Client::try_connect(tidegate.address()).is_err().then_some(())
    });
}

#[test]
fn a_transfer_is_finished_before_the_end() {
    let origin = Script::new();
    let mut tidegate = Tidegate::reverse(&origin).start();
    let (mut client, mut upstream, head) = transfer(&origin, &tidegate);
    tidegate.signal(Signal::TERM);
    wait_closed(&tidegate);
    upstream.send("later");
    assert_eq!(client.body(&head), b"firstlater");
    client.expect_end();
    assert_eq!(tidegate.wait().code(), Some(0), "{}", tidegate.stderr());
}

#[test]
fn idle_connections_do_not_hold_it_up() {
    let origin = Origin::always(Reply::ok("x"));
    let mut tidegate = Tidegate::reverse(&origin).toml("[timeouts]\ndrain = \"1h\"").start();
    let mut idle: Vec<Client> = (0..10).map(|_| tidegate.client()).collect();
    idle.iter_mut().for_each(|client| drop(client.get("/").expect(200)));
    tidegate.stop();
    idle.iter_mut().for_each(|client| client.expect_end());
}

#[test]
fn draining_has_an_end() {
    let origin = Script::new();
    let mut tidegate = Tidegate::reverse(&origin).toml("[timeouts]\ndrain = \"500ms\"").start();
    let (mut client, _upstream, head) = transfer(&origin, &tidegate);
    tidegate.stop();
    client.broken_body(&head);
}

#[test]
fn interrupt_from_the_terminal_ends_it_too() {
    let mut tidegate = Tidegate::forward().start();
    tidegate.signal(Signal::INT);
    assert_eq!(tidegate.wait().code(), Some(0), "{}", tidegate.stderr());
}

#[test]
fn a_hangup_does_not_end_it() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.get("/").expect(200);
    tidegate.signal(Signal::HUP);
    client.get("/").expect(200).cache("hit");
    tidegate.get("/").expect(200).cache("hit");
}

#[test]
fn a_hangup_brings_the_new_settings() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::forward().toml("[forward]\nallow = [\"127.0.0.0/8\"]").start();
    let url = origin.url("/");
    tidegate.get(&url).expect(200);
    std::fs::write(tidegate.configuration_path(), "[forward]\nallow = [\"10.0.0.0/8\"]\n").unwrap();
    tidegate.signal(Signal::HUP);
    eventually("the new rule holds", || (tidegate.get(&url).status() == 403).then_some(()));
}

#[test]
fn a_hangup_reaches_open_connections_and_names_what_must_wait() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::forward().toml("[limits]\nbacklog = 100").start();
    let url = origin.url(&format!("/{}", "long".repeat(100)));
    let mut open = tidegate.client();
    open.get(&url).expect(200);
    let limits = "[limits]\nbacklog = 200\ntarget_bytes = 256\n";
    std::fs::write(tidegate.configuration_path(), limits).unwrap();
    tidegate.signal(Signal::HUP);
    eventually("the new limit holds", || (tidegate.get(&url).status() == 414).then_some(()));
    open.get(&url).expect(414);
    assert!(tidegate.stderr().contains("limits.backlog"), "{}", tidegate.stderr());
}

#[test]
fn a_hangup_with_a_broken_file_changes_nothing() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::forward().toml("[forward]\nallow = [\"127.0.0.0/8\"]").start();
    std::fs::write(tidegate.configuration_path(), "[forward]\nalow = []\n").unwrap();
    tidegate.signal(Signal::HUP);
    eventually("the mistake is named", || tidegate.stderr().contains("alow").then_some(()));
    tidegate.get(&origin.url("/")).expect(200);
}

#[test]
fn what_was_stored_just_before_the_end_is_there_afterwards() {
    let origin = Origin::answering(|request| Reply::fresh(request.head.target()));
    let mut tidegate = Tidegate::reverse(&origin).start();
    for number in 0..50 {
        tidegate.get(&format!("/{number}")).expect(200);
    }
    tidegate.stop();
    tidegate.restart();
    for number in 0..50 {
        tidegate.get(&format!("/{number}")).expect(200).cache("hit");
    }
    assert_eq!(origin.count(), 50);
}
