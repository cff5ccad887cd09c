//! Resolving a URI reference against the target URI (RFC 3986 §5.2), as far as `Location` and `Content-Location`
//! need it: `http` and `https` only, the fragment dropped, no userinfo. What cannot be resolved names nothing.

use alloc::string::String;
use alloc::vec::Vec;
use wire::target::{Authority, Scheme, Target, TargetUri, parse};

/// An absolute `http` or `https` URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved<'a> {
    /// The scheme.
    pub(crate) scheme: Scheme,
    /// Host and port.
    pub(crate) authority: Authority<'a>,
    /// Path and query; the path without dot segments. Empty, or from its `/` or `?` on.
    pub(crate) path_and_query: String,
}

impl<'a> Resolved<'a> {
    /// What `reference` means on a page at `base`.
    pub(crate) fn new(base: &TargetUri<'a>, reference: &'a str) -> Option<Self> {
        let reference = reference.split('#').next().unwrap_or_default();
        if !reference.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::network_path(base.scheme, rest);
        }
        if has_scheme(reference) {
            return Self::absolute(reference);
        }
        let path_and_query = merge(base.path_and_query, reference);
        Some(Self { scheme: base.scheme, authority: base.authority, path_and_query })
    }

    fn network_path(scheme: Scheme, rest: &'a str) -> Option<Self> {
        let (authority, path_and_query) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority = Authority::parse(authority.as_bytes()).ok()?;
        Some(Self { scheme, authority, path_and_query: without_dots(path_and_query) })
    }

    fn absolute(reference: &'a str) -> Option<Self> {
        match parse("GET", reference).ok()? {
            Target::Absolute { scheme, authority, path_and_query } => {
                Some(Self { scheme, authority, path_and_query: without_dots(path_and_query) })
            }
            _ => None,
        }
    }

    /// The URI as the target of a request.
    pub(crate) fn as_target(&self) -> TargetUri<'_> {
        TargetUri { scheme: self.scheme, authority: self.authority, path_and_query: &self.path_and_query }
    }
}

/// Whether a reference begins with a scheme: a colon comes before any `/` or `?` (RFC 3986 §4.1).
fn has_scheme(reference: &str) -> bool {
    reference.find([':', '/', '?']).is_some_and(|at| reference.as_bytes()[at] == b':')
}

/// RFC 3986 §5.2.2 for a reference without scheme and authority.
fn merge(base: &str, reference: &str) -> String {
    let base_path = base.split('?').next().unwrap_or_default();
    match reference.as_bytes() {
        [] => String::from(base),
        [b'/', ..] => without_dots(reference),
        [b'?', ..] => [base_path, reference].concat(),
        _ => {
            let directory = base_path.rfind('/').map_or("/", |at| &base_path[..=at]);
            without_dots(&[directory, reference].concat())
        }
    }
}

/// Removes dot segments (RFC 3986 §5.2.4) from the path in front of a query. The path is empty or begins with `/`.
fn without_dots(path_and_query: &str) -> String {
    let (path, query) = path_and_query.split_at(path_and_query.find('?').unwrap_or(path_and_query.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
        if segments.peek().is_none() && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    let lead = if kept.is_empty() { "" } else { "/" };
    [lead, &kept.join("/"), query].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(reference: &str) -> Option<String> {
        let base = TargetUri {
            scheme: Scheme::Http,
            authority: Authority::parse(b"a").unwrap(),
            path_and_query: "/b/c/d;p?q",
        };
        let resolved = Resolved::new(&base, reference)?;
        let mut authority = Vec::new();
        resolved.authority.write(&mut authority, resolved.scheme);
        let authority = String::from_utf8(authority).unwrap();
        Some([resolved.scheme.as_str(), "://", &authority, &resolved.path_and_query].concat())
    }

    #[test]
    fn references_resolve_as_in_the_rfc() {
        // RFC 3986 §5.4.1, §5.4.2
        for (reference, expected) in [
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("HTTPS://X:443/y/../z", "https://x/z"),
            ("//x//y", "http://x//y"),
            ("g:h/i", ""),
            ("mailto:x", ""),
            ("a b", ""),
            ("http://u@x/", ""),
        ] {
            assert_eq!(resolve(reference).unwrap_or_default(), expected, "{reference}");
        }
    }

    #[test]
    fn any_bytes_resolve_to_a_path_or_nothing() {
        crate::testing::fuzz(|bytes| {
            let Ok(reference) = core::str::from_utf8(bytes) else { return };
            let base = TargetUri {
                scheme: Scheme::Http,
                authority: Authority::parse(b"a").unwrap(),
                path_and_query: "",
            };
            if let Some(resolved) = Resolved::new(&base, reference) {
                let path = resolved.path_and_query;
                assert!(path.is_empty() || path.starts_with(['/', '?']), "{path}");
                assert!(!path.contains('#'));
            }
        });
    }
}
