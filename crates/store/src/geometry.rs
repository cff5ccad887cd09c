//! How a device is divided: slot 0 for superblocks and checkpoint areas, segments behind it.
//!
//! ```text
//! slot 0   0          16 KiB               about segment/2      segment
//!          | untouched | SB | A | A again | SB | B | B again | SB |     (A, B: checkpoint areas)
//! slot n   | header 4 KiB | data ...            ... | contents | trailer 4 KiB |
//! ```
//!
//! Every segment starts at a multiple of its own size, so that a whole-segment `ZERO_RANGE` is safe for
//! pages that are lent to sockets. Knows no device, only its size.

use crate::block::BLOCK_BYTES;
use crate::disk::checkpoint::LIFE_BYTES;

/// The first bytes of a device, which belong to nobody.
pub const UNTOUCHED_BYTES: u32 = 16 << 10;
/// Default segment size.
pub const SEGMENT_BYTES_DEFAULT: u32 = 16 << 20;
/// Smallest segment (used by tests; slot 0 must hold its parts).
pub const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// Largest segment that an index entry can address.
pub const SEGMENT_BYTES_MAX: u32 = 256 << 20;
/// Segments that a device must have room for: less than this leaves reclaim no room to work.
pub const SEGMENTS_MIN: u32 = 4;
/// Segments of a device from which on larger ones are chosen: a checkpoint of three quarters of a MiB.
pub const SEGMENTS_WANTED_MAX: u32 = 32 << 10;
/// Segments over all devices that an index entry can tell apart.
pub const SEGMENTS_MAX: u32 = 1 << 24;

/// Why a device cannot be divided as wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Not a power of two between [`SEGMENT_BYTES_MIN`] and [`SEGMENT_BYTES_MAX`].
    #[error("segment size {0} is not a power of two from 64 KiB to 256 MiB")]
    SegmentSize(u32),
    /// Fewer than [`SEGMENTS_MIN`] segments behind slot 0.
    #[error("{device_bytes} bytes are too few: at least {wanted_bytes} are needed")]
    TooSmall {
        /// Bytes that are there.
        device_bytes: u64,
        /// Bytes that would do.
        wanted_bytes: u64,
    },
    /// More segments than can be told apart; larger segments would do.
    #[error("{0} segments are too many: choose larger segments")]
    TooManySegments(u64),
}

/// A device's division into segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    segment_bytes: u32,
    segments: u32,
}

/// One of the two checkpoint areas of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Area {
    /// The first.
    A,
    /// The second.
    B,
}

impl Area {
    /// Both, in disk order.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl Geometry {
    /// Divides `device_bytes`; a rest shorter than a segment stays unused.
    pub fn new(device_bytes: u64, segment_bytes: u32) -> Result<Self, GeometryError> {
        let sizes = SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX;
        if !segment_bytes.is_power_of_two() || !sizes.contains(&segment_bytes) {
            return Err(GeometryError::SegmentSize(segment_bytes));
        }
        let segments = (device_bytes / u64::from(segment_bytes)).saturating_sub(1);
        if segments < u64::from(SEGMENTS_MIN) {
            let wanted_bytes = u64::from(SEGMENTS_MIN + 1) * u64::from(segment_bytes);
            return Err(GeometryError::TooSmall { device_bytes, wanted_bytes });
        }
        let geometry = u32::try_from(segments).map(|segments| Self { segment_bytes, segments });
        let geometry = geometry.ok().filter(|geometry| geometry.segments < SEGMENTS_MAX);
        geometry.filter(Self::checkpoint_holds_lives).ok_or(GeometryError::TooManySegments(segments))
    }

    /// Whether the lives of all segments take at most three quarters of what a checkpoint has behind its header.
    fn checkpoint_holds_lives(&self) -> bool {
        let lives = u64::from(self.segments) * u64::from(LIFE_BYTES);
        lives <= u64::from(self.checkpoint_bytes() - BLOCK_BYTES) / 4 * 3
    }

    /// Divides `device_bytes` into segments of the default size; smaller ones where the device is so small that a
    /// segment would be more than a sixteenth of it, larger ones where there would be more than
    /// [`SEGMENTS_WANTED_MAX`], all of which each checkpoint lists.
    pub fn for_size(device_bytes: u64) -> Result<Self, GeometryError> {
        let mut segment_bytes = SEGMENT_BYTES_DEFAULT;
        while segment_bytes > SEGMENT_BYTES_MIN && device_bytes / u64::from(segment_bytes) < 16 {
            segment_bytes /= 2;
        }
        let wanted_max = u64::from(SEGMENTS_WANTED_MAX);
        while segment_bytes < SEGMENT_BYTES_MAX && device_bytes / u64::from(segment_bytes) > wanted_max {
            segment_bytes *= 2;
        }
        Self::new(device_bytes, segment_bytes)
    }

    /// Bytes in a segment, a power of two.
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// Number of segments behind slot 0; they are numbered from 1.
    pub fn segments(&self) -> u32 {
        self.segments
    }

    /// Bytes that the store uses, slot 0 included.
    pub fn used_bytes(&self) -> u64 {
        (u64::from(self.segments) + 1) * u64::from(self.segment_bytes)
    }

    /// First byte of a segment on the device.
    pub fn segment_start(&self, segment: u32) -> u64 {
        u64::from(segment) * u64::from(self.segment_bytes)
    }

    /// Where the trailer of a segment starts within it.
    pub fn trailer_offset(&self) -> u32 {
        self.segment_bytes - BLOCK_BYTES
    }

    /// Where the copies of the superblock are, in bytes from the start of the device.
    pub fn superblocks(&self) -> [u64; 3] {
        superblock_offsets(self.segment_bytes)
    }

    /// Where a checkpoint area is on the device: first byte and length.
    fn checkpoint_area(&self, area: Area) -> (u64, u32) {
        let [first, middle, last] = self.superblocks();
        let (from, to) = match area {
            Area::A => (first, middle),
            Area::B => (middle, last),
        };
        let start = from + u64::from(BLOCK_BYTES);
        (start, (to - start) as u32)
    }

    /// Where the two copies of a checkpoint are: their first bytes on the device.
    pub fn checkpoint_copies(&self, area: Area) -> [u64; 2] {
        let (start, len) = self.checkpoint_area(area);
        [start, start + u64::from(len / 2 / BLOCK_BYTES * BLOCK_BYTES)]
    }

    /// Bytes that a checkpoint may have.
    pub fn checkpoint_bytes(&self) -> u32 {
        let halves = Area::BOTH.map(|area| self.checkpoint_area(area).1 / 2 / BLOCK_BYTES * BLOCK_BYTES);
        halves[0].min(halves[1])
    }
}

/// Where superblock copies are for segments of this size.
pub(crate) fn superblock_offsets(segment_bytes: u32) -> [u64; 3] {
    [UNTOUCHED_BYTES, segment_bytes / 2 + UNTOUCHED_BYTES / 2, segment_bytes - BLOCK_BYTES].map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_zero_holds_its_parts_without_overlap() {
        let mut segment_bytes = SEGMENT_BYTES_MIN;
        while segment_bytes <= SEGMENT_BYTES_MAX {
            let geometry = Geometry::new(u64::from(segment_bytes) * 8, segment_bytes).unwrap();
            let block = u64::from(BLOCK_BYTES);
            let mut parts: Vec<(u64, u64)> =
                geometry.superblocks().iter().map(|&at| (at, at + block)).collect();
            for area in Area::BOTH {
                let (at, len) = geometry.checkpoint_area(area);
                assert!(len >= 2 * BLOCK_BYTES);
                parts.push((at, at + u64::from(len)));
            }
            parts.sort_unstable();
            assert_eq!(parts[0].0, u64::from(UNTOUCHED_BYTES));
            assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0), "{parts:?}");
            assert!(parts.iter().all(|&(at, _)| at % block == 0));
            assert_eq!(parts[4].1, u64::from(segment_bytes));
            segment_bytes *= 2;
        }
    }

    #[test]
    fn sizes_are_refused_by_name() {
        assert_eq!(Geometry::new(1 << 30, 12345), Err(GeometryError::SegmentSize(12345)));
        assert!(matches!(Geometry::new(4 << 16, 1 << 16), Err(GeometryError::TooSmall { .. })));
        assert_eq!(Geometry::new(5 << 16, 1 << 16).unwrap().segments(), 4);
        assert!(matches!(Geometry::new(130 << 16, 1 << 16), Err(GeometryError::TooManySegments(129))));
        assert!(matches!(Geometry::new(1 << 60, 1 << 16), Err(GeometryError::TooManySegments(_))));
        assert!(matches!(Geometry::for_size(1000), Err(GeometryError::TooSmall { .. })));
    }

    #[test]
    fn a_large_device_gets_large_segments() {
        for (device_bytes, segment_bytes) in [(1 << 39, 16 << 20), (1 << 40, 32 << 20), (1 << 43, 256 << 20)]
        {
            assert_eq!(Geometry::for_size(device_bytes).unwrap().segment_bytes(), segment_bytes);
        }
        assert_eq!(Geometry::for_size(1 << 46).unwrap().segment_bytes(), SEGMENT_BYTES_MAX);
    }

    #[test]
    fn a_small_device_gets_small_segments() {
        assert_eq!(Geometry::for_size(1 << 30).unwrap().segment_bytes(), SEGMENT_BYTES_DEFAULT);
        assert_eq!(Geometry::for_size(64 << 20).unwrap().segment_bytes(), 4 << 20);
        assert_eq!(Geometry::for_size(1 << 20).unwrap().segments(), 15);
    }
}
