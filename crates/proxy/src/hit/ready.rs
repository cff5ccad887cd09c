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
use crate::exchange::Exchange;
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

/// Makes the first bytes of a range ready, before the head is sent: until then a failure is only a miss.
pub(super) async fn prepare(
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
pub(super) async fn send_range(
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
pub(super) async fn overdue(lease: &store::Lease) {
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

/// Checks every byte of a body that was not written by this process and has not been checked yet.
///
/// # Errors
/// [`ReadFailed`] for the first extent that is not good.
pub async fn check(worker: &Rc<Worker>, response: &Response) -> Result<(), ReadFailed> {
    let Some(Body::Device(body)) = response.body() else { return Ok(()) };
    for extent in body.extents.iter().filter(|extent| !extent.is_verified()) {
        make_ready(worker, extent).await?;
    }
    Ok(())
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
