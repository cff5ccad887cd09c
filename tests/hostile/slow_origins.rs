//! Origins that go quiet or do not take a connection.

use testkit::{Ask, BlackHole, Script, Tidegate};

#[test]
fn an_origin_that_goes_quiet_mid_body_breaks_the_response() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\norigin_body = \"300ms\"").start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 100\r\n\r\nsome");
    let head = client.head();
    assert_eq!(client.broken_body(&head), b"some");
    upstream.expect_end();
}

#[test]
fn an_origin_that_goes_quiet_in_its_head_is_a_timeout() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\norigin_first_byte = \"300ms\"").start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Le");
    client.response().expect(504);
}

#[test]
fn an_origin_that_takes_no_upload_is_given_up() {
    let origin = Script::new();
    let toml = "[timeouts]\norigin_body = \"500ms\"\norigin_first_byte = \"500ms\"";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    let mut client = tidegate.client();
    client.send("PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000000\r\n\r\n");
    let _upstream = origin.accept();
    let mut sender = client.second_hand();
    let sending = std::thread::spawn(move || drop(sender.try_send(vec![7; 100_000_000])));
    let (answer, _) = client.rest();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 50"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
    sending.join().unwrap();
}

#[test]
fn an_origin_that_takes_no_connection_is_a_timeout() {
    let hole = BlackHole::new();
    let tidegate = Tidegate::reverse(&hole).toml("[timeouts]\norigin_connect = \"400ms\"").start();
    let response = tidegate.get("/").expect(504);
    let told = response.field("proxy-status").unwrap_or_default();
    assert!(told.contains("error=connection_timeout"), "{told:?}");
}

#[test]
fn a_hit_does_not_need_the_origin() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    );
    upstream.close();
    client.response().expect(200);
    drop(origin);
    tidegate.get("/").expect(200).with_body("hi").cache("hit");
    tidegate.get("/other").expect(502);
}
