//! When a reply is whole, and what it says.
//!
//! What must hold: the end is where `wire` says that it is, so that half a reply is never counted as good. Of a body only
//! its length is known here: a generator past the peak has no time to look at bytes.

use wire::framing::{ResponseBody, response_body};
use wire::{Limits, Parsed, Refusal, parse};

use crate::outcome::Fate;

/// A reply whose head was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it will have been once it is whole.
    pub fate: Fate,
    /// Where it ends.
    pub end: End,
}

/// Where a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After so many bytes, those of the head included.
    After(u64),
    /// Where the connection does.
    Close,
}

/// Why the end of a reply cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The head is longer than what is looked at.
    #[error("its head is longer than {0} bytes")]
    HeadTooLong(usize),
    /// The chunks of the body would have to be read.
    #[error("its body is chunked, so its length is not known; ask for something with Content-Length")]
    Chunked,
    /// Switching protocols was not asked for.
    #[error("it opens a tunnel")]
    Tunnel,
    /// It follows no grammar.
    #[error("it is malformed: {0}")]
    Malformed(Refusal),
}

/// Reads the head of a reply to a `GET` at the front of `bytes`; nothing while it is incomplete.
///
/// # Errors
/// Why it will never be told where the reply ends.
pub fn read(bytes: &[u8]) -> Result<Option<Reply>, Unreadable> {
    let parsed = parse::response(bytes, &Limits::default()).map_err(Unreadable::Malformed)?;
    let Parsed::Complete { head, len } = parsed else { return Ok(None) };
    let end = match response_body(&head, "GET").map_err(Unreadable::Malformed)? {
        ResponseBody::None => End::After(len as u64),
        ResponseBody::Length(body) => End::After(len as u64 + body),
        ResponseBody::UntilClose => End::Close,
        ResponseBody::Chunked => return Err(Unreadable::Chunked),
        ResponseBody::Tunnel => return Err(Unreadable::Tunnel),
    };
    Ok(Some(Reply { fate: fate(head.status), end }))
}

fn fate(status: u16) -> Fate {
    match status {
        200..300 => Fate::Good,
        500..600 => Fate::Shed,
        _ => Fate::Failed,
    }
}

/// A request for `path` on a connection that is used once, or kept.
pub fn request(host: &str, path: &str, keep: bool) -> Vec<u8> {
    let mut out = Vec::new();
    wire::write::request_line(&mut out, "GET", path.as_bytes());
    wire::write::field(&mut out, "Host", host.as_bytes());
    if !keep {
        wire::write::field(&mut out, "Connection", b"close");
    }
    wire::write::end_head(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_where_the_grammar_says() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let good = |end| Ok(Some(Reply { fate: Fate::Good, end }));
        let cases = [
            (head.to_owned(), good(End::After(head.len() as u64 + 5))),
            (format!("{head}he"), good(End::After(head.len() as u64 + 5))),
            (head[..30].to_owned(), Ok(None)),
            (String::new(), Ok(None)),
            ("HTTP/1.1 204 No Content\r\n\r\n".into(), good(End::After(27))),
            ("HTTP/1.0 200 OK\r\n\r\n".into(), good(End::Close)),
            (
                "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".into(),
                Ok(Some(Reply { fate: Fate::Shed, end: End::After(40) })),
            ),
            (
                "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".into(),
                Ok(Some(Reply { fate: Fate::Failed, end: End::After(38) })),
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".into(), Err(Unreadable::Chunked)),
            ("HTTP/1.1 101 Up\r\n\r\n".into(), Err(Unreadable::Tunnel)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes.as_bytes()), expected, "{bytes}");
        }
        assert!(matches!(read(b"SSH-2.0-x\r\n\r\n"), Err(Unreadable::Malformed(_))));
    }

    #[test]
    fn requests_say_whether_the_connection_is_kept() {
        let text = |keep| String::from_utf8_lossy(&request("10.0.0.1:80", "/a?b", keep)).into_owned();
        assert_eq!(text(true), "GET /a?b HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n");
        assert_eq!(text(false), "GET /a?b HTTP/1.1\r\nHost: 10.0.0.1:80\r\nConnection: close\r\n\r\n");
    }
}
