//! The words that every module shares: who (hash, device), where (place), when (lsn, milliseconds).

use crate::geometry::Geometry;

/// 128-bit hash of a cache key, taken by the caller with [`crate::Store::hash_seed`].
///
/// The store never sees how it is made; it must be well mixed, because devices and index slots are chosen
/// by its bits. Hash equality is not key equality: compare [`crate::Record::key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash(pub u128);

/// Log sequence number: store-wide, ever increasing, one for each entry of a contents table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lsn(pub u64);

/// A moment in milliseconds on any monotone clock of the caller's choice.
pub type Millis = u64;

/// A device's position in the list that the store was opened with. Not written to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceIndex(pub u16);

impl DeviceIndex {
    pub(crate) fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// A device's identity, random, given at format. Reordering or renaming devices does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u128);

impl DeviceId {
    /// The half that extent references carry on disk.
    pub fn short(self) -> u64 {
        self.0 as u64
    }
}

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Where bytes are: a range of one life of one segment of one device.
///
/// A segment that is used again gets a new `sequence`, so an old place can be recognised and refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which device.
    pub device: DeviceIndex,
    /// Which segment of it, 1 and up (slot 0 holds the superblock).
    pub segment: u32,
    /// Which life of that segment.
    pub sequence: u64,
    /// First byte, counted from the start of the segment.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Place {
    /// The first byte counted from the start of the device.
    pub fn device_offset(&self, geometry: &Geometry) -> u64 {
        geometry.segment_start(self.segment) + u64::from(self.offset)
    }

    /// The end within the segment, exclusive.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// Why something was not stored. Never an error of the caller's request: the answer goes on unstored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Declined {
    /// No free segment: reclaim is behind.
    NoSpace,
    /// More bytes are on their way to the devices than [`crate::Config::in_flight_bytes_max`].
    WritesBehind,
    /// Larger than a record or an extent may be.
    TooLarge,
    /// The device was retired, or no healthy one is left.
    DeviceRetired,
    /// Nothing of the body that a refresh wants to keep is there any more.
    BodyGone,
    /// The object is no longer what the caller saw: replaced, moved or removed meanwhile. Look again.
    Superseded,
    /// More pieces and holes than a record can list ([`crate::EXTENTS_MAX`]).
    TooFragmented,
    /// It did not earn a write ([`crate::Admission`]).
    NotAdmitted,
    /// The store is shutting down.
    Closed,
}

impl Declined {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::NoSpace,
        Self::WritesBehind,
        Self::TooLarge,
        Self::DeviceRetired,
        Self::BodyGone,
        Self::Superseded,
        Self::TooFragmented,
        Self::NotAdmitted,
        Self::Closed,
    ];

    /// The word for logs and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoSpace => "no-space",
            Self::WritesBehind => "writes-behind",
            Self::TooLarge => "too-large",
            Self::DeviceRetired => "device-retired",
            Self::BodyGone => "body-gone",
            Self::Superseded => "superseded",
            Self::TooFragmented => "too-fragmented",
            Self::NotAdmitted => "not-admitted",
            Self::Closed => "closed",
        }
    }
}

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl std::error::Error for Declined {}
