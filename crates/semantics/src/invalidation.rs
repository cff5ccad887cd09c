//! Invalidating stored responses (RFC 9111 §4.4): a successful unsafe request has probably changed its target, and
//! what the response says it made or moved.
//!
//! What must hold: nobody invalidates another origin's responses.

use crate::key::write_target_key;
use crate::reference::Resolved;
use crate::request::Method;
use alloc::vec::Vec;
use smallvec::SmallVec;
use wire::ResponseHead;
use wire::target::TargetUri;

/// The keys of what is to be invalidated.
pub type Keys = SmallVec<[Vec<u8>; 1]>;

/// The keys that the response to a request invalidates: for an unsafe method and a non-error (2xx or 3xx) the
/// target's, and those of `Location` and `Content-Location` where they have the target's origin; else none.
/// All variants of a key are meant.
#[must_use]
pub fn invalidated(method: Method, target: &TargetUri<'_>, response: &ResponseHead<'_>) -> Keys {
    let mut keys = Keys::new();
    if method == Method::Unsafe && (200..400).contains(&response.status) {
        keys.push(key(target));
        for name in ["location", "content-location"] {
            keys.extend(response.fields.get(name).and_then(|reference| same_origin_key(target, reference)));
        }
        keys.dedup();
    }
    keys
}

fn key(target: &TargetUri<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    write_target_key(&mut key, target);
    key
}

fn same_origin_key(target: &TargetUri<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    let resolved = Resolved::new(target, core::str::from_utf8(reference).ok()?)?;
    let other = resolved.as_target();
    (origin(&other) == origin(target)).then(|| key(&other))
}

/// Scheme, host and port (RFC 9110 §4.3.1), the key of the path `/`.
fn origin(target: &TargetUri<'_>) -> Vec<u8> {
    key(&TargetUri { path_and_query: "/", ..*target })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::response;
    use std::string::String;
    use wire::target::{Authority, Scheme};

    fn ask(method: &str, status: u16, lines: &str) -> Vec<String> {
        let authority = Authority::parse(b"a.example").unwrap();
        let target = TargetUri { scheme: Scheme::Http, authority, path_and_query: "/b/c?d" };
        let keys = invalidated(Method::of(method), &target, &response(status, lines));
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn successful_unsafe_requests_invalidate_their_target() {
        // RFC 9111 §4.4
        for (method, status, expected) in [
            ("POST", 200, true),
            ("PUT", 204, true),
            ("DELETE", 303, true),
            ("PATCH", 201, true),
            ("UNHEARDOF", 200, true),
            ("POST", 404, false),
            ("POST", 500, false),
            ("POST", 100, false),
            ("GET", 200, false),
            ("HEAD", 200, false),
            ("OPTIONS", 200, false),
            ("TRACE", 200, false),
        ] {
            let keys = ask(method, status, "");
            assert_eq!(keys == ["http://a.example/b/c?d"], expected, "{method} {status}");
            assert_eq!(keys.is_empty(), !expected, "{method} {status}");
        }
    }

    #[test]
    fn locations_are_invalidated_within_the_origin() {
        // RFC 9111 §4.4: the response's field, and the key it adds
        for (lines, expected) in [
            ("Location: /x", Some("http://a.example/x")),
            ("Content-Location: x?y", Some("http://a.example/b/x?y")),
            ("Location: http://A.EXAMPLE:80/x", Some("http://a.example/x")),
            ("Location: //a.example/x", Some("http://a.example/x")),
            ("Location: /b/c?d", None),
            ("Location: http://b.example/x", None),
            ("Location: https://a.example/x", None),
            ("Location: http://a.example:81/x", None),
            ("Location: http://a.example@b.example/x", None),
            ("Location: ht!tp://a.example/x", None),
            ("Location: \u{1}", None),
        ] {
            let keys = ask("POST", 201, lines);
            assert_eq!(keys.get(1).map(String::as_str), expected, "{lines}");
        }
        assert_eq!(ask("POST", 201, "Location: /x\nContent-Location: /y").len(), 3);
        assert_eq!(ask("POST", 404, "Location: /x").len(), 0);
    }
}
