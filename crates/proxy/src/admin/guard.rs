//! Who may ask. The interface has no passwords: whoever can connect may use it. A browser can connect too, on behalf
//! of any page it shows, and that is what is kept out here.
//!
//! Browsers name the page in `Origin` on every request that could change something. It must be this interface itself,
//! and on a loopback address under a name that nobody else can have bound to that address (DNS rebinding). What has no
//! `Origin` is a program, or a page that merely reads; it may.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{HOST, HeaderValue, ORIGIN};

use super::AdminError;

/// Lets a request pass, or says why not. `local` is the address that it was sent to.
pub(super) fn admit(headers: &HeaderMap<HeaderValue>, local: IpAddr) -> Result<(), AdminError> {
    let Some(origin) = headers.get(ORIGIN) else { return Ok(()) };
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let page = origin.to_str().ok().and_then(|text| text.strip_prefix("http://"));
    if page != Some(host) {
        return Err(AdminError::ForeignOrigin);
    }
    if local.is_loopback() && !names_loopback(host) {
        return Err(AdminError::ForeignHost);
    }
    Ok(())
}

/// An IP address or `localhost`. Any other name could be somebody else's.
fn names_loopback(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    without_port.is_some_and(|name| name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn verdict(local: &str, host: Option<&str>, origin: Option<&str>) -> Result<(), AdminError> {
        let mut headers = HeaderMap::new();
        host.map(|host| headers.insert(HOST, host.parse().unwrap()));
        origin.map(|origin| headers.insert(ORIGIN, origin.parse().unwrap()));
        admit(&headers, local.parse().unwrap())
    }

    #[test]
    fn pages_and_rebound_names_stay_outside() {
        let rows = [
            ("127.0.0.1", Some("127.0.0.1:3129"), None, Ok(())),
            ("127.0.0.1", None, None, Ok(())),
            ("127.0.0.1", Some("cache1.example"), None, Ok(())),
            ("127.0.0.1", Some("127.0.0.1:3129"), Some("http://127.0.0.1:3129"), Ok(())),
            ("127.0.0.1", Some("LocalHost:3129"), Some("http://LocalHost:3129"), Ok(())),
            ("::1", Some("[::1]:3129"), Some("http://[::1]:3129"), Ok(())),
            ("10.0.0.5", Some("cache1:3129"), Some("http://cache1:3129"), Ok(())),
            (
                "127.0.0.1",
                Some("127.0.0.1:3129"),
                Some("http://evil.example"),
                Err(AdminError::ForeignOrigin),
            ),
            ("127.0.0.1", Some("127.0.0.1:3129"), Some("null"), Err(AdminError::ForeignOrigin)),
            ("127.0.0.1", None, Some("http://evil.example"), Err(AdminError::ForeignOrigin)),
            ("10.0.0.5", Some("cache1:3129"), Some("https://cache1:3129"), Err(AdminError::ForeignOrigin)),
            ("127.0.0.1", Some("evil.example"), Some("http://evil.example"), Err(AdminError::ForeignHost)),
            ("127.0.0.1", Some("127.0.0.1.a.b"), Some("http://127.0.0.1.a.b"), Err(AdminError::ForeignHost)),
        ];
        for (local, host, origin, expected) in rows {
            assert_eq!(verdict(local, host, origin), expected, "{local} {host:?} {origin:?}");
        }
    }
}
