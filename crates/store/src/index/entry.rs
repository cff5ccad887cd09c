//! Twelve bytes an object: a 32-bit tag and a packed 64-bit location.
//!
//! ```text
//! bits  0..24  segment, counted over all devices
//!      24..46  offset in units of 64 bytes
//!      46..60  length in units of 64 bytes: the whole record, so that one read gets it; 0 marks a free slot
//!      60      verified since opening
//!      61      the body is in extents
//!      62..64  uses since it was written, saturating
//! ```

use crate::disk::record::RECORD_ALIGN;

const SEGMENT_BITS: u32 = 24;
const OFFSET_BITS: u32 = 22;
const LEN_BITS: u32 = 14;
const OFFSET_AT: u32 = SEGMENT_BITS;
const LEN_AT: u32 = OFFSET_AT + OFFSET_BITS;
const VERIFIED: u64 = 1 << (LEN_AT + LEN_BITS);
const ELSEWHERE: u64 = VERIFIED << 1;
const HITS_AT: u32 = LEN_AT + LEN_BITS + 2;
const HITS_MAX: u64 = 3;

const _: () = assert!(HITS_AT + 2 == 64);
const _: () = assert!(crate::geometry::SEGMENTS_MAX == 1 << SEGMENT_BITS);
const _: () = assert!(crate::geometry::SEGMENT_BYTES_MAX / RECORD_ALIGN == 1 << OFFSET_BITS);
const _: () = assert!(crate::disk::record::RECORD_BYTES_MAX / RECORD_ALIGN < 1 << LEN_BITS);

/// Where a record is, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location(u64);

impl Location {
    /// A record that was not used yet. Offset and length are multiples of 64, the length is not 0.
    pub(crate) fn new(segment: u32, offset: u32, len: u32, verified: bool, elsewhere: bool) -> Self {
        debug_assert!(offset.is_multiple_of(RECORD_ALIGN) && len.is_multiple_of(RECORD_ALIGN) && len > 0);
        let place = u64::from(segment)
            | u64::from(offset / RECORD_ALIGN) << OFFSET_AT
            | u64::from(len / RECORD_ALIGN) << LEN_AT;
        let flags = if verified { VERIFIED } else { 0 } | if elsewhere { ELSEWHERE } else { 0 };
        Self(place | flags)
    }

    fn field(self, at: u32, bits: u32) -> u32 {
        (self.0 >> at) as u32 & ((1 << bits) - 1)
    }

    pub(crate) fn segment(self) -> u32 {
        self.field(0, SEGMENT_BITS)
    }

    pub(crate) fn offset(self) -> u32 {
        self.field(OFFSET_AT, OFFSET_BITS) * RECORD_ALIGN
    }

    pub(crate) fn len(self) -> u32 {
        self.field(LEN_AT, LEN_BITS) * RECORD_ALIGN
    }

    pub(crate) fn verified(self) -> bool {
        self.0 & VERIFIED != 0
    }

    pub(crate) fn elsewhere(self) -> bool {
        self.0 & ELSEWHERE != 0
    }

    pub(crate) fn hits(self) -> u32 {
        (self.0 >> HITS_AT) as u32
    }

    /// The same with so many uses.
    pub(crate) fn with_hits(self, hits: u32) -> Self {
        Self(self.0 & ((1 << HITS_AT) - 1) | u64::from(hits).min(HITS_MAX) << HITS_AT)
    }

    /// Whether both say the same place; flags and uses apart.
    pub(crate) fn same_place(self, other: Self) -> bool {
        (self.0 ^ other.0) << (64 - LEN_AT - LEN_BITS) == 0
    }

    pub(crate) fn set_verified(&mut self) {
        self.0 |= VERIFIED;
    }

    pub(crate) fn count_hit(&mut self) {
        if self.0 >> HITS_AT < HITS_MAX {
            self.0 += 1 << HITS_AT;
        }
    }
}

/// A slot of a shard's table: 12 bytes, aligned to 4.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) tag: u32,
    low: u32,
    high: u32,
}

const _: () = assert!(size_of::<Slot>() == 12);

impl Slot {
    pub(crate) const FREE: Self = Self { tag: 0, low: 0, high: 0 };

    pub(crate) fn new(tag: u32, location: Location) -> Self {
        Self { tag, low: location.0 as u32, high: (location.0 >> 32) as u32 }
    }

    /// The location, or nothing in a free slot.
    pub(crate) fn location(&self) -> Option<Location> {
        let location = Location(u64::from(self.low) | u64::from(self.high) << 32);
        (location.field(LEN_AT, LEN_BITS) != 0).then_some(location)
    }

    pub(crate) fn set(&mut self, location: Location) {
        *self = Self::new(self.tag, location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let extremes = [(0, 64, 64), (1, 4096, 128), ((1 << 24) - 1, (256 << 20) - 64, (1 << 20) - 64)];
        for (segment, offset, len) in extremes {
            let mut at = Location::new(segment, offset, len, false, true);
            assert_eq!((at.segment(), at.offset(), at.len()), (segment, offset, len));
            assert!(at.elsewhere() && !at.verified());
            let fresh = at;
            at.set_verified();
            (0..5).for_each(|_| at.count_hit());
            assert_eq!((at.hits(), at.verified(), at.len()), (3, true, len));
            assert!(at.same_place(fresh));
            assert_eq!((at.with_hits(1).hits(), at.with_hits(9)), (1, at));
            assert!(!at.same_place(Location::new(segment, offset, len ^ 256, false, true)));
            assert_eq!(Slot::new(9, at).location(), Some(at));
        }
        assert_eq!(Slot::FREE.location(), None);
    }
}
