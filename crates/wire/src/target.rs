//! Who is asked for what: the four forms of a request target (RFC 9112 §3.2), the authority in it or in `Host`,
//! and the target URI they make together (RFC 9110 §7.1). Paths and queries are never decoded or rewritten.
//!
//! What must hold: one host has one spelling here. Names are unreserved ASCII only (nothing percent-encoded),
//! addresses are parsed, and a name that a resolver would take for an address (`127.1`, `0x7f000001`) is refused,
//! so that an access rule and the resolver cannot see two different hosts.

use crate::chars;
use crate::head::RequestHead;
use crate::refusal::Refusal;
use crate::write;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str;

/// Bytes of the longest host name (RFC 1035 §2.3.4).
const HOST_BYTES_MAX: usize = 255;

/// The schemes that a target may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http` (RFC 9110 §4.2.1).
    Http,
    /// `https` (RFC 9110 §4.2.2).
    Https,
}

impl Scheme {
    /// The name in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that an authority without one means.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host: an address, or a name in the case it was received in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// A registered name, not empty.
    Name(&'a str),
    /// An IPv4 address, dotted decimal.
    V4(Ipv4Addr),
    /// An IPv6 address; brackets around it when written.
    V6(Ipv6Addr),
}

/// A host with an optional port (RFC 3986 §3.2 without userinfo).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host.
    pub host: Host<'a>,
    /// The port if one was written.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host [ ":" port ]`, the value of `Host` and the authority of a target (RFC 9110 §7.2). A colon
    /// without a port is no port.
    pub fn parse(text: &'a [u8]) -> Result<Self, Refusal> {
        if text.contains(&b'@') {
            return Err(Refusal::UserinfoInTarget);
        }
        let host_end = match text {
            [b'[', ..] => memchr::memchr(b']', text).ok_or(Refusal::BadAuthority)? + 1,
            _ => memchr::memchr(b':', text).unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        Ok(Self { host: read_host(host)?, port: read_port(rest)? })
    }

    /// The port to connect to.
    #[must_use]
    pub fn port_or_default(&self, scheme: Scheme) -> u16 {
        self.port.unwrap_or(scheme.default_port())
    }

    /// Appends the one normal spelling: lower case, canonical address, no port where it is the scheme's own
    /// (RFC 9110 §4.2.3).
    pub fn write(&self, out: &mut Vec<u8>, scheme: Scheme) {
        self.write_host(out);
        if let Some(port) = self.port
            && port != scheme.default_port()
        {
            out.push(b':');
            write::decimal(out, u64::from(port));
        }
    }

    /// Appends the host alone in its normal spelling.
    pub fn write_host(&self, out: &mut Vec<u8>) {
        match self.host {
            Host::Name(name) => out.extend(name.bytes().map(|byte| byte.to_ascii_lowercase())),
            Host::V4(address) => write_v4(out, address),
            Host::V6(address) => write::display(out, format_args!("[{address}]")),
        }
    }
}

fn write_v4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let [first, rest @ ..] = address.octets();
    write::decimal(out, u64::from(first));
    for octet in rest {
        out.push(b'.');
        write::decimal(out, u64::from(octet));
    }
}

fn read_host(text: &[u8]) -> Result<Host<'_>, Refusal> {
    let host = str::from_utf8(text).map_err(|_| Refusal::BadAuthority)?;
    if let Some(literal) = host.strip_prefix('[') {
        let address = literal.strip_suffix(']').and_then(|address| address.parse().ok());
        return address.map(Host::V6).ok_or(Refusal::BadAuthority);
    }
    if ends_in_number(host) {
        return host.parse().map(Host::V4).map_err(|_| Refusal::BadAuthority);
    }
    if is_name(host) { Ok(Host::Name(host)) } else { Err(Refusal::BadAuthority) }
}

/// Labels of unreserved characters, none empty; one dot may stand at the end.
fn is_name(host: &str) -> bool {
    let bytes = host.as_bytes();
    let empty_label =
        bytes.first().is_none_or(|&byte| byte == b'.') || bytes.windows(2).any(|two| two == b"..");
    bytes.len() <= HOST_BYTES_MAX && !empty_label && chars::is_unreserved(bytes)
}

/// Whether a resolver could read the host as an address: its last label is a number, decimal or hexadecimal.
fn ends_in_number(host: &str) -> bool {
    let bytes = host.as_bytes();
    let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
    let start = memchr::memrchr(b'.', bytes).map_or(0, |dot| dot + 1);
    match &bytes[start..] {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        [b'0'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// `[ ":" [ port ] ]`
fn read_port(text: &[u8]) -> Result<Option<u16>, Refusal> {
    match text {
        [] | [b':'] => Ok(None),
        [b':', digits @ ..] if digits.len() <= 5 => match chars::decimal(digits).map(u16::try_from) {
            Some(Ok(port @ 1..)) => Ok(Some(port)),
            _ => Err(Refusal::BadAuthority),
        },
        _ => Err(Refusal::BadAuthority),
    }
}

/// The four forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// origin-form: a path that begins with `/`, with its query.
    Origin(&'a str),
    /// absolute-form, as a proxy receives it.
    Absolute {
        /// The scheme.
        scheme: Scheme,
        /// Host and port.
        authority: Authority<'a>,
        /// The rest as received: empty, or from its `/` or `?` on.
        path_and_query: &'a str,
    },
    /// authority-form, of `CONNECT` only; its port is always there.
    Authority {
        /// The host to connect to.
        host: Host<'a>,
        /// The port to connect to.
        port: u16,
    },
    /// asterisk-form, of `OPTIONS` only.
    Asterisk,
}

/// Tells the form of a request target. `target` is visible ASCII, as [`crate::parse`] makes sure of.
pub fn parse<'a>(method: &str, target: &'a str) -> Result<Target<'a>, Refusal> {
    if target.contains('#') {
        return Err(Refusal::FragmentInTarget);
    }
    match target.as_bytes() {
        _ if method == "CONNECT" => authority_form(target),
        [b'/', ..] => Ok(Target::Origin(target)),
        b"*" if method == "OPTIONS" => Ok(Target::Asterisk),
        _ => absolute_form(target),
    }
}

fn authority_form(target: &str) -> Result<Target<'_>, Refusal> {
    let Authority { host, port } = Authority::parse(target.as_bytes())?;
    Ok(Target::Authority { host, port: port.ok_or(Refusal::BadAuthority)? })
}

fn absolute_form(target: &str) -> Result<Target<'_>, Refusal> {
    let (scheme, rest) = target.split_once("://").ok_or(Refusal::BadTarget)?;
    let scheme = match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
        _ if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
        _ => return Err(Refusal::SchemeUnsupported),
    };
    let (authority, path_and_query) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    Ok(Target::Absolute { scheme, authority: Authority::parse(authority.as_bytes())?, path_and_query })
}

/// What a request asks for, whatever form its target has (RFC 9110 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetUri<'a> {
    /// The scheme.
    pub scheme: Scheme,
    /// Whom the request is for: from the target if it says so, else from `Host` (RFC 9112 §3.3). For `CONNECT`
    /// the port is always there, and the scheme means nothing.
    pub authority: Authority<'a>,
    /// As received: empty, `*`, or from its `/` or `?` on; [`Self::write_path_and_query`] makes it sendable.
    pub path_and_query: &'a str,
}

/// Puts target and `Host` together (RFC 9112 §3.3). An absolute target wins over `Host`, which must then be
/// replaced in what is sent on (RFC 9112 §3.2.2); an invalid `Host` is refused even so (RFC 9112 §3.2).
///
/// `scheme` is that of the connection; `default` is whom a request without `Host` is for, where there is such.
pub fn target_uri<'a>(
    head: &RequestHead<'a>,
    scheme: Scheme,
    default: Option<Authority<'a>>,
) -> Result<TargetUri<'a>, Refusal> {
    let host = host_field(head)?;
    let by_host = |path_and_query| {
        let authority = host.or(default).ok_or(Refusal::HostMissing)?;
        Ok(TargetUri { scheme, authority, path_and_query })
    };
    match parse(head.method, head.target)? {
        Target::Origin(path_and_query) => by_host(path_and_query),
        Target::Asterisk => by_host("*"),
        Target::Absolute { scheme, authority, path_and_query } => {
            Ok(TargetUri { scheme, authority, path_and_query })
        }
        Target::Authority { host, port } => {
            Ok(TargetUri { scheme, authority: Authority { host, port: Some(port) }, path_and_query: "" })
        }
    }
}

/// The value of `Host`; an empty one is none (RFC 9110 §7.2).
fn host_field<'a>(head: &RequestHead<'a>) -> Result<Option<Authority<'a>>, Refusal> {
    let mut lines = head.fields.all("host");
    let first = lines.next();
    if lines.next().is_some() {
        return Err(Refusal::HostRepeated);
    }
    first.filter(|value| !value.is_empty()).map(Authority::parse).transpose()
}

impl TargetUri<'_> {
    /// Appends path and query as origin-form (RFC 9112 §3.2.1): an empty path becomes `/`, or `*` in an
    /// `OPTIONS` request without path and query (RFC 9112 §3.2.4).
    pub fn write_path_and_query(&self, out: &mut Vec<u8>, method: &str) {
        let start: &[u8] = match self.path_and_query.as_bytes() {
            [] if method == "OPTIONS" => b"*",
            [] | [b'?', ..] => b"/",
            _ => b"",
        };
        out.extend_from_slice(start);
        out.extend_from_slice(self.path_and_query.as_bytes());
    }
}

#[cfg(test)]
mod tests;
