//! The store's settings, in one place, with the defaults that were measured.

use crate::policy::Admission;
use crate::types::Millis;

/// What an operator (or a test) may choose. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Bodies up to this size are stored inside their record.
    pub inline_bytes_max: u32,
    /// Contiguous space taken at a time for records, and the size of their device writes.
    pub gather_bytes: u32,
    /// Longest extent of a large body.
    pub extent_bytes_max: u32,
    /// A checkpoint is taken when this much time has passed since the last one and something changed.
    pub checkpoint_every: Millis,
    /// Bytes handed to devices and not yet acknowledged above which storing is declined.
    pub in_flight_bytes_max: u64,
    /// What earns a write. Asked by [`crate::Store::admit`], not by the writes themselves.
    pub admission: Admission,
    /// Share of a reclaimed segment that what was used may take with it, in percent.
    pub carry_percent: u32,
    /// A device with this many I/O errors that count is retired.
    pub device_errors_max: u32,
    /// So much time lets one error count no more.
    pub device_error_forgiven_after: Millis,
    /// Reads that recovery keeps under way on each device.
    pub recovery_depth: u32,
    /// Reading what is stored in the background, to find damage.
    pub scrub: ScrubConfig,
}

/// How scrubbing goes ([`crate::scrub`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubConfig {
    /// Bytes read a second, over all devices; 0 turns it off.
    pub bytes_per_second: u64,
    /// From the beginning of one pass to that of the next at least.
    pub pass_every: Millis,
    /// A read that takes this long means that its device is busy with other work.
    pub slow_read: Millis,
}

impl Default for ScrubConfig {
    fn default() -> Self {
        Self { bytes_per_second: 8 << 20, pass_every: 600_000, slow_read: 100 }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            inline_bytes_max: 16 << 10,
            gather_bytes: 1 << 20,
            extent_bytes_max: 1 << 20,
            checkpoint_every: 2_000,
            in_flight_bytes_max: 64 << 20,
            admission: Admission::default(),
            carry_percent: 90,
            device_errors_max: 16,
            device_error_forgiven_after: 60_000,
            recovery_depth: 32,
            scrub: ScrubConfig::default(),
        }
    }
}
