//! Tables of RFC 9112 §3.2 and §3.3, normal spellings, fuzz.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::head::{Fields, Version};
use crate::testing::fuzz_time;
use alloc::string::String;

fn name(host: &str, port: Option<u16>) -> Authority<'_> {
    Authority { host: Host::Name(host), port }
}

fn spelled(authority: &Authority<'_>, scheme: Scheme) -> String {
    let mut out = Vec::new();
    authority.write(&mut out, scheme);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_four_forms() {
    // RFC 9112 §3.2
    let absolute =
        |scheme, authority, path_and_query| Ok(Target::Absolute { scheme, authority, path_and_query });
    for (method, target, expected) in [
        ("GET", "/", Ok(Target::Origin("/"))),
        ("GET", "/a/b?c=d", Ok(Target::Origin("/a/b?c=d"))),
        ("GET", "//evil/a", Ok(Target::Origin("//evil/a"))),
        ("OPTIONS", "*", Ok(Target::Asterisk)),
        ("GET", "http://a/b?c", absolute(Scheme::Http, name("a", None), "/b?c")),
        ("GET", "HTTPS://A:8443", absolute(Scheme::Https, name("A", Some(8443)), "")),
        ("GET", "http://a?b/c", absolute(Scheme::Http, name("a", None), "?b/c")),
        ("OPTIONS", "http://a", absolute(Scheme::Http, name("a", None), "")),
        ("CONNECT", "a:443", Ok(Target::Authority { host: Host::Name("a"), port: 443 })),
        ("CONNECT", "[::1]:443", Ok(Target::Authority { host: Host::V6(Ipv6Addr::LOCALHOST), port: 443 })),
        // each form belongs to its methods
        ("GET", "*", Err(Refusal::BadTarget)),
        ("GET", "a:443", Err(Refusal::BadTarget)),
        ("GET", "a", Err(Refusal::BadTarget)),
        ("CONNECT", "/", Err(Refusal::BadAuthority)),
        ("CONNECT", "http://a:80/", Err(Refusal::BadAuthority)),
        ("CONNECT", "a", Err(Refusal::BadAuthority)),
        ("CONNECT", "a:", Err(Refusal::BadAuthority)),
        ("CONNECT", "a:0", Err(Refusal::BadAuthority)),
        // RFC 9110 §4.2.4, RFC 9112 §3.2, RFC 9110 §4.2.1
        ("GET", "http://user@a/", Err(Refusal::UserinfoInTarget)),
        ("GET", "http://user:pw@a/", Err(Refusal::UserinfoInTarget)),
        ("CONNECT", "user@a:443", Err(Refusal::UserinfoInTarget)),
        ("GET", "/a#b", Err(Refusal::FragmentInTarget)),
        ("GET", "http://a/#", Err(Refusal::FragmentInTarget)),
        ("GET", "ftp://a/", Err(Refusal::SchemeUnsupported)),
        ("GET", "http:/a", Err(Refusal::BadTarget)),
        ("GET", "http:///a", Err(Refusal::BadAuthority)),
        ("GET", "http://:80/", Err(Refusal::BadAuthority)),
        ("GET", "http://a\\b/", Err(Refusal::BadAuthority)),
    ] {
        assert_eq!(parse(method, target), expected, "{method} {target}");
    }
}

#[test]
fn authorities() {
    // RFC 9110 §7.2, RFC 3986 §3.2
    for (text, expected) in [
        ("example.com", Some(name("example.com", None))),
        ("example.com.", Some(name("example.com.", None))),
        ("a_b-c~1:8080", Some(name("a_b-c~1", Some(8080)))),
        ("1a:", Some(name("1a", None))),
        ("a:00080", Some(name("a", Some(80)))),
        ("127.0.0.1:80", Some(Authority { host: Host::V4(Ipv4Addr::LOCALHOST), port: Some(80) })),
        ("[::1]", Some(Authority { host: Host::V6(Ipv6Addr::LOCALHOST), port: None })),
        ("[0:0::1]:65535", Some(Authority { host: Host::V6(Ipv6Addr::LOCALHOST), port: Some(65535) })),
        ("", None),
        (":80", None),
        ("a:65536", None),
        ("a:0", None),
        ("a:+80", None),
        ("a:80 ", None),
        ("a:080000", None),
        ("a:80:80", None),
        ("a b", None),
        ("a/b", None),
        ("a,b", None),
        ("a%2eb", None),
        ("a..b", None),
        (".", None),
        (".a", None),
        ("\u{e9}", None),
        ("::1", None),
        ("[::1", None),
        ("[::1]a", None),
        ("[]", None),
        ("[127.0.0.1]", None),
        ("[fe80::1%25eth0]", None),
        ("[v1.a]", None),
        // what a resolver would take for an address
        ("127.1", None),
        ("2130706433", None),
        ("0x7f000001", None),
        ("127.0.0.0x1", None),
        ("0177.0.0.1", None),
        ("127.0.0.1.", None),
        ("256.0.0.1", None),
        ("a.1", None),
    ] {
        let refusal = expected.ok_or(Refusal::BadAuthority);
        assert_eq!(Authority::parse(text.as_bytes()), refusal, "{text}");
    }
    let long = "a".repeat(256);
    assert!(Authority::parse(&long.as_bytes()[..255]).is_ok() && Authority::parse(long.as_bytes()).is_err());
}

#[test]
fn one_host_has_one_spelling() {
    // RFC 9110 §4.2.3
    for (text, http, https) in [
        ("EXAMPLE.com", "example.com", "example.com"),
        ("a:80", "a", "a:80"),
        ("a:443", "a:443", "a"),
        ("a:", "a", "a"),
        ("[0:0:0::1]:8080", "[::1]:8080", "[::1]:8080"),
        ("[2001:DB8::]", "[2001:db8::]", "[2001:db8::]"),
        ("10.0.0.1:80", "10.0.0.1", "10.0.0.1:80"),
    ] {
        let authority = Authority::parse(text.as_bytes()).unwrap();
        assert_eq!(spelled(&authority, Scheme::Http), http, "{text}");
        assert_eq!(spelled(&authority, Scheme::Https), https, "{text}");
    }
}

/// Who is asked for what, as one text: what `target_uri` and `write_path_and_query` make of a request.
fn asked(
    method: &str,
    target: &str,
    hosts: &[&str],
    default: Option<Authority<'_>>,
) -> Result<String, Refusal> {
    let mut fields = Fields::new();
    for host in hosts {
        fields.push("Host", host.as_bytes());
    }
    let head = RequestHead { method, target, version: Version::Http11, fields };
    let uri = target_uri(&head, Scheme::Http, default)?;
    let mut out = spelled(&uri.authority, uri.scheme).into_bytes();
    out.push(b' ');
    uri.write_path_and_query(&mut out, method);
    Ok(String::from(uri.scheme.as_str()) + " " + str::from_utf8(&out).unwrap())
}

#[test]
fn target_and_host_make_one_uri() {
    // RFC 9112 §3.2.2, §3.2.4, §3.3
    for (method, target, hosts, expected) in [
        ("GET", "/a", &["X.com:80"][..], Ok("http x.com /a")),
        ("GET", "http://a/b", &["other"], Ok("http a /b")),
        ("GET", "http://a/b", &[], Ok("http a /b")),
        ("GET", "http://a/b", &[""], Ok("http a /b")),
        ("GET", "https://a:443", &["a"], Ok("https a /")),
        ("GET", "http://a?b", &["a"], Ok("http a /?b")),
        ("OPTIONS", "*", &["a"], Ok("http a *")),
        ("OPTIONS", "http://a", &["a"], Ok("http a *")),
        ("OPTIONS", "http://a/", &["a"], Ok("http a /")),
        ("CONNECT", "a:443", &["b"], Ok("http a:443 /")),
        ("GET", "/", &[], Err(Refusal::HostMissing)),
        ("GET", "/", &[""], Err(Refusal::HostMissing)),
        ("GET", "/", &["a", "a"], Err(Refusal::HostRepeated)),
        ("GET", "/", &["a b"], Err(Refusal::BadAuthority)),
        ("GET", "/", &["u@a"], Err(Refusal::UserinfoInTarget)),
        ("GET", "http://a/", &["a b"], Err(Refusal::BadAuthority)),
    ] {
        let found = asked(method, target, hosts, None);
        assert_eq!(found.as_deref().map_err(|refusal| *refusal), expected, "{method} {target} {hosts:?}");
    }
}

#[test]
fn a_default_stands_in_for_a_missing_host_only() {
    // RFC 9112 §3.3
    let default = Some(name("default", None));
    assert_eq!(asked("GET", "/", &[], default).as_deref(), Ok("http default /"));
    assert_eq!(asked("GET", "/", &["a"], default).as_deref(), Ok("http a /"));
    assert_eq!(asked("GET", "http://b/", &[], default).as_deref(), Ok("http b /"));
}

#[test]
fn fuzz_target() {
    bolero::check!().with_test_time(fuzz_time()).for_each(|bytes: &[u8]| {
        let _ = Authority::parse(bytes);
        let Ok(text) = str::from_utf8(bytes) else { return };
        for method in ["GET", "OPTIONS", "CONNECT"] {
            for prefix in ["", "http://", "/"] {
                let _ = parse(method, &(String::from(prefix) + text));
            }
        }
        // The normal spelling reads back as the same host and port, and is its own normal spelling.
        if let Ok(authority) = Authority::parse(bytes) {
            let first = spelled(&authority, Scheme::Http);
            let again = Authority::parse(first.as_bytes()).unwrap();
            assert_eq!(spelled(&again, Scheme::Http), first);
            assert_eq!(again.port_or_default(Scheme::Http), authority.port_or_default(Scheme::Http));
        }
    });
}
