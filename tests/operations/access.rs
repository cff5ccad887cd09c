//! Who may use the forward proxy.

use testkit::{Address, Ask, Origin, Reply, Script, Tidegate};

#[test]
fn clients_outside_the_allowed_networks_are_refused() {
    let origin = Script::new();
    let tidegate = Tidegate::forward().toml("[forward]\nallow = [\"10.0.0.0/8\"]").start();
    tidegate.get(&origin.url("/")).expect(403);
    let authority = origin.authority();
    let mut client = tidegate.client();
    client.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    client.response().expect(403);
    origin.expect_untouched();
}

#[test]
fn one_allowed_network_is_enough() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::forward().toml("[forward]\nallow = [\"10.0.0.0/8\", \"127.0.0.1\"]").start();
    tidegate.get(&origin.url("/")).expect(200);
}

#[test]
fn the_rule_does_not_bind_a_reverse_proxy() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).toml("[forward]\nallow = [\"10.0.0.0/8\"]").start();
    tidegate.get("/").expect(200);
}

#[test]
fn a_refused_client_gets_no_hit_either() {
    let origin = Origin::always(Reply::fresh("x"));
    let mut tidegate = Tidegate::forward().start();
    tidegate.get(&origin.url("/")).expect(200);
    let store = tidegate.store_path().display().to_string();
    tidegate.stop();
    let strict = Tidegate::forward().store_at(&store).toml("[forward]\nallow = [\"10.0.0.0/8\"]").start();
    strict.ask(Ask::get(&origin.url("/"))).expect(403);
}
