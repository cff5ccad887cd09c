//! Heads of responses, and the responses made here: refusals and errors.
//!
//! What must hold: an error made here carries `Proxy-Status` (RFC 9209), a short plain text, and nothing of the request
//! in it; every response carries `Cache-Status` (RFC 9211).

use std::rc::Rc;
use std::time::Instant;

use semantics::CacheStatus;
use semantics::cache_status::NAME;
use wire::{Refusal, ResponseHead, Version};

use crate::admission::requests::Shed;
use crate::connection::Client;
use crate::exchange::{End, Exchange, Outcome};
use crate::metrics::{RequestResult, ShedStage};
use crate::origin::OriginError;
use crate::outbound::Outgoing;
use crate::purge::tags;
use crate::request::Denied;
use crate::settings::Mode;
use crate::worker::Worker;

/// What the client's connection does after the response.
#[derive(Clone, Copy, Debug)]
pub struct Persistence {
    /// The client's version.
    pub version: Version,
    /// Whether the connection goes on.
    pub keep: bool,
}

/// Ends a head: the fields that every response carries anew, and the blank line.
pub fn finish_head(
    out: &mut Vec<u8>,
    status: &CacheStatus<'_>,
    outgoing: Outgoing,
    persistence: Persistence,
) {
    out.extend_from_slice(b"Cache-Status: ");
    status.write(out);
    out.extend_from_slice(b"\r\n");
    if outgoing == Outgoing::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    match persistence {
        Persistence { keep: false, .. } => out.extend_from_slice(b"Connection: close\r\n"),
        Persistence { version: Version::Http10, .. } => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        Persistence { .. } => {}
    }
    out.extend_from_slice(b"\r\n");
}

/// The front of a response head that is passed on: everything end-to-end but the fields called `left_out`, `Via`, and the
/// length if there is one.
#[must_use]
pub fn relayed_head(
    worker: &Worker,
    response: &ResponseHead<'_>,
    outgoing: Outgoing,
    left_out: &[String],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    wire::write::status_line(&mut out, response.status, response.reason);
    // Without a body of its own the length in the head is the resource's, and goes through as it is.
    let keep_length = outgoing == Outgoing::None;
    for field in wire::fields::end_to_end(&response.fields) {
        if tags::is_carrier(field.name, left_out) {
            continue;
        }
        if keep_length || !field.name.eq_ignore_ascii_case("content-length") {
            wire::write::field(&mut out, field.name, field.value);
        }
    }
    if let Outgoing::Length(length) = outgoing {
        wire::write::field_decimal(&mut out, "Content-Length", length);
    }
    if !response.fields.contains("date") {
        // RFC 9110 §6.6.1: a recipient with a clock adds it.
        wire::write::field(&mut out, "Date", &wire::date::format(worker.now()));
    }
    write_via(&mut out, response.version, &worker.shared.pseudonym);
    out
}

/// Names of fields that are for us and not for clients: where we stand for the origin, those that carry tags.
#[must_use]
pub fn left_out(worker: &Worker, mode: Mode) -> &[String] {
    let purge = &worker.shared.settings.purge;
    if mode == Mode::Reverse && !purge.show_tags { &purge.tag_fields } else { &[] }
}

/// Appends our `Via` for a message received in `version` (RFC 9110 §7.6.3).
pub fn write_via(out: &mut Vec<u8>, version: Version, pseudonym: &str) {
    out.extend_from_slice(b"Via: ");
    semantics::via::write_via(out, version, pseudonym);
    out.extend_from_slice(b"\r\n");
}

/// A response made here.
pub struct Made {
    /// Its status code.
    pub status: u16,
    /// The `Proxy-Status` error type (RFC 9209 §2.3).
    pub error_type: &'static str,
    /// The word for the log and the `detail` of `Cache-Status`.
    pub word: &'static str,
    /// A sentence for whoever reads it.
    pub sentence: &'static str,
    /// How the request counts.
    pub result: RequestResult,
}

impl Made {
    const fn error(
        status: u16,
        error_type: &'static str,
        word: &'static str,
        sentence: &'static str,
    ) -> Self {
        Self { status, error_type, word, sentence, result: RequestResult::Error }
    }

    /// For a request that breaks the framing or syntax rules.
    #[must_use]
    pub fn refused(refusal: Refusal) -> Self {
        let sentence = "The request breaks a rule of HTTP/1.1 and was not read any further.";
        Self::error(refusal.status(), "http_request_error", refusal.word(), sentence)
    }

    /// For a request that is not allowed.
    #[must_use]
    pub fn denied(denied: Denied) -> Self {
        Self::error(denied.status(), denied.error_type(), denied.word(), denied.sentence())
    }

    /// For a request that is refused to protect the others.
    #[must_use]
    pub fn shed(shed: Shed) -> Self {
        let sentence = "There is more to do than can be done now; try again in a moment.";
        let made = Self::error(503, shed.error_type(), shed.word(), sentence);
        Self { result: RequestResult::Shed, ..made }
    }

    /// For an origin that gave no usable response.
    #[must_use]
    pub fn origin(error: &OriginError) -> Self {
        if let OriginError::Shed(shed) = error {
            return Self::shed(*shed);
        }
        let sentence = match error.status() {
            504 => "The origin server did not answer in time.",
            400 | 408 => "The request body did not arrive.",
            503 => "No origin server is available.",
            _ => "The origin server gave no usable response.",
        };
        Self::error(error.status(), error.word(), error.detail(), sentence)
    }

    /// For `only-if-cached` without a stored response (RFC 9111 §5.2.1.7).
    #[must_use]
    pub fn not_cached() -> Self {
        let sentence = "Nothing stored answers this request, and it forbids asking the origin.";
        Self::error(504, "http_request_denied", "only-if-cached", sentence)
    }

    /// For a precondition that the stored response does not meet (RFC 9110 §13.1).
    #[must_use]
    pub fn precondition_failed() -> Self {
        let sentence = "The stored response does not meet the precondition.";
        Self::error(412, "http_request_denied", "precondition-failed", sentence)
    }

    /// For a stored body that could not be read, after it had been chosen.
    #[must_use]
    pub fn unreadable() -> Self {
        let sentence = "The stored response could not be read; the next request fetches it again.";
        Self::error(502, "proxy_internal_error", "store-unreadable", sentence)
    }

    /// For a request that waited for another's fetch, which failed, or was refused.
    #[must_use]
    pub fn collapsed_failure(word: &'static str) -> Self {
        if let Some(shed) = Shed::of_word(word) {
            return Self::shed(shed);
        }
        let status = if word.ends_with("timeout") { 504 } else { 502 };
        let sentence = "The origin server gave no usable response.";
        Self::error(status, "connection_terminated", word, sentence)
    }

    /// For a `TRACE` that ends here.
    #[must_use]
    pub fn no_trace() -> Self {
        Self::error(405, "http_request_denied", "trace", "TRACE is not answered here.")
    }

    /// For a request head that did not arrive in time.
    #[must_use]
    pub fn too_slow() -> Self {
        let sentence = "The request did not arrive in time.";
        Self::error(408, "http_request_error", "head-timeout", sentence)
    }

    /// For a long request head when other long ones have all the memory that there is for them.
    #[must_use]
    pub fn no_memory() -> Self {
        let sentence = "There is no memory for so long a request head now.";
        Self::error(503, "proxy_internal_error", "head-memory", sentence)
    }

    /// Head and body.
    fn write(
        &self,
        now: u64,
        lot: u64,
        status: &CacheStatus<'_>,
        persistence: Persistence,
        head_only: bool,
    ) -> Vec<u8> {
        let reason = wire::write::reason(self.status);
        let body = format!("{} {reason}\n{}\n", self.status, self.sentence);
        let mut out = Vec::with_capacity(512);
        wire::write::status_line(&mut out, self.status, reason.as_bytes());
        wire::write::field(&mut out, "Date", &wire::date::format(now));
        wire::write::field(&mut out, "Content-Type", b"text/plain; charset=utf-8");
        wire::write::field_decimal(&mut out, "Content-Length", body.len() as u64);
        wire::write::field(&mut out, "Cache-Control", b"no-store");
        if self.status == 405 {
            wire::write::field(&mut out, "Allow", ALLOWED);
        }
        if self.status == 503 {
            wire::write::field_decimal(&mut out, "Retry-After", retry_after_seconds(lot));
        }
        let proxy_status = format!("{}; error={}; details=\"{}\"", NAME, self.error_type, self.word);
        wire::write::field(&mut out, "Proxy-Status", proxy_status.as_bytes());
        finish_head(&mut out, status, Outgoing::Length(body.len() as u64), persistence);
        if !head_only {
            out.extend_from_slice(body.as_bytes());
        }
        out
    }
}

/// Who is refused together is not to come back together.
fn retry_after_seconds(lot: u64) -> u64 {
    1 + lot % 4
}

/// Sends a response made here and says how it went.
pub async fn send_made(
    worker: &Rc<Worker>,
    client: &Client,
    made: &Made,
    status: &CacheStatus<'_>,
    persistence: Persistence,
    head_only: bool,
) -> Outcome {
    let bytes = made.write(worker.now(), worker.admission.draw(), status, persistence, head_only);
    let bytes = client.behind_interim(bytes);
    let sent = pump::memory::send(&client.socket, &bytes, false, &client.watch, &worker.to_client()).await;
    if made.result == RequestResult::Shed {
        worker.metrics.shed(ShedStage::Request, 1);
        client.rest.set(worker.refusals.rest(Instant::now()));
    }
    let mut outcome = Outcome::new(made.status, made.result).because(made.word);
    outcome.end = End::of_own(sent.is_ok());
    outcome
}

/// Methods that are passed on or answered here.
const ALLOWED: &[u8] = b"GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";

/// Answers an `OPTIONS` or `TRACE` that may not be sent on any further (RFC 9110 §7.6.2). `TRACE` would show the client
/// what others have added on the way; it is not answered in kind (RFC 9110 §9.3.8).
pub async fn as_last_recipient(x: &Exchange<'_>) -> Outcome {
    if x.request.head.method == "TRACE" {
        return x.made(&Made::no_trace()).await;
    }
    let mut head = Vec::with_capacity(256);
    wire::write::status_line(&mut head, 204, b"No Content");
    wire::write::field(&mut head, "Date", &wire::date::format(x.worker.now()));
    wire::write::field(&mut head, "Allow", ALLOWED);
    let status = CacheStatus { outcome: semantics::cache_status::Outcome::Generated, detail: None };
    finish_head(&mut head, &status, Outgoing::None, x.persistence());
    let patience = x.worker.to_client();
    let sent = pump::memory::send(&x.client.socket, &head, false, &x.client.watch, &patience).await;
    Outcome { end: End::of_own(sent.is_ok()), ..Outcome::new(204, RequestResult::Pass) }
}

/// Answers a request that breaks a rule, before the connection is closed.
pub async fn refused(worker: &Rc<Worker>, client: &Client, refusal: Refusal, started: Instant) {
    unreadable(worker, client, &Made::refused(refusal), started).await;
}

/// Answers what could not be read as a request, before the connection is closed.
pub async fn unreadable(worker: &Rc<Worker>, client: &Client, made: &Made, started: Instant) {
    tracing::info!(client = %client.peer, reason = made.word, "request refused");
    let persistence = Persistence { version: Version::Http11, keep: false };
    let status =
        CacheStatus { outcome: semantics::cache_status::Outcome::Generated, detail: Some(made.word) };
    let outcome = send_made(worker, client, made, &status, persistence, false).await;
    crate::exchange::account(worker, client, None, &outcome, started);
}
