//! Puts what is complete into the store: small responses at once, large ones extent by extent, new heads for old bodies.
//!
//! What must hold: a purge that came while a response was on its way wins, however the two interleave. A mark is not set
//! between the comparison with those that there are and the putting into the store (`Storing`).

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use store::{Declined, KeyHash, Outbox, WrittenExtent};

use super::Promised;
use crate::cache::Cache;
use crate::disk::Unserved;
use crate::lookup::Response;
use crate::object::{self, Body, Content, Head, Object, Variants};
use crate::purge::Seen;
use crate::request::Request;
use crate::worker::Worker;

/// Bodies up to this are stored inside their record.
pub const SMALL_BYTES: u64 = 16 * 1024;

/// Stores a small response; gives it ready to be served, stored or not.
#[must_use]
pub fn keep_small(worker: &Rc<Worker>, promised: &Promised, body: Box<[u8]>, unwanted: bool) -> Response {
    let cache = &worker.shared.cache;
    let earned = !unwanted && cache.store.admit(promised.hash).is_ok();
    let place = match earned {
        true => keep_small_text(worker, promised, &promised.head.text, &body),
        false => None,
    };
    let content = Content::Response(Arc::clone(&promised.head), Body::Memory(body));
    let seen = Seen::at(promised.head.epoch);
    let object = Arc::new(Object { key: promised.key.clone(), content, place, seen });
    if !earned && !unwanted {
        // Not worth a device's bytes yet, but the memory tier may find that it is asked for again.
        cache.memory.put(promised.hash, Arc::clone(&object));
    }
    Response { hash: promised.hash, object, head: Arc::clone(&promised.head) }
}

/// Stores a small response whose head has this text.
pub fn keep_small_text(
    worker: &Rc<Worker>,
    promised: &Promised,
    text: &[u8],
    body: &[u8],
) -> Option<store::Place> {
    let cache = &worker.shared.cache;
    let storing = cache.purges.storing(&promised.key, &promised.head)?;
    let head = object::encode_response(&promised.head, text, storing.epoch());
    let mut out = Outbox::new();
    let place = told(cache.store.put_inline(promised.hash, &promised.key, &head, body, &mut out));
    worker.disk.carry_out(out);
    // An older version may be in memory.
    cache.memory.remove(promised.hash);
    place
}

/// Stores the record of a large response whose extents are on their devices, in order.
pub fn keep_large(worker: &Rc<Worker>, promised: &Promised, text: &[u8], extents: &[(u64, WrittenExtent)]) {
    let extents = extents.iter().map(|(_, written)| written);
    let Cache { store, purges, .. } = &*worker.shared.cache;
    let Some(storing) = purges.storing(&promised.key, &promised.head) else { return };
    let head = object::encode_response(&promised.head, text, storing.epoch());
    let mut out = Outbox::new();
    told(store.put_extents(promised.hash, &promised.key, &head, extents, &mut out));
    worker.disk.carry_out(out);
    worker.shared.cache.memory.remove(promised.hash);
}

/// Takes out again what was kept although a purge of its URL came meanwhile.
pub fn drop_unwanted(worker: &Rc<Worker>, hash: KeyHash) {
    let mut out = Outbox::new();
    worker.shared.cache.remove(hash, &mut out);
    worker.disk.carry_out(out);
}

/// Notes which request fields the resource varies on.
pub fn note_variants(worker: &Rc<Worker>, request: &Request<'_>, variants: Variants) {
    let cache = &worker.shared.cache;
    let head = object::encode_variants(&variants);
    let mut out = Outbox::new();
    let place = told(cache.store.put_inline(request.hash, &request.key, &head, &[], &mut out));
    worker.disk.carry_out(out);
    let content = Content::Variants(variants);
    let object = Object { key: request.key.clone().into(), content, place, seen: Seen::default() };
    cache.memory.put(request.hash, Arc::new(object));
}

/// The stored response with a new head, in the store too.
#[must_use]
pub fn refresh(worker: &Rc<Worker>, old: &Response, head: &Arc<Head>) -> Response {
    let fresh = with_head(old, Arc::clone(head));
    if let Some(place) = old.object.place {
        let (worker, fresh) = (Rc::clone(worker), fresh.clone());
        // The record of the old head may have to be read from a device first.
        tokio::task::spawn_local(async move { refresh_record(&worker, &fresh, place).await });
    }
    worker.shared.cache.memory.put(fresh.hash, Arc::clone(&fresh.object));
    fresh
}

async fn refresh_record(worker: &Rc<Worker>, fresh: &Response, place: store::Place) {
    let Cache { store, purges, .. } = &*worker.shared.cache;
    let Some(found) = store.lookup(fresh.hash).filter(|found| found.place == place) else { return };
    let Ok(bytes) = worker.disk.bytes(&found.at, false).await else { return };
    let Ok(record) = store.record(&place, &bytes) else { return };
    if !record.is_intact() {
        worker.shared.cache.bad(&worker.disk, fresh.hash, &place);
        return;
    }
    let Some(storing) = purges.storing(record.key, &fresh.head) else { return };
    let head = object::encode_response(&fresh.head, &fresh.head.text, storing.epoch());
    let mut out = Outbox::new();
    let place = told(store.refresh(fresh.hash, &place, &record, &head, found.verified, &mut out));
    worker.disk.carry_out(out);
    drop(storing);
    if let Some(place) = place {
        note_place(&worker.shared.cache, fresh, place);
    }
}

/// Where the record of a refreshed head is: the next refresh begins there.
fn note_place(cache: &Cache, fresh: &Response, place: store::Place) {
    let is_there = |object: Arc<Object>| Arc::ptr_eq(&object, &fresh.object);
    if cache.find_in_memory(fresh.hash, &fresh.object.key).is_none_or(|object| !is_there(object)) {
        return;
    }
    let moved = with_head(fresh, Arc::clone(&fresh.head)).object;
    if let Ok(mut moved) = Arc::try_unwrap(moved) {
        moved.place = Some(place);
        cache.memory.put(fresh.hash, Arc::new(moved));
    }
    // Removed meanwhile: who removes looks into the store first, then into memory.
    if !cache.store.is_at(fresh.hash, &place) {
        cache.memory.remove(fresh.hash);
    }
}

/// The stored response with another head, for this request only.
#[must_use]
pub fn with_head(old: &Response, head: Arc<Head>) -> Response {
    let body = old.body().map_or_else(|| Body::Memory(Box::default()), Body::again);
    let content = Content::Response(Arc::clone(&head), body);
    let (key, place) = (old.object.key.clone(), old.object.place);
    let object = Object { key, content, place, seen: Seen::at(head.epoch) };
    Response { hash: old.hash, object: Arc::new(object), head }
}

/// Reserves space for an extent of `length` bytes with this checksum, writes it there and gives the proof.
///
/// # Errors
/// Why the store will not have it.
pub async fn write_extent(
    worker: &Rc<Worker>,
    promised: &Promised,
    bytes: Bytes,
    length: usize,
    crc: u32,
) -> Result<WrittenExtent, Declined> {
    let store = &worker.shared.cache.store;
    let mut out = Outbox::new();
    let reserved = store.reserve_extent(promised.hash, length as u32, &mut out);
    worker.disk.carry_out(out);
    let reservation = reserved?;
    match worker.disk.write(reservation.place(), bytes).await {
        Ok(()) => Ok(reservation.written(crc)),
        Err(Unserved::Error(error)) => {
            tracing::warn!(device = reservation.place().device.0, %error, "write failed");
            reservation.failed();
            Err(Declined::DeviceRetired)
        }
        Err(Unserved::Unanswered | Unserved::Retired) => Err(Declined::DeviceRetired),
    }
}

/// Notes why something was not stored.
pub(super) fn told(outcome: Result<store::Place, Declined>) -> Option<store::Place> {
    outcome.inspect_err(|why| tracing::debug!(reason = why.word(), "not stored")).ok()
}
