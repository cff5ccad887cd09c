//! Errors made here: RFC 9209 `Proxy-Status`, a short plain text, nothing of the request in it.

use testkit::{Ask, Response, Script, Tidegate, refused_address};

/// What every error made here looks like.
#[track_caller]
fn expect_own_error(response: &Response, status: u16, error: &str) {
    assert_eq!(response.status(), status, "{response:?}");
    let told = response.field("proxy-status").unwrap_or_default();
    assert!(told.starts_with("tidegate") && told.contains(&format!("error={error}")), "{told:?}");
    assert!(response.field("content-type").is_some_and(|t| t.starts_with("text/plain")), "{response:?}");
    assert!(response.body.len() < 512, "{response:?}");
    assert!(response.head.has("cache-status") && response.head.has("date"), "{response:?}");
}

#[test]
fn nobody_listens_at_the_origin() {
    let (address, _guard) = refused_address();
    let tidegate = Tidegate::reverse(&address).start();
    let mut client = tidegate.client();
    expect_own_error(&client.get("/"), 502, "connection_refused");
    // The client did nothing wrong: its connection goes on.
    expect_own_error(&client.get("/again"), 502, "connection_refused");
}

#[test]
fn the_origin_never_answers() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).toml("[timeouts]\norigin_first_byte = \"300ms\"").start();
    expect_own_error(&tidegate.get("/"), 504, "http_response_timeout");
}

#[test]
fn the_origin_closes_without_a_word() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.close();
    // A proxy may try a fresh connection once more.
    if let Some(mut second) = origin.accept_within(std::time::Duration::from_millis(50)) {
        second.request();
        second.close();
    }
    expect_own_error(&client.response(), 502, "connection_terminated");
}

#[test]
fn a_name_that_does_not_resolve() {
    let tidegate = Tidegate::forward().start();
    // A label of more than 63 letters: no resolver has to ask anybody to know that it does not exist.
    let response = tidegate.get(&format!("http://{}.invalid/", "x".repeat(64)));
    expect_own_error(&response, 502, "dns_error");
}

#[test]
fn nothing_of_the_request_comes_back() {
    let (address, _guard) = refused_address();
    let tidegate = Tidegate::reverse(&address).start();
    let ask =
        Ask::get("/%3Cscript%3Ealert(1)").field("X-Evil", "<img-evil>").field("Host", "evil-host.example");
    let response = tidegate.ask(ask);
    let everything = format!("{:?}{}", response.head, response.text());
    for word in ["script", "alert", "evil", "img"] {
        assert!(!everything.contains(word), "{word} in {response:?}");
    }
}

#[test]
fn an_error_to_head_has_no_body() {
    let (address, _guard) = refused_address();
    let tidegate = Tidegate::reverse(&address).start();
    let mut client = tidegate.client();
    client.ask(Ask::head("/")).expect(502);
    client.ask(Ask::get("/")).expect(502);
}
