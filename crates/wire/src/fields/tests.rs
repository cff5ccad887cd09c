//! Tables for the field grammar and for what stops at this hop.

use super::*;
use alloc::vec;
use proptest::prelude::*;

fn section<'a>(lines: &[(&'a str, &'a str)]) -> Fields<'a> {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name, value.as_bytes());
    }
    fields
}

fn kept(lines: &[(&str, &str)]) -> Vec<alloc::string::String> {
    end_to_end(&section(lines)).map(|field| field.name.into()).collect()
}

#[test]
fn lists_split_at_commas_outside_quotes() {
    // RFC 9110 §5.6.1
    for (text, expected) in [
        ("", vec![]),
        (" , ,\t,", vec![]),
        ("a", vec!["a"]),
        ("a,b , c", vec!["a", "b", "c"]),
        (",a,,b,", vec!["a", "b"]),
        ("a b,c", vec!["a b", "c"]),
        ("a=\"x,y\",b", vec!["a=\"x,y\"", "b"]),
        ("\"\\\",\",b", vec!["\"\\\",\"", "b"]),
        ("a\\,b", vec!["a\\", "b"]),
        ("\"open, b", vec!["\"open, b"]),
        ("\"open\\", vec!["\"open\\"]),
    ] {
        let elements: Vec<_> = list(text.as_bytes()).collect();
        let expected: Vec<_> = expected.into_iter().map(str::as_bytes).collect();
        assert_eq!(elements, expected, "{text}");
    }
}

#[test]
fn lists_run_over_several_lines() {
    // RFC 9110 §5.3
    let fields = section(&[("Vary", "a, b"), ("X", "no"), ("vary", "c")]);
    assert_eq!(list_of(&fields, "VARY").collect::<Vec<_>>(), [b"a", b"b", b"c"]);
}

#[test]
fn quoted_strings_unescape() {
    // RFC 9110 §5.6.4
    for (text, expected) in [
        ("\"\"", Some("")),
        ("\"a b\"", Some("a b")),
        ("\"a\\\"b\\\\\"", Some("a\"b\\")),
        ("\"a", None),
        ("a\"", None),
        ("\"", None),
        ("", None),
        ("\"a\"b\"", None),
        ("\"a\\\"", None),
        ("\"a\0\"", None),
    ] {
        assert_eq!(unquote(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
    }
}

#[test]
fn fields_of_this_connection_stop_here() {
    // RFC 9110 §7.6.1
    let lines = [
        ("Host", "a"),
        ("Connection", "keep-alive"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic eA=="),
        ("Proxy-Authenticate", "Basic"),
        ("Proxy-Authentication-Info", "x"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Upgrade", "websocket"),
        ("HTTP2-Settings", "x"),
        ("Trailer", "Content-Digest"),
        ("Accept", "*/*"),
    ];
    assert_eq!(kept(&lines), ["Host", "Trailer", "Accept"]);
}

#[test]
fn fields_named_by_connection_stop_here() {
    // RFC 9110 §7.6.1
    let lines = [
        ("X-Hop", "1"),
        ("connection", "close, x-HOP"),
        ("Connection", "other"),
        ("Other", "2"),
        ("X-Stay", "3"),
    ];
    assert_eq!(kept(&lines), ["X-Stay"]);
}

#[test]
fn too_many_connection_options_name_everything_that_may_be_named() {
    let lines =
        |options: &'static str| [("Connection", options), ("Host", "a"), ("X-Mine", "1"), ("X-Stay", "2")];
    let most: &'static str = ["x-mine", &",a".repeat(NOMINATED_MAX - 1), ",,close"].concat().leak();
    let more: &'static str = ["x-mine", &",a".repeat(NOMINATED_MAX)].concat().leak();
    assert_eq!(kept(&lines(most)), ["Host", "X-Stay"]);
    assert_eq!(kept(&lines(more)), ["Host"]);
}

#[test]
fn connection_cannot_take_fields_meant_for_all() {
    // RFC 9110 §7.6.1: "a sender MUST NOT send a connection option corresponding to a field intended for all"
    for name in [
        "Content-Length",
        "Host",
        "Cache-Control",
        "Via",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "Date",
        "Age",
        "Expires",
        "ETag",
        "Last-Modified",
        "Vary",
        "Range",
        "If-None-Match",
        "Content-Range",
        "Accept-Encoding",
        "X-Forwarded-For",
        "Forwarded",
        "Content-Type",
        "Expect",
        "Max-Forwards",
    ] {
        assert_eq!(kept(&[("Connection", name), (name, "1")]), [name]);
    }
}

#[test]
fn trailers_cannot_frame_route_or_authenticate() {
    // RFC 9110 §6.5.1
    for name in [
        "Transfer-Encoding",
        "Content-Length",
        "Host",
        "Trailer",
        "TE",
        "Connection",
        "Authorization",
        "Set-Cookie",
        "Cookie",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "Expires",
        "Vary",
        "Via",
        "If-Match",
        "Range",
        "Proxy-Authorization",
        "Age",
        "Date",
        "Location",
        "Upgrade",
    ] {
        assert!(!may_trail(name), "{name}");
    }
    for name in ["X-Checksum", "Content-Digest", "Repr-Digest", "Server-Timing", "grpc-status"] {
        assert!(may_trail(name), "{name}");
    }
}

#[test]
fn via_names_who_received_it() {
    // RFC 9110 §7.6.3
    for (value, looped) in [
        ("1.1 tidegate", true),
        ("HTTP/1.1 TideGate", true),
        ("1.0 fred, 1.1  tidegate (comment)", true),
        ("1.1 nottidegate", false),
        ("1.1 tidegate:80", false),
        ("tidegate", false),
        ("1.1 p (1.1 tidegate)", false),
        ("", false),
    ] {
        assert_eq!(via_contains(&section(&[("Via", value)]), "tidegate"), looped, "{value}");
    }
    assert!(via_contains(&section(&[("via", "1.1 a"), ("VIA", "1.1 tidegate")]), "tidegate"));
}

#[test]
fn upgrade_needs_the_protocol_and_the_option() {
    // RFC 9110 §7.8
    for (connection, upgrade, expected) in [
        ("Upgrade", "websocket", true),
        ("keep-alive, upgrade", "h2c, WebSocket/13", true),
        ("keep-alive", "websocket", false),
        ("upgrade", "websockets", false),
        ("upgrade", "", false),
    ] {
        let fields = section(&[("Connection", connection), ("Upgrade", upgrade)]);
        assert_eq!(upgrades_to(&fields, "websocket"), expected, "{connection} {upgrade}");
    }
}

fn request<'a>(method: &'a str, version: Version, lines: &[(&'a str, &'a str)]) -> RequestHead<'a> {
    RequestHead { method, target: "*", version, fields: section(lines) }
}

#[test]
fn expectation_is_compared_without_case_and_unknown_to_http10() {
    // RFC 9110 §10.1.1
    for (value, expected) in
        [("100-continue", true), ("100-Continue", true), ("200-ok", false), ("100-continue;x", false)]
    {
        let [new, old] = [Version::Http11, Version::Http10].map(|v| request("PUT", v, &[("Expect", value)]));
        assert_eq!((expects_continue(&new), expects_continue(&old)), (expected, false), "{value}");
    }
}

#[test]
fn max_forwards_counts_in_two_methods() {
    // RFC 9110 §7.6.2
    for (method, value, expected) in [
        ("TRACE", "0", Some(0)),
        ("OPTIONS", "10", Some(10)),
        ("OPTIONS", "-1", None),
        ("OPTIONS", "", None),
        ("GET", "0", None),
    ] {
        let head = request(method, Version::Http11, &[("Max-Forwards", value)]);
        assert_eq!(max_forwards(&head), expected, "{method} {value}");
    }
}

#[test]
fn a_quotation_mark_hides_no_connection_option() {
    // RFC 9110 §7.6.1: connection-option = token
    let fields = section(&[("Connection", "\"a, close, x-hop\", X-Mine"), ("X-Mine", "1"), ("X-Stay", "2")]);
    assert!(has_connection_option(&fields, "close"));
    assert_eq!(end_to_end(&fields).map(|field| field.name).collect::<Vec<_>>(), ["X-Stay"]);
}

proptest! {
    /// What a list yields, joined again, is the same list.
    #[test]
    fn lists_survive_joining(text in "[a-c ,\"\\\\]{0,24}") {
        let elements: Vec<Vec<u8>> = list(text.as_bytes()).map(<[u8]>::to_vec).collect();
        let joined = elements.join(&b", "[..]);
        prop_assert_eq!(list(&joined).map(<[u8]>::to_vec).collect::<Vec<_>>(), elements);
    }
}
