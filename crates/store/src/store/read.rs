//! Reading: from a key hash to a place and the right to read it.

use super::{At, Found, Shared, Store};
use crate::disk::segment::EntryKind;
use crate::fingerprint::Fingerprint;
use crate::log::Failure;
use crate::*;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// The newest version of the object, or nothing. Counts as a use, which reclaim respects.
    /// Never asks a device for an absent key (one in 2^44 other keys looks like a given one).
    pub fn lookup(&self, hash: KeyHash) -> Option<Found> {
        let shared = &self.shared;
        let (lease, location) = shared.common.index.lookup(hash.into(), |location| {
            // Under the shard's lock the entry cannot leave, so neither can the life that it points to.
            let (device, place) = shared.place_of(location)?;
            Some((device.info.lives.lease(place)?, location))
        })?;
        shared.common.policy.used(hash.into());
        let place = *lease.place();
        let (verified, again) = (location.verified(), location.hits() > 1);
        Some(Found { place, at: shared.at(lease)?, verified, again })
    }

    /// Whether the index knows the object, without counting a use.
    pub fn contains(&self, hash: KeyHash) -> bool {
        self.shared.common.index.get(hash.into()).is_some()
    }

    /// Counts a use that was served from elsewhere (the caller's memory). Need not be called for each: what matters
    /// is that an object that is in use there is seen to be.
    pub fn note_use(&self, hash: KeyHash) {
        let common = &self.shared.common;
        if common.index.count_use(hash.into()) {
            common.policy.used(hash.into());
        }
    }

    /// Whether the newest version of the object is the one at `place`. Counts as no use.
    pub fn is_at(&self, hash: KeyHash, place: &Place) -> bool {
        let here = self.shared.location_of(place);
        let now = self.shared.common.index.get(hash.into());
        here.zip(now).is_some_and(|(here, now)| now.same_place(here))
    }

    /// How to get the bytes of a place, or nothing where that life of the segment is over.
    pub fn at(&self, place: &Place) -> Option<At> {
        self.shared.find(place)
    }

    /// Whether that life of the segment goes on.
    pub fn is_alive(&self, place: &Place) -> bool {
        let device = self.shared.device(place.device);
        device.is_some_and(|device| device.info.lives.sequence_checked(place.segment) == Some(place.sequence))
    }

    /// The right to the bytes of a place without asking where they are: for whoever writes them.
    pub fn lease(&self, place: &Place) -> Option<Lease> {
        self.shared.device(place.device)?.info.lives.lease(*place)
    }

    /// The place of an extent, or nothing for a hole and where its device is not here. Whether it is still alive is for
    /// [`Store::at`] to say.
    pub fn extent_place(&self, extent: &ExtentRef) -> Option<Place> {
        self.shared.extent_place(extent)
    }

    /// Decodes the record that was read from `place`, and refuses one that does not belong there.
    pub fn record<'a>(&self, place: &Place, bytes: &'a [u8]) -> Result<Record<'a>, Corrupt> {
        let device = self.shared.device(place.device).ok_or(Corrupt::Elsewhere)?;
        Record::decode_at(bytes, device.info.id, place)
    }

    /// Record and body at `place` were found intact.
    pub fn note_verified(&self, hash: KeyHash, place: &Place) {
        if let Some(location) = self.shared.location_of(place) {
            self.shared.common.index.set_verified(hash.into(), location);
        }
    }

    /// Record or body at `place` was found damaged: the entry leaves the index for good. (A tombstone is
    /// logged: the damage may be gone at the next start, when the object may have been removed meanwhile.)
    pub fn note_bad(&self, hash: KeyHash, place: &Place, out: &mut Outbox) {
        self.shared.common.bad.fetch_add(1, Relaxed);
        self.shared.remove_damaged(hash.into(), place, out);
    }

    /// An extent was found damaged whose object stays, with a hole in that place.
    pub fn note_bad_extent(&self) {
        self.shared.common.bad.fetch_add(1, Relaxed);
    }

    /// The body that the record at `place` names is gone (an extent's life is over): the entry leaves the
    /// index. Not an error. A tombstone is logged with what is logged next: a life that ended by a failed write
    /// may be found intact at the next start, when the object may have been removed meanwhile.
    pub fn forget(&self, hash: KeyHash, place: &Place) {
        let Some(device) = self.shared.device(place.device) else { return };
        let mut log = device.log.lock();
        if self.shared.take_out(hash.into(), place) && !device.info.is_retired() {
            log.owe_tombstone(hash.into());
        }
    }

    /// A read that the caller made failed.
    pub fn note_io_error(&self, device: DeviceIndex) {
        if let Some(device) = self.shared.device(device) {
            self.shared.count_error(device, Failure::Counted);
        }
    }
}

impl Shared {
    pub(super) fn extent_place(&self, extent: &ExtentRef) -> Option<Place> {
        let info = self.devices.iter().map(|device| &device.info);
        let info = info.into_iter().find(|info| info.id.short() == extent.device)?;
        let end = u64::from(extent.offset) + u64::from(extent.len);
        let inside = !extent.is_hole()
            && extent.segment <= info.geometry.segments()
            && end <= u64::from(info.geometry.segment_bytes());
        let &ExtentRef { segment, sequence, offset, len, .. } = extent;
        inside.then_some(Place { device: info.index, segment, sequence, offset, len })
    }

    pub(super) fn find(&self, place: &Place) -> Option<At> {
        let lease = self.device(place.device)?.info.lives.lease(*place)?;
        self.at(lease)
    }

    /// Takes an object out whose record or body is damaged, with a tombstone; says whether it was still at `place`.
    pub(super) fn remove_damaged(&self, of: Fingerprint, place: &Place, out: &mut Outbox) -> bool {
        let Some(device) = self.device(place.device) else { return false };
        let mut log = device.log.lock();
        let removed = self.take_out(of, place);
        if removed {
            log.mark(EntryKind::Tombstone, Some(of), out);
        }
        removed
    }

    /// Bytes from the buffer, or the lease where there are none: then they are on the device.
    pub(super) fn at(&self, lease: Lease) -> Option<At> {
        let place = lease.place();
        let device = self.device(place.device)?;
        if device.info.lives.is_settled(place.segment) {
            return Some(At::Device(lease));
        }
        let log = device.log.lock();
        match log.buffered(place) {
            Some(bytes) => Some(At::Buffered(bytes)),
            // Its buffers went with it, and what they held may not be on the device.
            None if device.info.is_retired() => None,
            None => Some(At::Device(lease)),
        }
    }

    fn take_out(&self, of: Fingerprint, place: &Place) -> bool {
        let Some(location) = self.location_of(place) else { return false };
        self.common.index.remove_if(of, |now| now.same_place(location)).is_some()
    }
}
