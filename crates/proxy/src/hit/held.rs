//! The stored bytes of a range of a body: leased from the first to the last, made ready some extents ahead, then sent.
//!
//! Extents lie on several devices: those that are made ready together are read side by side. What must hold: a lease is held for as long as bytes may still be lent under it, and given up under a client that is
//! too slow once the store wants it back.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use store::At;
use tokio::task::JoinHandle;

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
    /// The extents behind the one that is sent, being made ready.
    ahead: VecDeque<Ahead>,
}

/// Extents that are made ready ahead of the one that is sent: two keep two devices busy.
const AHEAD: usize = 2;

/// An extent that is being made ready; no longer once nobody wants it.
struct Ahead(JoinHandle<Result<Ready, ReadFailed>>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
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
    let mut held = Held { response, body, first, at, ready: None, ahead: VecDeque::new() };
    held.look_ahead(worker, first, last);
    held.ready = Some(held.make_ready(worker, first).await?);
    Ok(Some(held))
}

impl Held<'_> {
    fn at(&self, extent: usize) -> Option<At> {
        self.at.get(extent.checked_sub(self.first)?).cloned()
    }

    async fn make_ready(&self, worker: &Rc<Worker>, extent: usize) -> Result<Ready, ReadFailed> {
        let at = self.at(extent).ok_or(ReadFailed::Gone)?;
        make_known_ready(worker, self.response, self.body, extent, at).await
    }

    /// Begins to make those extents ready that follow `sent`, up to `last`.
    fn look_ahead(&mut self, worker: &Rc<Worker>, sent: usize, last: usize) {
        let begun = sent + self.ahead.len();
        for extent in begun + 1..=last.min(sent + AHEAD) {
            let Some(at) = self.at(extent) else { return };
            let (worker, response) = (Rc::clone(worker), self.response.clone());
            self.ahead.push_back(Ahead(tokio::task::spawn_local(async move {
                let Some(Body::Device(body)) = response.body() else { return Err(ReadFailed::Gone) };
                make_known_ready(&worker, &response, body, extent, at).await
            })));
        }
    }

    /// The extent behind the one that was sent.
    async fn next(&mut self, worker: &Rc<Worker>, extent: usize) -> Result<Ready, ReadFailed> {
        match self.ahead.pop_front() {
            Some(mut ahead) => (&mut ahead.0).await.unwrap_or(Err(ReadFailed::Gone)),
            None => self.make_ready(worker, extent).await,
        }
    }

    /// Sends a range of the body, each extent made ready while those before are sent.
    async fn send(
        &mut self,
        worker: &Rc<Worker>,
        outbound: &mut Outbound<'_>,
        range: Range<u64>,
    ) -> Result<(), Unfinished> {
        let (mut i, mut within) =
            self.body.extent_at(range.start).ok_or(Unfinished::Source("extent-missing"))?;
        let last = self.body.extent_at(range.end.saturating_sub(1)).map_or(i, |(last, _)| last);
        let mut left = range.end - range.start;
        let mut now = match self.ready.take().filter(|_| i == self.first) {
            Some(ready) => ready,
            None => self.make_ready(worker, i).await.map_err(unreadable)?,
        };
        loop {
            let n = (u64::from(self.body.extents[i].at.len) - within).min(left);
            left -= n;
            self.look_ahead(worker, i, last);
            send_extent(worker, outbound, &now, within, n, left > 0).await?;
            if left == 0 {
                return Ok(());
            }
            (i, within) = (i + 1, 0);
            now = self.next(worker, i).await.map_err(unreadable)?;
        }
    }
}

/// Makes an extent ready, and tells the cache what was learnt: one that fails takes its object out.
async fn make_known_ready(
    worker: &Rc<Worker>,
    response: &Response,
    body: &DeviceBody,
    extent: usize,
    at: At,
) -> Result<Ready, ReadFailed> {
    let made = make_ready(worker, &body.extents[extent], at).await;
    let made = made.inspect_err(|failed| told(worker, response, failed))?;
    if let Some(place) = response.object.place
        && !body.noted.get()
        && body.is_verified()
    {
        body.noted.set();
        worker.shared.cache.store.note_verified(response.hash, &place);
    }
    Ok(made)
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
