//! One request as the rest of the proxy sees it: what it asks for, from whom, under which key.

use std::rc::Rc;
use std::time::Instant;

use semantics::{Method, RequestTraits, UnixSeconds};
use store::KeyHash;
use wire::framing::{Recipient, RequestBody};
use wire::target::{Scheme, Target, TargetUri};
use wire::{Refusal, RequestHead, Version};

use crate::connection::Client;
use crate::object::Variants;
use crate::origin::Endpoint;
use crate::purge::target;
use crate::settings::Mode;
use crate::site;
use crate::worker::{Shared, Worker};

/// See the module.
pub struct Request<'a> {
    /// As it was parsed.
    pub head: RequestHead<'a>,
    /// What it asks for.
    pub uri: TargetUri<'a>,
    /// What of it matters to a cache.
    pub traits: RequestTraits<'a>,
    /// How its body is delimited.
    pub body: RequestBody,
    /// Host and port in their normal form: lower case, default port elided.
    pub authority: Vec<u8>,
    /// The cache key without a variant.
    pub key: Vec<u8>,
    /// Its hash.
    pub hash: KeyHash,
    /// Whether the client wants the connection to go on.
    pub keep_alive: bool,
    /// When its first byte was seen.
    pub started: Instant,
    /// The same by the wall clock, as the caching rules count.
    pub now: UnixSeconds,
}

impl<'a> Request<'a> {
    /// Reads what the head says.
    ///
    /// # Errors
    /// The named refusal, when it cannot be served.
    pub fn new(
        worker: &Worker,
        mode: Mode,
        head: RequestHead<'a>,
        started: Instant,
    ) -> Result<Self, Refusal> {
        let uri = wire::target::target_uri(&head, Scheme::Http, None)?;
        let body = wire::framing::request_body(&head)?;
        let mut authority = Vec::with_capacity(64);
        uri.authority.write(&mut authority, uri.scheme);
        let mut key = Vec::with_capacity(128);
        semantics::key::write_target_key(&mut key, &uri);
        let recipient = match mode {
            Mode::Forward => Recipient::Proxy,
            Mode::Reverse => Recipient::Gateway,
        };
        Ok(Self {
            uri,
            body,
            traits: RequestTraits::of(&head),
            hash: worker.shared.cache.hash(&key),
            authority,
            key,
            keep_alive: wire::framing::request_keep_alive(&head, recipient),
            started,
            now: UnixSeconds(worker.now()),
            head,
        })
    }

    /// Whether something stored may answer it.
    #[must_use]
    pub fn may_use_stored(&self) -> bool {
        self.traits.method.may_use_stored()
    }

    /// Whether it is a plain `GET` or `HEAD` that a stored response can answer as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.may_use_stored()
            && self.traits.conditions.is_empty()
            && self.traits.range == semantics::request::Once::Absent
            && matches!(self.body, RequestBody::None | RequestBody::Length(0))
            && !self.head.fields.contains("upgrade")
    }

    /// Whether it may be sent twice without the origin noticing a difference (RFC 9110 §9.2.2), its body aside.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        matches!(self.traits.method, Method::Get | Method::Head | Method::OtherSafe)
            || matches!(self.head.method, "PUT" | "DELETE")
    }

    /// Whether it asks to change the protocol of its connection.
    #[must_use]
    pub fn is_upgrade(&self) -> bool {
        self.head.version == Version::Http11
            && self.head.fields.contains("upgrade")
            && wire::fields::has_connection_option(&self.head.fields, "upgrade")
    }

    /// Whether only the head of the response is wanted.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.traits.method == Method::Head
    }

    /// The key of the variant that answers this request, and its hash.
    #[must_use]
    pub fn variant(&self, shared: &Shared, variants: &Variants) -> (Vec<u8>, KeyHash) {
        let mut key = self.key.clone();
        key.push(target::VARIANT);
        key.extend_from_slice(&variants.generation.to_le_bytes());
        semantics::vary::secondary_key(&mut key, &variants.names, &self.head.fields);
        let hash = shared.cache.hash(&key);
        (key, hash)
    }

    /// Whom to ask, in the order in which to try; nobody where no site answers for the host.
    #[must_use]
    pub fn endpoints(&self, worker: &Worker, mode: Mode) -> Vec<Rc<Endpoint>> {
        let mut host = Vec::with_capacity(64);
        self.uri.authority.write_host(&mut host);
        let host = String::from_utf8_lossy(&host);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match mode {
            Mode::Forward => {
                let port = self.uri.authority.port_or_default(self.uri.scheme);
                vec![Rc::new(Endpoint { host: bare.to_owned(), port })]
            }
            Mode::Reverse => worker.shared.sites.origins(bare).map(site::in_turn).unwrap_or_default(),
        }
    }
}

/// Why a request is not served although it is well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The client is not among those that may use the forward proxy.
    ClientNotAllowed,
    /// `CONNECT` to a port that is not allowed.
    PortNotAllowed,
    /// `CONNECT` where we are not a forward proxy.
    NotAForwardProxy,
    /// An origin-form target sent to a forward proxy.
    NotForAProxy,
    /// A scheme that is not spoken to origins yet.
    SchemeNotSpoken,
    /// The request has been here before.
    Loop,
    /// No site answers for its host.
    UnknownHost,
}

impl Denied {
    /// The word for the log and `Cache-Status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ClientNotAllowed => "client-not-allowed",
            Self::PortNotAllowed => "port-not-allowed",
            Self::NotAForwardProxy => "not-a-forward-proxy",
            Self::NotForAProxy => "absolute-form-required",
            Self::SchemeNotSpoken => "scheme-not-spoken",
            Self::Loop => "proxy-loop",
            Self::UnknownHost => "unknown-host",
        }
    }

    /// The status code.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::ClientNotAllowed | Self::PortNotAllowed => 403,
            Self::NotAForwardProxy => 405,
            Self::NotForAProxy => 400,
            Self::SchemeNotSpoken => 501,
            Self::Loop => 508,
            Self::UnknownHost => 421,
        }
    }

    /// The `Proxy-Status` error type (RFC 9209 §2.3).
    #[must_use]
    pub fn error_type(self) -> &'static str {
        match self {
            Self::Loop => "proxy_loop_detected",
            Self::UnknownHost => "destination_not_found",
            _ => "http_request_denied",
        }
    }

    /// A sentence for whoever reads the response.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::ClientNotAllowed => "This client may not use this proxy (forward.allow).",
            Self::PortNotAllowed => "CONNECT to this port is not allowed (forward.connect_ports).",
            Self::NotAForwardProxy => "This listener is a reverse proxy; it opens no tunnels.",
            Self::NotForAProxy => "This listener is a forward proxy; it wants an absolute URL as the target.",
            Self::SchemeNotSpoken => "https is reached through CONNECT, not by an absolute URL.",
            Self::Loop => "The request has come back to this proxy: a forwarding loop.",
            Self::UnknownHost => "No site of this server answers for that host.",
        }
    }
}

/// Whether a well-formed request may be served.
///
/// # Errors
/// Why not.
pub fn admit(worker: &Worker, client: &Client, request: &Request<'_>) -> Result<(), Denied> {
    if !client.allowed {
        return Err(Denied::ClientNotAllowed);
    }
    let is_connect = request.head.method == "CONNECT";
    match client.mode {
        Mode::Forward if is_connect => {
            let port = request.uri.authority.port.unwrap_or(0);
            let ports = &worker.shared.settings.forward.connect_ports;
            ports.contains(&port).then_some(()).ok_or(Denied::PortNotAllowed)?;
        }
        Mode::Forward if request.uri.scheme != Scheme::Http => return Err(Denied::SchemeNotSpoken),
        Mode::Forward if is_origin_form(&request.head) => return Err(Denied::NotForAProxy),
        Mode::Reverse if is_connect => return Err(Denied::NotAForwardProxy),
        Mode::Forward | Mode::Reverse => {}
    }
    if wire::fields::via_contains(&request.head.fields, &worker.shared.pseudonym) {
        return Err(Denied::Loop);
    }
    Ok(())
}

fn is_origin_form(head: &RequestHead<'_>) -> bool {
    matches!(wire::target::parse(head.method, head.target), Ok(Target::Origin(_) | Target::Asterisk))
}
