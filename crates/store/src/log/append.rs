//! Appending to the open segment: records through a gather buffer, extents as reserved space.
//!
//! A gather piece is a contiguous range of the segment, taken 1 MiB at a time. Records are packed in it and leave as
//! one device write when it is full. An early flush (for a checkpoint) writes what is there, rounded up to
//! blocks, and the piece goes on behind it: a block is never handed out twice, and a quiet log wastes less
//! than a block.

use super::{Log, Open};
use crate::block::{BLOCK_BYTES, BlockBuf, round_to_blocks};
use crate::disk::record::RecordToWrite;
use crate::disk::segment::{Entry, EntryKind, FRAME_BYTES};
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use crate::io::Outbox;
use crate::lease::Lease;
use crate::policy::left_after_carry;
use crate::types::{Declined, Lsn, Place};
use bytes::Bytes;

/// On whose behalf something is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A request: declined where only the last free segment is left.
    Store,
    /// Carried records and marks: may use that one too.
    Upkeep,
}

/// What is known of a record that is appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flags {
    /// Whether record and body were written or checked by this process.
    pub(crate) verified: bool,
    /// Whether the body is in extents.
    pub(crate) elsewhere: bool,
}

/// The piece that is being filled.
#[derive(Debug)]
pub(super) struct Gather {
    /// Offset within the segment of the first byte in `buf`.
    start: u32,
    /// End of what is filled.
    used: u32,
    /// End of the piece.
    end: u32,
    buf: BlockBuf,
}

impl Gather {
    fn new(start: u32, end: u32) -> Self {
        Self { start, used: start, end, buf: BlockBuf::with_capacity(end - start) }
    }

    fn has_room(&self, len: u32) -> bool {
        self.end - self.used >= len
    }

    /// The next `len` bytes, zeroed, and their offset within the segment.
    fn take(&mut self, len: u32) -> (u32, &mut [u8]) {
        let offset = self.used;
        self.used += len;
        self.buf.grow_to(self.used - self.start);
        let from = (offset - self.start) as usize;
        (offset, &mut self.buf.as_mut()[from..from + len as usize])
    }

    /// A copy of a place's bytes, if they are here.
    pub(super) fn copy(&self, place: &Place) -> Option<Bytes> {
        let from = place.offset.checked_sub(self.start)? as usize;
        let here = place.end() <= u64::from(self.used);
        here.then(|| Bytes::copy_from_slice(&self.buf.as_ref()[from..from + place.len as usize]))
    }
}

impl Log {
    /// Appends a record and enters it into the index if `condition` holds for what is there; returns what it replaced.
    pub(crate) fn append(
        &mut self,
        of: Fingerprint,
        record: &RecordToWrite<'_>,
        flags: Flags,
        source: Source,
        condition: impl FnOnce(Option<Location>) -> bool,
        out: &mut Outbox,
    ) -> Result<(Place, Option<Location>), Declined> {
        let len = self.make_record_room(record, source, out)?;
        let common = std::sync::Arc::clone(&self.common);
        let mut replaced = Ok(None);
        let place = self.append_with(of, record, len, flags, |location, lsn| {
            replaced = common.index.insert_if(of, condition, || {
                *lsn = Some(common.next_lsn());
                location
            });
        });
        let replaced = replaced.map_err(|_| Declined::Superseded)?;
        place.map(|place| (place, replaced)).ok_or(Declined::NoSpace)
    }

    /// Appends a copy of the record at `old`, unless the index has left that place. The caller has checked
    /// an inline body; a body elsewhere is as verified as it was.
    pub(super) fn append_carried(
        &mut self,
        of: Fingerprint,
        record: &RecordToWrite<'_>,
        old: Location,
        out: &mut Outbox,
    ) -> Result<Option<Place>, Declined> {
        let len = self.make_record_room(record, Source::Upkeep, out)?;
        let common = std::sync::Arc::clone(&self.common);
        let elsewhere = old.elsewhere();
        let flags = Flags { verified: old.verified() || !elsewhere, elsewhere };
        // The uses of a body elsewhere are spent when the body is carried.
        let uses = if elsewhere { old.hits() } else { left_after_carry(old.hits()) };
        Ok(self.append_with(of, record, len, flags, |location, lsn| {
            common.index.replace(of, old, || {
                *lsn = Some(common.next_lsn());
                location.with_hits(uses)
            });
        }))
    }

    /// Appends where [`Log::make_record_room`] made room, if `enter` puts the location into the index and
    /// takes an lsn for it under the shard's lock. So the newest lsn of an object is always the one that the
    /// index shows.
    fn append_with(
        &mut self,
        of: Fingerprint,
        record: &RecordToWrite<'_>,
        len: u32,
        Flags { verified, elsewhere }: Flags,
        enter: impl FnOnce(Location, &mut Option<Lsn>),
    ) -> Option<Place> {
        let device = std::sync::Arc::clone(&self.device);
        let open = self.open.as_mut()?;
        let gather = open.gather.as_mut()?;
        let place = device.place(open.segment, open.sequence, gather.used, len);
        let mut lsn = None;
        enter(device.location(&place, verified, elsewhere), &mut lsn);
        let lsn = lsn?;
        let (offset, bytes) = gather.take(len);
        record.encode(device.id, &place, lsn, bytes);
        let kind = EntryKind::Record { elsewhere };
        open.entries.push(Entry { kind, fingerprint: of, lsn, offset, len });
        open.data_bytes += len;
        self.dirty = true;
        Some(place)
    }

    /// Takes space for an extent.
    pub(crate) fn reserve(
        &mut self,
        of: Fingerprint,
        len: u32,
        source: Source,
        out: &mut Outbox,
    ) -> Result<Lease, Declined> {
        let bytes = round_to_blocks(len);
        if len == 0 || bytes > self.data_bytes_max() {
            return Err(Declined::TooLarge);
        }
        if !self.has_space(bytes) {
            self.close_gather(out);
        }
        if !self.has_space(bytes) {
            self.begin_segment_for(bytes, source, out)?;
        }
        let lsn = self.common.next_lsn();
        let open = self.open.as_mut().ok_or(Declined::NoSpace)?;
        let place = self.device.place(open.segment, open.sequence, open.top, len);
        open.entries.push(Entry { kind: EntryKind::Extent, fingerprint: of, lsn, offset: open.top, len });
        open.top += bytes;
        open.data_bytes += bytes;
        self.dirty = true;
        self.device.lives.lease(place).ok_or(Declined::DeviceRetired)
    }

    /// Makes sure that the open segment has a gather piece with room for `record`; returns its length.
    fn make_record_room(
        &mut self,
        record: &RecordToWrite<'_>,
        source: Source,
        out: &mut Outbox,
    ) -> Result<u32, Declined> {
        let len_max = self.data_bytes_max().min(self.common.config.gather_bytes);
        let len = record.record_bytes().filter(|&len| round_to_blocks(len) <= len_max);
        let len = len.ok_or(Declined::TooLarge)?;
        if self.gather_has_room(len) {
            return Ok(len);
        }
        self.close_gather(out);
        if !self.has_space(round_to_blocks(len)) {
            self.begin_segment_for(round_to_blocks(len), source, out)?;
        }
        self.begin_gather();
        Ok(len)
    }

    fn begin_segment_for(&mut self, bytes: u32, source: Source, out: &mut Outbox) -> Result<(), Declined> {
        self.seal(out);
        self.open_segment(source, out)?;
        if self.has_space(bytes) { Ok(()) } else { Err(Declined::NoSpace) }
    }

    fn gather_has_room(&self, len: u32) -> bool {
        let room = |open: &Open| open.gather.as_ref().is_some_and(|gather| gather.has_room(len));
        self.has_space(0) && self.open.as_ref().is_some_and(room)
    }

    /// Whether `bytes` more of data and one more entry fit into the open segment.
    fn has_space(&self, bytes: u32) -> bool {
        self.open.as_ref().is_some_and(|open| open.top + bytes <= self.data_limit(open.entries.len() + 1))
    }

    /// Data that an empty segment can take in one piece. (Upkeep may have listed marks in it before: a block
    /// of each table is left for them.)
    fn data_bytes_max(&self) -> u32 {
        self.device.geometry.segment_bytes() - FRAME_BYTES - 4 * BLOCK_BYTES
    }

    fn begin_gather(&mut self) {
        let Some(entries) = self.open.as_ref().map(|open| open.entries.len()) else { return };
        let limit = self.data_limit(entries + 1);
        let piece = self.common.config.gather_bytes;
        if let Some(open) = &mut self.open {
            let end = limit.min(open.top + piece);
            open.gather = Some(Gather::new(open.top, end));
            open.top = end;
        }
    }

    /// Hands what was gathered to the device; the piece goes on at the next block.
    pub(super) fn flush_gather(&mut self, out: &mut Outbox) {
        let Some(open) = &mut self.open else { return };
        let Some(gather) = &mut open.gather else { return };
        if gather.buf.is_empty() {
            return;
        }
        let start = gather.start;
        let next = round_to_blocks(gather.used);
        let rest = Gather::new(next, gather.end);
        let data = std::mem::replace(gather, rest).buf;
        let (segment, sequence) = (open.segment, open.sequence);
        self.write(segment, sequence, start, data, out);
    }

    /// Flushes and ends the piece; what is left of it is given back if nothing was taken behind it. Marks that found no room
    /// come first in what is given back: what is logged behind them is newer.
    pub(super) fn close_gather(&mut self, out: &mut Outbox) {
        self.flush_gather(out);
        if let Some(open) = &mut self.open
            && let Some(gather) = open.gather.take()
            && gather.end == open.top
        {
            open.top = gather.start;
        }
        self.pay_owed();
    }
}
