//! The bytes of one extent on their way to a socket: made ready (checked, resident or in memory, leased), then sent. Both
//! read modes end here.
//!
//! What must hold: nothing is sent that this process has neither written nor checked; a lease is held for as long as
//! bytes may still be lent under it. Which extents, and when, is not known here.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use store::At;

use crate::disk::{Disk, ReadFailed, checksum};
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
            let (file, offset) = source.ok_or(Unfinished::Device("device-gone"))?;
            let again = async |left: Range<u64>| worker.disk.keep_resident(lease, left, offset).await;
            outbound.device(&*file, offset + within, n, again).await
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
    match store.at(&place).ok_or(ReadFailed::Gone)? {
        // A body of which a part would have to be waited for is better had from the origin, before it is begun.
        At::Device(_) if !worker.disk.answers(&place) => Err(ReadFailed::Unanswered),
        at => Ok(at),
    }
}

/// Where the bytes of an extent on a device are to be sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From the page cache, where they are.
    Lend,
    /// From the page cache, after they were loaded.
    Load,
    /// From memory of our own.
    Own,
}

/// What is known of an extent when its way is chosen.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// All its pages are in the page cache.
    resident: bool,
    /// Its bytes are known to be good.
    verified: bool,
    /// It was used before.
    again: bool,
}

/// What is used once goes past the page cache, and so does what has to be checked: what was checked is what is sent.
fn way(io: StoreIo, known: Known) -> Way {
    match (io, known) {
        (StoreIo::Direct, _) => Way::Own,
        (StoreIo::PageCache, Known { resident: true, .. }) => Way::Lend,
        (StoreIo::PageCache, Known { verified: true, again: true, .. }) => Way::Load,
        (StoreIo::PageCache, _) => Way::Own,
    }
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
    let check = (!extent.is_verified()).then_some(extent.at.crc);
    let again = extent.used();
    let ready = match (at, check) {
        (At::Device(lease), check) => {
            let place = *lease.place();
            let leased = leased(worker, lease, check, again).await;
            leased.inspect_err(|failed| tell(worker, &place, failed))?
        }
        (At::Buffered(bytes), Some(crc)) if checksum(&bytes).await != crc => {
            return Err(ReadFailed::Checksum);
        }
        (At::Buffered(bytes), _) => Ready::Bytes(bytes),
    };
    extent.set_verified();
    Ok(ready)
}

/// Damage is told with its place where it is found.
fn tell(worker: &Worker, place: &store::Place, failed: &ReadFailed) {
    if matches!(failed, ReadFailed::Checksum) {
        worker.disk.disks().tell_bad(place, store::Damaged::Body);
    }
}

/// Makes leased bytes ready that are known to be good and were not used yet.
///
/// # Errors
/// [`ReadFailed`].
pub async fn ready_lease(worker: &Rc<Worker>, lease: store::Lease) -> Result<Ready, ReadFailed> {
    leased(worker, lease, None, false).await
}

async fn leased(
    worker: &Rc<Worker>,
    lease: store::Lease,
    check: Option<u32>,
    again: bool,
) -> Result<Ready, ReadFailed> {
    let disk = &worker.disk;
    let io = disk.disks().io;
    let resident = io == StoreIo::PageCache && disk.is_resident(lease.place());
    match way(io, Known { resident, verified: check.is_none(), again }) {
        Way::Lend => lend(disk, lease, check).await,
        Way::Load => load(disk, lease, check).await,
        Way::Own => match disk.own(&lease, check).await {
            Err(ReadFailed::NoBuffer) if disk.disks().may_lend(lease.place()) => {
                load(disk, lease, check).await
            }
            outcome => outcome.map(Ready::Bytes),
        },
    }
}

async fn load(disk: &Disk, lease: store::Lease, check: Option<u32>) -> Result<Ready, ReadFailed> {
    disk.load(&lease).await?;
    lend(disk, lease, check).await
}

/// Checks pages that are resident, or were a moment ago, where they have to be.
async fn lend(disk: &Disk, lease: store::Lease, check: Option<u32>) -> Result<Ready, ReadFailed> {
    let Some(crc) = check else { return Ok(Ready::Resident(lease)) };
    match disk.check_resident(lease.place(), crc).await {
        Some(checked) => checked.map(|()| Ready::Resident(lease)),
        None => disk.own(&lease, check).await.map(Ready::Bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_an_extent() {
        use StoreIo::{Direct, PageCache};
        let known = |resident, verified, again| Known { resident, verified, again };
        let table = [
            (PageCache, known(true, true, true), Way::Lend),
            (PageCache, known(true, true, false), Way::Lend),
            (PageCache, known(true, false, false), Way::Lend),
            (PageCache, known(false, true, true), Way::Load),
            (PageCache, known(false, true, false), Way::Own),
            (PageCache, known(false, false, true), Way::Own),
            (PageCache, known(false, false, false), Way::Own),
            (Direct, known(false, true, true), Way::Own),
            (Direct, known(false, false, false), Way::Own),
        ];
        for (io, known, expected) in table {
            assert_eq!(way(io, known), expected, "{io:?} {known:?}");
        }
    }
}
