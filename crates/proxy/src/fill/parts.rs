//! Joins parts of a body with what is stored of it, and takes out what is lost.
//!
//! What must hold: parts of different representations never come together (RFC 9111 §3.4); of two changes at once none is
//! lost, and a purge in between wins: each change is made to what it has seen, or seen again; a change that would cost
//! the log more than it brings is not made.

use std::rc::Rc;

use semantics::parts::are_of_one;
use store::{Declined, Expected, ExtentRef, KeyHash, Outbox, Piece, Place, Table, Terms, WrittenExtent};

use super::Promised;
use super::keeper::told;
use crate::cache::Cache;
use crate::lookup::Response;
use crate::object::{self, Decoded, Head};
use crate::worker::Worker;

/// How often a change is tried that others overtake.
const ATTEMPTS: usize = 8;

/// A table up to this size may be written again for any piece; a larger one only for pieces of as many bytes, so that
/// small ranges of a large object cannot multiply what is written.
const TABLE_BYTES_FREE: u64 = 16 * 1024;

/// Bytes of an entry of a table.
const ENTRY_BYTES: u64 = size_of::<ExtentRef>() as u64;

/// Adds pieces, each with its place in the body, to what is stored of the promised object, or begins it with them. Gives
/// up silently where they cannot be joined: the bytes have reached those who asked for them.
pub async fn keep(worker: &Rc<Worker>, promised: &Promised, written: &[(u64, WrittenExtent)]) {
    let stored = &promised.head.stored;
    let Some(length) = stored.content_length.filter(|_| stored.status == 200) else { return };
    if written.is_empty() || stored.strong_validator().is_none() {
        return;
    }
    let pieces: Vec<Piece> =
        written.iter().map(|(start, written)| Piece { start: *start, extent: *written.extent() }).collect();
    for _ in 0..ATTEMPTS {
        let Some(seen) = look(worker, promised.hash, &promised.key).await else { return };
        let Some(change) = joined(worker, promised, length, seen, pieces.clone()) else { break };
        if put(worker, promised.hash, &promised.key, &change) != Err(Declined::Superseded) {
            break;
        }
    }
    worker.shared.cache.memory.remove(promised.hash);
}

/// Makes a hole of a piece that cannot be read. The object stays.
pub async fn lose(worker: &Rc<Worker>, response: &Response, lost: ExtentRef) {
    for _ in 0..ATTEMPTS {
        let seen = look(worker, response.hash, &response.object.key).await;
        let Some(Seen::Response(current)) = seen else { break };
        let Current { place, verified, head, mut table } = *current;
        if !table.pieces().iter().any(|piece| piece.extent == lost) {
            break;
        }
        table.retain(|extent| *extent != lost);
        let change = Change { head, table, terms: Terms { expected: Expected::At(place), verified } };
        if put(worker, response.hash, &response.object.key, &change) != Err(Declined::Superseded) {
            break;
        }
    }
    worker.shared.cache.memory.remove(response.hash);
}

/// What is under a key now.
enum Seen {
    /// Nothing.
    Nothing,
    /// Something that cannot be joined with anything: another key's, or no response.
    Other(Place),
    /// A response.
    Response(Box<Current>),
}

struct Current {
    place: Place,
    verified: bool,
    head: Head,
    table: Table,
}

/// `None` where its record cannot be read.
async fn look(worker: &Rc<Worker>, hash: KeyHash, key: &[u8]) -> Option<Seen> {
    let cache = &worker.shared.cache;
    let Some(found) = cache.store.lookup(hash) else { return Some(Seen::Nothing) };
    let place = found.place;
    let bytes = worker.disk.bytes(&found.at, false).await.ok()?;
    let Ok(record) = cache.store.record(&place, &bytes) else {
        cache.bad(&worker.disk, hash, &place);
        return Some(Seen::Nothing);
    };
    let decoded = (record.key == key).then(|| object::decode(record.head, &worker.shared.policy)).flatten();
    let (Some(Decoded::Response(head)), Some(table)) = (decoded, cache.store.table_of(&place, &record))
    else {
        return Some(Seen::Other(place));
    };
    Some(Seen::Response(Box::new(Current { place, verified: found.verified, head, table })))
}

/// A record to be written.
struct Change {
    head: Head,
    table: Table,
    terms: Terms,
}

/// What is seen with the pieces added; `None` where that is nothing new, or a newer representation is stored.
fn joined(
    worker: &Worker,
    promised: &Promised,
    length: u64,
    seen: Seen,
    pieces: Vec<Piece>,
) -> Option<Change> {
    let stored = &promised.head.stored;
    let anew = |expected| {
        let terms = Terms { expected, verified: true };
        Some(Change { head: copy(&promised.head), table: Table::hole(length), terms })
    };
    let mut change = match seen {
        Seen::Nothing => anew(Expected::Nothing)?,
        Seen::Other(place) => anew(Expected::At(place))?,
        Seen::Response(current) if are_of_one(&current.head.stored, stored) => {
            let Current { place, verified, head, mut table } = *current;
            table.retain(|extent| worker.shared.cache.store.is_there(extent));
            let terms = Terms { expected: Expected::At(place), verified };
            Change { head: newest(worker, head, promised), table, terms }
        }
        Seen::Response(current) if current.head.stored.received_at > stored.received_at => return None,
        Seen::Response(current) => anew(Expected::At(current.place))?,
    };
    let before = change.table.stored_bytes();
    let brought = pieces.iter().map(|piece| u64::from(piece.extent.len)).sum();
    let is_new = change.table.add(pieces) && change.table.stored_bytes() > before;
    let table_bytes = ENTRY_BYTES * change.table.extents().len() as u64;
    if is_new && table_bytes > TABLE_BYTES_FREE.max(brought) {
        tracing::debug!(reason = Declined::TooFragmented.word(), "not stored");
        return None;
    }
    is_new.then_some(change)
}

fn copy(head: &Head) -> Head {
    let Head { stored, text, tags, epoch } = head;
    Head { stored: stored.clone(), text: text.clone(), tags: tags.clone(), epoch: *epoch }
}

/// The fields of the newer response replace those of the older one. Purge marks since either have not been compared with
/// what is now.
fn newest(worker: &Worker, current: Head, promised: &Promised) -> Head {
    let new = &promised.head;
    let epoch = current.epoch.min(new.epoch);
    if current.stored.received_at > new.stored.received_at {
        return Head { epoch, ..current };
    }
    let complete = new.complete();
    let times = new.stored.times_without_age();
    let policy = &worker.shared.policy;
    let updated = new
        .parsed(&complete)
        .and_then(|parsed| object::updated(&current, &parsed.fields, times, policy, &[]));
    let tags = if new.tags.is_empty() { current.tags.clone() } else { new.tags.clone() };
    Head { tags, epoch, ..updated.unwrap_or(current) }
}

fn put(worker: &Rc<Worker>, hash: KeyHash, key: &[u8], change: &Change) -> Result<Place, Declined> {
    let Change { head, table, terms } = change;
    let Cache { store, purges, .. } = &*worker.shared.cache;
    // A purge mark came meanwhile: what is there is found by it, and nothing is added.
    let Some(storing) = purges.storing(key, head) else { return Err(Declined::Closed) };
    let head = object::encode_response(head, &head.text, storing.epoch());
    let mut out = Outbox::new();
    let put = store.put_table(hash, key, &head, table, *terms, &mut out);
    worker.disk.carry_out(out);
    told(put);
    put
}
