//! Request targets and hosts: origin-form, absolute-form, asterisk, IPv6 (RFC 9112 §3.2).

use testkit::{Address, Ask, Origin, Reply, Script, Tidegate};

fn echo() -> Origin {
    Origin::answering(|request| {
        let host = request.head.field("host").unwrap_or_default();
        Reply::ok(format!("{} {} {host}", request.head.method(), request.head.target()))
    })
}

#[test]
fn forward_mode_takes_absolute_form_and_sends_origin_form() {
    let origin = echo();
    let tidegate = Tidegate::forward().start();
    let response = tidegate.get(&origin.url("/path?query=1")).expect(200);
    assert_eq!(response.text(), format!("GET /path?query=1 {}", origin.authority()));
}

#[test]
fn an_empty_path_becomes_a_slash() {
    let origin = echo();
    let tidegate = Tidegate::forward().start();
    let response = tidegate.get(&origin.url("")).expect(200);
    assert_eq!(response.text(), format!("GET / {}", origin.authority()));
}

#[test]
fn the_absolute_target_wins_over_host() {
    let origin = echo();
    let tidegate = Tidegate::forward().start();
    let response = tidegate.ask(Ask::get(&origin.url("/a")).field("Host", "other.example"));
    // RFC 9112 §3.2.2: a proxy replaces Host by the target's authority; refusing a contradiction is allowed.
    match response.status() {
        200 => assert_eq!(response.text(), format!("GET /a {}", origin.authority())),
        status => assert_eq!((status, origin.count()), (400, 0)),
    }
}

#[test]
fn forward_mode_refuses_origin_form() {
    let tidegate = Tidegate::forward().start();
    tidegate.get("/path").expect(400);
}

#[test]
fn reverse_mode_accepts_absolute_form() {
    let origin = echo();
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.get("http://www.example.com/a?b").expect(200);
    assert_eq!(response.text(), "GET /a?b www.example.com");
}

#[test]
fn reverse_mode_keeps_the_clients_host() {
    let origin = echo();
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.ask(Ask::get("/a").field("Host", "shop.example:8080")).expect(200);
    assert_eq!(response.text(), "GET /a shop.example:8080");
}

#[test]
fn options_asterisk_reaches_the_origin() {
    let origin = echo();
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.ask(Ask::new("OPTIONS", "*")).expect(200);
    assert_eq!(response.text(), "OPTIONS * www.example.com");
}

#[test]
fn methods_unknown_here_pass() {
    let origin = echo();
    let tidegate = Tidegate::reverse(&origin).start();
    let response = tidegate.ask(Ask::new("PROPFIND", "/dav")).expect(200);
    assert_eq!(response.text(), "PROPFIND /dav www.example.com");
}

#[test]
fn the_target_is_sent_on_byte_for_byte() {
    let origin = echo();
    let tidegate = Tidegate::reverse(&origin).start();
    for target in ["/a//b/../c/%2e%2E/%41?x=%20&y=/?", "/?", "/;a=b,c'(*)!$&+:@~"] {
        let response = tidegate.get(target).expect(200);
        assert_eq!(response.text(), format!("GET {target} www.example.com"));
    }
}

#[test]
fn ipv6_on_both_sides() {
    let origin = Script::on("[::1]:0");
    let tidegate = Tidegate::reverse(&origin).ipv6().start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").field("Host", "[::1]:99").bytes());
    let mut upstream = origin.accept();
    assert_eq!(upstream.request().head.field("host").as_deref(), Some("[::1]:99"));
    upstream.reply(Reply::ok("six"));
    client.response().expect(200).with_body("six");
}

#[test]
fn forward_mode_takes_an_ipv6_literal() {
    let origin = Script::on("[::1]:0");
    let tidegate = Tidegate::forward().start();
    let mut client = tidegate.client();
    client.send(Ask::get(&origin.url("/")).bytes());
    let mut upstream = origin.accept();
    assert_eq!(upstream.request().head.field("host"), Some(origin.authority()));
    upstream.reply(Reply::ok("six"));
    client.response().expect(200).with_body("six");
}

#[test]
fn sites_are_chosen_by_host() {
    let (shop, blog) = (Origin::always(Reply::fresh("shop")), Origin::always(Reply::fresh("blog")));
    let sites = format!(
        "[[site]]\nhosts = [\"shop.example\"]\norigins = [\"{}\"]\n[[site]]\nhosts = [\"*.blog.example\"]\norigins = [\"{}\"]",
        shop.url(""),
        blog.url("")
    );
    let tidegate = Tidegate::reverse_sites(&sites).start();
    for _miss_then_hit in 0..2 {
        tidegate.ask(Ask::get("/").field("Host", "shop.example")).expect(200).with_body("shop");
        tidegate.ask(Ask::get("/").field("Host", "my.blog.example")).expect(200).with_body("blog");
    }
    let nobody = tidegate.ask(Ask::get("/").field("Host", "nobody.example")).status();
    assert!((400..600).contains(&nobody), "{nobody}");
}
