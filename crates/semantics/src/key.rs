//! The cache key (RFC 9111 §2): scheme, authority, path and query of the target URI, and nothing less. `GET` and
//! `HEAD` share a key; variants are told apart by [`crate::vary`].
//!
//! What must hold: different triples give different keys, whatever they contain.

use alloc::vec::Vec;
use wire::target::TargetUri;

/// Appends the key of a target URI to `out`: the URI itself.
///
/// `authority` is normalised (lower case, default port left out), `path_and_query` begins with `/`; `wire::target`
/// gives both. Parts that could be confused with each other in a URI, which no request that `wire` lets through
/// has, are written with their lengths instead, in a form that no URI has.
pub fn write_key(out: &mut Vec<u8>, scheme: &str, authority: &str, path_and_query: &str) {
    if is_unambiguous(scheme, authority, path_and_query) {
        write_parts(out, &[scheme, "://", authority, path_and_query]);
    } else {
        for part in [scheme, authority, path_and_query] {
            out.extend_from_slice(&(part.len() as u64).to_be_bytes());
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// Appends the key of what a `GET` or `HEAD` asks for: [`write_key`] of its normalised parts, without the detour.
pub fn write_target_key(out: &mut Vec<u8>, target: &TargetUri<'_>) {
    write_parts(out, &[target.scheme.as_str(), "://"]);
    target.authority.write(out, target.scheme);
    target.write_path_and_query(out, "GET");
}

fn write_parts(out: &mut Vec<u8>, parts: &[&str]) {
    out.reserve(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// Whether the parts can be told apart in `scheme://authority/path?query`.
fn is_unambiguous(scheme: &str, authority: &str, path_and_query: &str) -> bool {
    let plain_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain_scheme && !authority.bytes().any(|byte| byte == b'/') && path_and_query.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(scheme: &str, authority: &str, path_and_query: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_key(&mut out, scheme, authority, path_and_query);
        out
    }

    #[test]
    fn the_key_is_the_uri() {
        assert_eq!(key("http", "a.example", "/b?c=d"), b"http://a.example/b?c=d");
        assert_eq!(key("https", "[::1]:8443", "/"), b"https://[::1]:8443/");
    }

    #[test]
    fn every_part_counts() {
        let keys = [
            key("http", "a", "/"),
            key("https", "a", "/"),
            key("http", "b", "/"),
            key("http", "a:81", "/"),
            key("http", "a", "/?"),
            key("http", "a", "//"),
            key("http", "a/", "/"),
            key("http", "", "/a/"),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(keys[..at].iter().all(|other| other != one), "{at}");
        }
    }

    #[test]
    fn a_target_has_the_key_of_its_normal_parts() {
        // RFC 9110 §4.2.3: (target, authority, path and query)
        for (target, authority, path_and_query) in [
            ("http://A.Example:80/B?c", "a.example", "/B?c"),
            ("http://a.example:8080?c", "a.example:8080", "/?c"),
            ("http://[::1]", "[::1]", "/"),
        ] {
            let mut head = crate::testing::request("GET", "Host: other");
            head.target = target;
            let uri = wire::target::target_uri(&head, wire::target::Scheme::Https, None).unwrap();
            let mut out = Vec::new();
            write_target_key(&mut out, &uri);
            assert_eq!(out, key("http", authority, path_and_query), "{target}");
        }
    }

    proptest! {
        #[test]
        fn keys_are_equal_only_if_all_parts_are(
            a in ("[a:/]{0,4}", "[a:/\0]{0,4}", "[a:/\0]{0,4}"), b in ("[a:/]{0,4}", "[a:/\0]{0,4}", "[a:/\0]{0,4}"),
        ) {
            prop_assert_eq!(key(&a.0, &a.1, &a.2) == key(&b.0, &b.1, &b.2), a == b);
        }
    }
}
