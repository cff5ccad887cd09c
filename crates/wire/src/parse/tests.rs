//! Tables of accepted and refused heads, a slow twin of the field lines, fuzz.

use super::*;
use crate::testing::{from_scraps, fuzz_time};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;

fn limits() -> Limits {
    Limits { target_bytes: 100, ..Limits::default() }
}

fn request_refusal(text: &str) -> Option<Refusal> {
    request(text.as_bytes(), &limits()).err()
}

fn response_refusal(text: &str) -> Option<Refusal> {
    response(text.as_bytes(), &limits()).err()
}

#[test]
fn a_request_reads_as_its_parts() {
    let text =
        b"\r\nGET /a?b=|c| HTTP/1.1\r\nHost: example.com\r\nX-Y:\t a  b \r\nEmpty:\r\nOther:\xe9\r\n\r\nrest";
    let Ok(Parsed::Complete { head, len }) = request(text, &limits()) else { panic!("refused") };
    assert_eq!((head.method, head.target, head.version), ("GET", "/a?b=|c|", Version::Http11));
    assert_eq!(&text[len..], b"rest");
    let fields: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
    let expected: [(&str, &[u8]); 4] =
        [("Host", b"example.com"), ("X-Y", b"a  b"), ("Empty", b""), ("Other", b"\xe9")];
    assert_eq!(fields, expected);
}

#[test]
fn a_response_reads_as_its_parts() {
    for (line, status, reason) in [
        ("HTTP/1.1 200 OK", 200, "OK"),
        ("HTTP/1.0 404 Not  Found ", 404, "Not  Found "),
        ("HTTP/1.1 200 ", 200, ""),
        ("HTTP/1.1 200", 200, ""),
        ("HTTP/1.1 999 \t\u{e9}", 999, "\t\u{e9}"),
    ] {
        let text = String::from(line) + "\r\nA: b\r\n\r\n";
        let Ok(Parsed::Complete { head, len }) = response(text.as_bytes(), &limits()) else {
            panic!("{line}")
        };
        assert_eq!((head.status, head.reason, len), (status, reason.as_bytes(), text.len()), "{line}");
        assert_eq!(head.fields.get("a"), Some(&b"b"[..]));
    }
}

#[test]
fn versions() {
    // RFC 9112 §2.3, RFC 9110 §6.2
    for (version, expected) in [
        ("HTTP/1.1", Ok(Version::Http11)),
        ("HTTP/1.0", Ok(Version::Http10)),
        ("HTTP/1.9", Ok(Version::Http11)),
        ("HTTP/2.0", Err(Refusal::VersionUnsupported)),
        ("HTTP/0.9", Err(Refusal::VersionUnsupported)),
        ("HTTP/3.0", Err(Refusal::VersionUnsupported)),
        ("HTTP/2", Err(Refusal::BadVersion)),
        ("HTTP/1.10", Err(Refusal::BadVersion)),
        ("HTTP/1.", Err(Refusal::BadVersion)),
        ("http/1.1", Err(Refusal::BadVersion)),
        ("HTTP/1,1", Err(Refusal::BadVersion)),
        ("HTTP /1.1", Err(Refusal::StartLineWhitespace)),
        ("HTTP/1.1 ", Err(Refusal::StartLineWhitespace)),
        ("HTTP/1.1\t", Err(Refusal::StartLineWhitespace)),
        (" HTTP/1.1", Err(Refusal::StartLineWhitespace)),
    ] {
        let text = alloc::format!("GET / {version}\r\nHost: a\r\n\r\n");
        let found = match request(text.as_bytes(), &limits()) {
            Ok(Parsed::Complete { head, .. }) => Ok(head.version),
            Ok(Parsed::Partial) => panic!("partial"),
            Err(refusal) => Err(refusal),
        };
        assert_eq!(found, expected, "{version}");
    }
    assert_eq!(request_refusal("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Some(Refusal::VersionUnsupported));
}

#[test]
fn request_lines_are_refused_by_name() {
    // RFC 9112 §3
    let long_method = "M".repeat(65) + " / HTTP/1.1";
    let long_target = String::from("GET /") + &"t".repeat(100) + " HTTP/1.1";
    for (line, refusal) in [
        (" GET / HTTP/1.1", Refusal::StartLineWhitespace),
        ("\tGET / HTTP/1.1", Refusal::StartLineWhitespace),
        ("GET  / HTTP/1.1", Refusal::StartLineWhitespace),
        ("GET /  HTTP/1.1", Refusal::StartLineWhitespace),
        ("GET /a b HTTP/1.1", Refusal::StartLineWhitespace),
        ("GET\t/ HTTP/1.1", Refusal::BadMethod),
        ("G(T / HTTP/1.1", Refusal::BadMethod),
        ("G\u{c9}T / HTTP/1.1", Refusal::BadMethod),
        (&long_method, Refusal::MethodTooLong),
        (&long_target, Refusal::TargetTooLong),
        ("GET", Refusal::BadTarget),
        ("GET /", Refusal::BadVersion),
        ("GET /\u{e9} HTTP/1.1", Refusal::BadTarget),
        ("GET /\x01 HTTP/1.1", Refusal::BadTarget),
        ("GET /\x7f HTTP/1.1", Refusal::BadTarget),
        ("GET /a\tb HTTP/1.1", Refusal::BadTarget),
        ("GET /\0 HTTP/1.1", Refusal::Nul),
        ("GET /\r HTTP/1.1", Refusal::BareCr),
        ("GET / HTTP/1.1\r", Refusal::BareCr),
    ] {
        let text = String::from(line) + "\r\nHost: a\r\n\r\n";
        assert_eq!(request_refusal(&text), Some(refusal), "{line:?}");
    }
}

#[test]
fn the_longest_target_and_method_are_read() {
    let (method, target) = ("M".repeat(64), String::from("/") + &"t".repeat(99));
    let text = alloc::format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let Ok(Parsed::Complete { head, .. }) = request(text.as_bytes(), &limits()) else { panic!("refused") };
    assert_eq!((head.method, head.target), (&method[..], &target[..]));
}

#[test]
fn status_lines_are_refused_by_name() {
    // RFC 9112 §4
    for (line, refusal) in [
        ("HTTP/2.0 200 OK", Refusal::VersionUnsupported),
        ("ICY 200 OK", Refusal::BadVersion),
        (" HTTP/1.1 200 OK", Refusal::BadVersion),
        ("HTTP/1.1  200 OK", Refusal::BadStatus),
        ("HTTP/1.1 20 OK", Refusal::BadStatus),
        ("HTTP/1.1 2000 OK", Refusal::BadStatus),
        ("HTTP/1.1 099 OK", Refusal::BadStatus),
        ("HTTP/1.1 +20 OK", Refusal::BadStatus),
        ("HTTP/1.1 200\tOK", Refusal::BadStatus),
        ("HTTP/1.1", Refusal::BadStatus),
        ("HTTP/1.1 200 \x01", Refusal::BadStatusLine),
        ("HTTP/1.1 200 O\0K", Refusal::Nul),
        ("HTTP/1.1 200 O\rK", Refusal::BareCr),
    ] {
        assert_eq!(response_refusal(&(String::from(line) + "\r\n\r\n")), Some(refusal), "{line:?}");
    }
}

#[test]
fn field_lines_are_refused_by_name_in_both_directions() {
    // RFC 9112 §5, §5.1, §5.2, §2.2; RFC 9110 §5.5
    for (line, refusal) in [
        (" folded", Refusal::ObsFold),
        ("\tfolded", Refusal::ObsFold),
        (" A: b", Refusal::ObsFold),
        (" ", Refusal::ObsFold),
        ("A : b", Refusal::SpaceBeforeColon),
        ("A\t: b", Refusal::SpaceBeforeColon),
        ("Transfer-Encoding : chunked", Refusal::SpaceBeforeColon),
        (": b", Refusal::EmptyName),
        ("A", Refusal::ColonMissing),
        ("A b: c", Refusal::BadFieldName),
        ("A\u{e9}: c", Refusal::BadFieldName),
        ("A(: c", Refusal::BadFieldName),
        ("A\x0b: c", Refusal::BadFieldName),
        ("A: b\x01", Refusal::ControlInValue),
        ("A: \x7f", Refusal::ControlInValue),
        ("A:\x0bchunked", Refusal::ControlInValue),
        ("A: b\0", Refusal::Nul),
        ("A\0: b", Refusal::Nul),
        ("A: b\rc", Refusal::BareCr),
        ("A: b\r", Refusal::BareCr),
        ("A\r: b", Refusal::BareCr),
        ("\rA: b", Refusal::BareCr),
        ("A: b\nC: d", Refusal::BareLf),
        ("A: b\n", Refusal::BareLf),
    ] {
        for (before, after) in [("", ""), ("X: y\r\n", ""), ("", "\r\nX: y"), ("X: y\r\n", "\r\nX: y")] {
            let section = alloc::format!("\r\nHost: a\r\n{before}{line}{after}\r\n\r\n");
            assert_eq!(
                request_refusal(&(String::from("GET / HTTP/1.1") + &section)),
                Some(refusal),
                "{line:?}"
            );
            assert_eq!(
                response_refusal(&(String::from("HTTP/1.1 200 OK") + &section)),
                Some(refusal),
                "{line:?}"
            );
        }
    }
}

#[test]
fn whitespace_between_start_line_and_first_field_is_refused() {
    // RFC 9112 §2.2
    assert_eq!(request_refusal("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), Some(Refusal::ObsFold));
}

#[test]
fn host_is_there_once() {
    // RFC 9112 §3.2
    for (version, hosts, refusal) in [
        ("1.1", "", Some(Refusal::HostMissing)),
        ("1.0", "", None),
        ("1.1", "Host: a\r\n", None),
        ("1.1", "Host:\r\n", None),
        ("1.1", "Host: a\r\nhost: a\r\n", Some(Refusal::HostRepeated)),
        ("1.0", "Host: a\r\nHOST: b\r\n", Some(Refusal::HostRepeated)),
    ] {
        let text = alloc::format!("GET / HTTP/{version}\r\n{hosts}\r\n");
        assert_eq!(request_refusal(&text), refusal, "{text:?}");
    }
}

#[test]
fn many_fields_are_read_up_to_the_limit() {
    let head =
        |count: usize| String::from("GET / HTTP/1.1\r\nHost: a\r\n") + &"A: b\r\n".repeat(count - 1) + "\r\n";
    for count in [1, 2, FIELDS_SMALL, FIELDS_SMALL + 1, 128] {
        let text = head(count);
        let Ok(Parsed::Complete { head, .. }) = request(text.as_bytes(), &limits()) else {
            panic!("{count}")
        };
        assert_eq!(head.fields.len(), count);
    }
    assert_eq!(request_refusal(&head(129)), Some(Refusal::TooManyFields));
    let generous = Limits { fields: 1000, ..limits() };
    assert!(request(head(FIELDS_MAX).as_bytes(), &generous).is_ok());
    assert_eq!(request(head(FIELDS_MAX + 1).as_bytes(), &generous).err(), Some(Refusal::TooManyFields));
}

/// The naive twin: splits lines and trims values with the library's own tools.
fn slow_fields(section: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let text = section.strip_suffix(b"\r\n")?.strip_suffix(b"\n")?;
    let lines = text.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let field = |line: &[u8]| {
        check_field_line(line).ok()?;
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((line[..colon].to_vec(), chars::trim_ows(&line[colon + 1..]).to_vec()))
    };
    lines.map(field).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn field_lines_read_as_the_twin_reads_them(
        lines in prop::collection::vec("[a-bA:,\t \r\0\x01\x7f\u{e9}(-]{1,8}", 1..4)
    ) {
        let section = (lines.join("\r\n") + "\r\n\r\n").into_bytes();
        let mut read = Fields::new();
 let fast = field_section(&section, lines.len(), &mut read).ok().map(|()| { let fields = &read;
            fields.iter().map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec())).collect::<Vec<_>>()
        });
        prop_assert_eq!(fast, slow_fields(&section));
    }
}

fn check_fields(fields: &Fields<'_>) {
    for field in fields.iter() {
        assert!(chars::is_token(field.name.as_bytes()));
        assert!(chars::is_field_content(field.value));
        assert_eq!(chars::trim_ows(field.value), field.value);
    }
}

/// Another reader of the same bytes, more lenient than ours: what we accept it must read in the same way.
fn same_fields(fields: &Fields<'_>, others: &[httparse::Header<'_>]) {
    let ours: Vec<_> = fields.iter().map(|field| (field.name, field.value)).collect();
    let theirs: Vec<_> = others.iter().map(|header| (header.name, header.value)).collect();
    assert_eq!(ours, theirs);
}

fn same_request(bytes: &[u8], head: &RequestHead<'_>, len: usize) {
    let mut slots = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut other = httparse::Request::new(&mut slots);
    let parsed = other.parse(bytes);
    // It knows no minor version above 1.
    if parsed == Err(httparse::Error::Version) {
        return;
    }
    assert_eq!(parsed, Ok(httparse::Status::Complete(len)));
    assert_eq!((other.method, other.path), (Some(head.method), Some(head.target)));
    same_fields(&head.fields, other.headers);
}

fn same_response(bytes: &[u8], head: &ResponseHead<'_>, len: usize) {
    let mut slots = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut other = httparse::Response::new(&mut slots);
    let parsed = other.parse(bytes);
    if parsed == Err(httparse::Error::Version) {
        return;
    }
    assert_eq!(parsed, Ok(httparse::Status::Complete(len)));
    assert_eq!(other.code, Some(head.status));
    same_fields(&head.fields, other.headers);
}

/// What field sections are made of, and what spoils them.
const SCRAPS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b": ",
    b":",
    b": b\r\n",
    b"Name",
    b"Host: a\r\n",
    b"A: b\r\n",
    b"C:\t d \r\n",
    b"E:\r\n",
    b"value",
    b" ",
    b"\t",
    b"\xe9",
    b",",
    b"\r",
    b"\n",
    b"\0",
];

/// What the fuzzer made, alone and behind a good beginning, as bytes and as scraps.
fn messages(bytes: &[u8], beginnings: &[&[u8]]) -> Vec<Vec<u8>> {
    let scraps = from_scraps(bytes, SCRAPS);
    let with = |beginning: &&[u8]| [[beginning, bytes].concat(), [*beginning, &scraps].concat()];
    beginnings.iter().flat_map(with).collect()
}

#[test]
fn fuzz_request() {
    let beginnings: &[&[u8]] = &[b"", b"GET / HTTP/1.1\r\nHost: a\r\n", b"GET /", b"GET / HTTP/1.0\r\n"];
    bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
        for message in messages(bytes, beginnings) {
            if let Ok(Parsed::Complete { head, len }) = request(&message, &limits()) {
                assert!(len <= message.len() && message[..len].ends_with(b"\r\n\r\n"));
                assert!(chars::is_token(head.method.as_bytes()) && chars::is_visible(head.target.as_bytes()));
                check_fields(&head.fields);
                same_request(&message, &head, len);
            }
        }
    });
}

#[test]
fn fuzz_response() {
    let beginnings: &[&[u8]] = &[b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 ", b"HTTP/1.0 404 "];
    bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
        for message in messages(bytes, beginnings) {
            if let Ok(Parsed::Complete { head, len }) = response(&message, &limits()) {
                assert!(len <= message.len() && message[..len].ends_with(b"\r\n\r\n"));
                assert!((100..1000).contains(&head.status) && chars::is_field_content(head.reason));
                check_fields(&head.fields);
                same_response(&message, &head, len);
            }
        }
    });
}
