//! Looking at one device without opening the store: for `tidegate inspect`.
//!
//! Pure decoding over a reader that the caller supplies; nothing is written, nothing is cached, one segment's
//! contents are in memory at a time. Sees what the device says of itself; whether a device's contents count
//! among others of its store, only recovery can say.

use crate::block::BLOCK_BYTES;
use crate::disk::checkpoint::Checkpoint;
use crate::disk::record::Record;
use crate::disk::segment::{Entry, EntryKind, Header, Trailer};
use crate::disk::superblock::{Superblock, SuperblockError, candidates};
use crate::geometry::Area;
use crate::types::{DeviceIndex, Place};

/// Reads `len` bytes at an offset of the device; `None` where that fails. Whole blocks are asked for.
pub type Read<'a> = dyn FnMut(u64, u32) -> Option<Vec<u8>> + 'a;

/// What a segment is, as the device says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentState {
    /// No contents that count.
    Free,
    /// Open at the last checkpoint, which lists these entries.
    Open(Vec<Entry>),
    /// With an intact contents table.
    Sealed(Vec<Entry>),
    /// Should have contents, and they cannot be read.
    Damaged,
}

/// A device as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Who it is and how it is divided.
    pub superblock: Superblock,
    /// The newest intact checkpoint.
    pub checkpoint: Option<Checkpoint>,
}

/// What reading a record's bytes showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Record and inline body have their checksums.
    Intact,
    /// The record is damaged or not the one that the contents table names.
    BadRecord,
    /// The record is good, its inline body is not.
    BadBody,
    /// The device did not give the bytes.
    Unreadable,
}

/// Finds superblock and checkpoint of a device of `device_bytes`.
pub fn open(device_bytes: u64, read: &mut Read<'_>) -> Result<Device, SuperblockError> {
    let copies: Vec<Vec<u8>> =
        candidates(device_bytes).into_iter().filter_map(|at| read(at, BLOCK_BYTES)).collect();
    let superblock = Superblock::find(copies.iter().map(Vec::as_slice), device_bytes)?;
    let geometry = superblock.geometry;
    let places = Area::BOTH.into_iter().flat_map(|area| geometry.checkpoint_copies(area));
    let found = places.filter_map(|at| {
        let used = Checkpoint::used_bytes(&read(at, BLOCK_BYTES)?, geometry.checkpoint_bytes()).ok()?;
        Checkpoint::decode(&read(at, used)?, superblock.device_id, &geometry).ok()
    });
    Ok(Device { superblock, checkpoint: found.max_by_key(|checkpoint| checkpoint.number) })
}

impl Device {
    /// What a segment (1 and up) is.
    pub fn segment(&self, segment: u32, read: &mut Read<'_>) -> SegmentState {
        let Some(checkpoint) = &self.checkpoint else { return SegmentState::Free };
        let geometry = &self.superblock.geometry;
        let start = geometry.segment_start(segment);
        let header = read(start, BLOCK_BYTES).and_then(|block| Header::decode(&block).ok());
        let ours = |header: &Header| (header.device, header.segment) == (self.superblock.device_id, segment);
        let Some(header) = header.filter(ours) else { return SegmentState::Free };
        let known = checkpoint.sequences.floor..checkpoint.sequences.next;
        if header.void || !known.contains(&header.sequence) {
            return SegmentState::Free;
        }
        if let Some(open) = checkpoint.open.as_ref().filter(|open| open.sequence == header.sequence) {
            return SegmentState::Open(open.entries.clone());
        }
        self.sealed(&header, start, read).map_or(SegmentState::Damaged, SegmentState::Sealed)
    }

    fn sealed(&self, header: &Header, start: u64, read: &mut Read<'_>) -> Option<Vec<Entry>> {
        let geometry = &self.superblock.geometry;
        let block = read(start + u64::from(geometry.trailer_offset()), BLOCK_BYTES)?;
        let trailer = Trailer::decode(&block, geometry).ok()?;
        let same = (trailer.device, trailer.sequence) == (header.device, header.sequence);
        let len = trailer.contents_bytes(geometry);
        let bytes =
            if len == 0 { Vec::new() } else { read(start + u64::from(trailer.contents_offset), len)? };
        trailer.contents(&bytes, geometry).ok().filter(|_| same)
    }

    /// Reads the record of an entry in the given life of a segment, judges it, and shows it to `with` if it
    /// is good. Extents are for the caller to follow.
    pub fn verify(
        &self,
        segment: u32,
        sequence: u64,
        entry: &Entry,
        read: &mut Read<'_>,
        with: impl FnOnce(&Record<'_>),
    ) -> Option<Verdict> {
        let EntryKind::Record { .. } = entry.kind else { return None };
        let from = entry.offset / BLOCK_BYTES * BLOCK_BYTES;
        let len = crate::block::round_to_blocks(entry.offset + entry.len) - from;
        let at = self.superblock.geometry.segment_start(segment) + u64::from(from);
        let Some(bytes) = read(at, len) else { return Some(Verdict::Unreadable) };
        let place = Place { device: DeviceIndex(0), segment, sequence, offset: entry.offset, len: entry.len };
        let record = bytes.get((entry.offset - from) as usize..).unwrap_or_default();
        Some(match Record::decode_at(record, self.superblock.device_id, &place) {
            Err(_) => Verdict::BadRecord,
            Ok(record) if !record.is_intact() => Verdict::BadBody,
            Ok(record) => {
                with(&record);
                Verdict::Intact
            }
        })
    }

    /// The life that a segment is in, by its header.
    pub fn sequence(&self, segment: u32, read: &mut Read<'_>) -> Option<u64> {
        let block = read(self.superblock.geometry.segment_start(segment), BLOCK_BYTES)?;
        Some(Header::decode(&block).ok()?.sequence)
    }
}
