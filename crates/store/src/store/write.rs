//! Writing: records, heads for bodies that are there, tombstones.
//!
//! What is on several devices must not come back from one of them. Each device's log holds that by itself: the
//! newest entry of an object in it is a record only if that is the current one. So a record that replaces
//! one on another device leaves a tombstone there.

use super::{Device, Shared, Store};
use crate::disk::record::{BodyToWrite, RecordToWrite};
use crate::disk::segment::EntryKind;
use crate::fingerprint::Fingerprint;
use crate::placement::{self, Candidate};
use crate::*;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// Stores a small object: at most [`Config::inline_bytes_max`] of body.
    pub fn put_inline(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        body: &[u8],
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        if body.len() > self.config().inline_bytes_max as usize {
            return Err(Declined::TooLarge);
        }
        let body = BodyToWrite::Inline { bytes: body, crc: crc32c(body) };
        self.shared.put(&RecordToWrite { hash, key, head, body }, out)
    }

    /// Stores a large object whose body is in `extents`, in this order.
    pub fn put_extents(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        extents: &[WrittenExtent],
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let extents: Vec<ExtentRef> = extents.iter().map(|written| *written.extent()).collect();
        let body = BodyToWrite::Extents(&extents);
        self.shared.put(&RecordToWrite { hash, key, head, body }, out)
    }

    /// Stores a new head for the body of `old`, the record at `old_place`, without touching the body.
    ///
    /// The body must still be there ([`Declined::BodyGone`]) and intact: the caller has checked it, or
    /// `old` was `verified`.
    pub fn refresh(
        &self,
        hash: KeyHash,
        old_place: &Place,
        old: &Record<'_>,
        head: &[u8],
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let extents = self.shared.body_of(old_place, old).ok_or(Declined::BodyGone)?;
        let places = extents.iter().map(|extent| self.extent_place(extent));
        let leases: Option<Vec<At>> = places.map(|place| self.at(&place?)).collect();
        let held = leases.ok_or(Declined::BodyGone)?;
        let body = BodyToWrite::Extents(&extents);
        let put = self.shared.put(&RecordToWrite { hash, key: old.key, head, body }, out);
        drop(held);
        put
    }

    /// Removes the object; says whether there was one. Final for this run at once, and for later runs with
    /// the next checkpoint.
    pub fn remove(&self, hash: KeyHash, out: &mut Outbox) -> bool {
        let of = Fingerprint::from(hash);
        while let Some(location) = self.shared.common.index.get(of) {
            let Some(device) = self.shared.device_of(location) else { return false };
            // The log's lock first: nothing may enter that log between index and tombstone.
            let mut log = device.log.lock();
            if self.shared.common.index.remove_if(of, |now| now.same_place(location)).is_some() {
                log.mark(EntryKind::Tombstone, Some(of), out);
                return true;
            }
        }
        false
    }

    /// Removes all objects, as [`Store::remove`] does for one.
    pub fn clear(&self, out: &mut Outbox) {
        let devices = self.shared.devices.iter().filter(|device| !device.info.is_retired());
        for device in devices {
            let mut log = device.log.lock();
            let segments = device.info.base..=device.info.base + device.info.geometry.segments();
            self.shared.common.index.sweep(|location| segments.contains(&location.segment()));
            log.mark(EntryKind::Clear, None, out);
        }
    }
}

impl Shared {
    fn put(&self, record: &RecordToWrite<'_>, out: &mut Outbox) -> Result<Place, Declined> {
        self.admits()?;
        let of = Fingerprint::from(record.hash);
        let elsewhere = matches!(record.body, BodyToWrite::Extents(_));
        let device = self.home(of).ok_or(Declined::DeviceRetired)?;
        let (place, replaced) = device.log.lock().append(of, record, elsewhere, out)?;
        let inline = if let BodyToWrite::Inline { bytes, .. } = record.body { bytes.len() } else { 0 };
        let admitted = record.key.len() + record.head.len() + inline;
        self.common.admitted_bytes.fetch_add(admitted as u64, Relaxed);
        let other =
            replaced.and_then(|old| self.device_of(old)).filter(|other| other.info.index != place.device);
        if let Some(other) = other.filter(|other| !other.info.is_retired()) {
            other.log.lock().mark(EntryKind::Tombstone, Some(of), out);
        }
        Ok(place)
    }

    /// Whether anything may be stored now.
    pub(super) fn admits(&self) -> Result<(), Declined> {
        if self.closed.load(Relaxed) {
            return Err(Declined::Closed);
        }
        let in_flight = self.common.in_flight_bytes.load(Relaxed);
        if in_flight > self.common.config.in_flight_bytes_max { Err(Declined::WritesBehind) } else { Ok(()) }
    }

    fn candidates(&self) -> impl Iterator<Item = (usize, Candidate)> + Clone {
        let healthy = self.devices.iter().enumerate().filter(|(_, device)| !device.info.is_retired());
        healthy.map(|(at, Device { info, .. })| {
            let given = info.given_bytes.load(Relaxed);
            (
                at,
                Candidate { id: info.id, bytes: info.geometry.used_bytes(), given, load: info.health.load() },
            )
        })
    }

    fn home(&self, of: Fingerprint) -> Option<&Device> {
        placement::home(of, self.candidates()).map(|at| &self.devices[at])
    }

    pub(super) fn extent_device(&self) -> Option<&Device> {
        placement::next_extent(self.candidates()).map(|at| &self.devices[at])
    }

    /// Where the body of a record is, as extents.
    fn body_of(&self, place: &Place, record: &Record<'_>) -> Option<Vec<ExtentRef>> {
        match record.body() {
            Body::Extents(table) => Some(table.iter().collect()),
            Body::Inline(inline) => {
                let id = self.device(place.device)?.info.id;
                let offset = place.offset.checked_add(inline.offset)?;
                let body = Place { offset, len: inline.bytes.len() as u32, ..*place };
                Some(vec![ExtentRef::new(id, &body, inline.crc)])
            }
        }
    }
}
