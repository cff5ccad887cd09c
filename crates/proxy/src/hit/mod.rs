//! Answers from a stored response: whole, in ranges, or by its head alone.
//!
//! What must hold: bytes that were not written by this process are checked before the first of them is sent; what is
//! missing of a body is fetched; a body that can neither be read nor fetched is a miss as long as nothing has been sent,
//! and a broken connection afterwards.

mod assembly;
mod at_once;
mod heads;
mod leases;
mod ready;

use std::rc::Rc;

use semantics::Seconds;
use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::multipart::Multipart;
use semantics::preconditions::{Verdict, evaluate, not_modified_fields};
use semantics::ranges::{ByteRange, RangeAnswer, ranges, write_unsatisfied_range};

use crate::body::{DRAIN_BYTES, Inbound, Span};
use crate::buffers::Window;
use crate::connection::Client;
use crate::exchange::{Exchange, Outcome};
use crate::fetch::Settled;
use crate::lookup::Response;
use crate::metrics::{RequestResult, Route};
use crate::object::{Body, Head};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::respond::{self, Made};
use crate::worker::Worker;

pub use assembly::send_lost;
use assembly::{Assembly, Holes, assemble, send_range};
pub use at_once::{AtOnce, Rest, at_once, send_rest};
use heads::write_head;
pub use heads::{PartKind, part_head, write_age, write_via};
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

    /// In part stored, in part fetched by this request or, `collapsed`, by another.
    #[must_use]
    pub fn partial(collapsed: bool) -> Self {
        let result = if collapsed { RequestResult::Collapsed } else { RequestResult::Miss };
        let forwarded = Forwarded { stored: !collapsed, collapsed, ..Forwarded::because(Forward::Partial) };
        Self { result, status: CacheStatus::forwarded(forwarded) }
    }

    /// What is to be said where bytes are fetched.
    fn fetching(assembly: &Assembly) -> Option<Self> {
        assembly.fetches().map(|arriving| Self::partial(!arriving.led))
    }

    /// Stale, for the reason named.
    #[must_use]
    pub fn stale(staleness: Seconds, why: &'static str) -> Self {
        Self { result: RequestResult::Stale, status: CacheStatus::stale_hit(staleness, why) }
    }
}

/// Why a stored response was not sent. Nothing has been.
pub enum Unserved {
    /// Its bytes cannot be had.
    Miss,
    /// The origin was asked for bytes that are missing, and this is what its answer came to.
    Instead(Box<Settled>),
}

/// Sends a stored response, if its bytes can be had.
///
/// # Errors
/// [`Unserved`].
pub async fn serve(x: &Exchange<'_>, response: &Response, serving: &Serving) -> Result<Outcome, Unserved> {
    let stored = &response.head.stored;
    match evaluate(&x.request.traits, stored, x.request.now) {
        Verdict::NotModified => return Ok(not_modified(x, &response.head, serving).await),
        Verdict::PreconditionFailed => return Ok(precondition_failed(x).await),
        Verdict::Serve => {}
    }
    let body = response.body().ok_or(Unserved::Miss)?;
    if x.request.is_head() {
        return Ok(whole(x, response, body, serving, None).await);
    }
    match ranges(&x.request.traits, stored, body.length(), x.request.now) {
        RangeAnswer::Whole => {
            let assembly = assemble(x, response, 0..body.length(), Holes::Fetch).await?;
            let fetching = assembly.as_ref().and_then(Serving::fetching);
            Ok(whole(x, response, body, fetching.as_ref().unwrap_or(serving), assembly).await)
        }
        RangeAnswer::Parts(parts) => {
            let (start, end) = parts.iter().fold((u64::MAX, 0), |(a, b), p| (a.min(p.start), b.max(p.end)));
            let holes = if parts.len() == 1 { Holes::Fetch } else { Holes::Refuse };
            let assembly = assemble(x, response, start..end, holes).await?;
            let fetching = assembly.as_ref().and_then(Serving::fetching);
            let serving = fetching.as_ref().unwrap_or(serving);
            Ok(partial(x, response, body, serving, &parts, assembly).await)
        }
        RangeAnswer::Unsatisfiable => Ok(unsatisfiable(x, body.length(), serving).await),
    }
}

async fn whole(
    x: &Exchange<'_>,
    response: &Response,
    body: &Body,
    serving: &Serving,
    mut assembly: Option<Assembly>,
) -> Outcome {
    let stored = &response.head.stored;
    let mut head = Vec::with_capacity(response.head.text.len() + 128);
    let age = stored.age(x.request.now);
    write_head(x.worker, &mut head, &response.head, age, &serving.status, x.persistence());
    let length = if x.request.is_head() { 0 } else { body.length() };
    let mut outbound = outbound(x, head, Outgoing::Length(length));
    let sent = async {
        send_range(x, &mut outbound, body, 0..length, assembly.as_mut()).await?;
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
    mut assembly: Option<Assembly>,
) -> Outcome {
    let complete = response.head.complete();
    let content_type = response.head.parsed(&complete).and_then(|head| head.fields.get("content-type"));
    let frame = Multipart::new(x.worker.random().into(), content_type, body.length());
    let is_single = parts.len() == 1;
    let length = if is_single { parts[0].len() } else { frame.total_len(parts) };
    let kind = match parts {
        [part] => PartKind::One(*part, body.length()),
        _ => PartKind::Several(&frame),
    };
    let head = part_head(x, &response.head, kind, length, &serving.status, x.persistence());
    let mut outbound = outbound(x, head, Outgoing::Length(length));
    let sent = async {
        for part in parts {
            if !is_single {
                let mut before = Vec::with_capacity(160);
                frame.write_part_head(&mut before, *part);
                outbound.bytes(&before, Route::Memory, true).await?;
            }
            send_range(x, &mut outbound, body, part.start..part.end, assembly.as_mut()).await?;
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

fn outbound<'x>(x: &'x Exchange<'_>, head: Vec<u8>, outgoing: Outgoing) -> Outbound<'x> {
    let head = x.client.behind_interim(head);
    let (patience, means) = (x.worker.to_client(), x.worker.response_means());
    Outbound::new(&x.client.socket, &x.client.watch, patience, means, head, outgoing)
}

fn concluded(status: u16, serving: &Serving, sent: u64, result: Result<(), Unfinished>) -> Outcome {
    let reason = serving.status.detail;
    Outcome { body_bytes: sent, reason, ..Outcome::new(status, serving.result) }.sent(result)
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
pub async fn unsatisfiable(x: &Exchange<'_>, length: u64, serving: &Serving) -> Outcome {
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

/// Throws away what is left of a request body; `None` when it is too much or does not come.
pub async fn drain(worker: &Rc<Worker>, client: &Client, mut body: Inbound) -> Option<Window> {
    let patience = worker.from_client();
    let mut drained = 0;
    while drained <= DRAIN_BYTES {
        match body.next(&client.socket, &client.watch, &patience).await.ok()? {
            Span::End => return Some(body.into_window()),
            Span::InWindow(n) => {
                body.used(n);
                drained += n as u64;
            }
            Span::OnSocket(n) if drained.saturating_add(n) > DRAIN_BYTES => return None,
            Span::OnSocket(_) => {
                body.receive(&client.socket, usize::MAX, &client.watch, &patience).await.ok()?;
            }
        }
    }
    None
}
