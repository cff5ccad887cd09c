//! An entry of a record's extent table: a piece of the body, or a hole in it.
//!
//! What must hold: the entries of a table are the body in order, without gaps; a hole (sequence 0) has a length and
//! nothing else, lends nothing and is never read.

use crate::types::{DeviceId, Place};
use bytemuck::{Pod, Zeroable};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawExtent {
    device: u64,
    sequence: u64,
    segment: u32,
    offset: u32,
    len: u32,
    crc: u32,
}

/// Bytes of an entry.
pub(crate) const EXTENT_BYTES: usize = size_of::<RawExtent>();
const _: () = assert!(EXTENT_BYTES == 32);

/// Sequence of no life: real ones start at 1.
const HOLE: u64 = 0;

/// A piece of a body, as a record names it: valid across restarts and device orders. Or a hole: bytes that are not
/// stored, or are no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentRef {
    /// [`DeviceId::short`] of the device.
    pub device: u64,
    /// Segment of that device.
    pub segment: u32,
    /// Life of that segment; 0 marks a hole.
    pub sequence: u64,
    /// First byte within the segment.
    pub offset: u32,
    /// Bytes of the body in it.
    pub len: u32,
    /// CRC-32C of these bytes.
    pub crc: u32,
}

impl ExtentRef {
    /// The extent at `place` on the device called `device`.
    pub fn new(device: DeviceId, place: &Place, crc: u32) -> Self {
        Self {
            device: device.short(),
            segment: place.segment,
            sequence: place.sequence,
            offset: place.offset,
            len: place.len,
            crc,
        }
    }

    /// A hole of `len` bytes.
    pub fn hole(len: u32) -> Self {
        Self { device: 0, segment: 0, sequence: HOLE, offset: 0, len, crc: 0 }
    }

    /// Whether the body has a hole here.
    pub fn is_hole(&self) -> bool {
        self.sequence == HOLE
    }

    fn from_raw(raw: RawExtent) -> Self {
        let RawExtent { device, sequence, segment, offset, len, crc } = raw;
        Self { device, segment, sequence, offset, len, crc }
    }
}

/// An entry as it stands in a record.
pub(crate) fn encode(extent: ExtentRef) -> [u8; EXTENT_BYTES] {
    let ExtentRef { device, segment, sequence, offset, len, crc } = extent;
    bytemuck::cast(RawExtent { device, sequence, segment, offset, len, crc })
}

/// The extent table of a record.
#[derive(Debug, Clone, Copy)]
pub struct Extents<'a>(&'a [u8]);

impl<'a> Extents<'a> {
    /// The table in these bytes.
    pub(crate) fn of(table: &'a [u8]) -> Self {
        Self(table)
    }

    /// The entries in body order, holes included.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ExtentRef> + use<'a> {
        self.0.chunks_exact(EXTENT_BYTES).map(|raw| ExtentRef::from_raw(bytemuck::pod_read_unaligned(raw)))
    }
}
