//! The quick answer: a plain request for a fresh object that is in memory, or whose body is warm, is answered in one or two
//! calls, without a future of its own.

use std::fs::File;
use std::io::{ErrorKind, IoSlice};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use pump::turn::slice;
use semantics::cache_status::CacheStatus;
use semantics::reuse::{Reuse, may_reuse};
use store::At;

use super::ready::overdue;
use super::write_head;
use crate::connection::Client;
use crate::exchange::{End, Outcome};
use crate::lookup;
use crate::metrics::{RequestResult, Route};
use crate::object::{Body, Content, DeviceBody};
use crate::request::{self, Request};
use crate::respond::Persistence;
use crate::settings::StoreIo;
use crate::worker::Worker;

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
    /// These bytes of the head, and of a body that is kept in memory those from an offset on.
    Kept(Vec<u8>, Bytes, usize),
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
    let at_hand = match body {
        Body::Memory(_) => None,
        Body::Device(_) if request.is_head() => None,
        Body::Device(body) => match at_hand(worker, body) {
            Some(at_hand) => Some(at_hand),
            None => return AtOnce::No,
        },
    };
    let persistence =
        Persistence { version: request.head.version, keep: request.keep_alive && !worker.draining.get() };
    let mut scratch = worker.scratch.borrow_mut();
    scratch.clear();
    write_head(worker, &mut scratch, head, age, &CacheStatus::hit(ttl), persistence);
    let outcome = Outcome::new(head.stored.status, RequestResult::Hit);
    match (at_hand, body) {
        (Some(AtHand::Lent(lease, file, offset)), _) => {
            lend_now(worker, client, &scratch, lease, file, offset, outcome)
        }
        (Some(AtHand::Kept(bytes)), _) => send_kept(worker, client, &scratch, bytes, outcome),
        (None, Body::Memory(body)) if !request.is_head() => {
            send_now(worker, client, &mut scratch, body, outcome)
        }
        (None, _) => send_now(worker, client, &mut scratch, &[], outcome),
    }
}

/// A body in one extent that can be sent without waiting.
enum AtHand {
    /// All of its pages are resident: from this file, at this offset.
    Lent(store::Lease, Arc<File>, u64),
    /// In the warm set.
    Kept(Bytes),
}

/// The one extent of a body, when it needs neither a disk nor a check.
fn at_hand(worker: &Worker, body: &DeviceBody) -> Option<AtHand> {
    let extent = body.only_extent()?;
    let (disk, store) = (&worker.disk, &worker.shared.cache.store);
    if !extent.is_verified() {
        return None;
    }
    let At::Device(lease) = store.at(&store.extent_place(&extent.at)?)? else { return None };
    if disk.disks().io == StoreIo::Direct {
        return disk.disks().warm.find(lease.place()).map(AtHand::Kept);
    }
    let (file, offset) = disk.source(lease.place())?;
    disk.is_resident(lease.place()).then_some(AtHand::Lent(lease, file, offset))
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
        Err(_) => return AtOnce::Sent(Outcome { end: End::ClientGone, ..outcome }),
    };
    if sent < head.len() {
        return AtOnce::Partly(outcome, Rest::Lent(head[sent..].to_vec(), file, offset, length, lease));
    }
    let mut at = offset;
    match sys::sendfile::sendfile(&client.socket, &*file, &mut at, slice(length)) {
        Ok(_) if at - offset == length => AtOnce::Sent(outcome),
        Err(e) if e.kind() != ErrorKind::WouldBlock => {
            AtOnce::Sent(Outcome { end: End::ClientGone, ..outcome })
        }
        _ => AtOnce::Partly(outcome, Rest::Lent(Vec::new(), file, at, length - (at - offset), lease)),
    }
}

fn send_kept(worker: &Worker, client: &Client, head: &[u8], body: Bytes, mut outcome: Outcome) -> AtOnce {
    outcome.body_bytes = body.len() as u64;
    worker.metrics.body_bytes(Route::Memory, body.len() as u64);
    let first = &body[..slice(body.len() as u64)];
    let more = first.len() < body.len();
    let sent = match client.socket.try_send(&[IoSlice::new(head), IoSlice::new(first)], more) {
        Ok(n) if n == head.len() + body.len() => return AtOnce::Sent(outcome),
        Ok(n) => n,
        Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
        Err(_) => return AtOnce::Sent(Outcome { end: End::ClientGone, ..outcome }),
    };
    let head_left = head.get(sent..).unwrap_or_default().to_vec();
    AtOnce::Partly(outcome, Rest::Kept(head_left, body, sent.saturating_sub(head.len())))
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
        Err(_) => return AtOnce::Sent(Outcome { end: End::ClientGone, ..outcome }),
    };
    AtOnce::Partly(outcome, Rest::Bytes([head, body].concat().split_off(n)))
}

/// Sends what [`at_once`] left over; says whether all of it went out.
pub async fn send_rest(worker: &Rc<Worker>, client: &Client, rest: Rest) -> bool {
    let patience = &worker.to_client();
    let (socket, watch) = (&client.socket, &client.watch);
    // What went out was this connection's turn.
    tokio::task::yield_now().await;
    match rest {
        Rest::Bytes(bytes) => pump::memory::send(socket, &bytes, false, watch, patience).await.is_ok(),
        Rest::Kept(head, body, from) => {
            let body = body.get(from..).unwrap_or_default();
            pump::memory::send_two(socket, &head, body, false, watch, patience).await.is_ok()
        }
        Rest::Lent(head, file, offset, length, lease) => {
            let sent = async {
                pump::memory::send(socket, &head, true, watch, patience).await?;
                let end = offset + length;
                let begin = end - u64::from(lease.place().len);
                let again = async |left| worker.disk.keep_resident(&lease, left, begin).await;
                pump::sendfile::sendfile(&*file, offset, length, socket, watch, patience, again).await
            };
            tokio::select! {
                biased;
                sent = sent => sent.is_ok(),
                () = overdue(|| lease.recalled()) => false,
            }
        }
    }
}
