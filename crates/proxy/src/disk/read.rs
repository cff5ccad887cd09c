//! Reads of what the store placed: into memory of our own, into the page cache, for a checksum.
//!
//! What must hold: a place is read only under its lease; a failed read is counted against its device and is a miss for
//! the reader, never an answer; nothing here waits for a disk on the thread, and a checksum takes it in short slices.
//! Which of these ways a body takes is decided elsewhere (`hit/ready.rs`).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use store::{At, Crc32c, DeviceIndex, Lease, Place};
use sys::aligned::{AlignedBuffer, BLOCK_BYTES};
use sys::device::{Device, Direct};
use sys::operation::Operation;

use super::queue::{Patience, Unserved};
use super::warm::Asked;
use super::{Disk, Disks};
use crate::settings::StoreIo;

/// Bytes of a checksum between two looks at what else there is to do: some 25 µs.
const SLICE_BYTES: usize = 256 * 1024;

/// Bytes of resident pages copied at a time for a checksum.
const LOOK_BYTES: usize = 64 * 1024;

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
    /// All memory for reads is in the hands of clients.
    NoBuffer,
}

/// A place as the kernel knows it.
struct Spot<'d> {
    device: &'d Device,
    offset: u64,
    len: usize,
}

impl Disks {
    fn spot(&self, place: &Place) -> Result<Spot<'_>, ReadFailed> {
        let device = self.device(place).ok_or(ReadFailed::Gone)?;
        let offset = self.offset(place).ok_or(ReadFailed::Gone)?;
        Ok(Spot { device, offset, len: place.len as usize })
    }

    /// Whether pages of this place may be lent to a socket: not where the log is written through them.
    #[must_use]
    pub fn may_lend(&self, place: &Place) -> bool {
        self.device(place).is_some_and(|device| device.direct() == Direct::Used)
    }
}

impl Disk {
    /// The bytes that the store has given the way to: from its buffer, or read as [`Disk::read`] does.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn bytes(&self, at: &At, again: bool) -> Result<Bytes, ReadFailed> {
        match at {
            At::Buffered(bytes) => Ok(bytes.clone()),
            At::Device(lease) => self.read(lease, again).await,
        }
    }

    /// Reads the bytes of a place for use at once, such as a record. `again`: it was used before, so that the page cache is
    /// a good place for it.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn read(&self, lease: &Lease, again: bool) -> Result<Bytes, ReadFailed> {
        if self.disks().io == StoreIo::PageCache {
            if again && !self.is_resident(lease.place()) {
                self.load(lease).await?;
            }
            if let Some(bytes) = self.read_resident(lease.place()) {
                return Ok(bytes);
            }
        }
        let spot = self.disks().spot(lease.place())?;
        let len = spot.blocks().1;
        let buffer = match self.disks().warm.buffer(len) {
            Some(buffer) => buffer,
            // It is gone again as soon as the bytes were looked at, and the queue bounds how many there are.
            None => AlignedBuffer::new(len).map_err(ReadFailed::Device)?,
        };
        self.read_past_pages(lease, buffer).await
    }

    /// The bytes of a place in memory of our own: read past the page cache unless they are kept, or somebody reads them
    /// already. With `check` they are compared with this checksum.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn own(&self, lease: &Lease, check: Option<u32>) -> Result<Bytes, ReadFailed> {
        let warm = &self.disks().warm;
        loop {
            match warm.ask(lease.place()) {
                Asked::Here(bytes) => return Ok(bytes),
                Asked::UnderWay(waiting) => {
                    if let Some(outcome) = waiting.outcome().await {
                        return outcome;
                    }
                }
                Asked::Read(reading) => return reading.done(self.read_checked(lease, check).await),
            }
        }
    }

    async fn read_checked(&self, lease: &Lease, check: Option<u32>) -> Result<Bytes, ReadFailed> {
        let len = self.disks().spot(lease.place())?.blocks().1;
        let buffer = self.disks().warm.buffer(len).ok_or(ReadFailed::NoBuffer)?;
        let bytes = self.read_past_pages(lease, buffer).await?;
        match check {
            Some(crc) if checksum(&bytes).await != crc => Err(ReadFailed::Checksum),
            _ => Ok(bytes),
        }
    }

    async fn read_past_pages(&self, lease: &Lease, buffer: AlignedBuffer) -> Result<Bytes, ReadFailed> {
        let place = lease.place();
        let spot = self.disks().spot(place)?;
        let (from, _) = spot.blocks();
        let file = spot.device.writer();
        let read = self.read_into(place.device, file, from, buffer, Patience::Client).await;
        let bytes = read.map_err(|why| self.unserved(place, why))?;
        let start = (spot.offset - from) as usize;
        if bytes.len() < start + spot.len {
            return Err(self.failed(place, io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes.slice(start..start + spot.len))
    }

    /// Whether the device answers: where it does not, a read would end as [`ReadFailed::Unanswered`].
    #[must_use]
    pub fn answers(&self, place: &Place) -> bool {
        self.inner.queue.answers(place.device)
    }

    /// Whether `sendfile` of this part of a place would not wait for the disk.
    #[must_use]
    pub fn is_resident(&self, place: &Place) -> bool {
        self.disks().spot(place).is_ok_and(|spot| spot.device.resident(spot.offset, spot.len as u64))
    }

    /// Brings the bytes of a place into the page cache.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn load(&self, lease: &Lease) -> Result<(), ReadFailed> {
        let Spot { device, offset, len } = self.disks().spot(lease.place())?;
        let operation = Operation::Load { file: Arc::clone(device.buffered()), offset, len };
        let device = lease.place().device;
        let loaded = self.inner.queue.read(device, operation, len as u64, Patience::Client).await;
        loaded.map(|_| ()).map_err(|why| self.unserved(lease.place(), why))
    }

    /// Brings a range of a place's device back into the page cache if it left; `begin` is where the place begins there.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn keep_resident(&self, lease: &Lease, range: Range<u64>, begin: u64) -> io::Result<()> {
        let (within, len) = (range.start.saturating_sub(begin), range.end - range.start);
        let part = lease.part(within as u32, len as u32).ok_or(io::ErrorKind::InvalidInput)?;
        if self.is_resident(part.place()) {
            return Ok(());
        }
        self.load(&part).await.map_err(|failed| io::Error::other(format!("{failed:?}")))
    }

    /// Compares the resident pages of a place with its checksum; `None` where one of them has left.
    ///
    /// # Errors
    /// [`ReadFailed::Checksum`] where they differ.
    pub async fn check_resident(&self, place: &Place, crc: u32) -> Option<Result<(), ReadFailed>> {
        let Spot { device, offset, len } = self.disks().spot(place).ok()?;
        let mut buffer = vec![0; LOOK_BYTES.min(len)];
        let mut sum = Crc32c::new();
        let mut done = 0;
        while done < len {
            let step = buffer.len().min(len - done);
            if device.read_nowait(offset + done as u64, &mut buffer[..step]).ok()? < step {
                return None;
            }
            sum.update(&buffer[..step]);
            done += step;
            tokio::task::yield_now().await;
        }
        Some(if sum.value() == crc { Ok(()) } else { Err(ReadFailed::Checksum) })
    }

    /// The descriptor that `sendfile` reads from, and where on it a place begins.
    #[must_use]
    pub fn source(&self, place: &Place) -> Option<(Arc<std::fs::File>, u64)> {
        let spot = self.disks().spot(place).ok()?;
        Some((Arc::clone(spot.device.buffered()), spot.offset))
    }

    /// A copy of the bytes of a place, if all of them are resident.
    fn read_resident(&self, place: &Place) -> Option<Bytes> {
        if !self.is_resident(place) {
            return None; // asking for them would begin to read them
        }
        let Spot { device, offset, len } = self.disks().spot(place).ok()?;
        let mut bytes = vec![0; len];
        (device.read_nowait(offset, &mut bytes).ok()? == len).then(|| bytes.into())
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
        self.read_into(device, file, offset, AlignedBuffer::new(len)?, patience).await
    }

    /// Fills the buffer from `offset`.
    async fn read_into(
        &self,
        device: DeviceIndex,
        file: &Arc<std::fs::File>,
        offset: u64,
        buffer: AlignedBuffer,
        patience: Patience,
    ) -> Result<Bytes, Unserved> {
        let len = buffer.capacity();
        let (into, reader) = buffer.split();
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

impl Spot<'_> {
    /// The whole blocks around it: where they begin, and how many bytes they are.
    fn blocks(&self) -> (u64, usize) {
        let block = BLOCK_BYTES as u64;
        let from = self.offset / block * block;
        let until = (self.offset + self.len as u64).next_multiple_of(block);
        (from, (until - from) as usize)
    }
}

/// The checksum of `bytes`; others have their turn in between.
pub async fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Crc32c::new();
    for slice in bytes.chunks(SLICE_BYTES) {
        sum.update(slice);
        if slice.len() == SLICE_BYTES {
            tokio::task::yield_now().await;
        }
    }
    sum.value()
}
