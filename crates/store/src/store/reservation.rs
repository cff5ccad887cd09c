//! Space for an extent, from taking it to the proof that it was written.

use super::{Shared, Store};
use crate::block::round_to_blocks;
use crate::disk::extent::ExtentRef;
use crate::log::{Failure, Source};
use crate::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Space in the log for one extent, to be written by its holder (direct I/O, at [`Reservation::place`],
/// in whole blocks). Counts as a reader of its segment and as bytes in flight. Dropped: dead space.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    lease: Lease,
}

/// Proof that an extent's bytes are on their device, and the right to read them.
#[derive(Debug)]
pub struct WrittenExtent {
    lease: Lease,
    extent: ExtentRef,
}

impl Reservation {
    /// Where to write. The offset is a multiple of 4096, and so many whole blocks as hold `len` belong to it.
    pub fn place(&self) -> &Place {
        self.lease.place()
    }

    /// The write of all bytes completed; `crc32c` is the checksum of the extent's `len` bytes.
    pub fn written(self, crc32c: u32) -> WrittenExtent {
        let id = self.device().map_or(DeviceId(0), |device| device.info.id);
        let extent = ExtentRef::new(id, self.place(), crc32c);
        self.shared.common.admitted_bytes.fetch_add(u64::from(self.place().len), Relaxed);
        WrittenExtent { lease: self.lease.clone(), extent }
    }

    /// The write failed: counts as an error of the device.
    pub fn failed(self) {
        if let Some(device) = self.device() {
            self.shared.count_error(device, Failure::Counted);
        }
    }

    fn device(&self) -> Option<&super::Device> {
        self.shared.device(self.place().device)
    }

    fn bytes(&self) -> u64 {
        u64::from(round_to_blocks(self.place().len))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.common.in_flight_bytes.fetch_sub(self.bytes(), Relaxed);
    }
}

impl WrittenExtent {
    /// Where it is, also while the rest of the body is still arriving.
    pub fn place(&self) -> &Place {
        self.lease.place()
    }

    /// As the record will name it.
    pub fn extent(&self) -> &ExtentRef {
        &self.extent
    }
}

impl Store {
    /// Takes space for `len` bytes (at most [`Config::extent_bytes_max`]) of the body of `hash`, on the
    /// device whose turn it is.
    pub fn reserve_extent(&self, hash: KeyHash, len: u32, out: &mut Outbox) -> Result<Reservation, Declined> {
        self.reserve(hash, len, out).map_err(|why| self.shared.common.count_declined(why))
    }

    fn reserve(&self, hash: KeyHash, len: u32, out: &mut Outbox) -> Result<Reservation, Declined> {
        if len > self.config().extent_bytes_max {
            return Err(Declined::TooLarge);
        }
        let shared = &self.shared;
        shared.admits()?;
        let device = shared.extent_device().ok_or(Declined::DeviceRetired)?;
        let lease = device.log.lock().reserve(hash.into(), len, Source::Store, out)?;
        let reservation = Reservation { shared: Arc::clone(shared), lease };
        let bytes = reservation.bytes();
        shared.common.in_flight_bytes.fetch_add(bytes, Relaxed);
        shared.common.written_bytes.fetch_add(bytes, Relaxed);
        device.info.given_bytes.fetch_add(bytes, Relaxed);
        Ok(reservation)
    }
}
