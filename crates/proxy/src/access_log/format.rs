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
    put(out, format_args!("{} - - [{}] \"", e.client.ip(), clock.common(e.at_millis)));
    request_line(out, e);
    put(out, format_args!("\" {} {} \"", e.status, e.body_bytes));
    escape::quoted(out, or_dash(e.referer));
    out.extend_from_slice(b"\" \"");
    escape::quoted(out, or_dash(e.user_agent));
    put(out, format_args!("\" {} {} ", e.result.word(), e.reason.unwrap_or("-")));
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
    let (seconds, millis) = (e.at_millis / 1000, e.at_millis % 1000);
    put(out, format_args!("{seconds}.{millis:03} {:6} {} ", e.nanos / 1_000_000, e.client.ip()));
    put(out, format_args!("{}/{:03} {} ", squid_code(e), e.status, e.body_bytes));
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
    let date = clock.rfc3339(e.at_millis);
    put(out, format_args!("{{\"time\":\"{date}.{:03}Z\",\"client\":\"{}\"", e.at_millis % 1000, e.client));
    json_member(out, "method", Some(e.method).filter(|m| !m.is_empty()));
    json_member(out, "target", Some(e.target).filter(|t| !t.is_empty()));
    json_member(out, "host", Some(e.host).filter(|h| !h.is_empty()));
    put(out, format_args!(",\"version\":\"{}\",\"status\":{}", version(e.version), e.status));
    put(out, format_args!(",\"body_bytes\":{},\"seconds\":", e.body_bytes));
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
    put(out, format_args!(",\"{name}\":\""));
    escape::json(out, value);
    out.push(b'"');
}

fn seconds(out: &mut Vec<u8>, nanos: u64) {
    let micros = nanos / 1000;
    put(out, format_args!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
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

const fn some_or_dash(value: &[u8]) -> &[u8] {
    if value.is_empty() { b"-" } else { value }
}

/// Writing to a `Vec` does not fail.
fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
