//! Where does this body end, and may the connection go on after it (RFC 9112 §6.3, §9.3)? Every rule against
//! request and response smuggling that looks at more than one field is here, and nowhere else.
//!
//! What must hold: a message whose length two readers could see differently is refused, not interpreted. So
//! `Content-Length` beside `Transfer-Encoding`, repeated lengths even if they agree, any coding list other than
//! a single `chunked`, and any coding in HTTP/1.0 are refused, in requests and in responses alike. The RFC would
//! let a recipient mend some of these; a proxy that mends them depends on the next hop mending them in the same
//! way.

use crate::chars;
use crate::fields::{has_connection_option, list};
use crate::head::{Fields, RequestHead, ResponseHead, Version};
use crate::refusal::Refusal;

/// The longest body that a length may announce: file offsets are signed.
pub const BODY_BYTES_MAX: u64 = i64::MAX as u64;

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// There is none.
    None,
    /// This many bytes follow the head; may be 0.
    Length(u64),
    /// Chunks follow the head; read them with [`crate::chunked`].
    Chunked,
}

/// How the body of a response is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is none, whatever the fields say. A `Content-Length` describes what a `GET` would have brought.
    None,
    /// This many bytes follow the head; may be 0.
    Length(u64),
    /// Chunks follow the head; read them with [`crate::chunked`].
    Chunked,
    /// The body ends where the connection does; whether it is whole cannot be known.
    UntilClose,
    /// After the head the connection carries another protocol (2xx to `CONNECT`, 101). Framing fields in such a
    /// head mean nothing and must not be sent on (RFC 9110 §9.3.6).
    Tunnel,
}

/// On whose behalf a request is received, which decides about persistent HTTP/1.0 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A forward proxy, chosen by the client.
    Proxy,
    /// A gateway: to the client it is the origin server.
    Gateway,
}

/// How the body of a request is delimited (RFC 9112 §6.3).
pub fn request_body(head: &RequestHead<'_>) -> Result<RequestBody, Refusal> {
    let body = match framing_fields(head.version, &head.fields)? {
        Framing::Chunked => RequestBody::Chunked,
        Framing::Length(length) => RequestBody::Length(length),
        Framing::Absent => RequestBody::None,
    };
    // RFC 9110 §9.3.6: what follows a CONNECT request belongs to the tunnel.
    match body {
        RequestBody::None | RequestBody::Length(0) => Ok(body),
        _ if head.method == "CONNECT" => Err(Refusal::BodyOnConnect),
        _ => Ok(body),
    }
}

/// How the body of a response to a request with `request_method` is delimited (RFC 9112 §6.3). The framing
/// fields are checked even where there is no body, for they are sent on.
pub fn response_body(head: &ResponseHead<'_>, request_method: &str) -> Result<ResponseBody, Refusal> {
    if request_method == "CONNECT" && (200..300).contains(&head.status) {
        return Ok(ResponseBody::Tunnel);
    }
    let framing = framing_fields(head.version, &head.fields)?;
    match head.status {
        101 => bodiless(framing).map(|_| ResponseBody::Tunnel),
        100..200 | 204 => bodiless(framing),
        304 => Ok(ResponseBody::None),
        _ if request_method == "HEAD" => Ok(ResponseBody::None),
        _ => Ok(match framing {
            Framing::Chunked => ResponseBody::Chunked,
            Framing::Length(length) => ResponseBody::Length(length),
            Framing::Absent => ResponseBody::UntilClose,
        }),
    }
}

/// A status that never has a body must not announce one (RFC 9112 §6.1, RFC 9110 §8.6): a recipient that does
/// not know the rule would wait for it, or take the next response for it. `Content-Length: 0` harms nobody.
fn bodiless(framing: Framing) -> Result<ResponseBody, Refusal> {
    match framing {
        Framing::Absent | Framing::Length(0) => Ok(ResponseBody::None),
        _ => Err(Refusal::BodyOnBodiless),
    }
}

/// What the framing fields of a message say.
enum Framing {
    Absent,
    Length(u64),
    Chunked,
}

fn framing_fields(version: Version, fields: &Fields<'_>) -> Result<Framing, Refusal> {
    let length = content_length(fields);
    if !fields.contains("transfer-encoding") {
        return Ok(length?.map_or(Framing::Absent, Framing::Length));
    }
    // RFC 9112 §6.1, §6.3 item 3
    if !matches!(length, Ok(None)) {
        return Err(Refusal::BothLengthAndEncoding);
    }
    // RFC 9112 §6.1: an HTTP/1.0 message with a transfer coding has faulty framing.
    if version == Version::Http10 {
        return Err(Refusal::EncodingInHttp10);
    }
    only_chunked(fields).map(|()| Framing::Chunked)
}

/// The value of the one `Content-Length` (RFC 9112 §6.3 items 5 and 6, RFC 9110 §8.6): digits only. Several
/// values, in lines or in a list, are refused even if they agree.
fn content_length(fields: &Fields<'_>) -> Result<Option<u64>, Refusal> {
    let mut lines = fields.all("content-length");
    let Some(first) = lines.next() else { return Ok(None) };
    if first.contains(&b',') || lines.next().is_some() {
        return Err(repetition(fields));
    }
    read_length(first).map(Some)
}

fn read_length(digits: &[u8]) -> Result<u64, Refusal> {
    match chars::decimal(digits) {
        Some(length) if length <= BODY_BYTES_MAX => Ok(length),
        None if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) => Err(Refusal::BadLength),
        _ => Err(Refusal::LengthOverflow),
    }
}

/// What several lengths are refused as.
#[cold]
fn repetition(fields: &Fields<'_>) -> Refusal {
    let mut first = None;
    for element in fields.all("content-length").flat_map(|line| line.split(|&byte| byte == b',')) {
        match read_length(chars::trim_ows(element)) {
            Err(refusal) => return refusal,
            Ok(length) if *first.get_or_insert(length) != length => return Refusal::LengthDiffers,
            Ok(_) => {}
        }
    }
    Refusal::LengthRepeated
}

/// `Transfer-Encoding` is exactly `chunked` (RFC 9112 §6.1, §7). An empty element is tolerated nowhere: lists
/// are where two parsers differ first.
fn only_chunked(fields: &Fields<'_>) -> Result<(), Refusal> {
    let mut lines = fields.all("transfer-encoding");
    match (lines.next(), lines.next()) {
        (Some(value), None) if value.eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(unreadable_coding(fields)),
    }
}

/// What a coding list other than `chunked` is refused as.
#[cold]
fn unreadable_coding(fields: &Fields<'_>) -> Refusal {
    let codings = || fields.all("transfer-encoding").flat_map(list);
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let chunked = codings().filter(|coding| is_chunked(coding)).count();
    match (chunked, codings().count()) {
        _ if !codings().all(is_coding) => Refusal::BadEncoding,
        (_, 0) | (1, 1) => Refusal::BadEncoding,
        (0, _) => Refusal::UnknownEncoding,
        (1, _) if codings().last().is_some_and(is_chunked) => Refusal::UnknownEncoding,
        (1, _) => Refusal::ChunkedNotLast,
        _ => Refusal::ChunkedRepeated,
    }
}

/// Whether an element reads as a coding: a token, with parameters unless it is `chunked` (RFC 9112 §7).
fn is_coding(coding: &[u8]) -> bool {
    match coding.iter().position(|&byte| byte == b';') {
        None => chars::is_token(coding),
        Some(at) => {
            let name = chars::trim_ows(&coding[..at]);
            chars::is_token(name) && !name.eq_ignore_ascii_case(b"chunked")
        }
    }
}

/// Whether the sender of this message keeps its connection open after it (RFC 9112 §9.3): yes in HTTP/1.1
/// unless `Connection: close`, in HTTP/1.0 only with `Connection: keep-alive`. Right for responses; for requests
/// see [`request_keep_alive`].
#[must_use]
pub fn keep_alive(version: Version, fields: &Fields<'_>) -> bool {
    if has_connection_option(fields, "close") {
        return false;
    }
    version == Version::Http11 || has_connection_option(fields, "keep-alive")
}

/// Whether the connection that brought this request goes on after the response, as far as the client goes. A
/// forward proxy does not keep HTTP/1.0 connections: the client's `keep-alive` may have been meant for a server
/// behind a proxy that passed it on unread (RFC 9112 §9.3, appendix C.2.2).
#[must_use]
pub fn request_keep_alive(head: &RequestHead<'_>, recipient: Recipient) -> bool {
    if recipient == Recipient::Proxy && head.version == Version::Http10 {
        return false;
    }
    keep_alive(head.version, &head.fields)
}

#[cfg(test)]
mod tests;
