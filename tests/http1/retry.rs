//! RFC 9110 §9.2.2, RFC 9112 §9.3.1: an idle connection may die as it is used; what may be sent again is, once.

use testkit::{Ask, Client, Script, Tidegate, Upstream};

/// A client and an upstream connection that has served one exchange and rests in the pool.
fn with_pooled(origin: &Script, tidegate: &Tidegate) -> (Client, Upstream) {
    let mut client = tidegate.client();
    client.send(Ask::get("/first").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(200);
    (client, upstream)
}

#[test]
fn a_get_on_a_stale_pooled_connection_is_sent_again() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut pooled) = with_pooled(&origin, &tidegate);
    client.send(Ask::get("/again").bytes());
    assert_eq!(pooled.request().head.target(), "/again");
    pooled.close();

    let mut second = origin.accept();
    assert_eq!(second.request().head.target(), "/again");
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn a_reset_pooled_connection_counts_as_stale_too() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut pooled) = with_pooled(&origin, &tidegate);
    client.send(Ask::get("/again").bytes());
    pooled.request();
    pooled.reset();

    let mut second = origin.accept();
    second.request();
    second.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    client.response().expect(200).with_body("ok");
}

#[test]
fn a_second_failure_is_told_to_the_client() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut pooled) = with_pooled(&origin, &tidegate);
    client.send(Ask::get("/again").bytes());
    pooled.request();
    pooled.close();
    let mut second = origin.accept();
    second.request();
    second.close();
    client.response().expect(502);
    origin.expect_untouched();
}

#[test]
fn a_post_is_not_sent_twice() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut pooled) = with_pooled(&origin, &tidegate);
    client.send(Ask::post("/order", b"one pizza").bytes());
    if pooled.try_request().is_ok() {
        pooled.close();
        client.response().expect(502);
        origin.expect_untouched();
    } else {
        // A proxy may also decline to risk a pooled connection for what it cannot send again.
        let mut fresh = origin.accept();
        assert_eq!(fresh.request().body, b"one pizza");
    }
}

#[test]
fn a_connection_closed_while_idle_is_noticed() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, pooled) = with_pooled(&origin, &tidegate);
    pooled.close();
    client.send(Ask::post("/order", b"one pizza").bytes());
    let mut fresh = origin.accept();
    assert_eq!(fresh.request().body, b"one pizza");
    fresh.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(201);
}

#[test]
fn a_response_that_began_is_never_started_again() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let (mut client, mut pooled) = with_pooled(&origin, &tidegate);
    client.send(Ask::get("/half").bytes());
    pooled.request();
    pooled.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    let head = client.head();
    pooled.close();
    assert_eq!(client.broken_body(&head), b"half");
    origin.expect_untouched();
}
