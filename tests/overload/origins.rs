//! Origins that are slow or dead cost what they may have, and no more.

use std::time::Duration;

use testkit::{Address, Ask, Client, Origin, Reply, Script, Tidegate, eventually};

/// Two sites; of each origin a worker may have four connections in use.
fn two_sites(dead: &impl Address, alive: &impl Address, wait: &str) -> Tidegate {
    let site = |host: &str, origin: &dyn Fn() -> String| {
        format!("[[site]]\nhosts = [\"{host}\"]\norigins = [\"{}\"]\n", origin())
    };
    let sites = site("dead.example", &|| dead.url("")) + &site("alive.example", &|| alive.url(""));
    let limits = format!("[limits]\norigin_connections = 4\n[timeouts]\norigin_wait = \"{wait}\"\n");
    Tidegate::reverse_sites(&(limits + &sites)).workers(1).start()
}

#[test]
fn a_dead_origin_takes_its_share_and_the_others_go_on() {
    let (dead, alive) = (Script::new(), Origin::always(Reply::ok("x")));
    let tidegate = two_sites(&dead, &alive, "60s");
    let ask = |n: usize| {
        let mut client = tidegate.client();
        client.send(Ask::get(&format!("/{n}")).host("dead.example").bytes());
        client
    };
    // Four are asked, four wait, and more would be too many.
    let mut waiting: Vec<Client> = (0..8).map(ask).collect();
    eventually("all of them are under way", || {
        (tidegate.metrics().sum("tidegate_requests_in_flight") == 8.0).then_some(())
    });
    for n in 8..12 {
        let response = ask(n).response().expect(503).cache("detail=origin-full");
        let told = response.field("proxy-status").unwrap_or_default();
        assert!(told.contains("error=connection_limit_reached"), "{told}");
        assert!(response.field("retry-after").is_some());
    }
    for _ in 0..20 {
        tidegate.ask(Ask::get("/").host("alive.example")).expect(200);
    }
    assert_eq!(crate::shed(&tidegate, "request"), 4.0);
    // It comes back to life: whoever has waited is served, in the order in which they came.
    let answer = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nhi";
    let mut upstreams: Vec<_> = (0..4).map(|_| dead.accept()).collect();
    let asked = || tidegate.metrics().sum("tidegate_origin_requests_total");
    let before = asked();
    for upstream in &mut upstreams {
        upstream.request();
        upstream.send(answer);
    }
    eventually("who waited has a connection", || (asked() == before + 4.0).then_some(()));
    for upstream in &mut upstreams {
        upstream.request();
        upstream.send(answer);
    }
    for client in &mut waiting {
        client.response().expect(200).with_body("hi");
    }
    dead.expect_untouched();
}

#[test]
fn many_dead_origins_leave_descriptors_for_everybody_else() {
    const DEAD: usize = 10;
    let (dead, alive) = ([(); DEAD].map(|()| Script::new()), Origin::always(Reply::fresh("x")));
    let site = |host: &str, url: &str| format!("[[site]]\nhosts = [\"{host}\"]\norigins = [\"{url}\"]\n");
    let mut sites = site("alive.example", &alive.url(""));
    for (n, dead) in dead.iter().enumerate() {
        sites += &site(&format!("dead{n}.example"), &dead.url(""));
    }
    let limited = ["prlimit", "--nofile=900:900"];
    let tidegate = Tidegate::reverse_sites(&sites).workers(1).under(&limited).start();
    tidegate.ask(Ask::get("/").host("alive.example")).expect(200);
    // A third of the descriptors is 300, of which these want all and more.
    let ask = |n: usize| {
        let mut client = tidegate.client();
        client.send(Ask::get(&format!("/{n}")).host(&format!("dead{}.example", n % DEAD)).bytes());
        client
    };
    let held: Vec<Client> = (0..360).map(ask).collect();
    eventually("those beyond are refused", || (crate::shed(&tidegate, "request") >= 60.0).then_some(()));
    assert!(tidegate.metrics().sum("tidegate_requests_in_flight") <= 300.0);
    for _ in 0..5 {
        tidegate.ask(Ask::get("/").host("alive.example")).expect(200).cache("hit");
    }
    drop(held);
}

#[test]
fn nobody_waits_for_a_connection_for_ever() {
    let (dead, alive) = (Script::new(), Origin::always(Reply::ok("x")));
    let tidegate = two_sites(&dead, &alive, "300ms");
    let ask = |n: usize| {
        let mut client = tidegate.client();
        client.send(Ask::get(&format!("/{n}")).host("dead.example").bytes());
        client
    };
    let held: Vec<Client> = (0..4).map(ask).collect();
    let _upstreams: Vec<_> = (0..4).map(|_| dead.accept()).collect();
    ask(4).response().expect(503).cache("detail=origin-busy");
    drop(held);
}

#[test]
fn what_may_be_stale_hides_an_origin_that_has_too_much_to_do() {
    let origin = Script::new();
    let toml = "[limits]\norigin_connections = 1\n[timeouts]\norigin_wait = \"200ms\"\n";
    let tidegate = Tidegate::reverse(&origin).toml(toml).workers(1).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/stale").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=10, stale-if-error=60\r\nAge: 20\r\nETag: \"a\"\r\n\
         Content-Length: 3\r\n\r\nold",
    );
    client.response().expect(200);
    let mut other = tidegate.client();
    other.send(Ask::get("/slow").bytes());
    upstream.request();
    client.get("/stale").expect(200).with_body("old");
    other.expect_silence(Duration::from_millis(1));
}
