//! The bytes of one extent on their way to a socket: made ready (checked, resident, leased), then sent.
//!
//! What must hold: nothing is lent that this process has neither written nor checked; a lease is held for as long as
//! bytes may still be lent under it. Which extents, and when, is not known here.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use store::At;

use crate::disk::ReadFailed;
use crate::metrics::Route;
use crate::object::DeviceExtent;
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

/// Where an extent's bytes are, and the right to read them.
pub(super) fn whereabouts(worker: &Worker, extent: &DeviceExtent) -> Result<At, ReadFailed> {
    let store = &worker.shared.cache.store;
    let place = store.extent_place(&extent.at).ok_or(ReadFailed::Gone)?;
    store.at(&place).ok_or(ReadFailed::Gone)
}

/// Makes the bytes of an extent ready; those that this process has neither written nor checked are checked.
///
/// # Errors
/// [`ReadFailed`].
pub(super) async fn make_ready(
    worker: &Rc<Worker>,
    extent: &DeviceExtent,
    at: At,
) -> Result<Ready, ReadFailed> {
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
