//! A full answer of an origin: may it be stored, and how does it come?
//!
//! What must hold: it is stored only as `semantics` allows, and whoever waits for it is told at once when it is not.

use std::sync::Arc;
use std::time::Instant;

use semantics::{Times, VaryNames};
use wire::framing::ResponseBody;

use super::head::{framing, read_head};
use super::{Query, Settled, failed};
use crate::body::{Framing, Inbound};
use crate::collapse::Ticket;
use crate::fill::{self, Promised, keeper, receive};
use crate::hit::Serving;
use crate::object::{self, Content, Head, Variants};
use crate::origin::OriginError;
use crate::origin::ask::Answer;
use crate::purge::tags;
use crate::request::Request;
use crate::worker::Worker;

/// A full answer: may it be stored, and how does it come?
pub(super) fn judge(query: &Query<'_>, ticket: Ticket, answer: Answer, times: Times) -> Settled {
    let arrived = match Arrived::read(query, &answer, times, ticket.is_awaited()) {
        Ok(arrived) => arrived,
        Err(NotStored::Broken(error)) => return failed(query, ticket, None, error),
        Err(NotStored::Declined(word)) => {
            ticket.end(|owner| owner.release(word));
            return Settled::Pass(answer, word);
        }
    };
    keep(query, ticket, answer, arrived)
}

/// A storable response head, taken out of the receive buffer.
struct Arrived {
    head: Head,
    names: VaryNames,
    body: ResponseBody,
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
}

impl Arrived {
    fn read(query: &Query<'_>, answer: &Answer, times: Times, awaited: bool) -> Result<Self, NotStored> {
        let (worker, request) = (query.worker, query.request);
        let shared = &worker.shared;
        let received = answer.window.filled();
        let (head, body, head_len) =
            read_head(worker, received, request.head.method, false).map_err(NotStored::Broken)?;
        let stored = semantics::may_store(&request.traits, &head, times, &shared.policy).map_err(|why| {
            if !why.is_about_request() {
                shared.collapse.note_unshareable(query.hash, request.now.0);
            }
            NotStored::Declined(why.word())
        })?;
        // One object that pushes out nearly all others is not worth having.
        let most = shared.settings.limits.object_bytes.min(shared.disks.capacity_bytes / 4 * 3);
        if matches!(body, ResponseBody::Length(n) if n > most) {
            return Err(NotStored::Declined("too-large"));
        }
        let (whole, body_len) = whole_body(&received[head_len..], &body, &shared.wire_limits).unzip();
        // Devices that are behind are not waited for. A body that nobody else waits for goes past them, by splice.
        let piece = receive::PIECE_BYTES;
        if whole.is_none() && !awaited && !shared.disks.has_room_for(piece) {
            return Err(NotStored::Declined("writes-behind"));
        }
        if whole.is_none() && !awaited {
            let earned = shared.cache.store.admit(query.hash);
            earned.map_err(|why| NotStored::Declined(why.word()))?;
        }
        let length = match (&whole, &body) {
            (Some(payload), _) => Some(payload.len() as u64),
            (None, ResponseBody::Length(n)) => Some(*n),
            (None, _) => None,
        };
        let received_at = times.received_at.0;
        let (status, reason, left_out) = (head.status, head.reason, query.left_out);
        let text = object::stored_text(status, reason, &head.fields, length, received_at, left_out);
        let tags = tags::read(&head.fields, &shared.settings.purge.tag_fields);
        let tags = tags.map_err(|tags::TooMany| NotStored::Declined("too-many-tags"))?;
        Ok(Self {
            head: Head { stored, text: text.into(), tags, epoch: query.epoch },
            names: VaryNames::of(&head.fields),
            whole,
            used: head_len + body_len.unwrap_or(0),
            keep_alive: wire::framing::keep_alive(head.version, &head.fields),
            body,
        })
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
    let Arrived { head, names, body, whole, used, keep_alive } = arrived;
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
    let length = match &framing {
        Framing::Length(n) => Some(*n),
        Framing::Chunked(_) | Framing::UntilClose => None,
    };
    let Some(owner) = ticket.owner() else { return Settled::Failed(OriginError::Ended) };
    let follower = owner.storable(Arc::clone(&promised), length);
    let inbound = Inbound::new(framing, answer.window);
    let reusable = reusable && !inbound.ends_with_connection();
    let work = receive::start(worker, ticket, promised, inbound, answer.connection, reusable);
    Settled::Streaming(follower, work)
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
