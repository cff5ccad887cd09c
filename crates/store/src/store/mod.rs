//! The store as the proxy sees it.
//!
//! One `Store` is shared by all threads; every method takes `&self` and returns at once. Requests to devices
//! go to the caller's [`Outbox`]; outcomes come back by [`Store::complete`]; time comes in by
//! [`Store::tick`]. A lookup gives a place and the right to read it, never waits for a device.
//!
//! Reading an object: [`Store::lookup`] → bytes of the record (from the buffer, or read by the caller under
//! the lease) → [`Store::record`] → compare the key → where `verified` is false, check the body's checksums
//! and call [`Store::note_verified`] → lend the body, each extent under [`Store::at`].

mod bodies;
mod checkpoint;
mod damage;
mod drive;
mod merge;
mod note;
mod read;
mod reservation;
mod scrub;
mod write;

pub use reservation::{Reservation, WrittenExtent};
pub use write::{Expected, Terms};

use crate::log::{Common, DeviceInfo, Log};
use crate::recovery::Merge;
use crate::*;
pub(crate) use checkpoint::Checkpointer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// See the module.
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// What the store's handles (reservations too) hold together.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) common: Arc<Common>,
    identity: Identity,
    pub(crate) devices: Box<[Device]>,
    checkpoint: Mutex<Checkpointer>,
    note: Mutex<bytes::Bytes>,
    scrub: scrub::Scrubber,
    /// Bodies that are being carried forward.
    /// Queue: bodies that are being carried forward.
    moves: Mutex<Vec<bodies::Move>>,
    merge: Mutex<Merge>,
    closed: AtomicBool,
}

/// Which store this is, and which run of it.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) store_id: u128,
    pub(crate) hash_seed: u64,
    pub(crate) generation: u64,
    pub(crate) members: Vec<DeviceId>,
}

/// A device and its log.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) info: Arc<DeviceInfo>,
    pub(crate) log: Mutex<Log>,
    /// Whether a body is being carried out of it, or somebody looks for the next one.
    pub(crate) carrying: AtomicBool,
}

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
    /// Whether it was looked up before, since it was written or the store was opened.
    pub again: bool,
}

/// How to get the bytes of a place.
#[derive(Debug, Clone)]
pub enum At {
    /// They have not reached the device yet: here they are.
    Buffered(bytes::Bytes),
    /// They are on the device and may be read while the lease is held.
    Device(Lease),
}

impl Store {
    /// What recovery put together; its contents tables are merged while it is in use.
    pub(crate) fn new(
        common: Arc<Common>,
        identity: Identity,
        devices: Vec<Device>,
        checkpointer: Checkpointer,
        note: bytes::Bytes,
        merge: Merge,
    ) -> Self {
        let devices = devices.into_boxed_slice();
        let (checkpoint, merge) = (Mutex::new(checkpointer), Mutex::new(merge));
        let scrub = scrub::Scrubber::new(common.config.scrub, devices.len());
        Self {
            shared: Arc::new(Shared {
                common,
                identity,
                devices,
                checkpoint,
                note: Mutex::new(note),
                scrub,
                moves: Mutex::new(Vec::new()),
                merge,
                closed: AtomicBool::new(false),
            }),
        }
    }

    /// The seed for the caller's key hash: fixed at format, shared by all devices of a store.
    pub fn hash_seed(&self) -> u64 {
        self.shared.identity.hash_seed
    }

    /// How a device is divided.
    pub fn geometry(&self, device: DeviceIndex) -> Option<Geometry> {
        Some(self.shared.device(device)?.info.geometry)
    }

    /// The first byte of a place on its device.
    pub fn device_offset(&self, place: &Place) -> Option<u64> {
        Some(place.device_offset(&self.geometry(place.device)?))
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &Config {
        &self.shared.common.config
    }
}

impl Shared {
    fn device(&self, device: DeviceIndex) -> Option<&Device> {
        self.devices.get(device.at())
    }

    /// The device that a segment number of the index belongs to.
    fn device_of(&self, location: index::Location) -> Option<&Device> {
        let behind = self.devices.partition_point(|device| device.info.base <= location.segment());
        self.devices.get(behind.checked_sub(1)?)
    }

    /// The place that the index means; `None` while the segment lends nothing.
    fn place_of(&self, location: index::Location) -> Option<(&Device, Place)> {
        let device = self.device_of(location)?;
        let segment = location.segment() - device.info.base;
        let sequence = device.info.lives.sequence(segment)?;
        let (offset, len) = (location.offset(), location.len());
        Some((device, Place { device: device.info.index, segment, sequence, offset, len }))
    }

    /// The location that the index would have for a place of a record.
    fn location_of(&self, place: &Place) -> Option<index::Location> {
        let info = &self.device(place.device)?.info;
        let is_record = place.len > 0
            && place.len.is_multiple_of(disk::record::RECORD_ALIGN)
            && place.offset.is_multiple_of(disk::record::RECORD_ALIGN);
        let now = info.lives.sequence_checked(place.segment) == Some(place.sequence);
        (is_record && now).then(|| info.location(place, false, false))
    }

    /// Counts an error of a device, which may be one too many.
    fn count_error(&self, device: &Device, failure: log::Failure) {
        let config = &self.common.config;
        let now = self.common.now.load(Relaxed);
        let strikes = device.info.health.strike(now, config.device_error_forgiven_after);
        if failure == log::Failure::Fatal || strikes >= u64::from(config.device_errors_max) {
            self.retire(device);
        }
    }

    /// Gives a device up. The others' next checkpoints say so, so that it cannot come back with old contents.
    fn retire(&self, device: &Device) {
        let mut log = device.log.lock();
        if !device.info.health.retire() {
            return;
        }
        log.retire();
        drop(log);
        for other in &self.devices {
            other.log.lock().dirty |= !other.info.is_retired();
        }
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
