//! HTTP/1.1 messages as they came off the wire, and where their bodies end.
//!
//! Strict on purpose: what the proxy sends must be well formed, so anything doubtful fails the test at once.

use std::fmt;

/// A message head: the start line and the fields in the order they came.
#[derive(Clone, PartialEq, Eq)]
pub struct Head {
    /// The request line or status line, without its line end.
    pub start_line: String,
    /// Field names as sent, values without surrounding blanks.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// Parses a head; `raw` ends with the empty line.
    ///
    /// # Panics
    /// On a bare CR or LF, a folded line, a field without a colon or a blank in a name.
    #[track_caller]
    pub fn parse(raw: &[u8]) -> Head {
        let text = String::from_utf8_lossy(raw).into_owned();
        let lines = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
        let mut lines = lines.split("\r\n");
        let start_line = lines.next().unwrap_or_default().to_owned();
        Head { start_line, fields: lines.map(field).collect() }
    }

    /// The value of the only field of that name; several are joined as RFC 9110 §5.3 says.
    pub fn field(&self, name: &str) -> Option<String> {
        let values = self.all(name);
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Every value of that name, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// Whether a field of that name is there.
    pub fn has(&self, name: &str) -> bool {
        !self.all(name).is_empty()
    }

    /// The status code of a response head.
    ///
    /// # Panics
    /// When the start line is not a status line.
    #[track_caller]
    pub fn status(&self) -> u16 {
        let code = self.start_line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        code.and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("not a status line: {self:?}"))
    }

    /// The method of a request head.
    pub fn method(&self) -> &str {
        self.start_line.split(' ').next().unwrap_or_default()
    }

    /// The target of a request head, as sent.
    pub fn target(&self) -> &str {
        self.start_line.split(' ').nth(1).unwrap_or_default()
    }
}

#[track_caller]
fn field(line: &str) -> (String, String) {
    assert!(!line.contains(['\r', '\n', '\0']), "bare CR, LF or NUL in {line:?}");
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in {line:?}"));
    assert!(!name.is_empty() && !name.contains([' ', '\t']), "blank in or before the field name in {line:?}");
    (name.to_owned(), value.trim().to_owned())
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.start_line)?;
        self.fields.iter().try_for_each(|(name, value)| writeln!(f, "{name}: {value}"))
    }
}

/// Where a body ends (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk and the trailers.
    Chunked,
    /// When the sender closes.
    UntilClose,
}

impl Framing {
    /// How the body of this request ends.
    #[track_caller]
    pub fn of_request(head: &Head) -> Framing {
        Framing::declared(head).unwrap_or(Framing::Empty)
    }

    /// How the body of this response to a `method` request ends.
    #[track_caller]
    pub fn of_response(head: &Head, method: &str) -> Framing {
        let status = head.status();
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Framing::Empty;
        }
        Framing::declared(head).unwrap_or(Framing::UntilClose)
    }

    #[track_caller]
    fn declared(head: &Head) -> Option<Framing> {
        let (lengths, codings) = (head.all("content-length"), head.all("transfer-encoding"));
        assert!(lengths.len() + codings.len() <= 1, "ambiguous framing: {head:?}");
        if let Some(coding) = codings.first() {
            assert!(coding.eq_ignore_ascii_case("chunked"), "unknown coding: {head:?}");
            return Some(Framing::Chunked);
        }
        lengths.first().map(|text| Framing::Length(text.parse().expect("a length is digits")))
    }
}

/// A whole request as an origin received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its head.
    pub head: Head,
    /// Its body without transfer coding.
    pub body: Vec<u8>,
    /// The trailer fields of a chunked body.
    pub trailers: Vec<(String, String)>,
}

/// A whole response as a client received it.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// Its head.
    pub head: Head,
    /// Its body without transfer coding.
    pub body: Vec<u8>,
    /// The trailer fields of a chunked body.
    pub trailers: Vec<(String, String)>,
}

impl Response {
    /// The status code.
    #[track_caller]
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    /// The value of that field, if it is there.
    pub fn field(&self, name: &str) -> Option<String> {
        self.head.field(name)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails the test unless the status is `status`; gives the response on for more questions.
    #[track_caller]
    pub fn expect(self, status: u16) -> Response {
        assert_eq!(self.status(), status, "{self:?}");
        self
    }

    /// Fails the test unless the status is one of these.
    #[track_caller]
    pub fn expect_one_of(self, statuses: &[u16]) -> Response {
        assert!(statuses.contains(&self.status()), "{self:?}");
        self
    }

    /// Fails the test unless the body is exactly `body`.
    #[track_caller]
    pub fn with_body(self, body: impl AsRef<[u8]>) -> Response {
        assert!(self.body == body.as_ref(), "expected {:?}, got {self:?}", Excerpt(body.as_ref()));
        self
    }

    /// Fails the test unless this cache's `Cache-Status` member carries the parameter `parameter`
    /// (`hit`, `stored`, `fwd=uri-miss`, …).
    #[track_caller]
    pub fn cache(self, parameter: &str) -> Response {
        assert!(self.cache_parameters().iter().any(|p| p == parameter), "no `{parameter}` in {self:?}");
        self
    }

    /// Fails the test if the `Cache-Status` member carries the parameter.
    #[track_caller]
    pub fn cache_lacks(self, parameter: &str) -> Response {
        assert!(self.cache_parameters().iter().all(|p| p != parameter), "`{parameter}` in {self:?}");
        self
    }

    /// The parameters of the member `tidegate` of `Cache-Status` (RFC 9211), which is the last one.
    #[track_caller]
    pub fn cache_parameters(&self) -> Vec<String> {
        let value = self.field("cache-status").unwrap_or_else(|| panic!("no Cache-Status in {self:?}"));
        let member = value.rsplit(", ").next().unwrap_or_default();
        let mut parts = member.split(';').map(|part| part.trim().to_owned());
        assert_eq!(parts.next().as_deref(), Some("tidegate"), "{self:?}");
        parts.collect()
    }

    /// `Age` in seconds.
    ///
    /// # Panics
    /// When there is no `Age` field or it is not a number.
    #[track_caller]
    pub fn age(&self) -> u64 {
        let age = self.field("age").and_then(|age| age.parse().ok());
        age.unwrap_or_else(|| panic!("no Age in {self:?}"))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:?}\n{:?}", self.head, Excerpt(&self.body))
    }
}

/// The first bytes of a body, for messages.
struct Excerpt<'a>(&'a [u8]);

impl fmt::Debug for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(200)];
        write!(f, "{} bytes: {:?}", self.0.len(), String::from_utf8_lossy(shown))
    }
}
