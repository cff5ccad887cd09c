//! A full answer of an origin, or a part that was asked for: may it be stored, and how does it come?
//!
//! What must hold: it is stored only as `semantics` allows, and whoever waits for it is told at once when it is not.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use semantics::ranges::{RangeAnswer, ranges};
use semantics::{NoStore, Once, Stored, Times, VaryNames};
use wire::ResponseHead;
use wire::framing::ResponseBody;

use super::head::{framing, read_head};
use super::{Query, Settled, failed};
use crate::body::{Framing, Inbound};
use crate::collapse::Ticket;
use crate::fill::receive::{self, Source};
use crate::fill::{self, Asked, Promised, keeper};
use crate::hit::Serving;
use crate::object::{self, Content, Head, Variants};
use crate::origin::OriginError;
use crate::origin::ask::Answer;
use crate::purge::tags;
use crate::request::Request;
use crate::worker::{Shared, Worker};

/// A full answer: may it be stored, and how does it come?
pub(super) fn judge(query: &Query<'_>, ticket: Ticket, answer: Answer, times: Times) -> Settled {
    let arrived = match Arrived::read(query, &answer, times, ticket.is_awaited()) {
        Ok(arrived) => arrived,
        Err(NotStored::Broken(error)) => return failed(query, ticket, None, error),
        Err(NotStored::Declined(word)) => {
            ticket.end(|owner| owner.release(word));
            return if is_for_another(query, &answer) { Settled::Alone } else { Settled::Pass(answer, word) };
        }
        Err(NotStored::OtherPart) => {
            ticket.end(|owner| owner.release("other-part"));
            return Settled::Alone;
        }
    };
    keep(query, ticket, answer, arrived)
}

/// A storable response head, taken out of the receive buffer.
struct Arrived {
    head: Head,
    names: VaryNames,
    body: ResponseBody,
    /// Which bytes of the whole it has, where it is a part.
    part: Option<Range<u64>>,
    /// The whole payload, where it came with the head.
    whole: Option<Box<[u8]>>,
    /// Bytes of the head in the receive buffer, and of the body if that is whole.
    used: usize,
    keep_alive: bool,
}

/// Why a response is not stored.
enum NotStored {
    /// It is no response.
    Broken(OriginError),
    /// It may not be, or had better not.
    Declined(&'static str),
    /// It is a part, but not what the client's own conditions want.
    OtherPart,
}

impl Arrived {
    fn read(query: &Query<'_>, answer: &Answer, times: Times, awaited: bool) -> Result<Self, NotStored> {
        let worker = query.worker;
        let shared = &worker.shared;
        let received = answer.window.filled();
        let (head, body, head_len) =
            read_head(worker, received, query.request.head.method, false).map_err(NotStored::Broken)?;
        let (stored, part) = match (&query.asked, head.status) {
            (Asked::Range(_), 206) => part_of(query, &head, &body, times)?,
            _ => (whole_of(query, &head, times)?, None),
        };
        let length = match (&part, &body) {
            (Some(_), _) => stored.content_length,
            (None, ResponseBody::Length(n)) => Some(*n),
            (None, _) => None,
        };
        let coming = part.as_ref().map_or(length, |part| Some(part.end - part.start));
        if coming.is_some_and(|bytes| is_too_much(shared, bytes)) {
            return Err(NotStored::Declined("too-large"));
        }
        let behind = &received[head_len..];
        let whole = part.is_none().then(|| whole_body(behind, &body, &shared.wire_limits)).flatten();
        let (whole, body_len) = whole.unzip();
        if whole.is_none() && !awaited {
            earns_a_write(query)?;
        }
        let length = whole.as_ref().map_or(length, |payload| Some(payload.len() as u64));
        let received_at = times.received_at.0;
        let (status, reason) = match part {
            None => (head.status, head.reason),
            Some(_) => (stored.status, wire::write::reason(stored.status).as_bytes()),
        };
        let text = object::stored_text(status, reason, &head.fields, length, received_at, query.left_out);
        let tags = tags::read(&head.fields, &shared.settings.purge.tag_fields);
        let tags = tags.map_err(|tags::TooMany| NotStored::Declined("too-many-tags"))?;
        Ok(Self {
            head: Head { stored, text: text.into(), tags, epoch: query.epoch },
            names: VaryNames::of(&head.fields),
            whole,
            used: head_len + body_len.unwrap_or(0),
            keep_alive: wire::framing::keep_alive(head.version, &head.fields),
            body,
            part,
        })
    }
}

/// Whether a body, or what is missing of one, is so large that it would push out nearly all others: not worth having.
pub fn is_too_much(shared: &Shared, bytes: u64) -> bool {
    bytes > shared.settings.limits.object_bytes.min(shared.disks.capacity_bytes / 4 * 3)
}

/// Devices that are behind are not waited for, and not every body is worth their bytes. One that nobody else waits for goes
/// past them, by splice.
fn earns_a_write(query: &Query<'_>) -> Result<(), NotStored> {
    let shared = &query.worker.shared;
    if !shared.disks.has_room_for(receive::PIECE_BYTES) {
        return Err(NotStored::Declined("writes-behind"));
    }
    shared.cache.store.admit(query.hash).map_err(|why| NotStored::Declined(why.word()))
}

/// May a whole response be stored?
fn whole_of(query: &Query<'_>, head: &ResponseHead<'_>, times: Times) -> Result<Stored, NotStored> {
    let (request, shared) = (query.request, &query.worker.shared);
    semantics::may_store(&request.traits, head, times, &shared.policy).map_err(|why| declined(query, why))
}

/// Whether the client had a condition on its range, which was not sent on, and the answer would depend on it.
fn is_for_another(query: &Query<'_>, answer: &Answer) -> bool {
    let read = || read_head(query.worker, answer.window.filled(), query.request.head.method, false);
    let is_range = || read().is_ok_and(|(head, ..)| matches!(head.status, 206 | 416));
    query.request.traits.if_range != Once::Absent && is_range()
}

fn declined(query: &Query<'_>, why: NoStore) -> NotStored {
    if !why.is_about_request() {
        query.worker.shared.collapse.note_unshareable(query.hash, query.request.now.0);
    }
    NotStored::Declined(why.word())
}

/// May a part be stored, is it what the client asked for, and which bytes has it?
fn part_of(
    query: &Query<'_>,
    head: &ResponseHead<'_>,
    body: &ResponseBody,
    times: Times,
) -> Result<(Stored, Option<Range<u64>>), NotStored> {
    let (request, policy) = (query.request, &query.worker.shared.policy);
    let part = semantics::may_store_part(&request.traits, head, times, policy)
        .map_err(|why| declined(query, why))?;
    if matches!(body, ResponseBody::Length(n) if *n != part.range.len()) {
        return Err(NotStored::Declined("other-length-than-said"));
    }
    match ranges(&request.traits, &part.stored, part.length, request.now) {
        RangeAnswer::Parts(wanted)
            if wanted.iter().any(|w| w.start == part.range.start && part.range.end <= w.end) =>
        {
            Ok((part.stored, Some(part.range.start..part.range.end)))
        }
        // The client's `If-Range` does not hold: it wants the whole.
        RangeAnswer::Whole => Err(NotStored::OtherPart),
        RangeAnswer::Parts(_) | RangeAnswer::Unsatisfiable => Err(NotStored::Declined("other-range")),
    }
}

/// The payload, and how many received bytes it took, where all of a small body is there.
fn whole_body(received: &[u8], body: &ResponseBody, limits: &wire::Limits) -> Option<(Box<[u8]>, usize)> {
    match body {
        ResponseBody::None => Some((Box::default(), 0)),
        ResponseBody::Length(n) => {
            let n = usize::try_from(*n).ok().filter(|n| *n as u64 <= keeper::SMALL_BYTES)?;
            Some((received.get(..n)?.into(), n))
        }
        ResponseBody::Chunked => {
            // A broken one is left to the stream, which reports it to whom it concerns.
            let decoded = wire::chunked::decode(received, limits).ok().flatten()?;
            let is_small = decoded.payload.len() as u64 <= keeper::SMALL_BYTES;
            (is_small && decoded.trailers.fields().is_empty())
                .then(|| (decoded.payload.into_boxed_slice(), decoded.len))
        }
        ResponseBody::UntilClose | ResponseBody::Tunnel => None,
    }
}

/// Stores what came whole, or starts a fill for what did not.
fn keep(query: &Query<'_>, ticket: Ticket, mut answer: Answer, arrived: Arrived) -> Settled {
    let worker = query.worker;
    let Arrived { head, names, body, part, whole, used, keep_alive } = arrived;
    let promised = promise(query, head, &names);
    answer.window.consume(used);
    let reusable = keep_alive && answer.request_sent;
    if let Some(payload) = whole {
        worker.metrics.user_copied(payload.len() as u64);
        let is_unwanted = || ticket.owner().is_some_and(fill::Owner::is_unwanted);
        let response = keeper::keep_small(worker, &promised, payload, is_unwanted());
        if is_unwanted() {
            keeper::drop_unwanted(worker, promised.hash);
        }
        if reusable && answer.window.filled().is_empty() {
            worker.origins.give_back(answer.connection, Instant::now());
        }
        let told = response.clone();
        ticket.end(|owner| owner.done(Some(told)));
        return Settled::Ready(response, Serving::stored(query.why));
    }
    let framing = framing(worker, body);
    let (start, end) = match (&part, &framing) {
        (Some(part), _) => (part.start, Some(part.end)),
        (None, Framing::Length(n)) => (0, Some(*n)),
        (None, Framing::Chunked(_) | Framing::UntilClose) => (0, None),
    };
    let Some(owner) = ticket.owner() else { return Settled::Failed(OriginError::Ended) };
    let follower = owner.storable(Arc::clone(&promised), start, end);
    let inbound = Inbound::new(framing, answer.window);
    let reusable = reusable && !inbound.ends_with_connection();
    let source = Source { promised, part, inbound, connection: answer.connection, reusable };
    Settled::Streaming(follower, receive::start(worker, ticket, source))
}

/// Under which key the response will be found; notes that the resource varies, where that is new.
fn promise(query: &Query<'_>, head: Head, names: &VaryNames) -> Arc<Promised> {
    let (worker, request) = (query.worker, query.request);
    let head = Arc::new(head);
    if names.is_empty() {
        let key = request.key.clone().into();
        return Arc::new(Promised { head, key, hash: request.hash, variants: None });
    }
    let known = known_variants(worker, request);
    let variants = match known {
        Some(known) if known.names.union(names) == known.names => known,
        known => {
            let names = known.map_or_else(|| names.clone(), |known| known.names.union(names));
            let variants = Variants { names, generation: worker.random() };
            keeper::note_variants(worker, request, variants.clone());
            variants
        }
    };
    let (key, hash) = request.variant(&worker.shared, &variants);
    Arc::new(Promised { head, key: key.into(), hash, variants: Some(variants) })
}

fn known_variants(worker: &Worker, request: &Request<'_>) -> Option<Variants> {
    let object = worker.shared.cache.find_in_memory(request.hash, &request.key)?;
    match &object.content {
        Content::Variants(variants) => Some(variants.clone()),
        Content::Response(..) => None,
    }
}
