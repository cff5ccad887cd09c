//! What can be purged, and how it is asked for: `{"url": …}`, `{"prefix": …}`, `{"tag": …}` or `{"all": true}`, with
//! `"soft": true` to make it stale only, and `"durable": true` to be answered once no crash can undo it.

use serde::{Deserialize, Serialize};

use super::AdminError;
use crate::purge::tags;

/// A purge that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRequest {
    /// What is to be purged.
    pub what: What,
    /// Whether it is to become stale instead of going away.
    pub soft: bool,
    /// Whether to answer only when no crash can undo it.
    pub durable: bool,
}

/// What is to be purged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Every stored variant of one URL.
    Url(PurgeUrl),
    /// Everything of one scheme and authority whose path and query begin like this URL's.
    Prefix(PurgeUrl),
    /// Every response with this tag.
    Tag(Box<[u8]>),
    /// Everything.
    All,
}

/// A URL in the form in which cache keys are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeUrl {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Host in lower case; the port unless it is the scheme's own.
    pub authority: String,
    /// Path and query as given; at least `/`.
    pub path_and_query: String,
}

/// What a purge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Purged {
    /// For a URL: 1 where something was stored under it (all variants go together), 0 where nothing was. For everything:
    /// how many objects were stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purged: Option<u64>,
    /// For what becomes a mark: its number. How many responses it names shows when they are next asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u64>,
    /// Said where it was asked for: no crash undoes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Body {
    url: Option<String>,
    prefix: Option<String>,
    tag: Option<String>,
    all: Option<bool>,
    soft: bool,
    durable: bool,
}

const FORM: &str = "a purge is a JSON object such as {\"url\": \"http://www.example.com/a\"}";

/// Reads the body of a purge.
pub(super) fn read(body: &[u8]) -> Result<PurgeRequest, AdminError> {
    let body: Body =
        serde_json::from_slice(body).map_err(|error| AdminError::BadRequest(format!("{FORM}: {error}")))?;
    let Body { soft, durable, .. } = body;
    let what = match (body.url, body.prefix, body.tag, body.all) {
        (Some(url), None, None, None) => What::Url(PurgeUrl::parse(&url)?),
        (None, Some(prefix), None, None) => What::Prefix(PurgeUrl::parse_prefix(&prefix)?),
        (None, None, Some(tag), None) => {
            let tag = tags::parse(&tag);
            What::Tag(tag.map_err(|why| AdminError::BadRequest(format!("the tag {why}")))?)
        }
        (None, None, None, Some(true)) => What::All,
        _ => {
            let why = format!("exactly one of url, prefix, tag and all is needed: {FORM}");
            return Err(AdminError::BadRequest(why));
        }
    };
    Ok(PurgeRequest { what, soft, durable })
}

/// Bytes of the longest URL that is taken.
const URL_BYTES_MAX: usize = 8 * 1024;

impl PurgeUrl {
    /// Reads an absolute `http` or `https` URL without user information and fragment.
    ///
    /// # Errors
    /// A [`AdminError::BadRequest`] that says what is wrong with it.
    pub fn parse(url: &str) -> Result<Self, AdminError> {
        Self::read(url).map_err(|why| AdminError::BadRequest(format!("the url {why}")))
    }

    /// Reads the beginning of URLs: scheme and authority whole, and as much of path and query as is meant. Without a path
    /// it is `/`, which is all of that authority.
    ///
    /// # Errors
    /// As [`Self::parse`], and for a `*` at the end.
    pub fn parse_prefix(prefix: &str) -> Result<Self, AdminError> {
        let read = match prefix.strip_suffix('*') {
            Some(_) => Err("ends in *: leave that out, all that begins like it is meant anyway"),
            None => Self::read(prefix),
        };
        read.map_err(|why| AdminError::BadRequest(format!("the prefix {why}")))
    }

    /// The cache key of the URL.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        semantics::key::write_key(&mut key, self.scheme, &self.authority, &self.path_and_query);
        key
    }

    fn read(url: &str) -> Result<Self, &'static str> {
        if url.len() > URL_BYTES_MAX {
            return Err("is longer than 8192 bytes");
        }
        let (scheme, rest) = url.split_once("://").ok_or("does not begin with http:// or https://")?;
        let (scheme, own_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => ("http", 80),
            "https" => ("https", 443),
            _ => return Err("does not begin with http:// or https://"),
        };
        if !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("has a space, a control character or a character beyond ASCII: write it %-encoded");
        }
        if rest.contains('#') {
            return Err("has a fragment, which no server ever sees");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path_and_query) = rest.split_at(end);
        if authority.contains('@') {
            return Err("holds a user name");
        }
        let authority = authority_of_key(authority, own_port)?;
        let slash = if path_and_query.starts_with('/') { "" } else { "/" };
        let path_and_query = format!("{slash}{path_and_query}");
        Ok(Self { scheme, authority, path_and_query })
    }
}

/// Host in lower case, and the port unless it is the scheme's own or empty.
fn authority_of_key(authority: &str, own_port: u16) -> Result<String, &'static str> {
    let after_brackets = authority.rfind(']').map_or(0, |at| at + 1);
    let colon = authority[after_brackets..].find(':').map(|at| after_brackets + at);
    let (host, port) = colon.map_or((authority, ""), |at| (&authority[..at], &authority[at + 1..]));
    if host.is_empty() {
        return Err("names no host");
    }
    let host = host.to_ascii_lowercase();
    match (port, port.parse::<u16>()) {
        ("", _) => Ok(host),
        (_, Ok(port)) if port == own_port => Ok(host),
        (_, Ok(port)) => Ok(format!("{host}:{port}")),
        (_, Err(_)) => Err("has a port that is not between 0 and 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_take_the_form_of_keys() {
        let rows = [
            ("http://a/b?c", Ok(("http", "a", "/b?c"))),
            ("HTTP://WWW.Example.COM:80/A", Ok(("http", "www.example.com", "/A"))),
            ("http://a:8080", Ok(("http", "a:8080", "/"))),
            ("http://a?q", Ok(("http", "a", "/?q"))),
            ("https://a:443/", Ok(("https", "a", "/"))),
            ("https://a:80/", Ok(("https", "a:80", "/"))),
            ("http://[::1]:8080/x", Ok(("http", "[::1]:8080", "/x"))),
            ("http://a:/", Ok(("http", "a", "/"))),
            ("http://[::1]:80/x", Ok(("http", "[::1]", "/x"))),
            ("http://a:80:80/", Err("port")),
            ("http://a:x/", Err("port")),
            ("http://:80/", Err("no host")),
            ("/a", Err("begin")),
            ("ftp://a/", Err("begin")),
            ("http:///a", Err("no host")),
            ("http://u@a/", Err("user")),
            ("http://a/#f", Err("fragment")),
            ("http://a/b c", Err("space")),
            ("http://a/\u{fc}", Err("ASCII")),
        ];
        for (url, expected) in rows {
            match (PurgeUrl::parse(url), expected) {
                (Ok(is), Ok((scheme, authority, path))) => {
                    assert_eq!(
                        (is.scheme, is.authority.as_str(), is.path_and_query.as_str()),
                        (scheme, authority, path)
                    );
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{url}: {error}"),
                (is, _) => panic!("{url}: {is:?}"),
            }
        }
    }

    #[test]
    fn bodies_ask_for_exactly_one_thing() {
        let rows: [(&[u8], &str); 17] = [
            (b"{\"url\":\"http://a/\"}", "ok"),
            (b"{\"prefix\":\"http://a/\"}", "ok"),
            (b"{\"prefix\":\"http://a\",\"soft\":true}", "ok"),
            (b"{\"prefix\":\"http://a/*\"}", "bad-request"),
            (b"{\"prefix\":\"/a\"}", "bad-request"),
            (b"{\"tag\":\"t\",\"durable\":true}", "ok"),
            (b"{\"tag\":\"t u\"}", "bad-request"),
            (b"{\"tag\":\"\"}", "bad-request"),
            (b"{\"all\":true}", "ok"),
            (b"{\"all\":true,\"soft\":true}", "ok"),
            (b"{\"soft\":true}", "bad-request"),
            (b"{\"url\":\"http://a/\",\"soft\":1}", "bad-request"),
            (b"{\"all\":false}", "bad-request"),
            (b"{}", "bad-request"),
            (b"{\"url\":\"http://a/\",\"all\":true}", "bad-request"),
            (b"{\"urls\":[]}", "bad-request"),
            (b"", "bad-request"),
        ];
        for (body, expected) in rows {
            let word = read(body).map_or_else(|error| error.word(), |_| "ok");
            assert_eq!(word, expected, "{}", String::from_utf8_lossy(body));
        }
    }

    proptest::proptest! {
        #[test]
        fn a_url_in_the_form_of_keys_stays_as_it_is(text in "(https?|HTTP)://[\\[\\]:.@/?a-zA-Z0-9%-]{0,40}|.*") {
            if let Ok(url) = PurgeUrl::parse(&text) {
                let again = format!("{}://{}{}", url.scheme, url.authority, url.path_and_query);
                proptest::prop_assert_eq!(PurgeUrl::parse(&again), Ok(url));
            }
        }
    }

    #[test]
    fn hostile_requests_are_refused_by_name() {
        bolero::check!().with_test_time(crate::testing::fuzz_time()).for_each(|bytes: &[u8]| {
            let _ = read(bytes);
            let url = format!("http://{}", String::from_utf8_lossy(bytes));
            if let Ok(url) = PurgeUrl::parse(&url) {
                let again = format!("{}://{}{}", url.scheme, url.authority, url.path_and_query);
                assert_eq!(PurgeUrl::parse(&again), Ok(url));
            }
        });
    }
}
