//! Writing: records, heads for bodies that are there, tombstones.
//!
//! What is on several devices must not come back from one of them. Each device's log holds that by itself: the
//! newest entry of an object in it is a record only if that is the current one. So a record that replaces
//! one on another device leaves a tombstone there.

use super::{Device, Shared, Store};
use crate::disk::record::{BodyToWrite, RecordToWrite};
use crate::disk::segment::EntryKind;
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use crate::log::{Flags, Source};
use crate::placement::{self, Candidate};
use crate::*;
use std::sync::atomic::Ordering::Relaxed;

/// What has to be under the key for a record to take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever there is.
    Anything,
    /// Nothing.
    Nothing,
    /// The record at this place; else [`Declined::Superseded`].
    At(Place),
}

/// The terms under which a record is stored.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// What it may replace. Compared in the same step in which the record becomes the newest.
    pub expected: Expected,
    /// Whether all of its body was written or checked by this process.
    pub verified: bool,
}

impl Terms {
    /// In place of whatever there is, a body that this process wrote.
    const ANY: Self = Self { expected: Expected::Anything, verified: true };
}

impl Store {
    /// Whether a response that was fetched just now earns a write, to be asked once for each, before
    /// [`Store::put_inline`] or the first [`Store::reserve_extent`]. A refusal is remembered: the next response for
    /// the object is stored. Writes themselves do not ask.
    pub fn admit(&self, hash: KeyHash) -> Result<(), Declined> {
        let shared = &self.shared;
        let of = Fingerprint::from(hash);
        let has_room = shared.home(of).is_some_and(|device| device.info.has_room.load(Relaxed));
        match shared.common.policy.admits(of, self.contains(hash), has_room) {
            true => Ok(()),
            false => Err(shared.common.count_declined(Declined::NotAdmitted)),
        }
    }

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
        self.shared.put(&RecordToWrite { hash, key, head, body }, Terms::ANY, out)
    }

    /// Stores a large object whose body is in `extents`, in this order.
    pub fn put_extents<'e>(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        extents: impl IntoIterator<Item = &'e WrittenExtent>,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let extents: Vec<ExtentRef> = extents.into_iter().map(|written| *written.extent()).collect();
        let body = BodyToWrite::Extents(&extents);
        self.shared.put(&RecordToWrite { hash, key, head, body }, Terms::ANY, out)
    }

    /// Stores an object whose body is as `table` says, holes and all. The caller holds pieces that are new to the store
    /// ([`WrittenExtent`]) until this returns; pieces whose life has ended meanwhile are read as holes.
    pub fn put_table(
        &self,
        hash: KeyHash,
        key: &[u8],
        head: &[u8],
        table: &Table,
        terms: Terms,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let extents = table.extents();
        if extents.len() > EXTENTS_MAX {
            return Err(Declined::TooFragmented);
        }
        let body = BodyToWrite::Extents(&extents);
        self.shared.put(&RecordToWrite { hash, key, head, body }, terms, out)
    }

    /// Stores a new head for the body of `old`, the record at `old_place`, without touching the body, unless the object
    /// has left that place. What of the body is gone becomes a hole; with all of it gone there is nothing to keep
    /// ([`Declined::BodyGone`]). `verified`: the body was written or checked by this process.
    pub fn refresh(
        &self,
        hash: KeyHash,
        old_place: &Place,
        old: &Record<'_>,
        head: &[u8],
        verified: bool,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let mut table = self.table_of(old_place, old).ok_or(Declined::BodyGone)?;
        table.retain(|extent| self.is_there(extent));
        if table.pieces().is_empty() && table.length() > 0 {
            return Err(Declined::BodyGone);
        }
        let terms = Terms { expected: Expected::At(*old_place), verified };
        self.put_table(hash, old.key, head, &table, terms, out)
    }

    /// The body of the record at `place` as pieces and holes; an inline one is a piece of its record.
    pub fn table_of(&self, place: &Place, record: &Record<'_>) -> Option<Table> {
        let extents = self.shared.body_of(place, record)?;
        Some(Table::of(extents))
    }

    /// Whether the extent's life goes on. It may end at any moment; [`Store::at`] holds it.
    pub fn is_there(&self, extent: &ExtentRef) -> bool {
        self.extent_place(extent).is_some_and(|place| {
            let device = self.shared.device(place.device);
            device.and_then(|device| device.info.lives.sequence_checked(place.segment))
                == Some(place.sequence)
        })
    }

    /// Removes the object; says whether there was one. Final for this run at once, and for later runs with
    /// the next checkpoint.
    pub fn remove(&self, hash: KeyHash, out: &mut Outbox) -> bool {
        let of = Fingerprint::from(hash);
        self.shared.void_unmerged(of, None, out);
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
        self.shared.end_merge();
        let devices = self.shared.devices.iter().filter(|device| !device.info.is_retired());
        for device in devices {
            let mut log = device.log.lock();
            self.shared.common.index.sweep(|location| device.info.has(location));
            log.mark(EntryKind::Clear, None, out);
        }
    }
}

impl Shared {
    fn put(&self, record: &RecordToWrite<'_>, terms: Terms, out: &mut Outbox) -> Result<Place, Declined> {
        let put = self.admits().and_then(|()| self.put_for(Source::Store, record, terms, out));
        let place = put.map_err(|why| self.common.count_declined(why))?;
        let inline = if let BodyToWrite::Inline { bytes, .. } = record.body { bytes.len() } else { 0 };
        let admitted = record.key.len() + record.head.len() + inline;
        self.common.admitted_bytes.fetch_add(admitted as u64, Relaxed);
        Ok(place)
    }

    /// The same on behalf of `source`, uncounted.
    pub(super) fn put_for(
        &self,
        source: Source,
        record: &RecordToWrite<'_>,
        terms: Terms,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let of = Fingerprint::from(record.hash);
        let elsewhere = matches!(record.body, BodyToWrite::Extents(_));
        let flags = Flags { verified: terms.verified, elsewhere };
        let is_expected = |now: Option<Location>| match terms.expected {
            Expected::Anything => true,
            Expected::Nothing => now.is_none(),
            Expected::At(place) => {
                now.zip(self.location_of(&place)).is_some_and(|(now, expected)| now.same_place(expected))
            }
        };
        let device = self.home(of).ok_or(Declined::DeviceRetired)?;
        let (place, replaced) = device.log.lock().append(of, record, flags, source, is_expected, out)?;
        let other = replaced.and_then(|old| self.device_of(old));
        if let Some(other) = other.filter(|other| other.info.index != place.device) {
            other.log.lock().void_older(of, out);
        }
        self.void_unmerged(of, Some(place.device), out);
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

    pub(super) fn home(&self, of: Fingerprint) -> Option<&Device> {
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
