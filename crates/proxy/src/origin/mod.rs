//! Origins: whom to ask, over which connection, and what came back.
//!
//! [`pool`] keeps connections, [`resolve`] turns names into addresses, [`ask`] sends one request and reads one response
//! head. What must hold: a pooled connection is used again only after a response that ended where its framing said;
//! a request is sent a second time only if the first connection was an old one that died before any byte of a
//! response, and only if the request can be replayed.

pub mod ask;
pub mod pool;
pub mod resolve;
mod slots;

use std::fmt;
use std::io;

use wire::Refusal;

use crate::admission::requests::Shed;

/// A place to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or an address literal (IPv6 without brackets).
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Why no usable response came from an origin. The words are RFC 9209's error types, or ours.
#[derive(Debug)]
pub enum OriginError {
    /// The name has no address.
    Unresolved,
    /// No address took the connection.
    Refused(io::Error),
    /// No address answered within the limit.
    ConnectTimeout,
    /// The connection ended before a response head.
    Ended,
    /// The connection failed.
    Failed(io::Error),
    /// No response head within the limit.
    Silent,
    /// What came is not an HTTP/1.x response head.
    Protocol(Refusal),
    /// There is no memory for so long a response head now.
    NoMemory,
    /// The response head broke off.
    CutShort,
    /// Interim responses without end.
    Babbling,
    /// The origin changed the protocol, which nobody had asked for.
    Switched,
    /// The client ended or stalled while its request body was being sent on.
    ClientBody(&'static str),
    /// The site has no origin that could be asked.
    NoOrigin,
    /// It was not asked, to protect the others.
    Shed(Shed),
}

impl OriginError {
    /// The `Proxy-Status` error type (RFC 9209 §2.3).
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unresolved => "dns_error",
            Self::Refused(_) => "connection_refused",
            Self::ConnectTimeout => "connection_timeout",
            Self::Ended | Self::Failed(_) => "connection_terminated",
            Self::Silent => "http_response_timeout",
            Self::CutShort => "http_response_incomplete",
            Self::Protocol(_) | Self::Switched | Self::Babbling => "http_protocol_error",
            Self::NoMemory => "proxy_internal_error",
            Self::ClientBody(_) => "http_request_error",
            Self::NoOrigin => "destination_unavailable",
            // What waits for the same answer is told why there is none.
            Self::Shed(shed) => shed.word(),
        }
    }

    /// The status code of the response made here for it.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::ConnectTimeout | Self::Silent => 504,
            Self::ClientBody("client-body-timeout") => 408,
            Self::ClientBody(_) => 400,
            Self::NoOrigin | Self::NoMemory | Self::Shed(_) => 503,
            _ => 502,
        }
    }

    /// A word with more detail, for the log.
    #[must_use]
    pub fn detail(&self) -> &'static str {
        match self {
            Self::Protocol(refusal) => refusal.word(),
            Self::ClientBody(word) => word,
            Self::Switched => "unasked-101",
            Self::Babbling => "too-many-interim",
            Self::NoMemory => "head-memory",
            other => other.word(),
        }
    }

    /// Whether the connection died in the way that an idle one does which its server has closed meanwhile.
    #[must_use]
    pub fn is_stale_connection(&self) -> bool {
        matches!(self, Self::Ended | Self::Failed(_))
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(e) | Self::Failed(e) => write!(f, "{}: {e}", self.word()),
            other => f.write_str(other.detail()),
        }
    }
}
