//! Tidegate's object store: a log over several devices, as a machine without I/O.
//!
//! Owns the index, the log heads, the disk format, reclaim, checkpoints and recovery. What holds: a lookup
//! returns the newest version or nothing; a removed or replaced version never comes back from the devices; no
//! byte of a segment changes while somebody may lend it ([`lease`]); nothing that a completed checkpoint
//! covers is lost by a crash.
//!
//! Refuses to know: clocks (time is passed in), files and sockets (requests go to an [`Outbox`]), threads,
//! HTTP (key and head are opaque bytes).
//!
//! Reading order: [`types`], [`geometry`], [`disk`] (the bytes), `index`, [`lease`], `log` (one device's
//! head), `policy` (what is worth writing), [`table`] (a body's pieces and holes), `store` (all together),
//! [`recovery`].
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod block;
pub mod checksum;
pub mod config;
pub mod disk;
#[cfg(any(test, feature = "faults"))]
pub mod faults;
pub mod fingerprint;
pub mod foreign;
pub mod format;
pub mod geometry;
mod health;
mod index;
pub mod inspect;
pub mod io;
pub mod lease;
mod log;
mod placement;
mod policy;
pub mod recovery;
pub mod scrub;
#[cfg(test)]
mod sim;
pub mod stats;
mod store;
pub mod table;
#[cfg(test)]
mod testing;
pub mod types;

pub use block::{BLOCK_BYTES, BlockBuf, Blocks};
pub use checksum::{Crc32c, crc32c};
pub use config::{Config, ScrubConfig};
pub use disk::Corrupt;
pub use disk::extent::{ExtentRef, Extents};
pub use disk::record::{Body, Inline, Record};
pub use disk::superblock::{Superblock, SuperblockError};
pub use geometry::Geometry;
pub use io::{Io, IoDone, IoError, IoId, IoResult, Outbox};
pub use lease::Lease;
pub use policy::Admission;
pub use recovery::{DeviceToOpen, OpenError, Progress, Recovery, Report};
pub use scrub::{Damage, Damaged};
pub use stats::{DeviceStats, SegmentCounts, Stats};
pub use store::{At, Blocked, Expected, Found, Reservation, Store, Terms, WrittenExtent};
pub use table::{EXTENTS_MAX, Piece, Table};
pub use types::{Declined, DeviceId, DeviceIndex, KeyHash, Lsn, Millis, Place};
