//! The stored bytes of a range of a body: leased from the first to the last, made ready one extent ahead, then sent.
//!
//! What must hold: a lease is held for as long as bytes may still be lent under it, and given up under a client that is
//! too slow once the store wants it back.

use std::ops::Range;
use std::rc::Rc;

use store::At;

use super::ready::{Ready, make_ready, overdue, send_extent, whereabouts};
use crate::disk::ReadFailed;
use crate::lookup::Response;
use crate::metrics::Route;
use crate::object::{Body, DeviceBody};
use crate::outbound::{Outbound, Unfinished};
use crate::worker::Worker;

/// The extents that a range of a body lies in, held in place until it has been sent: what the store wants back
/// meanwhile, it gets then.
pub(super) struct Held<'r> {
    response: &'r Response,
    body: &'r DeviceBody,
    /// Index of the first extent held.
    first: usize,
    at: Rc<[At]>,
    /// The first extent, made ready before anything was sent: until then a failure is only a miss.
    ready: Option<Ready>,
}

/// Takes hold of a range of a body and makes its first bytes ready. `None`: the body is in memory.
pub(super) async fn hold<'r>(
    worker: &Rc<Worker>,
    response: &'r Response,
    body: &'r Body,
    range: Range<u64>,
) -> Result<Option<Held<'r>>, ReadFailed> {
    let Body::Device(body) = body else { return Ok(None) };
    let Some((first, _)) = body.extent_at(range.start) else { return Ok(None) };
    let last = body.extent_at(range.end.saturating_sub(1)).map_or(first, |(last, _)| last);
    let extents = body.extents.get(first..=last).unwrap_or_default();
    let at = extents.iter().map(|extent| whereabouts(worker, extent)).collect::<Result<Rc<[_]>, _>>();
    let at = at.inspect_err(|failed| told(worker, response, failed))?;
    let mut held = Held { response, body, first, at, ready: None };
    held.ready = Some(held.make_ready(worker, first).await?);
    Ok(Some(held))
}

impl Held<'_> {
    /// Makes one of the held extents ready. One that fails takes its object out of the cache.
    async fn make_ready(&self, worker: &Rc<Worker>, extent: usize) -> Result<Ready, ReadFailed> {
        let at = extent.checked_sub(self.first).and_then(|i| self.at.get(i)).ok_or(ReadFailed::Gone)?;
        let made = make_ready(worker, &self.body.extents[extent], at.clone()).await;
        let made = made.inspect_err(|failed| told(worker, self.response, failed))?;
        if let Some(place) = self.response.object.place
            && !self.body.noted.get()
            && self.body.is_verified()
        {
            self.body.noted.set();
            worker.shared.cache.store.note_verified(self.response.hash, &place);
        }
        Ok(made)
    }

    /// Sends a range of the body, each extent made ready while the one before is sent.
    async fn send(
        &mut self,
        worker: &Rc<Worker>,
        outbound: &mut Outbound<'_>,
        range: Range<u64>,
    ) -> Result<(), Unfinished> {
        let (mut i, mut within) =
            self.body.extent_at(range.start).ok_or(Unfinished::Source("extent-missing"))?;
        let mut left = range.end - range.start;
        let mut next = self.ready.take().filter(|_| i == self.first);
        while left > 0 {
            let now = match next.take() {
                Some(ready) => ready,
                None => self.make_ready(worker, i).await.map_err(unreadable)?,
            };
            let n = (u64::from(self.body.extents[i].at.len) - within).min(left);
            left -= n;
            let send = send_extent(worker, outbound, &now, within, n, left > 0);
            let ahead = async {
                match left {
                    0 => None,
                    _ => Some(self.make_ready(worker, i + 1).await),
                }
            };
            let (sent, ahead) = tokio::join!(send, ahead);
            sent?;
            next = ahead.transpose().map_err(unreadable)?;
            (i, within) = (i + 1, 0);
        }
        Ok(())
    }
}

/// Sends a range of a body.
pub(super) async fn send_range(
    worker: &Rc<Worker>,
    outbound: &mut Outbound<'_>,
    body: &Body,
    range: Range<u64>,
    held: Option<&mut Held<'_>>,
) -> Result<(), Unfinished> {
    match (body, held) {
        (Body::Memory(bytes), _) => {
            let bytes = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
            outbound.bytes(bytes, Route::Memory, false).await
        }
        (Body::Device(_), _) if range.is_empty() => Ok(()),
        (Body::Device(_), None) => Err(Unfinished::Source("extent-missing")),
        (Body::Device(_), Some(held)) => {
            let leases = Rc::clone(&held.at);
            tokio::select! {
                biased;
                sent = held.send(worker, outbound, range) => sent,
                () = overdue(|| leases.iter().any(is_recalled)) => Err(Unfinished::Source("lease-recalled")),
            }
        }
    }
}

fn is_recalled(at: &At) -> bool {
    matches!(at, At::Device(lease) if lease.recalled())
}

fn unreadable(failed: ReadFailed) -> Unfinished {
    Unfinished::Source(match failed {
        ReadFailed::Gone => "extent-gone",
        ReadFailed::Device(_) => "device-error",
        ReadFailed::Unanswered => "device-slow",
        ReadFailed::Checksum => "checksum",
        ReadFailed::NoBuffer => "buffers-exhausted",
    })
}

/// What a failure says of its object.
fn told(worker: &Rc<Worker>, response: &Response, failed: &ReadFailed) {
    let cache = &worker.shared.cache;
    match (failed, response.object.place) {
        (ReadFailed::Checksum, Some(place)) => cache.bad(&worker.disk, response.hash, &place),
        (ReadFailed::Gone, Some(place)) => cache.forget(response.hash, &place),
        _ => {}
    }
}
