//! What field values are made of, and which fields end at this hop: comma lists, quoted strings, `Connection`
//! and what it names, `Via`, `Upgrade`, `Expect`, trailer fields. It does not know what any other field means.
//!
//! What must hold: no `Connection` option can remove a field that frames, routes, authenticates or controls
//! caching ([`end_to_end`]), and no trailer field can become one ([`may_trail`]).

use crate::chars::{self, is_ows, trim_ows};
use crate::head::{Field, Fields, RequestHead, Version};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Whether `bytes` is a `token` (RFC 9110 §5.6.2).
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    chars::is_token(bytes)
}

/// Whether `bytes` may stand as a field value: no control characters but HTAB (RFC 9110 §5.5).
#[must_use]
pub fn is_value(bytes: &[u8]) -> bool {
    chars::is_field_content(bytes)
}

/// The elements of a comma-separated list (RFC 9110 §5.6.1), without the whitespace around them. Empty elements
/// are skipped; commas inside quoted strings do not separate; a quoted string that never ends takes the rest.
#[must_use]
pub fn list(value: &[u8]) -> List<'_> {
    List { rest: Some(value) }
}

/// The list elements of all lines called `name`, in order (RFC 9110 §5.3).
pub fn list_of<'a, 's>(fields: &'s Fields<'a>, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
    fields.all(name).flat_map(list)
}

/// The iterator of [`list`].
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest?;
            let end = element_end(rest);
            self.rest = rest.get(end + 1..);
            let element = trim_ows(&rest[..end]);
            if !element.is_empty() {
                return Some(element);
            }
        }
    }
}

/// Where the element at the front of `bytes` ends: its comma, or the end.
fn element_end(bytes: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b',' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The text of a `quoted-string` (RFC 9110 §5.6.4), unescaped. Borrows when nothing was escaped. `None` if
/// `bytes` is not exactly one quoted string.
#[must_use]
pub fn unquote(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if !chars::is_field_content(inner) {
        return None;
    }
    if inner.iter().any(|byte| matches!(byte, b'"' | b'\\')) {
        return unescape(inner).map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

fn unescape(inner: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => return None,
            b'\\' => text.push(*bytes.next()?),
            _ => text.push(byte),
        }
    }
    Some(text)
}

/// The elements of a list whose grammar has tokens only, as that of `Connection`: split at every comma, for a
/// quotation mark means nothing there and must not hide an element.
fn tokens_of<'a, 's>(fields: &'s Fields<'a>, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
    fields.all(name).flat_map(|value| value.split(|&byte| byte == b',')).map(trim_ows)
}

/// Whether the comma list of the lines called `name` holds `token`, compared without case. For lists of tokens.
#[must_use]
pub fn has_token(fields: &Fields<'_>, name: &str, token: &str) -> bool {
    tokens_of(fields, name).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
}

/// Whether `Connection` holds `option` (RFC 9110 §7.6.1).
#[must_use]
pub fn has_connection_option(fields: &Fields<'_>, option: &str) -> bool {
    has_token(fields, "connection", option)
}

/// Whether the client waits for 100 (Continue) before it sends the body. HTTP/1.0 clients never do (RFC 9110
/// §10.1.1).
#[must_use]
pub fn expects_continue(head: &RequestHead<'_>) -> bool {
    head.version == Version::Http11 && has_token(&head.fields, "expect", "100-continue")
}

/// How many more times the request may be sent on: the value of `Max-Forwards`, in the methods that have it
/// (RFC 9110 §7.6.2). At 0 the recipient answers itself; else it sends on one less. A value that is no number is
/// none.
#[must_use]
pub fn max_forwards(head: &RequestHead<'_>) -> Option<u64> {
    match head.method {
        "OPTIONS" | "TRACE" => head.fields.get("max-forwards").and_then(chars::decimal),
        _ => None,
    }
}

/// Whether the message asks for or grants a switch to `protocol` (RFC 9110 §7.8): `Upgrade` names it, with or
/// without a version, and `Connection` holds `upgrade`.
#[must_use]
pub fn upgrades_to(fields: &Fields<'_>, protocol: &str) -> bool {
    let named = tokens_of(fields, "upgrade").any(|offer| {
        let name = offer.split(|&byte| byte == b'/').next().unwrap_or(offer);
        name.eq_ignore_ascii_case(protocol.as_bytes())
    });
    named && has_connection_option(fields, "upgrade")
}

/// Whether a `Via` member was written by the intermediary called `pseudonym` (RFC 9110 §7.6.3): a loop.
#[must_use]
pub fn via_contains(fields: &Fields<'_>, pseudonym: &str) -> bool {
    list_of(fields, "via").any(|member| received_by(member).eq_ignore_ascii_case(pseudonym.as_bytes()))
}

/// The second word of a `Via` member: who received the message.
fn received_by(member: &[u8]) -> &[u8] {
    member.split(|&byte| is_ows(byte)).filter(|word| !word.is_empty()).nth(1).unwrap_or_default()
}

/// The fields to send on (RFC 9110 §7.6.1): all but the fields of this connection ([`is_hop_by_hop`]) and those
/// that `Connection` names. The caller frames the outgoing message itself: `Content-Length` passes through here
/// (it also describes the representation), `Transfer-Encoding` and `Upgrade` do not.
///
/// Fields that frame, route, authenticate or control caching stay even if `Connection` names them, for otherwise
/// a client could take them from a message behind the back of whoever checked it.
pub fn end_to_end<'s, 'a>(fields: &'s Fields<'a>) -> impl Iterator<Item = &'s Field<'a>> {
    let nominated = Nominated::by(fields);
    fields.iter().filter(move |field| !is_hop_by_hop(field.name) && !nominated.names(field.name))
}

/// Connection options that are looked up one by one.
const NOMINATED_MAX: usize = 32;

/// The connection options that could be the name of a field to remove. Most messages have none.
struct Nominated<'a> {
    options: SmallVec<[&'a [u8]; 4]>,
}

impl<'a> Nominated<'a> {
    fn by(fields: &Fields<'a>) -> Self {
        let options = tokens_of(fields, "connection").filter(|option| !is_plain_option(option));
        Self { options: options.take(NOMINATED_MAX + 1).collect() }
    }

    /// Whether the field is named and may be removed. A message with more options than anyone needs names
    /// everything, so that looking for each field among thousands of options is nothing that a client can ask for.
    fn names(&self, field: &str) -> bool {
        let named = || self.options.iter().any(|option| option.eq_ignore_ascii_case(field.as_bytes()));
        (self.options.len() > NOMINATED_MAX || named()) && !is_protected(field)
    }
}

fn is_plain_option(option: &[u8]) -> bool {
    [&b"close"[..], b"keep-alive", b"upgrade", b""].iter().any(|plain| option.eq_ignore_ascii_case(plain))
}

/// Fields that belong to one connection even if `Connection` does not name them (RFC 9110 §7.6.1). The
/// `Proxy-*` credentials are among them because the next server is an origin, not a proxy (RFC 9110 §11.7).
/// `Trailer` is not: trailer fields are sent on, and so is their announcement (RFC 9110 §6.6.2).
#[must_use]
pub fn is_hop_by_hop(name: &str) -> bool {
    let candidates: &[&str] = match name.len() {
        2 => &["te"],
        7 => &["upgrade"],
        10 => &["connection", "keep-alive"],
        14 => &["http2-settings"],
        16 => &["proxy-connection"],
        17 => &["transfer-encoding"],
        18 => &["proxy-authenticate"],
        19 => &["proxy-authorization"],
        25 => &["proxy-authentication-info"],
        _ => &[],
    };
    is_among(name, candidates)
}

/// Fields that a `Connection` option never removes: those for all recipients (RFC 9110 §7.6.1).
#[must_use]
pub fn is_protected(name: &str) -> bool {
    const PROTECTED: &[&str] = &[
        "age",
        "allow",
        "authorization",
        "cache-control",
        "cookie",
        "date",
        "etag",
        "expect",
        "expires",
        "forwarded",
        "host",
        "last-modified",
        "location",
        "max-forwards",
        "origin",
        "pragma",
        "range",
        "set-cookie",
        "trailer",
        "vary",
        "via",
        "www-authenticate",
        "x-real-ip",
    ];
    const PROTECTED_PREFIXES: &[&str] = &["accept", "content-", "if-", "sec-", "x-forwarded-"];
    is_among(name, PROTECTED) || starts_with_any(name, PROTECTED_PREFIXES)
}

/// Whether a field may be taken from a trailer section and sent on in one (RFC 9110 §6.5.1). Fields that frame,
/// route, authenticate, or change how the message is handled or cached are refused; a digest of the content is
/// what trailers are for.
#[must_use]
pub fn may_trail(name: &str) -> bool {
    const FORBIDDEN: &[&str] = &[
        "age",
        "authentication-info",
        "authorization",
        "cache-control",
        "cookie",
        "date",
        "etag",
        "expect",
        "expires",
        "forwarded",
        "host",
        "last-modified",
        "location",
        "max-forwards",
        "pragma",
        "range",
        "retry-after",
        "set-cookie",
        "trailer",
        "vary",
        "via",
        "warning",
        "www-authenticate",
    ];
    const FORBIDDEN_PREFIXES: &[&str] = &["accept", "content-", "if-", "proxy-", "sec-", "x-forwarded-"];
    let forbidden =
        is_hop_by_hop(name) || is_among(name, FORBIDDEN) || starts_with_any(name, FORBIDDEN_PREFIXES);
    !forbidden || name.eq_ignore_ascii_case("content-digest")
}

fn is_among(name: &str, candidates: &[&str]) -> bool {
    candidates.iter().any(|candidate| name.eq_ignore_ascii_case(candidate))
}

fn starts_with_any(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| {
        name.as_bytes().get(..prefix.len()).is_some_and(|front| front.eq_ignore_ascii_case(prefix.as_bytes()))
    })
}

#[cfg(test)]
mod tests;
