//! Objects of which only parts are stored: RFC 9111 §3.3 and §3.4, RFC 9110 §14 and §15.3.7, end to end.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod begun;
mod combining;
mod devices;
mod faults;
mod origins;
mod random;
mod together;

use testkit::{Ask, Origin, Pattern, Reply, Request, Response, Tidegate};

/// What an origin has at each target.
#[derive(Clone, Copy)]
struct Representation {
    pattern: Pattern,
    size: u64,
    etag: &'static str,
}

impl Representation {
    fn new(size: u64) -> Self {
        Self { pattern: Pattern(size), size, etag: "\"v1\"" }
    }

    /// An origin that has it, whole and in ranges.
    fn origin(self) -> Origin {
        Origin::answering(move |request| self.answer(request))
    }

    /// RFC 9110 §14.2, as an origin does it.
    fn answer(self, request: &Request) -> Reply {
        let head = &request.head;
        let holds = head.field("if-range").is_none_or(|condition| condition == self.etag);
        let reply = match head.field("range").filter(|_| holds).map(|range| self.range(&range)) {
            _ if head.field("if-none-match").as_deref() == Some(self.etag) => Reply::not_modified(),
            None => Reply::generated(self.pattern, self.size),
            Some(Some((start, end))) => self.part(start, end),
            Some(None) => Reply::status(416, "").field("Content-Range", &format!("bytes */{}", self.size)),
        };
        reply
            .field("ETag", self.etag)
            .field("Cache-Control", "max-age=3600")
            .field("Content-Type", "application/x-pattern")
    }

    fn part(self, start: u64, end: u64) -> Reply {
        let bytes = self.pattern.bytes(start, (end - start) as usize);
        Reply::status(206, bytes).field("Content-Range", &format!("bytes {start}-{}/{}", end - 1, self.size))
    }

    /// The bytes that a `Range` of one range means.
    fn range(self, value: &str) -> Option<(u64, u64)> {
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        let (start, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) => (first, self.size.min(last + 1)),
            (Ok(first), Err(_)) => (first, self.size),
            (Err(_), Ok(suffix)) => (self.size.saturating_sub(suffix), self.size),
            (Err(_), Err(_)) => return None,
        };
        (start < end).then_some((start, end))
    }

    /// Fails unless the response is the part from `start` up to `end`, with the right bytes and the right words about them.
    #[track_caller]
    fn expect_part(self, response: &Response, start: u64, end: u64) {
        assert_eq!(response.status(), 206, "{response:?}");
        let said = format!("bytes {start}-{}/{}", end - 1, self.size);
        assert_eq!(response.field("content-range"), Some(said));
        assert_eq!(response.body.len() as u64, end - start);
        assert_eq!(response.field("etag").as_deref(), Some(self.etag));
        assert_eq!(response.field("content-type").as_deref(), Some("application/x-pattern"));
        self.pattern.compare(&response.body, start);
    }

    #[track_caller]
    fn expect_whole(self, response: &Response) {
        assert_eq!(response.status(), 200, "{response:?}");
        assert_eq!(response.body.len() as u64, self.size);
        assert_eq!(response.field("content-range"), None);
        self.pattern.compare(&response.body, 0);
    }
}

/// A `GET` for the bytes from `start` up to `end`.
fn part(start: u64, end: u64) -> Ask {
    Ask::get("/").field("Range", &format!("bytes={start}-{}", end - 1))
}

/// The head of that part of it, from an origin that sends these fields too.
fn head_of_part(all: Representation, start: u64, end: u64, fields: &str) -> String {
    format!(
        "HTTP/1.1 206 Partial Content\r\nETag: {}\r\nCache-Control: max-age=3600\r\nContent-Type: application/x-pattern\r\n\
         Content-Range: bytes {start}-{}/{}\r\nContent-Length: {}\r\n{fields}\r\n",
        all.etag,
        end - 1,
        all.size,
        end - start
    )
}

/// The `Range` of every request that the origin got.
fn asked(origin: &Origin) -> Vec<String> {
    origin.requests().iter().map(|request| request.head.field("range").unwrap_or("all".into())).collect()
}

/// Asks until the answer is a hit: the end of a body reaches the client a moment before it is stored.
#[track_caller]
fn hit(tidegate: &Tidegate, start: u64, end: u64) -> Response {
    let is_hit = |response: &Response| response.cache_parameters().iter().any(|p| p == "hit");
    testkit::eventually("the part is stored", || Some(tidegate.ask(part(start, end))).filter(is_hit))
}
