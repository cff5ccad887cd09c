//! The store as the proxy sees it.
//!
//! One `Store` is shared by all threads; every method takes `&self` and returns at once. Requests to devices
//! go to the caller's [`Outbox`]; outcomes come back by [`Store::complete`]; time comes in by
//! [`Store::tick`]. A lookup gives a place and the right to read it, never waits for a device.
//!
//! Reading an object: [`Store::lookup`] → bytes of the record (from the buffer, or read by the caller under
//! the lease) → [`Store::record`] → compare the key → where `verified` is false, check the body's checksums
//! and call [`Store::note_verified`] → lend the body, each extent under [`Store::at`].

use crate::*;

/// See the module.
#[derive(Debug)]
pub struct Store {}

/// An answer of [`Store::lookup`].
#[derive(Debug, Clone)]
pub struct Found {
    /// Where the record is.
    pub place: Place,
    /// How to get its bytes.
    pub at: At,
    /// Whether record and body were written, or checked, since the store was opened. Where false the caller
    /// checks every checksum before the first use.
    pub verified: bool,
}

/// How to get the bytes of a place.
#[derive(Debug, Clone)]
pub enum At {
    /// They have not reached the device yet: here they are.
    Buffered(bytes::Bytes),
    /// They are on the device and may be read while the lease is held.
    Device(Lease),
}

/// Space in the log for one extent, to be written by its holder (direct I/O, at [`Reservation::place`],
/// in whole blocks). Counts as a reader of its segment and as bytes in flight. Dropped: dead space.
#[derive(Debug)]
pub struct Reservation {
    place: Place,
}

/// Proof that an extent's bytes are on their device.
#[derive(Debug)]
pub struct WrittenExtent {}

impl Reservation {
    /// Where to write. The offset is a multiple of 4096, and so many whole blocks as hold `len` belong to it.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The write of all bytes completed; `crc32c` is the checksum of the extent's `len` bytes.
    pub fn written(self, crc32c: u32) -> WrittenExtent {
        todo!("{crc32c}")
    }

    /// The write failed: counts as an error of the device.
    pub fn failed(self, error: IoError, out: &mut Outbox) {
        todo!("{error} {out:?}")
    }
}

impl WrittenExtent {
    /// Where it is, also while the rest of the body is still arriving.
    pub fn place(&self) -> &Place {
        todo!()
    }
}

impl Store {
    /// The seed for the caller's key hash: fixed at format, shared by all devices of a store.
    pub fn hash_seed(&self) -> u64 {
        todo!()
    }

    /// The devices, in the order in which they were given at opening.
    pub fn geometry(&self, device: DeviceIndex) -> Option<Geometry> {
        todo!("{device:?}")
    }

    /// The first byte of a place on its device.
    pub fn device_offset(&self, place: &Place) -> Option<u64> {
        todo!("{place:?}")
    }

    // --- reading ---

    /// The newest version of the object, or nothing. Counts as a use, which reclaim respects.
    /// Never asks a device for an absent key (one in 2^44 other keys looks like a given one).
    pub fn lookup(&self, hash: KeyHash) -> Option<Found> {
        todo!("{hash:?}")
    }

    /// How to get the bytes of a place, or nothing where that life of the segment is over.
    pub fn at(&self, place: &Place) -> Option<At> {
        todo!("{place:?}")
    }

    /// The place of an extent, or nothing where its device is not here or that life is over.
    pub fn extent_place(&self, extent: &ExtentRef) -> Option<Place> {
        todo!("{extent:?}")
    }

    /// Decodes the record that was read from `place`, and refuses one that does not belong there.
    pub fn record<'a>(&self, place: &Place, bytes: &'a [u8]) -> Result<Record<'a>, Corrupt> {
        todo!("{place:?} {bytes:?}")
    }

    /// Record and body at `place` were found intact.
    pub fn note_verified(&self, hash: KeyHash, place: &Place) {
        todo!("{hash:?} {place:?}")
    }

    /// Record or body at `place` was found damaged: the entry leaves the index for good.
    pub fn note_bad(&self, hash: KeyHash, place: &Place, out: &mut Outbox) {
        todo!("{hash:?} {place:?} {out:?}")
    }

    /// The body that the record at `place` names is gone (an extent's life is over): the entry leaves the
    /// index. Not an error.
    pub fn forget(&self, hash: KeyHash, place: &Place) {
        todo!("{hash:?} {place:?}")
    }

    /// A read that the caller made failed.
    pub fn note_io_error(&self, device: DeviceIndex, error: IoError, out: &mut Outbox) {
        todo!("{device:?} {error} {out:?}")
    }

    // --- writing ---

    /// Stores a small object: at most [`Config::inline_bytes_max`] of body.
    pub fn put_inline(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        body: &[u8],
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        todo!("{hash:?} {key:?} {head:?} {body:?} {out:?}")
    }

    /// Takes space for `len` bytes (at most [`Config::extent_bytes_max`]) of the body of `hash`, on the
    /// device whose turn it is.
    pub fn reserve_extent(&self, hash: KeyHash, len: u32, out: &mut Outbox) -> Result<Reservation, Declined> {
        todo!("{hash:?} {len:?} {out:?}")
    }

    /// Stores a large object whose body is in `extents`, in this order.
    pub fn put_extents(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        extents: Vec<WrittenExtent>,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        todo!("{hash:?} {key:?} {head:?} {extents:?} {out:?}")
    }

    /// Stores a new head for the body of `old`, the record at `old_place`, without touching the body.
    pub fn refresh(
        &self,
        hash: KeyHash,
        old_place: &Place,
        old: &Record<'_>,
        head: &[u8],
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        todo!("{hash:?} {old_place:?} {old:?} {head:?} {out:?}")
    }

    /// Removes the object; says whether there was one. Final for this run at once, and for later runs with
    /// the next checkpoint.
    pub fn remove(&self, hash: KeyHash, out: &mut Outbox) -> bool {
        todo!("{hash:?} {out:?}")
    }

    /// Removes all objects, as [`Store::remove`] does for one.
    pub fn clear(&self, out: &mut Outbox) {
        todo!("{out:?}")
    }

    // --- driving ---

    /// Takes the outcome of a request.
    pub fn complete(&self, id: IoId, result: IoResult, out: &mut Outbox) {
        todo!("{id:?} {result:?} {out:?}")
    }

    /// Does what is due: checkpoints, reclaim. To be called a few times a second at least; never twice at
    /// once with a `now` that runs backwards.
    pub fn tick(&self, now: Millis, out: &mut Outbox) {
        todo!("{now} {out:?}")
    }

    /// Begins a clean stop: nothing is stored any more, everything stored is flushed and checkpointed.
    /// Goes on with `complete` and `tick` until [`Store::idle`].
    pub fn shutdown(&self, out: &mut Outbox) {
        todo!("{out:?}")
    }

    /// After [`Store::shutdown`]: everything is durable and no request is under way.
    pub fn idle(&self) -> bool {
        todo!()
    }

    /// Figures for metrics and the status page. Walks the index shards: for scrapes, not for requests.
    pub fn stats(&self) -> Stats {
        todo!()
    }

    /// Segments that only leases keep from being used again, oldest first: cut the clients that hold
    /// leases with [`Lease::recalled`] where this grows old.
    pub fn blocked(&self) -> Vec<Blocked> {
        todo!()
    }
}

/// A segment that is wanted back and still lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// Which device.
    pub device: DeviceIndex,
    /// Which segment.
    pub segment: u32,
    /// Leases that are out.
    pub readers: u32,
    /// Since when.
    pub since: Millis,
}
