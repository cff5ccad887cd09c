//! Answers from a stored response: whole, in ranges, or by its head alone.
//!
//! What must hold: bytes that were not written by this process are checked before the first of them is sent; a body
//! that cannot be read is a miss as long as nothing has been sent, and a broken connection afterwards.

mod at_once;
mod held;
mod ready;

use std::rc::Rc;

use semantics::Seconds;
use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::multipart::Multipart;
use semantics::preconditions::{Verdict, evaluate, not_modified_fields};
use semantics::ranges::{ByteRange, RangeAnswer, ranges, write_content_range, write_unsatisfied_range};
use wire::Version;

use crate::body::{DRAIN_BYTES, Inbound, Span};
use crate::buffers::Window;
use crate::connection::Client;
use crate::exchange::{Exchange, Outcome};
use crate::lookup::Response;
use crate::metrics::{RequestResult, Route};
use crate::object::{Body, Head};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::respond::{self, Made, Persistence};
use crate::worker::Worker;

pub use at_once::{AtOnce, Rest, at_once, send_rest};
use held::{Held, hold, send_range};
pub use ready::{Ready, overdue, ready_lease, send_extent};

/// How a stored response comes to be served.
pub struct Serving {
    /// The result in one word.
    pub result: RequestResult,
    /// `Cache-Status`.
    pub status: CacheStatus<'static>,
}

impl Serving {
    /// Fresh for `ttl` more.
    #[must_use]
    pub fn fresh(ttl: Seconds) -> Self {
        Self { result: RequestResult::Hit, status: CacheStatus::hit(ttl) }
    }

    /// Stored while this request waited.
    #[must_use]
    pub fn collapsed(ttl: Seconds) -> Self {
        let status = CacheStatus { detail: Some("collapsed"), ..CacheStatus::hit(ttl) };
        Self { result: RequestResult::Collapsed, status }
    }

    /// Validated with the origin just now.
    #[must_use]
    pub fn revalidated(why: Forward) -> Self {
        let forwarded = Forwarded { status: Some(304), ..Forwarded::because(why) };
        Self { result: RequestResult::Revalidated, status: CacheStatus::forwarded(forwarded) }
    }

    /// Fetched and stored just now.
    #[must_use]
    pub fn stored(why: Forward) -> Self {
        let forwarded = Forwarded { stored: true, ..Forwarded::because(why) };
        Self { result: RequestResult::Miss, status: CacheStatus::forwarded(forwarded) }
    }

    /// Stale, for the reason named.
    #[must_use]
    pub fn stale(staleness: Seconds, why: &'static str) -> Self {
        Self { result: RequestResult::Stale, status: CacheStatus::stale_hit(staleness, why) }
    }
}

/// Sends a stored response; `None` when its body cannot be had and nothing has been sent.
pub async fn serve(x: &Exchange<'_>, response: &Response, serving: &Serving) -> Option<Outcome> {
    let stored = &response.head.stored;
    match evaluate(&x.request.traits, stored, x.request.now) {
        Verdict::NotModified => return Some(not_modified(x, &response.head, serving).await),
        Verdict::PreconditionFailed => return Some(precondition_failed(x).await),
        Verdict::Serve => {}
    }
    let body = response.body()?;
    if x.request.is_head() {
        return Some(whole(x, response, body, serving, None).await);
    }
    match ranges(&x.request.traits, stored, body.length(), x.request.now) {
        RangeAnswer::Whole => {
            let first = hold(x.worker, response, body, 0..body.length()).await.ok()?;
            Some(whole(x, response, body, serving, first).await)
        }
        RangeAnswer::Parts(parts) => {
            let (start, end) = parts.iter().fold((u64::MAX, 0), |(a, b), p| (a.min(p.start), b.max(p.end)));
            let first = hold(x.worker, response, body, start..end).await.ok()?;
            Some(partial(x, response, body, serving, &parts, first).await)
        }
        RangeAnswer::Unsatisfiable => Some(unsatisfiable(x, body.length(), serving).await),
    }
}

async fn whole(
    x: &Exchange<'_>,
    response: &Response,
    body: &Body,
    serving: &Serving,
    mut held: Option<Held<'_>>,
) -> Outcome {
    let stored = &response.head.stored;
    let mut head = Vec::with_capacity(response.head.text.len() + 128);
    let age = stored.age(x.request.now);
    write_head(x.worker, &mut head, &response.head, age, &serving.status, x.persistence());
    let length = if x.request.is_head() { 0 } else { body.length() };
    let mut outbound = outbound(x, head, Outgoing::Length(length));
    let sent = async {
        send_range(x.worker, &mut outbound, body, 0..length, held.as_mut()).await?;
        outbound.end(&wire::Fields::new()).await
    };
    let sent = sent.await;
    concluded(stored.status, serving, outbound.sent(), sent)
}

async fn partial(
    x: &Exchange<'_>,
    response: &Response,
    body: &Body,
    serving: &Serving,
    parts: &[ByteRange],
    mut held: Option<Held<'_>>,
) -> Outcome {
    let complete = response.head.complete();
    let Some(parsed) = response.head.parsed(&complete) else {
        return whole(x, response, body, serving, held).await;
    };
    let frame = Multipart::new(x.worker.random().into(), parsed.fields.get("content-type"), body.length());
    let is_single = parts.len() == 1;
    let length = if is_single { parts[0].len() } else { frame.total_len(parts) };
    let mut head = Vec::with_capacity(response.head.text.len() + 256);
    wire::write::status_line(&mut head, 206, b"Partial Content");
    for field in parsed.fields.iter().filter(|f| !is_replaced_by_parts(f.name, is_single)) {
        wire::write::field(&mut head, field.name, field.value);
    }
    let mut value = Vec::with_capacity(80);
    if is_single {
        write_content_range(&mut value, parts[0], body.length());
        wire::write::field(&mut head, "Content-Range", &value);
    } else {
        frame.write_content_type(&mut value);
        wire::write::field(&mut head, "Content-Type", &value);
    }
    wire::write::field_decimal(&mut head, "Content-Length", length);
    write_age(&mut head, response.head.stored.age(x.request.now));
    write_via(x.worker, &mut head);
    respond::finish_head(&mut head, &serving.status, Outgoing::None, x.persistence());
    let mut outbound = outbound(x, head, Outgoing::Length(length));
    let sent = async {
        for part in parts {
            if !is_single {
                let mut before = Vec::with_capacity(160);
                frame.write_part_head(&mut before, *part);
                outbound.bytes(&before, Route::Memory, true).await?;
            }
            send_range(x.worker, &mut outbound, body, part.start..part.end, held.as_mut()).await?;
        }
        if !is_single {
            let mut end = Vec::with_capacity(48);
            frame.write_end(&mut end);
            outbound.bytes(&end, Route::Memory, false).await?;
        }
        outbound.end(&wire::Fields::new()).await
    };
    let sent = sent.await;
    concluded(206, serving, outbound.sent(), sent)
}

fn is_replaced_by_parts(name: &str, is_single: bool) -> bool {
    name.eq_ignore_ascii_case("content-length") || !is_single && name.eq_ignore_ascii_case("content-type")
}

fn outbound<'x>(x: &'x Exchange<'_>, head: Vec<u8>, outgoing: Outgoing) -> Outbound<'x> {
    let limit = x.worker.shared.settings.timeouts.client_send;
    let head = x.client.behind_interim(head);
    Outbound::new(&x.client.socket, &x.client.watch, limit, x.worker.response_means(), head, outgoing)
}

fn concluded(status: u16, serving: &Serving, sent: u64, result: Result<(), Unfinished>) -> Outcome {
    let outcome = Outcome { body_bytes: sent, ..Outcome::new(status, serving.result) };
    match result {
        Ok(()) => Outcome { reason: serving.status.detail, ..outcome },
        Err(Unfinished::Receiver(_)) => Outcome { complete: false, ..outcome }.because("client-left"),
        Err(Unfinished::Source(word)) => Outcome { complete: false, ..outcome }.because(word),
    }
}

/// 304 (RFC 9110 §15.4.5).
async fn not_modified(x: &Exchange<'_>, head: &Head, serving: &Serving) -> Outcome {
    let complete = head.complete();
    let mut out = Vec::with_capacity(512);
    wire::write::status_line(&mut out, 304, b"Not Modified");
    if let Some(parsed) = head.parsed(&complete) {
        for field in not_modified_fields(&parsed.fields) {
            wire::write::field(&mut out, field.name, field.value);
        }
    }
    write_age(&mut out, head.stored.age(x.request.now));
    write_via(x.worker, &mut out);
    bodiless(x, 304, out, serving).await
}

/// The answer to a precondition that decides against sending the body.
pub async fn bodiless_for(
    x: &Exchange<'_>,
    head: &Head,
    verdict: Verdict,
    result: RequestResult,
    status: CacheStatus<'static>,
) -> Outcome {
    match verdict {
        Verdict::PreconditionFailed => precondition_failed(x).await,
        Verdict::NotModified | Verdict::Serve => not_modified(x, head, &Serving { result, status }).await,
    }
}

async fn precondition_failed(x: &Exchange<'_>) -> Outcome {
    x.made(&Made::precondition_failed()).await
}

/// 416 (RFC 9110 §15.5.17).
async fn unsatisfiable(x: &Exchange<'_>, length: u64, serving: &Serving) -> Outcome {
    let mut out = Vec::with_capacity(256);
    wire::write::status_line(&mut out, 416, b"Range Not Satisfiable");
    wire::write::field(&mut out, "Date", &wire::date::format(x.request.now.0));
    let mut value = Vec::with_capacity(32);
    write_unsatisfied_range(&mut value, length);
    wire::write::field(&mut out, "Content-Range", &value);
    wire::write::field_decimal(&mut out, "Content-Length", 0);
    write_via(x.worker, &mut out);
    bodiless(x, 416, out, serving).await
}

async fn bodiless(x: &Exchange<'_>, status: u16, mut head: Vec<u8>, serving: &Serving) -> Outcome {
    respond::finish_head(&mut head, &serving.status, Outgoing::None, x.persistence());
    let mut outbound = outbound(x, head, Outgoing::None);
    let sent = outbound.flush(false).await;
    concluded(status, serving, 0, sent)
}

/// Appends the head of a stored response as it goes out now.
fn write_head(
    worker: &Worker,
    out: &mut Vec<u8>,
    head: &Head,
    age: Seconds,
    status: &CacheStatus<'_>,
    persistence: Persistence,
) {
    out.extend_from_slice(&head.text);
    write_age(out, age);
    write_via(worker, out);
    respond::finish_head(out, status, Outgoing::None, persistence);
}

/// Appends our `Via`. What is stored came by HTTP/1.1, or is told as if it had.
pub fn write_via(worker: &Worker, out: &mut Vec<u8>) {
    respond::write_via(out, Version::Http11, &worker.shared.pseudonym);
}

/// Appends `Age` (RFC 9111 §5.1).
pub fn write_age(out: &mut Vec<u8>, age: Seconds) {
    out.extend_from_slice(b"Age: ");
    wire::write::decimal(out, age.0);
    out.extend_from_slice(b"\r\n");
}

/// Throws away what is left of a request body; `None` when it is too much or does not come.
pub async fn drain(worker: &Rc<Worker>, client: &Client, mut body: Inbound) -> Option<Window> {
    let limit = worker.shared.settings.timeouts.client_body;
    let mut drained = 0;
    while drained <= DRAIN_BYTES {
        match body.next(&client.socket, &client.watch, limit).await.ok()? {
            Span::End => return Some(body.into_window()),
            Span::InWindow(n) => {
                body.used(n);
                drained += n as u64;
            }
            Span::OnSocket(n) if drained.saturating_add(n) > DRAIN_BYTES => return None,
            Span::OnSocket(_) => {
                body.receive(&client.socket, usize::MAX, &client.watch, limit).await.ok()?;
            }
        }
    }
    None
}
