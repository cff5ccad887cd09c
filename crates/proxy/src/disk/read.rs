//! Reads of what the store placed: into memory, into the page cache, for a checksum.
//!
//! What must hold: a place is read only under its lease; a failed read is counted against its device and is a miss for
//! the reader, never an answer.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use store::{Crc32c, DeviceIndex, Place};
use sys::aligned::AlignedBuffer;
use sys::operation::Operation;

use super::queue::{Patience, Unserved};
use super::{Disk, Disks};
use crate::settings::StoreIo;

/// Step in which a body is read for its checksum.
const VERIFY_STEP_BYTES: usize = 256 * 1024;

/// Why bytes could not be read.
#[derive(Debug)]
pub enum ReadFailed {
    /// The life of that segment is over, or its device is gone: a miss.
    Gone,
    /// The device failed.
    Device(io::Error),
    /// The device did not answer in time: a miss, for now.
    Unanswered,
    /// The bytes are not those that were written.
    Checksum,
}

impl Disk {
    /// Reads the bytes of a place under its lease.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn read(&self, lease: &store::Lease) -> Result<Bytes, ReadFailed> {
        let disks = &self.inner.disks;
        let place = lease.place();
        let device = disks.device(place).ok_or(ReadFailed::Gone)?;
        let offset = disks.offset(place).ok_or(ReadFailed::Gone)?;
        let wanted = place.len as usize;
        if disks.io == StoreIo::PageCache {
            let mut bytes = vec![0; wanted];
            if matches!(device.read_nowait(offset, &mut bytes), Ok(n) if n == wanted) {
                return Ok(Bytes::from(bytes));
            }
        }
        let file = match disks.io {
            StoreIo::PageCache => device.buffered(),
            StoreIo::Direct => device.writer(),
        };
        let block = sys::aligned::BLOCK_BYTES as u64;
        let from = offset / block * block;
        let until = (offset + place.len as u64).next_multiple_of(block);
        let len = (until - from) as usize;
        let read = self.read_aligned(place.device, file, from, len, Patience::Client).await;
        let bytes = read.map_err(|error| self.unserved(place, error))?;
        let start = (offset - from) as usize;
        if bytes.len() < start + wanted {
            return Err(self.failed(place, io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes.slice(start..start + wanted))
    }

    /// Whether `sendfile` of this part of a place would not wait for the disk.
    #[must_use]
    pub fn is_resident(&self, place: &Place) -> bool {
        let disks = &self.inner.disks;
        match (disks.device(place), disks.offset(place)) {
            (Some(device), Some(offset)) => device.resident(offset, u64::from(place.len)),
            _ => false,
        }
    }

    /// Brings the bytes of a place into the page cache.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn load(&self, lease: &store::Lease) -> Result<(), ReadFailed> {
        let place = lease.place();
        let disks = &self.inner.disks;
        let device = disks.device(place).ok_or(ReadFailed::Gone)?;
        let offset = disks.offset(place).ok_or(ReadFailed::Gone)?;
        let operation =
            Operation::Load { file: Arc::clone(device.buffered()), offset, len: place.len as usize };
        let loaded =
            self.inner.queue.read(place.device, operation, u64::from(place.len), Patience::Client).await;
        loaded.map(|_| ()).map_err(|error| self.unserved(place, error))
    }

    /// Reads the bytes of a place through the page cache on a helper thread, so that they are resident afterwards, and
    /// compares their checksum.
    ///
    /// # Errors
    /// [`ReadFailed`], [`ReadFailed::Checksum`] among them.
    pub async fn verify(&self, lease: &store::Lease, crc: u32) -> Result<(), ReadFailed> {
        // On a helper thread a device that does not answer could not be given up.
        self.load(lease).await?;
        let place = *lease.place();
        let disks = Arc::clone(&self.inner.disks);
        let lease = lease.clone();
        let check = tokio::task::spawn_blocking(move || {
            let sum = checksum(&disks, lease.place());
            drop(lease);
            sum
        });
        match check.await {
            Ok(Ok(sum)) if sum == crc => Ok(()),
            Ok(Ok(_)) => Err(ReadFailed::Checksum),
            Ok(Err(error)) => Err(self.failed(&place, error)),
            Err(join) => Err(self.failed(&place, io::Error::other(join))),
        }
    }

    /// The descriptor that `sendfile` reads from, and where on it a place begins.
    #[must_use]
    pub fn source(&self, place: &Place) -> Option<(Arc<std::fs::File>, u64)> {
        let disks = &self.inner.disks;
        Some((Arc::clone(disks.device(place)?.buffered()), disks.offset(place)?))
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the device. Offset and length in whole blocks.
    pub(super) async fn read_aligned(
        &self,
        device: DeviceIndex,
        file: &Arc<std::fs::File>,
        offset: u64,
        len: usize,
        patience: Patience,
    ) -> Result<Bytes, Unserved> {
        let (into, reader) = AlignedBuffer::new(len)?.split();
        let operation = Operation::Read { file: Arc::clone(file), offset, len, into };
        let count = self.inner.queue.read(device, operation, len as u64, patience).await?;
        let settled = reader.settled(0..count).ok_or_else(|| io::Error::other("buffer not settled"))?;
        Ok(Bytes::from_owner(settled))
    }

    fn unserved(&self, place: &Place, why: Unserved) -> ReadFailed {
        match why {
            Unserved::Error(error) => self.failed(place, error),
            Unserved::Unanswered => ReadFailed::Unanswered,
            Unserved::Retired => ReadFailed::Gone,
        }
    }

    /// Tells the store of a failed read.
    fn failed(&self, place: &Place, error: io::Error) -> ReadFailed {
        tracing::warn!(device = place.device.0, segment = place.segment, %error, "read failed");
        self.inner.disks.store.note_io_error(place.device);
        ReadFailed::Device(error)
    }
}

fn checksum(disks: &Disks, place: &Place) -> io::Result<u32> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let device = disks.device(place).ok_or_else(gone)?;
    let mut at = disks.offset(place).ok_or_else(gone)?;
    let end = at + u64::from(place.len);
    let mut buffer = vec![0; VERIFY_STEP_BYTES.min(place.len as usize)];
    let mut crc = Crc32c::new();
    while at < end {
        let step = buffer.len().min((end - at) as usize);
        device.read_at(at, &mut buffer[..step])?;
        crc.update(&buffer[..step]);
        at += step as u64;
    }
    Ok(crc.value())
}
