#![allow(clippy::unwrap_used)]

use super::*;

fn sample(text: &str, line_start: &str) -> f64 {
    let line = text.lines().find(|l| l.strip_prefix(line_start).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no sample {line_start} in\n{text}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_scrape_sums_the_workers_and_tells_every_metric() {
    let metrics = Metrics::new();
    let (one, two) = (metrics.worker(), metrics.worker());
    one.request(RequestResult::Hit, 3_000);
    two.request(RequestResult::Hit, 5_000_000);
    two.request(RequestResult::Miss, 1);
    one.body_bytes(Route::Sendfile, 1 << 20);
    two.body_bytes(Route::Sendfile, 1);
    one.connection_opened();
    two.connection_opened();
    two.connection_closed();
    one.shed(ShedStage::Accept, 4);
    two.buffers(9, 2);
    metrics.read_store_with(|| StoreReading {
        objects: 7,
        devices: vec![DeviceReading {
            device: "/dev/x\"\n".into(),
            read_errors: 2,
            ..DeviceReading::default()
        }],
        ..StoreReading::default()
    });
    metrics.read_log_dropped_with(|| 11);
    two.gate_shuts();
    one.gate_shuts();
    one.gate_opens();

    let text = metrics.encode().unwrap();
    let rows = [
        ("tidegate_requests_total{result=\"hit\"}", 2.0),
        ("tidegate_requests_total{result=\"miss\"}", 1.0),
        ("tidegate_requests_total{result=\"shed\"}", 0.0),
        ("tidegate_response_body_bytes_total{route=\"sendfile\"}", 1_048_577.0),
        ("tidegate_connections", 1.0),
        ("tidegate_connections_accepted_total", 2.0),
        ("tidegate_shed_total{stage=\"accept\"}", 4.0),
        ("tidegate_buffer_pool_hits_total", 9.0),
        ("tidegate_buffer_pool_misses_total", 2.0),
        ("tidegate_store_objects", 7.0),
        ("tidegate_store_read_errors_total{device=\"/dev/x\\\"\\n\"}", 2.0),
        ("tidegate_access_log_dropped_total", 11.0),
        ("tidegate_overloaded", 1.0),
        ("tidegate_request_seconds_count{result=\"hit\"}", 2.0),
        ("tidegate_request_seconds_bucket{le=\"0.000002048\",result=\"hit\"}", 0.0),
        ("tidegate_request_seconds_bucket{le=\"0.000004096\",result=\"hit\"}", 1.0),
        ("tidegate_request_seconds_bucket{le=\"+Inf\",result=\"hit\"}", 2.0),
    ];
    for (line_start, expected) in rows {
        assert_eq!(sample(&text, line_start), expected, "{line_start}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_names_promised_to_operators_are_all_there() {
    let text = Metrics::new().encode().unwrap();
    for name in [
        "tidegate_requests_total",
        "tidegate_origin_requests_total",
        "tidegate_response_body_bytes_total",
        "tidegate_user_copied_body_bytes_total",
        "tidegate_store_objects",
        "tidegate_store_bytes",
        "tidegate_checksum_failures_total",
        "tidegate_index_bytes",
        "tidegate_connections",
        "tidegate_overloaded",
        "tidegate_shed_total",
        "tidegate_buffer_pool_hits_total",
        "tidegate_buffer_pool_misses_total",
        "tidegate_request_seconds_bucket",
    ] {
        assert!(text.contains(&format!("\n{name}")), "{name} is missing");
    }
}

#[test]
fn counters_of_a_worker_that_ended_stay_in_the_sums() {
    let metrics = Metrics::new();
    let worker = metrics.worker();
    std::thread::spawn(move || worker.request(RequestResult::Pass, 10)).join().unwrap();
    assert_eq!(metrics.totals().requests(RequestResult::Pass), 1);
}

#[test]
fn words_stand_at_their_counters() {
    for (i, result) in RequestResult::ALL.into_iter().enumerate() {
        assert_eq!(result as usize, i, "{}", result.word());
    }
    for (i, route) in Route::ALL.into_iter().enumerate() {
        assert_eq!(route as usize, i, "{}", route.word());
    }
    for (i, stage) in ShedStage::ALL.into_iter().enumerate() {
        assert_eq!(stage as usize, i, "{}", stage.word());
    }
}

#[test]
fn the_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(path, document()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), document(), "docs/metrics.md is old: run `make docs`");
}
