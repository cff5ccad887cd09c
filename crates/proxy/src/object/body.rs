//! Where a stored body is: in memory, or in pieces on devices, with holes where bytes were never fetched or are lost.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use store::{ExtentRef, Table};

/// Where a stored body is.
pub enum Body {
    /// In memory.
    Memory(Box<[u8]>),
    /// On devices.
    Device(DeviceBody),
}

/// A body in extents; what they leave out are holes.
pub struct DeviceBody {
    /// Its length in bytes, holes included.
    pub length: u64,
    /// Its pieces in order.
    pub extents: Box<[DeviceExtent]>,
    /// Whether the store has been told that all of them are good.
    pub noted: Once,
}

/// A piece of a body.
pub struct DeviceExtent {
    /// Its first byte, counted from the start of the body.
    pub start: u64,
    /// Where it is, and its checksum. Never a hole.
    pub at: ExtentRef,
    /// Whether its bytes were written or checked by this process.
    pub verified: Once,
    /// Whether they were asked for before.
    pub seen: Once,
}

/// What there is at an offset of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The extent with this index.
    Stored(usize),
    /// A hole, up to this offset.
    Hole(u64),
}

/// A fact that turns true once.
#[derive(Default)]
pub struct Once(AtomicBool);

impl Once {
    /// One that already has, or has not yet.
    #[must_use]
    pub fn new(already: bool) -> Self {
        Self(AtomicBool::new(already))
    }

    /// Whether it has.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// It does; says whether it had already.
    pub fn replace(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }
}

impl DeviceBody {
    /// The body that a record lists; `again`: it was asked for before.
    #[must_use]
    pub fn new(table: &Table, verified: bool, again: bool) -> Self {
        let extent = |piece: &store::Piece| DeviceExtent::new(piece.start, piece.extent, verified, again);
        let extents = table.pieces().iter().map(extent).collect();
        Self { length: table.length(), extents, noted: Once::new(verified) }
    }

    /// What there is at `offset`, which lies within the body.
    #[must_use]
    pub fn spot(&self, offset: u64) -> Spot {
        let next = self.extents.partition_point(|extent| extent.end() <= offset);
        match self.extents.get(next) {
            Some(extent) if extent.start <= offset => Spot::Stored(next),
            Some(extent) => Spot::Hole(extent.start),
            None => Spot::Hole(self.length),
        }
    }

    /// Indices of the extents that have bytes of `range`.
    #[must_use]
    pub fn extents_in(&self, range: &Range<u64>) -> Range<usize> {
        let first = self.extents.partition_point(|extent| extent.end() <= range.start);
        let behind = self.extents.partition_point(|extent| extent.start < range.end);
        first..behind.max(first)
    }

    /// The one extent that is the whole body, where there is one.
    #[must_use]
    pub fn only_extent(&self) -> Option<&DeviceExtent> {
        match &*self.extents {
            [only] if u64::from(only.at.len) == self.length => Some(only),
            _ => None,
        }
    }

    /// The same body, for another head.
    #[must_use]
    pub fn again(&self) -> Self {
        let again = |e: &DeviceExtent| DeviceExtent::new(e.start, e.at, e.is_verified(), e.seen.get());
        let extents = self.extents.iter().map(again).collect();
        Self { length: self.length, extents, noted: Once::new(self.noted.get()) }
    }

    /// Whether every extent is known to be good.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.extents.iter().all(DeviceExtent::is_verified)
    }
}

impl Body {
    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Device(body) => body.length,
        }
    }

    /// The same body, for another head.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Memory(bytes) => Self::Memory(bytes.clone()),
            Self::Device(body) => Self::Device(body.again()),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Device(body) => body.extents.len() * size_of::<DeviceExtent>(),
        }
    }
}

impl DeviceExtent {
    /// The extent at that place; `again`: it was asked for before.
    #[must_use]
    pub fn new(start: u64, at: ExtentRef, verified: bool, again: bool) -> Self {
        Self { start, at, verified: Once::new(verified), seen: Once::new(again) }
    }

    /// The offset in the body behind its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.at.len)
    }

    /// Whether its bytes are known to be good.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified.get()
    }

    /// Notes that they are.
    pub fn set_verified(&self) {
        self.verified.set();
    }

    /// Notes that its bytes are asked for, and says whether they were before.
    pub fn used(&self) -> bool {
        self.seen.replace()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(len: u32) -> ExtentRef {
        ExtentRef { device: 1, segment: 1, sequence: 1, offset: 0, len, crc: 0 }
    }

    #[test]
    fn offsets_lie_in_extents_or_holes() {
        let table = Table::of([extent(10), ExtentRef::hole(5), extent(10), extent(1), ExtentRef::hole(4)]);
        let body = DeviceBody::new(&table, false, false);
        for (offset, expected) in [
            (0, Spot::Stored(0)),
            (9, Spot::Stored(0)),
            (10, Spot::Hole(15)),
            (14, Spot::Hole(15)),
            (15, Spot::Stored(1)),
            (25, Spot::Stored(2)),
            (26, Spot::Hole(30)),
            (29, Spot::Hole(30)),
        ] {
            assert_eq!(body.spot(offset), expected, "{offset}");
        }
        for (range, expected) in
            [(0..30, 0..3), (9..16, 0..2), (10..15, 1..1), (11..12, 1..1), (24..26, 1..3), (26..30, 3..3)]
        {
            assert_eq!(body.extents_in(&range), expected, "{range:?}");
        }
        assert!(body.only_extent().is_none());
        assert!(DeviceBody::new(&Table::of([extent(10)]), true, false).only_extent().is_some());
        assert!(
            DeviceBody::new(&Table::of([extent(10), ExtentRef::hole(1)]), true, false)
                .only_extent()
                .is_none()
        );
    }
}
