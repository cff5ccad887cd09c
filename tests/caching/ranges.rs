//! RFC 9110 §14: parts of what is stored.

use testkit::{Ask, Origin, Pattern, Reply, Response, Tidegate};

use crate::in_front_of;

const BODY: &str = "0123456789";

fn holding() -> (Origin, Tidegate) {
    let (origin, tidegate) =
        in_front_of(Reply::fresh(BODY).field("ETag", "\"v1\"").field("Content-Type", "text/plain"));
    tidegate.get("/").expect(200);
    (origin, tidegate)
}

fn range(tidegate: &Tidegate, range: &str) -> Response {
    tidegate.ask(Ask::get("/").field("Range", range))
}

#[test]
fn one_range() {
    let (origin, tidegate) = holding();
    for (asked, content_range, body) in [
        ("bytes=0-0", "bytes 0-0/10", "0"),
        ("bytes=2-5", "bytes 2-5/10", "2345"),
        ("bytes=5-", "bytes 5-9/10", "56789"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-100", "bytes 0-9/10", BODY),
        ("bytes=8-1000", "bytes 8-9/10", "89"),
        ("bytes=9-99999999999999999999", "bytes 9-9/10", "9"),
    ] {
        let response = range(&tidegate, asked).expect(206).with_body(body).cache("hit");
        assert_eq!(response.field("content-range").as_deref(), Some(content_range), "{asked}");
        assert_eq!(response.field("etag").as_deref(), Some("\"v1\""));
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn what_cannot_be_satisfied() {
    let (_origin, tidegate) = holding();
    for asked in ["bytes=10-", "bytes=100-200", "bytes=-0"] {
        let response = range(&tidegate, asked).expect(416);
        assert_eq!(response.field("content-range").as_deref(), Some("bytes */10"), "{asked}");
    }
}

#[test]
fn what_is_not_a_range_is_ignored() {
    let (_origin, tidegate) = holding();
    for asked in ["bytes=5-2", "bytes=a-b", "bytes=", "lines=1-2", "bytes=--5", "bytes 1-2", "bytes=1-2-3"] {
        range(&tidegate, asked).expect(200).with_body(BODY);
    }
}

#[test]
fn several_ranges_come_as_parts() {
    // Far enough apart that sending what lies between would cost more than a part's own head.
    let body = format!("first{}middle{}last!", ".".repeat(10_000), ".".repeat(9985));
    let (_origin, tidegate) = in_front_of(Reply::fresh(body).field("Content-Type", "text/plain"));
    tidegate.warm("/");
    let response = range(&tidegate, "bytes=0-4,10005-10010,-5").expect(206).cache("hit");
    let kind = response.field("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap_or_else(|| panic!("{kind}"));
    let text = response.text();
    let parts: Vec<&str> = text.split(&format!("--{boundary}")).collect();
    assert_eq!(parts.len(), 5, "{text}");
    assert_eq!(parts[4].trim_end(), "--");
    for (part, content_range, body) in [
        (1, "bytes 0-4/20001", "first"),
        (2, "bytes 10005-10010/20001", "middle"),
        (3, "bytes 19996-20000/20001", "last!"),
    ] {
        let (head, data) = parts[part].split_once("\r\n\r\n").unwrap();
        assert!(head.to_lowercase().contains(&format!("content-range: {content_range}")), "{head}");
        assert!(head.to_lowercase().contains("content-type: text/plain"), "{head}");
        assert_eq!(data.trim_end_matches("\r\n"), body);
    }
}

#[test]
fn a_storm_of_ranges_costs_no_more_than_the_whole() {
    let (_origin, tidegate) = holding();
    let many: Vec<String> = (0..1000).map(|_| "0-9".to_owned()).collect();
    let response = range(&tidegate, &format!("bytes={}", many.join(",")));
    assert!(matches!(response.status(), 200 | 206 | 416), "{response:?}");
    assert!(response.body.len() < 1000, "{} bytes", response.body.len());
}

#[test]
fn if_range_decides_between_part_and_whole() {
    let (_origin, tidegate) = holding();
    for (condition, status) in
        [("\"v1\"", 206), ("\"v2\"", 200), ("W/\"v1\"", 200), ("Mon, 01 Jan 2001 00:00:00 GMT", 200)]
    {
        let ask = Ask::get("/").field("Range", "bytes=1-2").field("If-Range", condition);
        tidegate.ask(ask).expect(status);
    }
}

#[test]
fn conditions_come_before_ranges() {
    let (_origin, tidegate) = holding();
    tidegate.ask(Ask::get("/").field("Range", "bytes=1-2").field("If-None-Match", "\"v1\"")).expect(304);
    tidegate.ask(Ask::get("/").field("Range", "bytes=1-2").field("If-Match", "\"v2\"")).expect(412);
}

#[test]
fn head_ignores_ranges() {
    let (_origin, tidegate) = holding();
    let response = tidegate.ask(Ask::head("/").field("Range", "bytes=1-2")).expect(200);
    assert_eq!(response.field("content-length").as_deref(), Some("10"));
}

#[test]
fn parts_of_a_large_object() {
    let pattern = Pattern(5);
    let size = 5_000_000_u64;
    let (_origin, tidegate) =
        in_front_of(Reply::generated(pattern, size).field("Cache-Control", "max-age=60"));
    assert_eq!(tidegate.warm("/").body.len(), size as usize);
    for (first, last) in
        [(0, 0), (4095, 4096), (1 << 20, (1 << 20) + 70_000), (1_000_000, 4_000_000), (4_999_999, 4_999_999)]
    {
        let response = range(&tidegate, &format!("bytes={first}-{last}")).expect(206).cache("hit");
        assert_eq!(response.body.len() as u64, last - first + 1);
        pattern.compare(&response.body, first);
    }
}

#[test]
fn a_range_on_a_miss_is_answered_rightly() {
    let (_origin, tidegate) = crate::answering(|request| match request.head.field("range").as_deref() {
        Some("bytes=2-5") => Reply::status(206, "2345").field("Content-Range", "bytes 2-5/10"),
        _ => Reply::fresh(BODY),
    });
    let response = range(&tidegate, "bytes=2-5");
    assert!(
        matches!((response.status(), response.text().as_str()), (206, "2345") | (200, BODY)),
        "{response:?}"
    );
    tidegate.get("/").expect(200).with_body(BODY);
}
