//! How values are written: sizes, durations, origins, hosts and devices, read and printed.
//!
//! Every reader is total and exact: what it does not take it refuses, and what is printed reads back as the same value.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{DeviceSpec, OriginUrl};

/// The forms of a size.
pub const SIZE_FORMS: &str = "a whole number with a unit: \"512KiB\", \"256MiB\", \"4GiB\", \"1TiB\"";
/// The forms of a duration.
pub const DURATION_FORMS: &str = "a whole number with a unit: \"250ms\", \"10s\", \"5min\", \"1h\"";
/// The forms of an origin.
pub const ORIGIN_FORMS: &str = "\"http://HOST\" or \"http://HOST:PORT\", without a path";
/// The forms of a host of a site.
pub const HOST_FORMS: &str = "\"www.example.com\", \"*.example.com\" or \"*\" for every host, without a port";
/// The forms of a device on the command line.
pub const DEVICE_FORMS: &str = "a block device, or path=FILE,size=4GiB";

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const DURATIONS: [(&str, u64); 4] = [("h", 3_600_000), ("min", 60_000), ("ms", 1), ("s", 1000)];

/// Bytes from `256MiB`; a bare number is bytes.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    if let Ok(bytes) = text.parse() {
        return Some(bytes);
    }
    scaled(text, &SIZES)
}

/// A duration from `10s`. A bare number is refused: it does not say of what.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    scaled(text, &DURATIONS).map(Duration::from_millis)
}

/// A whole number before one of `units`, multiplied. Nothing is rounded and nothing overflows.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let digits = digits.trim_end();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size in the largest unit that says it exactly.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    unscaled(bytes, &SIZES, "0B")
}

/// A duration in the largest unit that says it exactly.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let units = [DURATIONS[0], DURATIONS[1], DURATIONS[3], DURATIONS[2]];
    unscaled(duration.as_millis() as u64, &units, "0s")
}

fn unscaled(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let exact = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    match exact {
        Some((unit, factor)) if value > 0 => format!("{}{unit}", value / factor),
        _ => zero.into(),
    }
}

/// Why a text is not an origin, a host or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `https://`.
    Https,
    /// No `http://` in front.
    NoScheme,
    /// Something after the authority.
    Path,
    /// `user@`.
    UserInfo,
    /// The host is empty or has characters that no host name has.
    Host,
    /// Not a port from 1 to 65535.
    Port,
    /// A host of a site with a port.
    HostWithPort,
    /// `*` elsewhere than alone or as the first label.
    Wildcard,
    /// A word other than `path=` or `size=`, or one of them twice.
    DeviceWord,
    /// No path.
    NoPath,
    /// The size of a device cannot be read.
    Size,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Https => "asks for TLS, which this version does not speak to origins",
            Self::NoScheme => "does not begin with http://",
            Self::Path => "has a path, query or fragment; an origin is a scheme, a host and a port",
            Self::UserInfo => "holds a user name or password",
            Self::Host => "does not name a host",
            Self::Port => "has a port that is not between 1 and 65535",
            Self::HostWithPort => "has a port; a site is found by its host alone",
            Self::Wildcard => "has a * elsewhere than as the whole first label",
            Self::DeviceWord => "has a part that is neither path=… nor size=…, or one twice",
            Self::NoPath => "names no path",
            Self::Size => "has a size that cannot be read",
        })
    }
}

/// An origin from `http://HOST[:PORT][/]`.
///
/// # Errors
/// The first thing that is wrong, from left to right.
pub fn parse_origin(text: &str) -> Result<OriginUrl, Refusal> {
    let (scheme, rest) = text.split_once("://").ok_or(Refusal::NoScheme)?;
    if scheme.eq_ignore_ascii_case("https") {
        return Err(Refusal::Https);
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::NoScheme);
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(Refusal::Path);
    }
    if authority.contains('@') {
        return Err(Refusal::UserInfo);
    }
    let (host, port) = split_port(authority)?;
    Ok(OriginUrl { host: plain_host(host).ok_or(Refusal::Host)?, port: port.unwrap_or(80) })
}

/// `host:port` or `[v6]:port`, the port optional.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), Refusal> {
    let colon = match authority.rfind(']') {
        Some(bracket) => authority[bracket..].find(':').map(|at| bracket + at),
        None => authority.rfind(':'),
    };
    let Some(colon) = colon else { return Ok((authority, None)) };
    let port = authority[colon + 1..].parse().ok().filter(|port| *port != 0).ok_or(Refusal::Port)?;
    Ok((&authority[..colon], Some(port)))
}

/// A host name or address in lower case, brackets removed.
fn plain_host(text: &str) -> Option<String> {
    if let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return matches!(inside.parse(), Ok(IpAddr::V6(_))).then(|| inside.to_ascii_lowercase());
    }
    let label = |l: &str| {
        (1..=63).contains(&l.len()) && l.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    (name.len() <= 253 && name.split('.').all(label)).then(|| name.to_ascii_lowercase())
}

/// A host of a site: a name, an address, `*.name` or `*`.
///
/// # Errors
/// What keeps it from being one.
pub fn parse_host(text: &str) -> Result<String, Refusal> {
    if text == "*" {
        return Ok(text.into());
    }
    if matches!(text.parse(), Ok(IpAddr::V6(_))) {
        return Ok(text.to_ascii_lowercase());
    }
    let (star, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
    if name.contains('*') {
        return Err(Refusal::Wildcard);
    }
    match (plain_host(name), name.rfind(']').map_or(name, |at| &name[at..]).contains(':')) {
        (Some(name), _) => Ok(format!("{star}{name}")),
        (None, true) => Err(Refusal::HostWithPort),
        (None, false) => Err(Refusal::Host),
    }
}

/// A device from the command line: `PATH` or `path=FILE,size=SIZE`.
///
/// # Errors
/// What keeps it from being one.
pub fn parse_device(text: &str) -> Result<DeviceSpec, Refusal> {
    if !text.contains('=') {
        return if text.is_empty() {
            Err(Refusal::NoPath)
        } else {
            Ok(DeviceSpec { path: text.into(), size: None })
        };
    }
    let (mut path, mut size) = (None, None);
    for part in text.split(',') {
        match part.split_once('=') {
            Some(("path", value)) if path.is_none() => path = Some(PathBuf::from(value)),
            Some(("size", value)) if size.is_none() => size = Some(parse_size(value).ok_or(Refusal::Size)?),
            _ => return Err(Refusal::DeviceWord),
        }
    }
    let path = path.filter(|p| !p.as_os_str().is_empty()).ok_or(Refusal::NoPath)?;
    Ok(DeviceSpec { path, size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fuzz_time, text};

    #[test]
    fn sizes() {
        let rows = [
            ("0", Some(0)),
            ("4096", Some(4096)),
            ("512KiB", Some(512 << 10)),
            ("256 MiB", Some(256 << 20)),
            ("1TiB", Some(1 << 40)),
            ("16777215TiB", Some(16_777_215 << 40)),
            ("16777216TiB", None),
            ("1GB", None),
            ("1gib", None),
            ("1.5GiB", None),
            ("-1MiB", None),
            ("+1MiB", None),
            ("MiB", None),
            ("", None),
            (" 1MiB", None),
        ];
        for (text, bytes) in rows {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn durations() {
        let ms = Duration::from_millis;
        let rows = [
            ("250ms", Some(ms(250))),
            ("10s", Some(ms(10_000))),
            ("5min", Some(ms(300_000))),
            ("1h", Some(ms(3_600_000))),
            ("0s", Some(ms(0))),
            ("10", None),
            ("10m", None),
            ("1.5s", None),
            ("99999999999999999999s", None),
            ("", None),
        ];
        for (text, duration) in rows {
            assert_eq!(parse_duration(text), duration, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_printed_reads_back(bytes: u64, millis in 0..u64::MAX / 2) {
            proptest::prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
            let duration = Duration::from_millis(millis);
            proptest::prop_assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
        }
    }

    const QUANTITY: &[&str] = &[
        "0",
        "1",
        "9",
        "18446744073709551615",
        ".",
        "-",
        " ",
        "K",
        "Ki",
        "M",
        "Gi",
        "TiB",
        "B",
        "b",
        "ms",
        "s",
        "min",
        "h",
        "\u{660}",
    ];

    #[test]
    fn hostile_sizes_and_durations_are_refused_or_read_back() {
        bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
            let text = text(bytes, QUANTITY);
            if let Some(size) = parse_size(&text) {
                assert_eq!(parse_size(&show_size(size)), Some(size), "{text}");
            }
            if let Some(duration) = parse_duration(&text) {
                assert_eq!(parse_duration(&show_duration(duration)), Some(duration), "{text}");
            }
        });
    }

    const URL: &[&str] = &[
        "http", "https", "://", ":", "/", "[", "]", "::1", "10.0.0.1", "80", "65536", "0", "a", "Z", ".",
        "-", "_", "%", "@", "?", "#", " ", "\0", "*", "=", ",", "path", "size", "1GiB", "\u{fc}",
    ];

    #[test]
    fn hostile_urls_hosts_and_devices_are_refused_or_read_back() {
        bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
            let text = text(bytes, URL);
            for text in [format!("http://{text}"), text.clone()] {
                if let Ok(origin) = parse_origin(&text) {
                    let again = parse_origin(&format!("http://{}", origin.authority()));
                    assert_eq!(again, Ok(origin), "{text}");
                }
            }
            if let Ok(host) = parse_host(&text) {
                assert_eq!(parse_host(&host), Ok(host.clone()), "{text}");
            }
            let _ = parse_device(&text);
        });
    }

    #[test]
    fn origins() {
        let url = |host: &str, port| Ok(OriginUrl { host: host.into(), port });
        let rows = [
            ("http://10.0.0.1:8080", url("10.0.0.1", 8080)),
            ("HTTP://Origin.Example/", url("origin.example", 80)),
            ("http://[2001:DB8::1]:81", url("2001:db8::1", 81)),
            ("http://[::1]", url("::1", 80)),
            ("https://a", Err(Refusal::Https)),
            ("ftp://a", Err(Refusal::NoScheme)),
            ("10.0.0.1:8080", Err(Refusal::NoScheme)),
            ("http://a/b", Err(Refusal::Path)),
            ("http://a?b", Err(Refusal::Path)),
            ("http://u:p@a", Err(Refusal::UserInfo)),
            ("http://", Err(Refusal::Host)),
            ("http://a b", Err(Refusal::Host)),
            ("http://a..b", Err(Refusal::Host)),
            ("http://a\r\nX: y", Err(Refusal::Port)),
            ("http://[a]", Err(Refusal::Host)),
            ("http://::1", Err(Refusal::Host)),
            ("http://a:0", Err(Refusal::Port)),
            ("http://a:65536", Err(Refusal::Port)),
            ("http://a:", Err(Refusal::Port)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_origin(text), expected, "{text}");
        }
    }

    #[test]
    fn hosts() {
        let rows = [
            ("WWW.Example.com", Ok("www.example.com")),
            ("*.example.com", Ok("*.example.com")),
            ("*", Ok("*")),
            ("10.0.0.1", Ok("10.0.0.1")),
            ("[::1]", Ok("::1")),
            ("::1", Ok("::1")),
            ("a.example.", Ok("a.example")),
            ("a:80", Err(Refusal::HostWithPort)),
            ("[::1]:80", Err(Refusal::HostWithPort)),
            ("a*.example", Err(Refusal::Wildcard)),
            ("*.*.example", Err(Refusal::Wildcard)),
            ("", Err(Refusal::Host)),
            ("http//a", Err(Refusal::Host)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_host(text).as_deref(), expected.as_ref().map(|s| *s), "{text}");
        }
    }

    #[test]
    fn devices() {
        let spec = |path: &str, size| Ok(DeviceSpec { path: path.into(), size });
        let rows = [
            ("/dev/nvme1n1", spec("/dev/nvme1n1", None)),
            ("path=./store,size=4GiB", spec("./store", Some(4 << 30))),
            ("size=64MiB,path=a", spec("a", Some(64 << 20))),
            ("path=a", spec("a", None)),
            ("", Err(Refusal::NoPath)),
            ("size=1GiB", Err(Refusal::NoPath)),
            ("path=,size=1GiB", Err(Refusal::NoPath)),
            ("path=a,size=big", Err(Refusal::Size)),
            ("path=a,path=b", Err(Refusal::DeviceWord)),
            ("path=a,sise=1GiB", Err(Refusal::DeviceWord)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_device(text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_accepted_means_the_same_when_written_by_us(text in "(https?://)?[\\[\\]:.*@/?#a-zA-Z0-9_\u{e9} -]{0,40}|.*") {
            if let Ok(origin) = parse_origin(&text) {
                proptest::prop_assert_eq!(parse_origin(&format!("http://{}", origin.authority())), Ok(origin));
            }
            if let Ok(host) = parse_host(&text) {
                proptest::prop_assert_eq!(parse_host(&host), Ok(host.clone()));
                proptest::prop_assert!(host.is_ascii() && !host.contains(char::is_whitespace));
            }
            if let Ok(device) = parse_device(&text) {
                proptest::prop_assert!(!device.path.as_os_str().is_empty());
            }
        }
    }
}
