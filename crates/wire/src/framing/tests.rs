//! One table per rule of RFC 9112 §6.3 and §9.3, both directions.

use super::*;

fn section<'a>(lines: &[(&'a str, &'a str)]) -> Fields<'a> {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.push(name, value.as_bytes());
    }
    fields
}

fn request<'a>(method: &'a str, version: Version, lines: &[(&'a str, &'a str)]) -> RequestHead<'a> {
    RequestHead { method, target: "/", version, fields: section(lines) }
}

fn response<'a>(status: u16, version: Version, lines: &[(&'a str, &'a str)]) -> ResponseHead<'a> {
    ResponseHead { version, status, reason: b"", fields: section(lines) }
}

const CL: &str = "Content-Length";
const TE: &str = "Transfer-Encoding";

#[test]
fn request_bodies_end_where_the_fields_say() {
    // RFC 9112 §6.3
    for (lines, expected) in [
        (&[][..], RequestBody::None),
        (&[(CL, "0")], RequestBody::Length(0)),
        (&[(CL, "10")], RequestBody::Length(10)),
        (&[(CL, "0010")], RequestBody::Length(10)),
        (&[(CL, "9223372036854775807")], RequestBody::Length(BODY_BYTES_MAX)),
        (&[(TE, "chunked")], RequestBody::Chunked),
        (&[("transfer-encoding", "CHUNKED")], RequestBody::Chunked),
    ] {
        assert_eq!(request_body(&request("POST", Version::Http11, lines)), Ok(expected), "{lines:?}");
    }
}

#[test]
fn response_bodies_end_where_the_fields_say() {
    // RFC 9112 §6.3
    for (method, status, lines, expected) in [
        ("GET", 200, &[][..], ResponseBody::UntilClose),
        ("GET", 200, &[(CL, "0")], ResponseBody::Length(0)),
        ("GET", 200, &[(CL, "10")], ResponseBody::Length(10)),
        ("GET", 206, &[(TE, "Chunked")], ResponseBody::Chunked),
        ("GET", 404, &[(CL, "10")], ResponseBody::Length(10)),
        ("GET", 205, &[], ResponseBody::UntilClose),
        // item 1: no body whatever the fields say
        ("HEAD", 200, &[(CL, "10")], ResponseBody::None),
        ("HEAD", 200, &[(TE, "chunked")], ResponseBody::None),
        ("HEAD", 200, &[], ResponseBody::None),
        ("GET", 304, &[(CL, "10")], ResponseBody::None),
        ("GET", 304, &[(TE, "chunked")], ResponseBody::None),
        ("GET", 204, &[], ResponseBody::None),
        ("GET", 204, &[(CL, "0")], ResponseBody::None),
        ("GET", 100, &[], ResponseBody::None),
        ("GET", 103, &[], ResponseBody::None),
        ("GET", 101, &[], ResponseBody::Tunnel),
        // item 2: 2xx to CONNECT is a tunnel, and its framing fields are ignored
        ("CONNECT", 200, &[], ResponseBody::Tunnel),
        ("CONNECT", 204, &[(CL, "10"), (TE, "chunked")], ResponseBody::Tunnel),
        ("CONNECT", 407, &[(CL, "10")], ResponseBody::Length(10)),
        // methods are compared with their case (RFC 9110 §9.1)
        ("head", 200, &[(CL, "10")], ResponseBody::Length(10)),
    ] {
        let head = response(status, Version::Http11, lines);
        assert_eq!(response_body(&head, method), Ok(expected), "{method} {status} {lines:?}");
    }
}

#[test]
fn framing_that_two_readers_could_see_differently_is_refused_in_both_directions() {
    // RFC 9112 §6.1, §6.2, §6.3, §7; RFC 9110 §8.6
    for (lines, refusal) in [
        // items 3
        (&[(CL, "10"), (TE, "chunked")][..], Refusal::BothLengthAndEncoding),
        (&[(TE, "chunked"), (CL, "0")], Refusal::BothLengthAndEncoding),
        (&[(TE, "identity"), (CL, "x")], Refusal::BothLengthAndEncoding),
        (&[(TE, ""), (CL, "1")], Refusal::BothLengthAndEncoding),
        // item 5
        (&[(CL, "")], Refusal::BadLength),
        (&[(CL, "+10")], Refusal::BadLength),
        (&[(CL, "-1")], Refusal::BadLength),
        (&[(CL, "0x10")], Refusal::BadLength),
        (&[(CL, "1 0")], Refusal::BadLength),
        (&[(CL, "10.0")], Refusal::BadLength),
        (&[(CL, "1e1")], Refusal::BadLength),
        (&[(CL, "10;a")], Refusal::BadLength),
        (&[(CL, "\u{661}")], Refusal::BadLength),
        (&[(CL, "9223372036854775808")], Refusal::LengthOverflow),
        (&[(CL, "18446744073709551617")], Refusal::LengthOverflow),
        (&[(CL, "99999999999999999999999999999999")], Refusal::LengthOverflow),
        (&[(CL, "10"), (CL, "11")], Refusal::LengthDiffers),
        (&[(CL, "10, 11")], Refusal::LengthDiffers),
        (&[(CL, "10"), (CL, "10")], Refusal::LengthRepeated),
        (&[(CL, "10,10")], Refusal::LengthRepeated),
        (&[(CL, "10"), ("content-length", "010")], Refusal::LengthRepeated),
        (&[(CL, "10,")], Refusal::BadLength),
        (&[(CL, "10"), (CL, "")], Refusal::BadLength),
        (&[(CL, "10, x")], Refusal::BadLength),
        // item 4 and §7
        (&[(TE, "gzip")], Refusal::UnknownEncoding),
        (&[(TE, "identity")], Refusal::UnknownEncoding),
        (&[(TE, "xchunked")], Refusal::UnknownEncoding),
        (&[(TE, "gzip, chunked")], Refusal::UnknownEncoding),
        (&[(TE, "gzip"), (TE, "chunked")], Refusal::UnknownEncoding),
        (&[(TE, "a;q=1, chunked")], Refusal::UnknownEncoding),
        (&[(TE, "chunked, gzip")], Refusal::ChunkedNotLast),
        (&[(TE, "chunked"), (TE, "identity")], Refusal::ChunkedNotLast),
        (&[(TE, "chunked, chunked")], Refusal::ChunkedRepeated),
        (&[(TE, "chunked"), (TE, "chunked")], Refusal::ChunkedRepeated),
        (&[(TE, "chunked;a=b")], Refusal::BadEncoding),
        (&[(TE, "chunked ;a")], Refusal::BadEncoding),
        (&[(TE, "")], Refusal::BadEncoding),
        (&[(TE, "chunked,")], Refusal::BadEncoding),
        (&[(TE, ",chunked")], Refusal::BadEncoding),
        (&[(TE, "chunked"), (TE, "")], Refusal::BadEncoding),
        (&[(TE, "\"chunked\"")], Refusal::BadEncoding),
        (&[(TE, "chun ked")], Refusal::BadEncoding),
        (&[(TE, "chunked\x0b")], Refusal::BadEncoding),
    ] {
        assert_eq!(request_body(&request("POST", Version::Http11, lines)), Err(refusal), "{lines:?}");
        for method in ["GET", "HEAD"] {
            let head = response(200, Version::Http11, lines);
            assert_eq!(response_body(&head, method), Err(refusal), "{method} {lines:?}");
        }
    }
}

#[test]
fn codings_have_no_place_in_http10() {
    // RFC 9112 §6.1
    let lines = &[(TE, "chunked")];
    assert_eq!(request_body(&request("POST", Version::Http10, lines)), Err(Refusal::EncodingInHttp10));
    assert_eq!(response_body(&response(200, Version::Http10, lines), "GET"), Err(Refusal::EncodingInHttp10));
}

#[test]
fn connect_has_no_body() {
    // RFC 9110 §9.3.6
    for (lines, expected) in [
        (&[][..], Ok(RequestBody::None)),
        (&[(CL, "0")], Ok(RequestBody::Length(0))),
        (&[(CL, "5")], Err(Refusal::BodyOnConnect)),
        (&[(TE, "chunked")], Err(Refusal::BodyOnConnect)),
    ] {
        assert_eq!(request_body(&request("CONNECT", Version::Http11, lines)), expected, "{lines:?}");
    }
}

#[test]
fn a_status_without_body_does_not_announce_one() {
    // RFC 9112 §6.1, RFC 9110 §8.6
    for status in [100, 101, 103, 199, 204] {
        for lines in [&[(CL, "5")][..], &[(TE, "chunked")]] {
            let head = response(status, Version::Http11, lines);
            assert_eq!(response_body(&head, "GET"), Err(Refusal::BodyOnBodiless), "{status} {lines:?}");
        }
    }
}

#[test]
fn persistence_follows_version_and_connection() {
    // RFC 9112 §9.3: version, Connection, whether the sender keeps the connection
    for (version, connection, expected) in [
        (Version::Http11, "", true),
        (Version::Http11, "close", false),
        (Version::Http11, "Close", false),
        (Version::Http11, "x, close", false),
        (Version::Http11, "keep-alive", true),
        (Version::Http11, "keep-alive, close", false),
        (Version::Http11, "closed", true),
        (Version::Http10, "", false),
        (Version::Http10, "keep-alive", true),
        (Version::Http10, "x, Keep-Alive", true),
        (Version::Http10, "keep-alive, close", false),
    ] {
        let lines = [("Connection", connection)];
        assert_eq!(keep_alive(version, &section(&lines)), expected, "{version:?} {connection}");
        let head = request("GET", version, &lines);
        assert_eq!(request_keep_alive(&head, Recipient::Gateway), expected, "{version:?} {connection}");
        let by_proxy = expected && version == Version::Http11;
        assert_eq!(request_keep_alive(&head, Recipient::Proxy), by_proxy, "{version:?} {connection}");
    }
}
