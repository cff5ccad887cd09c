//! A segment's own words: header, contents table, trailer.
//!
//! ```text
//! header 4 KiB | data ... | free ... | contents | the same again | trailer 4 KiB
//! ```
//! The contents table (32 bytes an entry, whole blocks) is there twice, because it holds the only copy of
//! tombstones: where both are damaged, nothing older on the device can be trusted.
//!
//! Which life of a segment counts, and what its contents table must be, says the checkpoint ([`super::checkpoint`]).
//! Header and trailer say it again on the spot: for those who look at a store in use, and for whoever has to make
//! something of a device without its slot 0.

use super::{Corrupt, VERSION, read};
use crate::block::{BLOCK_BYTES, BlockBuf, round_to_blocks};
use crate::checksum::crc32c;
use crate::disk::record::{RECORD_ALIGN, RECORD_BYTES_MAX};
use crate::fingerprint::Fingerprint;
use crate::geometry::Geometry;
use crate::types::{DeviceId, Lsn};
use bytemuck::{Pod, Zeroable};

const HEADER_MAGIC: [u8; 8] = *b"TGSEGHDR";
const TRAILER_MAGIC: [u8; 8] = *b"TGSEGEND";
const CRC_FROM: usize = 12;

/// Bytes of an entry on disk.
pub const ENTRY_BYTES: u32 = size_of::<RawEntry>() as u32;

/// Bytes that header and trailer take.
pub const FRAME_BYTES: u32 = 2 * BLOCK_BYTES;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawHeader {
    magic: [u8; 8],
    crc: u32,
    version: u16,
    reserved: u16,
    device: [u64; 2],
    sequence: u64,
    segment: u32,
    reserved2: u32,
}
const _: () = assert!(size_of::<RawHeader>() == 48);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawTrailer {
    magic: [u8; 8],
    crc: u32,
    version: u16,
    reserved: u16,
    device: [u64; 2],
    sequence: u64,
    segment: u32,
    entries: u32,
    contents_offset: u32,
    contents_crc: u32,
    data_bytes: u32,
    reserved2: u32,
}
const _: () = assert!(size_of::<RawTrailer>() == 64);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawEntry {
    fingerprint: u64,
    lsn: u64,
    offset: u32,
    len: u32,
    kind: u16,
    flags: u16,
    reserved: u32,
}
const _: () = assert!(size_of::<RawEntry>() == 32);

const FLAG_BODY_ELSEWHERE: u16 = 1;

/// The first block of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Whose segment.
    pub device: DeviceId,
    /// Which one.
    pub segment: u32,
    /// Its life.
    pub sequence: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> BlockBuf {
        seal_block(RawHeader {
            magic: HEADER_MAGIC,
            crc: 0,
            version: VERSION,
            reserved: 0,
            device: halves(self.device),
            sequence: self.sequence,
            segment: self.segment,
            reserved2: 0,
        })
    }

    /// Decodes the first block of a segment.
    pub fn decode(block: &[u8]) -> Result<Self, Corrupt> {
        let raw: RawHeader = open_block(block, HEADER_MAGIC)?;
        Ok(Self { device: whole(raw.device), segment: raw.segment, sequence: raw.sequence })
    }
}

/// The contents table of a sealed segment: how long it is, which says where it is, and how to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentsTable {
    /// Number of entries.
    pub entries: u32,
    /// CRC-32C of the entries.
    pub crc: u32,
}

impl ContentsTable {
    /// Bytes of one copy, in whole blocks. For tables that [`ContentsTable::fits`].
    pub fn bytes(&self) -> u32 {
        round_to_blocks(self.entries * ENTRY_BYTES)
    }

    /// Where the two copies start within the segment. For tables that [`ContentsTable::fits`].
    pub fn copies(&self, geometry: &Geometry) -> [u32; 2] {
        let second = geometry.trailer_offset() - self.bytes();
        [second - self.bytes(), second]
    }

    /// Whether both copies fit into a segment.
    pub fn fits(&self, geometry: &Geometry) -> bool {
        let room = u64::from(geometry.segment_bytes() - FRAME_BYTES);
        contents_bytes(self.entries).is_some_and(|bytes| 2 * u64::from(bytes) <= room)
    }

    /// Decodes one copy.
    pub fn decode(&self, copy: &[u8], geometry: &Geometry) -> Result<Vec<Entry>, Corrupt> {
        decode_entries(copy, self.entries, self.crc, geometry)
    }
}

/// The last block of a sealed segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Whose segment.
    pub device: DeviceId,
    /// Which one.
    pub segment: u32,
    /// Its life.
    pub sequence: u64,
    /// Number of entries in the contents table.
    pub entries: u32,
    /// First byte of the first contents table, from the start of the segment.
    pub contents_offset: u32,
    /// CRC-32C of the entries.
    pub contents_crc: u32,
    /// Bytes of records and extents, padding included.
    pub data_bytes: u32,
}

impl Trailer {
    /// Decodes the last block of a segment of a device with this geometry.
    pub fn decode(block: &[u8], geometry: &Geometry) -> Result<Self, Corrupt> {
        let raw: RawTrailer = open_block(block, TRAILER_MAGIC)?;
        let table = contents_bytes(raw.entries).ok_or(Corrupt::Lengths)?;
        let end = u64::from(raw.contents_offset) + 2 * u64::from(table);
        let aligned = raw.contents_offset.is_multiple_of(BLOCK_BYTES) && raw.contents_offset >= BLOCK_BYTES;
        if end != u64::from(geometry.trailer_offset()) || !aligned {
            return Err(Corrupt::Lengths);
        }
        Ok(Self {
            device: whole(raw.device),
            segment: raw.segment,
            sequence: raw.sequence,
            entries: raw.entries,
            contents_offset: raw.contents_offset,
            contents_crc: raw.contents_crc,
            data_bytes: raw.data_bytes,
        })
    }

    /// Bytes of both tables, to be read at [`Trailer::contents_offset`]; whole blocks.
    pub fn contents_bytes(&self, geometry: &Geometry) -> u32 {
        geometry.trailer_offset() - self.contents_offset
    }

    /// Decodes the contents table that the trailer describes, from the first copy that is intact.
    pub fn contents(&self, bytes: &[u8], geometry: &Geometry) -> Result<Vec<Entry>, Corrupt> {
        let copy = |from: u32| {
            let bytes = bytes.get(from as usize..).ok_or(Corrupt::Short)?;
            decode_entries(bytes, self.entries, self.contents_crc, geometry)
        };
        copy(0).or_else(|_| copy(self.contents_bytes(geometry) / 2))
    }

    /// Contents tables and trailer as one run of blocks, which ends where the segment ends; where that begins, and its table.
    pub(crate) fn encode_with_contents(
        device: DeviceId,
        segment: u32,
        sequence: u64,
        entries: &[Entry],
        data_bytes: u32,
        geometry: &Geometry,
    ) -> (u32, ContentsTable, BlockBuf) {
        let table = round_to_blocks(entries.len() as u32 * ENTRY_BYTES);
        let contents_offset = geometry.trailer_offset() - 2 * table;
        let mut run = BlockBuf::zeroed(2 * table + BLOCK_BYTES);
        let contents_crc = encode_entries(entries, run.as_mut());
        run.as_mut().copy_within(..table as usize, table as usize);
        let trailer: BlockBuf = seal_block(RawTrailer {
            magic: TRAILER_MAGIC,
            crc: 0,
            version: VERSION,
            reserved: 0,
            device: halves(device),
            sequence,
            segment,
            entries: entries.len() as u32,
            contents_offset,
            contents_crc,
            data_bytes,
            reserved2: 0,
        });
        run.as_mut()[2 * table as usize..].copy_from_slice(trailer.as_ref());
        (contents_offset, ContentsTable { entries: entries.len() as u32, crc: contents_crc }, run)
    }
}

/// What the end of a sealed segment lists: both contents tables and the trailer, as they are on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// Whether both copies of the table are good; one is.
    pub(crate) both_good: bool,
}

impl Contents {
    /// Reads the end of a segment in this life (device, segment, sequence); nothing where both copies are damaged or it is
    /// another life's.
    pub(crate) fn read(bytes: &[u8], geometry: &Geometry, life: (DeviceId, u32, u64)) -> Option<Self> {
        let (tables, trailer) = bytes.split_at_checked(bytes.len().checked_sub(BLOCK_BYTES as usize)?)?;
        let trailer = Trailer::decode(trailer, geometry).ok()?;
        let is_ours = (trailer.device, trailer.segment, trailer.sequence) == life
            && trailer.contents_bytes(geometry) as usize == tables.len();
        let entries = trailer.contents(tables, geometry).ok().filter(|_| is_ours)?;
        let (one, other) = tables.split_at(tables.len() / 2);
        Some(Self { entries, both_good: one == other })
    }
}

/// What a contents table says of a part of its segment, or of older parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A record.
    Record {
        /// Whether the body is in extents.
        elsewhere: bool,
    },
    /// Space given to an extent. Whether it was filled, only a record can say.
    Extent,
    /// No older record of this fingerprint on this device is valid.
    Tombstone,
    /// No older record on this device is valid.
    Clear,
}

/// A line of a contents table. Lines are in the order of their lsn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What it says.
    pub kind: EntryKind,
    /// Of which object.
    pub fingerprint: Fingerprint,
    /// When.
    pub lsn: Lsn,
    /// First byte within the segment (records and extents).
    pub offset: u32,
    /// Bytes (records and extents).
    pub len: u32,
}

impl Entry {
    fn to_raw(self) -> RawEntry {
        let (kind, flags) = match self.kind {
            EntryKind::Record { elsewhere } => (1, if elsewhere { FLAG_BODY_ELSEWHERE } else { 0 }),
            EntryKind::Extent => (2, 0),
            EntryKind::Tombstone => (3, 0),
            EntryKind::Clear => (4, 0),
        };
        let Self { fingerprint, lsn, offset, len, .. } = self;
        RawEntry { fingerprint: fingerprint.number(), lsn: lsn.0, offset, len, kind, flags, reserved: 0 }
    }

    fn from_raw(raw: RawEntry, geometry: &Geometry) -> Result<Self, Corrupt> {
        let kind = match raw.kind {
            1 => EntryKind::Record { elsewhere: raw.flags & FLAG_BODY_ELSEWHERE != 0 },
            2 => EntryKind::Extent,
            3 => EntryKind::Tombstone,
            4 => EntryKind::Clear,
            _ => return Err(Corrupt::Lengths),
        };
        let fingerprint = Fingerprint::from_number(raw.fingerprint).ok_or(Corrupt::Lengths)?;
        let entry = Self { kind, fingerprint, lsn: Lsn(raw.lsn), offset: raw.offset, len: raw.len };
        if entry.is_sound(geometry) { Ok(entry) } else { Err(Corrupt::Lengths) }
    }

    fn is_sound(&self, geometry: &Geometry) -> bool {
        let end = u64::from(self.offset) + u64::from(self.len);
        let inside = self.offset >= BLOCK_BYTES && end <= u64::from(geometry.trailer_offset());
        let in_units = |n: u32| n.is_multiple_of(RECORD_ALIGN);
        match self.kind {
            EntryKind::Record { .. } => {
                inside
                    && in_units(self.offset)
                    && in_units(self.len)
                    && (1..=RECORD_BYTES_MAX).contains(&self.len)
            }
            EntryKind::Extent => inside && self.offset.is_multiple_of(BLOCK_BYTES) && self.len > 0,
            EntryKind::Tombstone | EntryKind::Clear => self.offset == 0 && self.len == 0,
        }
    }
}

/// Bytes of a table with so many entries, in whole blocks; `None` where that is absurd.
fn contents_bytes(entries: u32) -> Option<u32> {
    let bytes = entries.checked_mul(ENTRY_BYTES)?;
    bytes.checked_next_multiple_of(BLOCK_BYTES)
}

/// Writes `entries` to the front of `out` and returns their checksum.
pub(crate) fn encode_entries(entries: &[Entry], out: &mut [u8]) -> u32 {
    let bytes = &mut out[..entries.len() * ENTRY_BYTES as usize];
    for (entry, raw) in entries.iter().zip(bytes.chunks_exact_mut(ENTRY_BYTES as usize)) {
        raw.copy_from_slice(bytemuck::bytes_of(&entry.to_raw()));
    }
    crc32c(bytes)
}

/// Reads `count` entries from the front of `bytes`.
pub(crate) fn decode_entries(
    bytes: &[u8],
    count: u32,
    crc: u32,
    geometry: &Geometry,
) -> Result<Vec<Entry>, Corrupt> {
    let len = count as usize * ENTRY_BYTES as usize;
    let bytes = bytes.get(..len).ok_or(Corrupt::Short)?;
    if crc32c(bytes) != crc {
        return Err(Corrupt::Checksum);
    }
    entries_of(bytes, geometry)
}

/// The entries that fill `bytes`.
pub(crate) fn entries_of(bytes: &[u8], geometry: &Geometry) -> Result<Vec<Entry>, Corrupt> {
    let raws = bytes.chunks_exact(ENTRY_BYTES as usize).map(bytemuck::pod_read_unaligned);
    let entries: Vec<Entry> = raws.map(|raw| Entry::from_raw(raw, geometry)).collect::<Result<_, _>>()?;
    let ordered = entries.windows(2).all(|pair| pair[0].lsn < pair[1].lsn);
    if ordered { Ok(entries) } else { Err(Corrupt::Lengths) }
}

pub(crate) fn halves(id: DeviceId) -> [u64; 2] {
    [id.0 as u64, (id.0 >> 64) as u64]
}

pub(crate) fn whole([low, high]: [u64; 2]) -> DeviceId {
    DeviceId(u128::from(low) | u128::from(high) << 64)
}

/// A block that starts with `raw` (magic, then the checksum of all bytes from [`CRC_FROM`]).
fn seal_block<T: Pod>(raw: T) -> BlockBuf {
    let mut block = BlockBuf::copy_of(bytemuck::bytes_of(&raw));
    seal(block.as_mut());
    block
}

/// Sets the checksum of a block that starts with magic and checksum.
pub(crate) fn seal(block: &mut [u8]) {
    let crc = crc32c(&block[CRC_FROM..BLOCK_BYTES as usize]);
    block[8..CRC_FROM].copy_from_slice(&crc.to_le_bytes());
}

/// Reads the structure at the front of a block that [`seal`] closed. The version follows the checksum.
pub(crate) fn open_block<T: Pod>(block: &[u8], magic: [u8; 8]) -> Result<T, Corrupt> {
    let rest = block.get(CRC_FROM..BLOCK_BYTES as usize).ok_or(Corrupt::Short)?;
    if block[..8] != magic {
        return Err(Corrupt::Magic);
    }
    if block[8..CRC_FROM] != crc32c(rest).to_le_bytes() {
        return Err(Corrupt::Checksum);
    }
    match u16::from_le_bytes([rest[0], rest[1]]) {
        VERSION => read(block),
        version => Err(Corrupt::Version(version)),
    }
}

#[cfg(test)]
#[path = "segment/tests.rs"]
mod tests;
