//! Figures about a store at one moment.

use crate::geometry::Geometry;
use crate::types::{Declined, DeviceId};

/// The whole store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects that a lookup can find.
    pub objects: u64,
    /// Bytes of records and extents in the log, dead ones included.
    pub bytes: u64,
    /// Memory of the index in bytes.
    pub index_bytes: u64,
    /// Bytes of keys, heads and bodies that were stored since opening, new heads for old bodies included.
    pub admitted_bytes: u64,
    /// Bytes of device writes since opening: records, extents, tables, checkpoints, what was carried. Divided by
    /// [`Stats::admitted_bytes`] this is the write amplification.
    pub written_bytes: u64,
    /// Bytes handed to devices and not yet acknowledged.
    pub in_flight_bytes: u64,
    /// Records, bodies and contents tables that were found damaged, by readers ([`crate::Store::note_bad`]) or by
    /// scrubbing.
    pub bad: u64,
    /// Hot records that reclaim carried forward, and their bytes.
    pub carried: u64,
    /// Bytes of [`Stats::carried`].
    pub carried_bytes: u64,
    /// Objects that reclaim dropped.
    pub evicted: u64,
    /// How often something was not stored, by reason, in the order of [`Declined::ALL`].
    pub declined: [u64; Declined::ALL.len()],
    /// Checkpoints that were completed.
    pub checkpoints: u64,
    /// Bytes that scrubbing has read since opening.
    pub scrubbed_bytes: u64,
    /// Passes of scrubbing over all that was sealed, since opening.
    pub scrub_passes: u64,
    /// Each device, in the order of opening.
    pub devices: Vec<DeviceStats>,
}

impl Stats {
    /// How often something was not stored, by reason.
    pub fn declined(&self) -> impl Iterator<Item = (Declined, u64)> {
        Declined::ALL.into_iter().zip(self.declined)
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceStats {
    /// Who it is.
    pub id: DeviceId,
    /// How it is divided.
    pub geometry: Geometry,
    /// Its segments by state.
    pub segments: SegmentCounts,
    /// Bytes of records and extents in its log, dead ones included.
    pub bytes: u64,
    /// I/O errors since opening.
    pub errors: u64,
    /// Log and checkpoint writes since opening.
    pub writes: u64,
    /// Whether it was given up.
    pub retired: bool,
}

/// Segments by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Ready to be written.
    pub free: u32,
    /// Being written.
    pub open: u32,
    /// Full.
    pub sealed: u32,
    /// On the way from sealed to free.
    pub reclaiming: u32,
    /// Out of use after a failed write.
    pub unusable: u32,
}
