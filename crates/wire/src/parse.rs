//! Heads, from bytes to [`RequestHead`] and [`ResponseHead`] (RFC 9112 §2 to §5). `httparse` reads the field
//! lines; the start lines, and every rule that it does not hold to, are here.
//!
//! What must hold: what is accepted here has one reading. Lines end in CRLF and nothing else, each part is
//! separated as the grammar says, and nothing is repaired. When `httparse` refuses, `diagnose` finds the name
//! of the rule.

use crate::chars::{self, is_ows};
use crate::head::{Fields, RequestHead, ResponseHead, Version};
use crate::limits::{FIELDS_MAX, Limits};
use crate::refusal::Refusal;
use crate::scan::{HeadScan, HeadText};
use core::str;

/// Bytes of the longest method that is read.
const METHOD_BYTES_MAX: usize = 64;

/// Field lines for which the small table is enough: nearly all heads.
const FIELDS_SMALL: usize = 24;

/// What came of reading a buffer.
#[derive(Clone, Debug)]
pub enum Parsed<T> {
    /// A whole head.
    Complete {
        /// What it says.
        head: T,
        /// Bytes of the buffer that it takes, skipped empty lines included.
        len: usize,
    },
    /// The head goes on past the end of the buffer.
    Partial,
}

/// Reads a request head at the front of `bytes` (RFC 9112 §3). Whoever reads from a socket keeps a [`HeadScan`]
/// and calls [`request_head`], so that nothing is looked at twice.
#[inline]
pub fn request<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Parsed<RequestHead<'a>>, Refusal> {
    match HeadScan::request().advance(bytes, limits)? {
        Some(text) => Ok(Parsed::Complete { head: request_head(&text, limits)?, len: text.len() }),
        None => Ok(Parsed::Partial),
    }
}

/// Reads a response head at the front of `bytes` (RFC 9112 §4). Whoever reads from a socket keeps a
/// [`HeadScan`] and calls [`response_head`].
#[inline]
pub fn response<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Parsed<ResponseHead<'a>>, Refusal> {
    match HeadScan::response().advance(bytes, limits)? {
        Some(text) => Ok(Parsed::Complete { head: response_head(&text)?, len: text.len() }),
        None => Ok(Parsed::Partial),
    }
}

/// Reads a complete request head (RFC 9112 §3). The target is checked for its bytes and length only;
/// [`crate::target`] tells its form.
#[inline]
pub fn request_head<'a>(text: &HeadText<'a>, limits: &Limits) -> Result<RequestHead<'a>, Refusal> {
    let (line, section) = text.split();
    let (method, target, version) = request_line(line, limits)?;
    let mut fields = Fields::new();
    field_section(section, text.field_lines(), &mut fields)?;
    check_host(version, &fields)?;
    Ok(RequestHead { method, target, version, fields })
}

/// Reads a complete response head (RFC 9112 §4).
#[inline]
pub fn response_head<'a>(text: &HeadText<'a>) -> Result<ResponseHead<'a>, Refusal> {
    let (line, section) = text.split();
    let (version, status, reason) = status_line(line)?;
    let mut fields = Fields::new();
    field_section(section, text.field_lines(), &mut fields)?;
    Ok(ResponseHead { version, status, reason, fields })
}

/// `method SP request-target SP HTTP-version` (RFC 9112 §3).
fn request_line<'a>(line: &'a [u8], limits: &Limits) -> Result<(&'a str, &'a str, Version), Refusal> {
    check_line_bytes(line)?;
    let (method, rest) = split_at_space(line).unwrap_or((line, b""));
    let (target, version) = split_at_space(rest).unwrap_or((rest, b""));
    let method = read_method(method)?;
    let target = read_target(target, version, limits)?;
    Ok((method, target, read_version(version)?))
}

fn read_method(bytes: &[u8]) -> Result<&str, Refusal> {
    match bytes {
        [] | [b'\t', ..] => Err(Refusal::StartLineWhitespace),
        _ if !chars::is_token(bytes) => Err(Refusal::BadMethod),
        _ if bytes.len() > METHOD_BYTES_MAX => Err(Refusal::MethodTooLong),
        _ => str::from_utf8(bytes).map_err(|_| Refusal::BadMethod),
    }
}

/// Any visible ASCII may stand in a target: what is sent on is what was received, byte for byte, and clients do
/// send `|` and `"` unescaped.
fn read_target<'a>(bytes: &'a [u8], version: &[u8], limits: &Limits) -> Result<&'a str, Refusal> {
    match bytes {
        [] if !version.is_empty() => Err(Refusal::StartLineWhitespace),
        [] => Err(Refusal::BadTarget),
        _ if bytes.len() > limits.target_bytes => Err(Refusal::TargetTooLong),
        _ if !chars::is_visible(bytes) => Err(Refusal::BadTarget),
        _ => str::from_utf8(bytes).map_err(|_| Refusal::BadTarget),
    }
}

/// `HTTP/DIGIT.DIGIT` (RFC 9112 §2.3). Later minor versions are read as 1.1 (RFC 9110 §6.2).
fn read_version(bytes: &[u8]) -> Result<Version, Refusal> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(Refusal::VersionUnsupported),
        _ if bytes.iter().any(|&byte| is_ows(byte)) => Err(Refusal::StartLineWhitespace),
        _ => Err(Refusal::BadVersion),
    }
}

/// `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 §4). The second space may be missing with the
/// reason: servers do that, and the line that is sent on is written anew.
fn status_line(line: &[u8]) -> Result<(Version, u16, &[u8]), Refusal> {
    check_line_bytes(line)?;
    let (version, rest) = split_at_space(line).unwrap_or((line, b""));
    let version = read_version(version)?;
    let (code, reason) = split_at_space(rest).unwrap_or((rest, b""));
    if !chars::is_field_content(reason) {
        return Err(Refusal::BadStatusLine);
    }
    Ok((version, read_status(code)?, reason))
}

fn read_status(code: &[u8]) -> Result<u16, Refusal> {
    match code {
        [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
            Ok(code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
        }
        _ => Err(Refusal::BadStatus),
    }
}

/// The two bytes that are refused by their own name wherever they stand. The line has no LF.
fn check_line_bytes(line: &[u8]) -> Result<(), Refusal> {
    match memchr::memchr2(b'\r', 0, line) {
        Some(at) if line[at] == 0 => Err(Refusal::Nul),
        Some(_) => Err(Refusal::BareCr),
        None => Ok(()),
    }
}

fn split_at_space(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(b' ', bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// RFC 9112 §3.2: exactly one `Host` in HTTP/1.1, never several.
fn check_host(version: Version, fields: &Fields<'_>) -> Result<(), Refusal> {
    let mut hosts = fields.all("host");
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Refusal::HostRepeated),
        (None, None) if version == Version::Http11 => Err(Refusal::HostMissing),
        _ => Ok(()),
    }
}

/// Reads `field_lines` field lines and the blank line after them: the rest of a head, or a trailer section
/// (RFC 9112 §5). Every line of `section` is known to end in CRLF. Appends in place: [`Fields`] is large, and
/// moving it costs as much as reading a small head.
pub(crate) fn field_section<'a>(
    section: &'a [u8],
    field_lines: usize,
    fields: &mut Fields<'a>,
) -> Result<(), Refusal> {
    if field_lines <= FIELDS_SMALL {
        return read_fields::<FIELDS_SMALL>(section, fields);
    }
    read_fields::<FIELDS_MAX>(section, fields)
}

fn read_fields<'a, const SLOTS: usize>(section: &'a [u8], fields: &mut Fields<'a>) -> Result<(), Refusal> {
    let mut slots = [httparse::EMPTY_HEADER; SLOTS];
    match httparse::parse_headers(section, &mut slots) {
        Ok(httparse::Status::Complete((end, lines))) if end == section.len() => {
            lines.iter().for_each(|line| fields.push(line.name, line.value));
            Ok(())
        }
        Err(httparse::Error::TooManyHeaders) => Err(Refusal::TooManyFields),
        _ => Err(diagnose(section)),
    }
}

/// The name of the first rule that a refused field section breaks.
#[cold]
fn diagnose(section: &[u8]) -> Refusal {
    section
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .find_map(|line| check_field_line(line).err())
        .unwrap_or(Refusal::BadFieldName)
}

/// `field-name ":" OWS field-value OWS` (RFC 9112 §5), slowly.
fn check_field_line(line: &[u8]) -> Result<(), Refusal> {
    check_line_bytes(line)?;
    if line.first().is_some_and(|&byte| is_ows(byte)) {
        return Err(Refusal::ObsFold);
    }
    let colon = memchr::memchr(b':', line).ok_or(Refusal::ColonMissing)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    match name {
        [] => Err(Refusal::EmptyName),
        [.., b' ' | b'\t'] => Err(Refusal::SpaceBeforeColon),
        _ if !chars::is_token(name) => Err(Refusal::BadFieldName),
        _ if !chars::is_field_content(value) => Err(Refusal::ControlInValue),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
