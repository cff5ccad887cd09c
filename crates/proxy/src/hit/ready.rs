//! Bytes of stored bodies on their way to a socket: made ready (checked, resident, leased) one extent ahead, then sent.
//!
//! What must hold: nothing is lent that this process has neither written nor checked; a lease is held for as long as
//! bytes may still be lent under it, and given up under a client that is too slow once the store wants it back.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use store::At;

use crate::disk::ReadFailed;
use crate::lookup::Response;
use crate::metrics::Route;
use crate::object::{Body, DeviceBody, DeviceExtent};
use crate::outbound::{Outbound, Unfinished};
use crate::settings::StoreIo;
use crate::worker::Worker;

/// Bytes of a body that can be sent now.
pub enum Ready {
    /// In memory.
    Bytes(Bytes),
    /// In the page cache, and held there in place by the lease.
    Resident(store::Lease),
}

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
            outbound.device(&*file, offset + within, n).await
        }
    }
}

/// How long a client may go on taking bytes of segments that the store wants back.
const RECALLED_FOR: Duration = Duration::from_secs(60);

/// Waits until the store has wanted something back for too long. Looks seldom: most sends end before the first look.
pub async fn overdue(is_recalled: impl Fn() -> bool) {
    loop {
        tokio::time::sleep(RECALLED_FOR / 4).await;
        if is_recalled() {
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

/// What a failure says of its object.
fn told(worker: &Rc<Worker>, response: &Response, failed: &ReadFailed) {
    let cache = &worker.shared.cache;
    match (failed, response.object.place) {
        (ReadFailed::Checksum, Some(place)) => cache.bad(&worker.disk, response.hash, &place),
        (ReadFailed::Gone, Some(place)) => cache.forget(response.hash, &place),
        _ => {}
    }
}

/// Where an extent's bytes are, and the right to read them.
fn whereabouts(worker: &Worker, extent: &DeviceExtent) -> Result<At, ReadFailed> {
    let store = &worker.shared.cache.store;
    let place = store.extent_place(&extent.at).ok_or(ReadFailed::Gone)?;
    store.at(&place).ok_or(ReadFailed::Gone)
}

async fn make_ready(worker: &Rc<Worker>, extent: &DeviceExtent, at: At) -> Result<Ready, ReadFailed> {
    let disk = &worker.disk;
    let ready = match at {
        At::Device(lease) if extent.is_verified() => return ready_lease(worker, lease).await,
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

/// Checks every byte of a body that was not written by this process and has not been checked yet.
///
/// # Errors
/// [`ReadFailed`] for the first extent that is not good.
pub async fn check(worker: &Rc<Worker>, response: &Response) -> Result<(), ReadFailed> {
    let Some(Body::Device(body)) = response.body() else { return Ok(()) };
    for extent in body.extents.iter().filter(|extent| !extent.is_verified()) {
        make_ready(worker, extent, whereabouts(worker, extent)?).await?;
    }
    Ok(())
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
