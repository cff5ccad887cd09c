//! A purge or an invalidation during a fill: who already reads goes on, the object is not served afterwards.

use testkit::{Ask, Client, Script, Tidegate, Upstream};

use crate::{asking, expect_second_half, half_filled, send_second_half};

/// After the fill has ended, a new request must be sent on.
#[track_caller]
fn expect_asked_again(origin: &Script, tidegate: &Tidegate, pooled: Upstream) {
    drop(pooled);
    let mut client: Client = asking(tidegate);
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
    client.response().expect(200).with_body("new");
}

#[test]
fn a_purge_during_a_fill_holds() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut leader, mut upstream) = half_filled(&origin, &tidegate);
    let purged = tidegate.purge("http://www.example.com/").status();
    assert!(purged == 200 || purged == 404, "{purged}");
    send_second_half(&mut upstream);
    expect_second_half(&mut leader);
    expect_asked_again(&origin, &tidegate, upstream);
}

#[test]
fn a_purge_during_a_fill_separates_new_requests_from_it() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut leader, mut upstream) = half_filled(&origin, &tidegate);
    tidegate.purge("http://www.example.com/");
    let mut late = asking(&tidegate);
    let mut second = origin.accept();
    second.request();
    second.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nnew");
    late.response().expect(200).with_body("new");
    send_second_half(&mut upstream);
    expect_second_half(&mut leader);
    tidegate.get("/").expect(200).with_body("new");
}

#[test]
fn an_unsafe_method_during_a_fill_holds_too() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let (mut leader, mut upstream) = half_filled(&origin, &tidegate);
    let mut editor = tidegate.client();
    editor.send(Ask::post("/", b"edit").bytes());
    let mut second = origin.accept();
    second.request();
    second.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    second.close();
    editor.response_to("POST").expect(204);
    send_second_half(&mut upstream);
    expect_second_half(&mut leader);
    expect_asked_again(&origin, &tidegate, upstream);
}
