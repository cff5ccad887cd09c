//! The admin interface: health, readiness, numbers, status, purge.

use testkit::{Ask, Origin, Reply, Tidegate};

#[test]
fn health_and_readiness() {
    let tidegate = Tidegate::forward().start();
    tidegate.admin(Ask::get("/healthz")).expect(200);
    tidegate.admin(Ask::get("/readyz")).expect(200);
}

#[test]
fn all_promised_metrics_are_there() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200);
    let page = tidegate.admin(Ask::get("/metrics")).expect(200);
    assert!(page.field("content-type").unwrap().starts_with("application/openmetrics-text"), "{page:?}");
    assert!(page.text().ends_with("# EOF\n"));
    let metrics = tidegate.metrics();
    for name in [
        "tidegate_requests_total",
        "tidegate_origin_requests_total",
        "tidegate_response_body_bytes_total",
        "tidegate_user_copied_body_bytes_total",
        "tidegate_store_objects",
        "tidegate_store_bytes",
        "tidegate_store_read_errors_total",
        "tidegate_checksum_failures_total",
        "tidegate_index_bytes",
        "tidegate_connections",
        "tidegate_overloaded",
        "tidegate_shed_total",
        "tidegate_buffer_pool_hits_total",
        "tidegate_buffer_pool_misses_total",
        "tidegate_request_seconds_count",
    ] {
        assert!(metrics.names().contains(&name), "{name} in {}", page.text());
    }
}

#[test]
fn requests_are_counted_by_result() {
    let origin = Origin::answering(|request| match request.head.target() {
        "/no" => Reply::ok("x").field("Cache-Control", "no-store"),
        _ => Reply::fresh("x"),
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let before = tidegate.metrics_at_rest();
    for path in ["/a", "/a", "/a", "/b", "/no"] {
        tidegate.get(path).expect(200);
    }
    let counted = tidegate.metrics_at_rest().since(&before);
    assert_eq!(counted.requests("hit"), 2.0);
    assert_eq!(counted.requests("miss") + counted.requests("pass"), 3.0);
    assert_eq!(counted.sum("tidegate_origin_requests_total"), 3.0);
}

#[test]
fn body_bytes_are_counted_by_route() {
    let origin = Origin::always(Reply::fresh("x".repeat(5000)));
    let tidegate = Tidegate::reverse(&origin).start();
    let before = tidegate.metrics_at_rest();
    for _ in 0..3 {
        tidegate.get("/").expect(200);
    }
    assert_eq!(tidegate.metrics_at_rest().since(&before).sum("tidegate_response_body_bytes_total"), 15_000.0);
}

#[test]
fn status_is_json_with_the_essentials() {
    let tidegate = Tidegate::forward().start();
    let status = tidegate.status();
    for name in ["version", "workers", "connections", "listeners", "store"] {
        assert!(!status[name].is_null(), "{name} in {status:#}");
    }
}

#[test]
fn purge_forgets_one_url() {
    let origin = Origin::answering(|request| Reply::fresh(request.head.target()));
    let tidegate = Tidegate::reverse(&origin).start();
    for path in ["/a?x=1", "/a?x=2"] {
        tidegate.get(path).expect(200);
    }
    tidegate.wait_stored(2);
    // The number says whether anything was stored under the URL.
    for number in ["1", "0"] {
        let answer = format!("{{\"purged\":{number}}}\n");
        tidegate.purge("http://www.example.com/a?x=1").expect(200).with_body(answer);
    }
    tidegate.get("/a?x=1").expect(200).cache_lacks("hit");
    tidegate.get("/a?x=2").expect(200).cache("hit");
}

#[test]
fn purge_from_the_command_line() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let admin = tidegate.admin_address().to_string();
    Tidegate::run(&["purge", "http://www.example.com/", "--admin", &admin]).expect(0);
    tidegate.get("/").expect(200).cache_lacks("hit");
}

#[test]
fn purge_takes_every_variant_and_large_objects() {
    let origin = Origin::answering(|request| {
        let language = request.head.field("accept-language").unwrap_or_default();
        Reply::fresh(language.repeat(500_000)).field("Vary", "Accept-Language")
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let ask = |language: &str| Ask::get("/").field("Accept-Language", language);
    tidegate.ask(ask("de")).expect(200);
    tidegate.ask(ask("en")).expect(200);
    tidegate.purge("http://www.example.com/").expect(200);
    tidegate.ask(ask("de")).expect(200).cache_lacks("hit");
    tidegate.ask(ask("en")).expect(200).cache_lacks("hit");
}

#[test]
fn nonsense_is_refused() {
    let tidegate = Tidegate::forward().start();
    tidegate.admin(Ask::get("/no/such/page")).expect(404);
    let wrong_method = tidegate.admin(Ask::get("/api/v1/purge")).expect(405);
    assert_eq!(wrong_method.field("allow").as_deref(), Some("POST"));
    tidegate.admin(Ask::post("/metrics", b"x")).expect(405);
    tidegate.admin(Ask::post("/api/v1/purge", b"{ not json")).expect(400);
    tidegate.admin(Ask::post("/api/v1/purge", b"{\"url\": \"no url\"}")).expect(400);
    let mut client = testkit::Client::connect(tidegate.admin_address());
    let host = tidegate.admin_address().to_string();
    // It may be answered and closed before all of it is sent.
    let _ = client.try_send(Ask::post("/api/v1/purge", &vec![b' '; 4 << 20]).field("Host", &host).bytes());
    assert!(client.try_head().map_or(true, |head| matches!(head.status(), 400 | 413)));
    tidegate.admin(Ask::get("/healthz")).expect(200);
}

#[test]
fn clients_cannot_reach_the_admin_interface_through_the_proxy_port() {
    let origin = Origin::answering(|request| Reply::ok(format!("origin {}", request.head.target())));
    let tidegate = Tidegate::reverse(&origin).start();
    for path in ["/healthz", "/metrics", "/api/v1/status"] {
        tidegate.get(path).expect(200).with_body(format!("origin {path}"));
    }
}
