//! What cannot be shared releases those who waited for it, at once and each for itself.

use testkit::{Ask, Client, Script, Tidegate, Upstream};

/// Several requests for the same object, of which one was sent on; no head has come yet.
fn waiting(origin: &Script, tidegate: &Tidegate, count: usize) -> (Vec<Client>, Upstream) {
    let clients = (0..count).map(|_| crate::asking(tidegate)).collect();
    let mut upstream = origin.accept();
    upstream.request();
    assert!(
        origin.accept_within(std::time::Duration::from_millis(100)).is_none(),
        "a second request went out"
    );
    (clients, upstream)
}

#[test]
fn an_uncacheable_response_releases_the_waiters_before_it_ends() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut clients, mut first) = waiting(&origin, &tidegate, 4);
    first.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 10\r\n\r\n0....");
    // The first response is not over, and already the others are asked for.
    let mut others: Vec<Upstream> = (0..3).map(|_| origin.accept()).collect();
    for (number, upstream) in others.iter_mut().enumerate() {
        upstream.request();
        upstream.send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 1\r\n\r\n{}",
            number + 1
        ));
    }
    first.send(".....");
    let mut bodies: Vec<String> =
        clients.iter_mut().map(|client| client.response().expect(200).text()).collect();
    bodies.sort();
    assert_eq!(bodies, ["0.........", "1", "2", "3"]);
}

#[test]
fn another_variant_is_not_taken_for_ones_own() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut german, mut english) = (tidegate.client(), tidegate.client());
    german.send(Ask::get("/").field("Accept-Language", "de").bytes());
    let mut first = origin.accept();
    first.request();
    english.send(Ask::get("/").field("Accept-Language", "en").bytes());
    let vary = "Connection: close\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: 2\r\n\r\n";
    first.send(format!("HTTP/1.1 200 OK\r\n{vary}de"));
    german.response().expect(200).with_body("de");
    let mut second = origin.accept();
    assert_eq!(second.request().head.field("accept-language").as_deref(), Some("en"));
    second.send(format!("HTTP/1.1 200 OK\r\n{vary}en"));
    english.response().expect(200).with_body("en");
}

#[test]
fn an_origin_that_fails_before_the_head_leaves_nobody_hanging() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut clients, upstream) = waiting(&origin, &tidegate, 5);
    upstream.close();
    // Whoever tries again for itself meets the same fate.
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                drop(origin.accept_within(std::time::Duration::from_millis(20)));
            }
        });
        let statuses: Vec<u16> = clients.iter_mut().map(|client| client.response().status()).collect();
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(statuses.iter().all(|status| *status == 502), "{statuses:?}");
    });
}

#[test]
fn a_server_error_is_not_shared_for_ever() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = crate::asking(&tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(500);
    let mut client = crate::asking(&tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn requests_with_authorization_do_not_share() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let ask = |who: &str| Ask::get("/").field("Authorization", &format!("Basic {who}")).bytes();
    let (mut anna, mut bert) = (tidegate.client(), tidegate.client());
    anna.send(ask("anna"));
    let mut first = origin.accept();
    let name = |upstream: &mut Upstream| upstream.request().head.field("authorization").unwrap();
    let one = name(&mut first);
    bert.send(ask("bert"));
    first.send(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{one}",
        one.len()
    ));
    anna.response().expect(200).with_body("Basic anna");
    let mut second = origin.accept_within(std::time::Duration::from_millis(500)).unwrap_or(first);
    let two = name(&mut second);
    second.send(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{two}",
        two.len()
    ));
    bert.response().expect(200).with_body("Basic bert");
}
