//! Answers from a stored response: whole, in ranges, or by its head alone.
//!
//! What must hold: bytes that were not written by this process are checked before the first of them is sent; a body
//! that cannot be read is a miss as long as nothing has been sent, and a broken connection afterwards.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semantics::Seconds;
use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::multipart::Multipart;
use semantics::preconditions::{Verdict, evaluate, not_modified_fields};
use semantics::ranges::{ByteRange, RangeAnswer, ranges, write_content_range, write_unsatisfied_range};
use semantics::reuse::{Reuse, may_reuse};
use store::At;
use wire::Version;

use crate::body::{DRAIN_BYTES, Inbound, Span};
use crate::buffers::Window;
use crate::connection::Client;
use crate::disk::ReadFailed;
use crate::exchange::{Exchange, Outcome};
use crate::lookup::{self, Response};
use crate::metrics::{RequestResult, Route};
use crate::object::{Body, Content, DeviceBody, DeviceExtent, Head};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::request::{self, Request};
use crate::respond::{self, Made, Persistence};
use crate::settings::StoreIo;
use crate::worker::Worker;

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

/// What [`at_once`] came to.
pub enum AtOnce {
    /// It takes more than memory, resident pages, and a call or two.
    No,
    /// Answered.
    Sent(Outcome),
    /// Answered but for what the socket did not take.
    Partly(Outcome, Rest),
}

/// What is left of a response that was begun at once.
pub enum Rest {
    /// These bytes.
    Bytes(Vec<u8>),
    /// So many bytes of a device from an offset on, behind these bytes of the head, held in place by the lease.
    Lent(Vec<u8>, Arc<File>, u64, u64, store::Lease),
}

/// Answers a plain request from memory, or by lending resident pages, without waiting for anything.
#[must_use]
pub fn at_once(worker: &Rc<Worker>, client: &Client, request: &Request<'_>) -> AtOnce {
    if !request.is_plain() || request::admit(worker, client, request).is_err() {
        return AtOnce::No;
    }
    let Some(object) = lookup::find_in_memory(worker, request) else { return AtOnce::No };
    let Content::Response(head, body) = &object.content else { return AtOnce::No };
    let Reuse::Fresh { age, ttl } = may_reuse(&request.traits, &head.stored, request.now) else {
        return AtOnce::No;
    };
    let lent = match body {
        Body::Memory(_) => None,
        Body::Device(_) if request.is_head() => None,
        Body::Device(body) => match lendable(worker, body) {
            Some(lent) => Some(lent),
            None => return AtOnce::No,
        },
    };
    let persistence =
        Persistence { version: request.head.version, keep: request.keep_alive && !worker.draining.get() };
    let mut scratch = worker.scratch.borrow_mut();
    scratch.clear();
    write_head(worker, &mut scratch, head, age, &CacheStatus::hit(ttl), persistence);
    let outcome = Outcome::new(head.stored.status, RequestResult::Hit);
    match (lent, body) {
        (Some((lease, file, offset)), _) => lend_now(worker, client, &scratch, lease, file, offset, outcome),
        (None, Body::Memory(body)) if !request.is_head() => {
            send_now(worker, client, &mut scratch, body, outcome)
        }
        (None, _) => send_now(worker, client, &mut scratch, &[], outcome),
    }
}

/// The one extent of a body, when its pages can be lent at once.
fn lendable(worker: &Worker, body: &DeviceBody) -> Option<(store::Lease, Arc<File>, u64)> {
    let [extent] = &*body.extents else { return None };
    let (disk, store) = (&worker.disk, &worker.shared.cache.store);
    if !extent.is_verified() || disk.disks().io == StoreIo::Direct {
        return None;
    }
    let At::Device(lease) = store.at(&store.extent_place(&extent.at)?)? else { return None };
    let (file, offset) = disk.source(lease.place())?;
    disk.is_resident(lease.place()).then_some((lease, file, offset))
}

fn lend_now(
    worker: &Worker,
    client: &Client,
    head: &[u8],
    lease: store::Lease,
    file: Arc<File>,
    offset: u64,
    mut outcome: Outcome,
) -> AtOnce {
    let length = u64::from(lease.place().len);
    outcome.body_bytes = length;
    worker.metrics.body_bytes(Route::Sendfile, length);
    let sent = match client.socket.try_send(&[IoSlice::new(head)], true) {
        Ok(n) => n,
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        Err(_) => return AtOnce::Sent(Outcome { complete: false, ..outcome }),
    };
    if sent < head.len() {
        return AtOnce::Partly(outcome, Rest::Lent(head[sent..].to_vec(), file, offset, length, lease));
    }
    let mut at = offset;
    match sys::sendfile::sendfile(&client.socket, &*file, &mut at, length as usize) {
        Ok(_) if at - offset == length => AtOnce::Sent(outcome),
        Err(e) if e.kind() != ErrorKind::WouldBlock => AtOnce::Sent(Outcome { complete: false, ..outcome }),
        _ => AtOnce::Partly(outcome, Rest::Lent(Vec::new(), file, at, length - (at - offset), lease)),
    }
}

/// Bodies up to this are copied behind their head: one buffer is cheaper to send than two.
const JOIN_UP_TO: usize = 4096;

fn send_now(
    worker: &Worker,
    client: &Client,
    head: &mut Vec<u8>,
    body: &[u8],
    mut outcome: Outcome,
) -> AtOnce {
    outcome.body_bytes = body.len() as u64;
    worker.metrics.body_bytes(Route::Memory, body.len() as u64);
    let body = if body.len() <= JOIN_UP_TO {
        head.extend_from_slice(body);
        &[]
    } else {
        body
    };
    let sent = match body {
        [] => client.socket.try_send(&[IoSlice::new(head)], false),
        body => client.socket.try_send(&[IoSlice::new(head), IoSlice::new(body)], false),
    };
    let n = match sent {
        Ok(n) if n == head.len() + body.len() => return AtOnce::Sent(outcome),
        Ok(n) => n,
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        Err(_) => return AtOnce::Sent(Outcome { complete: false, ..outcome }),
    };
    AtOnce::Partly(outcome, Rest::Bytes([head, body].concat().split_off(n)))
}

/// Sends what [`at_once`] left over; says whether all of it went out.
pub async fn send_rest(worker: &Rc<Worker>, client: &Client, rest: Rest) -> bool {
    let limit = worker.shared.settings.timeouts.client_send;
    let (socket, watch) = (&client.socket, &client.watch);
    match rest {
        Rest::Bytes(bytes) => pump::memory::send(socket, &bytes, false, watch, limit).await.is_ok(),
        Rest::Lent(head, file, offset, length, lease) => {
            let sent = async {
                pump::memory::send(socket, &head, true, watch, limit).await?;
                pump::sendfile::sendfile(&*file, offset, length, socket, watch, limit).await
            };
            tokio::select! {
                biased;
                sent = sent => sent.is_ok(),
                () = overdue(&lease) => false,
            }
        }
    }
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
        return Some(whole(x, response, body, serving, Vec::new()).await);
    }
    match ranges(&x.request.traits, stored, body.length(), x.request.now) {
        RangeAnswer::Whole => {
            let first = prepare(x.worker, response, body, 0).await.ok()?;
            Some(whole(x, response, body, serving, first).await)
        }
        RangeAnswer::Parts(parts) => {
            let first = prepare(x.worker, response, body, parts.first()?.start).await.ok()?;
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
    first: Vec<Ready>,
) -> Outcome {
    let stored = &response.head.stored;
    let mut head = Vec::with_capacity(response.head.text.len() + 128);
    let age = stored.age(x.request.now);
    write_head(x.worker, &mut head, &response.head, age, &serving.status, x.persistence());
    let length = if x.request.is_head() { 0 } else { body.length() };
    let mut outbound = outbound(x, head, Outgoing::Length(length));
    let sent = async {
        send_range(x, &mut outbound, response, body, 0..length, first).await?;
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
    first: Vec<Ready>,
) -> Outcome {
    let complete = response.head.complete();
    let Some(parsed) = response.head.parsed(&complete) else {
        return whole(x, response, body, serving, first).await;
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
        let mut first = Some(first);
        for part in parts {
            if !is_single {
                let mut before = Vec::with_capacity(160);
                frame.write_part_head(&mut before, *part);
                outbound.bytes(&before, Route::Memory, true).await?;
            }
            let ready = first.take().unwrap_or_default();
            send_range(x, &mut outbound, response, body, part.start..part.end, ready).await?;
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

/// Bytes of a body that can be sent now.
pub enum Ready {
    /// In memory.
    Bytes(Bytes),
    /// In the page cache, and held there in place by the lease.
    Resident(store::Lease),
}

/// Makes the first bytes of a range ready, before the head is sent: until then a failure is only a miss.
async fn prepare(
    worker: &Rc<Worker>,
    response: &Response,
    body: &Body,
    from: u64,
) -> Result<Vec<Ready>, ReadFailed> {
    let Body::Device(body) = body else { return Ok(Vec::new()) };
    let Some((i, _)) = body.extent_at(from) else { return Ok(Vec::new()) };
    Ok(vec![ready(worker, response, body, &body.extents[i]).await?])
}

/// Sends a range of a body, each extent made ready while the one before is sent.
async fn send_range(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    response: &Response,
    body: &Body,
    range: Range<u64>,
    first: Vec<Ready>,
) -> Result<(), Unfinished> {
    let body = match body {
        Body::Memory(bytes) => {
            let bytes = &bytes[range.start as usize..range.end as usize];
            return outbound.bytes(bytes, Route::Memory, false).await;
        }
        Body::Device(body) => body,
    };
    let worker = x.worker;
    let mut at = range.start;
    let mut next = first.into_iter().next();
    while at < range.end {
        let (i, within) = body.extent_at(at).ok_or(Unfinished::Source("extent-missing"))?;
        let extent = &body.extents[i];
        let now = match next.take() {
            Some(ready) => ready,
            None => ready(worker, response, body, extent).await.map_err(unreadable)?,
        };
        let n = (u64::from(extent.at.len) - within).min(range.end - at);
        let following = body.extents.get(i + 1).filter(|_| at + n < range.end);
        let send = send_extent(worker, outbound, &now, within, n, at + n < range.end);
        let ahead = async {
            match following {
                Some(extent) => Some(ready(worker, response, body, extent).await),
                None => None,
            }
        };
        let (sent, ahead) = tokio::join!(send, ahead);
        sent?;
        next = ahead.transpose().map_err(unreadable)?;
        at += n;
    }
    Ok(())
}

/// Sends `n` bytes of an extent from `within` on.
///
/// # Errors
/// [`Unfinished`].
pub async fn send_extent(
    worker: &Rc<Worker>,
    outbound: &mut Outbound<'_>,
    ready: &Ready,
    within: u64,
    n: u64,
    more: bool,
) -> Result<(), Unfinished> {
    match ready {
        Ready::Bytes(bytes) => {
            let bytes = bytes.get(within as usize..(within + n) as usize).unwrap_or_default();
            outbound.bytes(bytes, Route::Memory, more).await
        }
        Ready::Resident(lease) => {
            let source = worker.disk.source(lease.place());
            let (file, offset) = source.ok_or(Unfinished::Source("device-gone"))?;
            tokio::select! {
                biased;
                sent = outbound.device(&*file, offset + within, n) => sent,
                () = overdue(lease) => Err(Unfinished::Source("lease-recalled")),
            }
        }
    }
}

/// How long a client may go on taking bytes of a segment that the store wants back.
const RECALLED_FOR: Duration = Duration::from_secs(30);

/// Waits until the store has wanted a segment back for too long. Looks seldom: most sends end before the first look.
async fn overdue(lease: &store::Lease) {
    loop {
        tokio::time::sleep(RECALLED_FOR / 2).await;
        if lease.recalled() {
            tokio::time::sleep(RECALLED_FOR).await;
            return;
        }
    }
}

fn unreadable(failed: ReadFailed) -> Unfinished {
    Unfinished::Source(match failed {
        ReadFailed::Gone => "extent-gone",
        ReadFailed::Device(_) => "device-error",
        ReadFailed::Checksum => "checksum",
    })
}

/// Makes one extent ready. One that fails takes its object out of the cache.
async fn ready(
    worker: &Rc<Worker>,
    response: &Response,
    body: &DeviceBody,
    extent: &DeviceExtent,
) -> Result<Ready, ReadFailed> {
    let outcome = make_ready(worker, extent).await;
    let shared = &worker.shared;
    match (&outcome, response.object.place) {
        (Ok(_), Some(place)) if !body.noted.get() && body.is_verified() => {
            body.noted.set();
            shared.cache.store.note_verified(response.hash, &place);
        }
        (Err(ReadFailed::Checksum), Some(place)) => shared.cache.bad(&worker.disk, response.hash, &place),
        (Err(ReadFailed::Gone), Some(place)) => shared.cache.forget(response.hash, &place),
        _ => {}
    }
    outcome
}

async fn make_ready(worker: &Rc<Worker>, extent: &DeviceExtent) -> Result<Ready, ReadFailed> {
    let (disk, store) = (&worker.disk, &worker.shared.cache.store);
    let place = store.extent_place(&extent.at).ok_or(ReadFailed::Gone)?;
    if extent.is_verified() {
        return ready_place(worker, &place).await;
    }
    let ready = match store.at(&place).ok_or(ReadFailed::Gone)? {
        At::Device(lease) if disk.disks().io == StoreIo::PageCache => {
            disk.verify(&lease, extent.at.crc).await?;
            Ready::Resident(lease)
        }
        At::Device(lease) => Ready::Bytes(disk.read(&lease).await?),
        At::Buffered(bytes) => Ready::Bytes(bytes),
    };
    if matches!(&ready, Ready::Bytes(bytes) if store::crc32c(bytes) != extent.at.crc) {
        return Err(ReadFailed::Checksum);
    }
    extent.set_verified();
    Ok(ready)
}

async fn ready_place(worker: &Rc<Worker>, place: &store::Place) -> Result<Ready, ReadFailed> {
    match worker.shared.cache.store.at(place).ok_or(ReadFailed::Gone)? {
        At::Buffered(bytes) => Ok(Ready::Bytes(bytes)),
        At::Device(lease) => ready_lease(worker, lease).await,
    }
}

/// Makes leased bytes ready that are known to be good.
///
/// # Errors
/// [`ReadFailed`].
pub async fn ready_lease(worker: &Rc<Worker>, lease: store::Lease) -> Result<Ready, ReadFailed> {
    let disk = &worker.disk;
    if disk.disks().io == StoreIo::Direct {
        return disk.read(&lease).await.map(Ready::Bytes);
    }
    if !disk.is_resident(lease.place()) {
        disk.load(&lease).await?;
    }
    Ok(Ready::Resident(lease))
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
