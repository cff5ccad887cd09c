//! The three forms of a line. Each ends in exactly one line feed and holds no other.
//!
//! *combined*: the Combined Log Format, then result, reason and seconds:
//! `10.0.0.9 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 512 "-" "curl/8" hit - 0.000042`
//!
//! *squid*: seconds, elapsed milliseconds, client, code/status, bytes, method, URL, user, hierarchy/peer, type:
//! `971186136.250      3 10.0.0.9 TCP_MISS/200 512 GET http://a/b - HIER_DIRECT/10.0.0.1 text/html`
//!
//! *json*: one object, absent values left out.

use std::io::Write;
use std::net::IpAddr;

use itoa::Buffer as Digits;
use wire::Version;

use super::Entry;
use super::escape;
use super::time::Clock;
use crate::metrics::RequestResult;
use crate::settings::LogFormat;

/// Appends one line.
pub(super) fn line(out: &mut Vec<u8>, format: LogFormat, clock: &mut Clock, entry: &Entry<'_>) {
    match format {
        LogFormat::Combined => combined(out, clock, entry),
        LogFormat::Json => json(out, clock, entry),
        LogFormat::Squid => squid(out, entry),
    }
    out.push(b'\n');
}

fn combined(out: &mut Vec<u8>, clock: &mut Clock, e: &Entry<'_>) {
    client_ip(out, e);
    words(out, &[b" - - [", clock.common(e.at_millis).as_bytes(), b"] \""]);
    request_line(out, e);
    words(out, &[b"\" ", number(e.status.into(), &mut Digits::new()), b" "]);
    words(out, &[number(e.body_bytes, &mut Digits::new()), b" \""]);
    escape::quoted(out, or_dash(e.referer));
    out.extend_from_slice(b"\" \"");
    escape::quoted(out, or_dash(e.user_agent));
    words(out, &[b"\" ", e.result.word().as_bytes(), b" ", e.reason.unwrap_or("-").as_bytes(), b" "]);
    seconds(out, e.nanos);
}

/// `GET /a HTTP/1.1`, or `-` when no head could be parsed.
fn request_line(out: &mut Vec<u8>, e: &Entry<'_>) {
    if e.method.is_empty() {
        return out.push(b'-');
    }
    escape::quoted(out, e.method);
    out.push(b' ');
    escape::quoted(out, e.target);
    out.push(b' ');
    out.extend_from_slice(version(e.version).as_bytes());
}

fn squid(out: &mut Vec<u8>, e: &Entry<'_>) {
    words(out, &[number(e.at_millis / 1000, &mut Digits::new()), b"."]);
    digits(out, e.at_millis % 1000, 3);
    put(out, format_args!(" {:6} ", e.nanos / 1_000_000));
    client_ip(out, e);
    words(out, &[b" ", squid_code(e).as_bytes(), b"/"]);
    digits(out, e.status.into(), 3);
    words(out, &[b" ", number(e.body_bytes, &mut Digits::new()), b" "]);
    escape::spaceless(out, some_or_dash(e.method));
    out.push(b' ');
    squid_url(out, e);
    match e.origin {
        Some(origin) => put(out, format_args!(" - HIER_DIRECT/{} ", origin.ip())),
        None => out.extend_from_slice(b" - HIER_NONE/- "),
    }
    let media_type = e.content_type.map(|v| v.split(|b| *b == b';').next().unwrap_or(v).trim_ascii());
    escape::spaceless(out, or_dash(media_type));
}

/// Squid logs absolute URLs; an origin-form target is completed with the host.
fn squid_url(out: &mut Vec<u8>, e: &Entry<'_>) {
    if e.target.starts_with(b"/") && !e.host.is_empty() {
        out.extend_from_slice(b"http://");
        escape::spaceless(out, e.host);
    }
    escape::spaceless(out, some_or_dash(e.target));
}

/// The closest of Squid's result codes.
fn squid_code(e: &Entry<'_>) -> &'static str {
    match e.result {
        RequestResult::Hit if e.status == 304 => "TCP_IMS_HIT",
        RequestResult::Hit => "TCP_HIT",
        RequestResult::Miss | RequestResult::Pass => "TCP_MISS",
        RequestResult::Revalidated => "TCP_REFRESH_UNMODIFIED",
        RequestResult::Stale => "TCP_REFRESH_FAIL_OLD",
        RequestResult::Collapsed => "TCP_CF_HIT",
        RequestResult::Tunnel => "TCP_TUNNEL",
        RequestResult::Error if e.status == 403 => "TCP_DENIED",
        RequestResult::Error => "NONE",
        RequestResult::Shed => "TCP_DENIED",
    }
}

fn json(out: &mut Vec<u8>, clock: &mut Clock, e: &Entry<'_>) {
    words(out, &[b"{\"time\":\"", clock.rfc3339(e.at_millis).as_bytes(), b"."]);
    digits(out, e.at_millis % 1000, 3);
    out.extend_from_slice(b"Z\",\"client\":\"");
    client_ip(out, e);
    words(out, &[b"\",\"port\":", number(e.client.port().into(), &mut Digits::new())]);
    json_member(out, "method", some(e.method));
    json_member(out, "target", some(e.target));
    json_member(out, "host", some(e.host));
    json_member(out, "version", Some(version(e.version).as_bytes()));
    words(out, &[b",\"status\":", number(e.status.into(), &mut Digits::new())]);
    words(out, &[b",\"body_bytes\":", number(e.body_bytes, &mut Digits::new()), b",\"seconds\":"]);
    seconds(out, e.nanos);
    json_member(out, "result", Some(e.result.word().as_bytes()));
    json_member(out, "reason", e.reason.map(str::as_bytes));
    if let Some(origin) = e.origin {
        put(out, format_args!(",\"origin\":\"{origin}\""));
    }
    json_member(out, "referer", e.referer);
    json_member(out, "user_agent", e.user_agent);
    json_member(out, "content_type", e.content_type);
    out.push(b'}');
}

fn json_member(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
    let Some(value) = value else { return };
    words(out, &[b",\"", name.as_bytes(), b"\":\""]);
    escape::json(out, value);
    out.push(b'"');
}

/// The client's address. Nearly all are IPv4, which is written here in a quarter of the time of the general way.
fn client_ip(out: &mut Vec<u8>, e: &Entry<'_>) {
    let IpAddr::V4(ip) = e.client.ip() else { return put(out, format_args!("{}", e.client.ip())) };
    for (at, octet) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(number(octet.into(), &mut Digits::new()));
    }
}

/// Seconds with six decimals.
fn seconds(out: &mut Vec<u8>, nanos: u64) {
    let micros = nanos / 1000;
    words(out, &[number(micros / 1_000_000, &mut Digits::new()), b"."]);
    digits(out, micros % 1_000_000, 6);
}

/// A number with leading zeros up to `width` digits.
fn digits(out: &mut Vec<u8>, n: u64, width: usize) {
    let mut buffer = Digits::new();
    let text = number(n, &mut buffer);
    out.extend_from_slice(&b"000000"[..width.saturating_sub(text.len()).min(6)]);
    out.extend_from_slice(text);
}

fn number(n: u64, buffer: &mut Digits) -> &[u8] {
    buffer.format(n).as_bytes()
}

fn words(out: &mut Vec<u8>, words: &[&[u8]]) {
    words.iter().for_each(|word| out.extend_from_slice(word));
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    }
}

fn or_dash(value: Option<&[u8]>) -> &[u8] {
    value.map_or(b"-", some_or_dash)
}

/// Nothing instead of an empty value.
fn some(value: &[u8]) -> Option<&[u8]> {
    Some(value).filter(|value| !value.is_empty())
}

const fn some_or_dash(value: &[u8]) -> &[u8] {
    if value.is_empty() { b"-" } else { value }
}

/// Writing to a `Vec` does not fail.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
