//! A record: one version of one object, or of its head where the body is elsewhere.
//!
//! ```text
//! header 96 | key | head | extent table 32 each | inline body | zeros to a multiple of 64
//! ```
//! `crc` covers everything from byte 8 of the header to the end of the extent table; the inline body has its
//! own checksum, so that a later record can refer to it as an extent. The header repeats where it was
//! written (device, life, offset): a good record of another place is recognised after a lost write.
//! Key and head are opaque.

use super::extent::{self, EXTENT_BYTES, ExtentRef, Extents};
use super::{Corrupt, VERSION, read};
use crate::checksum::crc32c;
use crate::types::{DeviceId, KeyHash, Lsn, Place};
use bytemuck::{Pod, Zeroable};

/// Records start at multiples of this.
pub const RECORD_ALIGN: u32 = 64;
/// Longest record; what an index entry can express.
pub const RECORD_BYTES_MAX: u32 = ((1 << 14) - 1) * RECORD_ALIGN;

const MAGIC: u32 = u32::from_le_bytes(*b"TGR1");

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawHeader {
    magic: u32,
    crc: u32,
    version: u16,
    flags: u16,
    record_bytes: u32,
    key_hash: [u64; 2],
    lsn: u64,
    body_len: u64,
    sequence: u64,
    device: u64,
    offset: u32,
    key_len: u32,
    head_len: u32,
    extent_count: u32,
    inline_len: u32,
    inline_crc: u32,
    reserved: [u32; 2],
}

const HEADER_BYTES: usize = size_of::<RawHeader>();
const CRC_FROM: usize = 8;
const _: () = assert!(HEADER_BYTES == 96);

/// A decoded record. Key, head and extent table are as they were written; the inline body is checked only
/// by [`Inline::is_intact`].
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    raw: RawHeader,
    /// The whole key, to be compared with the wanted one.
    pub key: &'a [u8],
    /// What was stored as the head.
    pub head: &'a [u8],
    table: &'a [u8],
    inline: &'a [u8],
}

impl std::fmt::Debug for RawHeader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lsn {} at {}+{}", self.lsn, self.sequence, self.offset)
    }
}

/// Where the body of a record is.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// In the record itself.
    Inline(Inline<'a>),
    /// In extents, in this order, holes among them. An empty body has none.
    Extents(Extents<'a>),
}

/// A body inside its record.
#[derive(Debug, Clone, Copy)]
pub struct Inline<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Where they start, counted from the start of the record.
    pub offset: u32,
    /// Their CRC-32C as it was taken when they were stored.
    pub crc: u32,
}

impl Inline<'_> {
    /// Whether the bytes still have their checksum.
    pub fn is_intact(&self) -> bool {
        crc32c(self.bytes) == self.crc
    }
}

impl<'a> Record<'a> {
    /// Decodes the record at the front of `bytes` and checks everything but the inline body's checksum.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let raw: RawHeader = read(bytes)?;
        if raw.magic != MAGIC {
            return Err(Corrupt::Magic);
        }
        if raw.version != VERSION {
            return Err(Corrupt::Version(raw.version));
        }
        let sizes = Sizes::of(&raw)?;
        if bytes.len() < sizes.record {
            return Err(Corrupt::Short);
        }
        if crc32c(&bytes[CRC_FROM..sizes.inline_at]) != raw.crc {
            return Err(Corrupt::Checksum);
        }
        let record = Self {
            raw,
            key: &bytes[HEADER_BYTES..sizes.head_at],
            head: &bytes[sizes.head_at..sizes.table_at],
            table: &bytes[sizes.table_at..sizes.inline_at],
            inline: &bytes[sizes.inline_at..sizes.inline_at + raw.inline_len as usize],
        };
        if record.has_its_length() { Ok(record) } else { Err(Corrupt::Lengths) }
    }

    /// Whether inline body or extents have as many bytes as the header says.
    fn has_its_length(&self) -> bool {
        match self.body() {
            Body::Inline(inline) => inline.bytes.len() as u64 == self.raw.body_len,
            Body::Extents(table) => {
                table.iter().map(|extent| u64::from(extent.len)).sum::<u64>() == self.raw.body_len
            }
        }
    }

    /// Decodes the record that was written at `place` of the device called `device`; a good record that was
    /// written elsewhere (left over from an earlier life, or gone astray) is refused.
    pub fn decode_at(bytes: &'a [u8], device: DeviceId, place: &Place) -> Result<Self, Corrupt> {
        let record = Self::decode(bytes)?;
        let raw = &record.raw;
        let here = raw.device == device.short()
            && raw.sequence == place.sequence
            && raw.offset == place.offset
            && raw.record_bytes == place.len;
        if here { Ok(record) } else { Err(Corrupt::Elsewhere) }
    }

    /// Hash of the key.
    pub fn key_hash(&self) -> KeyHash {
        let [low, high] = self.raw.key_hash;
        KeyHash(u128::from(low) | u128::from(high) << 64)
    }

    /// When it was logged.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.raw.lsn)
    }

    /// Bytes of the whole body.
    pub fn body_len(&self) -> u64 {
        self.raw.body_len
    }

    /// Bytes that the record takes in the log.
    pub fn record_bytes(&self) -> u32 {
        self.raw.record_bytes
    }

    /// Where the body is.
    pub fn body(&self) -> Body<'a> {
        if self.inline.is_empty() {
            return Body::Extents(Extents::of(self.table));
        }
        let offset = HEADER_BYTES + self.key.len() + self.head.len() + self.table.len();
        Body::Inline(Inline { bytes: self.inline, offset: offset as u32, crc: self.raw.inline_crc })
    }

    /// Whether the inline body (if any) still has its checksum. Extents must be checked by who reads them.
    pub fn is_intact(&self) -> bool {
        match self.body() {
            Body::Inline(inline) => inline.is_intact(),
            Body::Extents(_) => true,
        }
    }
}

/// Offsets of the parts, checked against each other.
struct Sizes {
    head_at: usize,
    table_at: usize,
    inline_at: usize,
    record: usize,
}

impl Sizes {
    fn of(raw: &RawHeader) -> Result<Self, Corrupt> {
        let head_at = HEADER_BYTES as u64 + u64::from(raw.key_len);
        let table_at = head_at + u64::from(raw.head_len);
        let inline_at = table_at + u64::from(raw.extent_count) * EXTENT_BYTES as u64;
        let end = inline_at + u64::from(raw.inline_len);
        let record = end.next_multiple_of(u64::from(RECORD_ALIGN));
        let one_body = raw.inline_len == 0 || raw.extent_count == 0;
        let fits = record == u64::from(raw.record_bytes) && record <= u64::from(RECORD_BYTES_MAX);
        if !(one_body && fits) {
            return Err(Corrupt::Lengths);
        }
        let [head_at, table_at, inline_at, record] =
            [head_at, table_at, inline_at, record].map(|n| n as usize);
        Ok(Self { head_at, table_at, inline_at, record })
    }
}

/// A body to be written into a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyToWrite<'a> {
    Inline { bytes: &'a [u8], crc: u32 },
    Extents(&'a [ExtentRef]),
}

impl BodyToWrite<'_> {
    fn body_len(&self) -> u64 {
        match self {
            Self::Inline { bytes, .. } => bytes.len() as u64,
            Self::Extents(extents) => extents.iter().map(|extent| u64::from(extent.len)).sum(),
        }
    }

    fn stored_bytes(&self) -> usize {
        match self {
            Self::Inline { bytes, .. } => bytes.len(),
            Self::Extents(extents) => extents.len() * EXTENT_BYTES,
        }
    }
}

/// A record to be written, all but its place and lsn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordToWrite<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) head: &'a [u8],
    pub(crate) body: BodyToWrite<'a>,
}

impl RecordToWrite<'_> {
    /// Bytes in the log, or nothing where that is more than a record may have.
    pub(crate) fn record_bytes(&self) -> Option<u32> {
        let bytes = HEADER_BYTES + self.key.len() + self.head.len() + self.body.stored_bytes();
        let bytes = bytes.next_multiple_of(RECORD_ALIGN as usize);
        u32::try_from(bytes).ok().filter(|&bytes| bytes <= RECORD_BYTES_MAX)
    }

    /// Writes the record into `out`, which has exactly `place.len` bytes, all zero.
    pub(crate) fn encode(&self, device: DeviceId, place: &Place, lsn: Lsn, out: &mut [u8]) {
        debug_assert_eq!(Some(place.len), self.record_bytes());
        let mut end = HEADER_BYTES;
        let mut push = |out: &mut [u8], bytes: &[u8]| {
            out[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
            end
        };
        push(out, self.key);
        let mut crc_to = push(out, self.head);
        match self.body {
            BodyToWrite::Inline { bytes, .. } => _ = push(out, bytes),
            BodyToWrite::Extents(extents) => {
                for extent in extents {
                    crc_to = push(out, &extent::encode(*extent));
                }
            }
        }
        let mut raw = self.header(device, place, lsn);
        out[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&raw));
        raw.crc = crc32c(&out[CRC_FROM..crc_to]);
        out[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&raw));
    }

    fn header(&self, device: DeviceId, place: &Place, lsn: Lsn) -> RawHeader {
        let (extent_count, inline_len, inline_crc) = match self.body {
            BodyToWrite::Inline { bytes, crc } => (0, bytes.len() as u32, crc),
            BodyToWrite::Extents(extents) => (extents.len() as u32, 0, 0),
        };
        RawHeader {
            magic: MAGIC,
            crc: 0,
            version: VERSION,
            flags: 0,
            record_bytes: place.len,
            key_hash: [self.hash.0 as u64, (self.hash.0 >> 64) as u64],
            lsn: lsn.0,
            body_len: self.body.body_len(),
            sequence: place.sequence,
            device: device.short(),
            offset: place.offset,
            key_len: self.key.len() as u32,
            head_len: self.head.len() as u32,
            extent_count,
            inline_len,
            inline_crc,
            reserved: [0; 2],
        }
    }
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
