//! Making a device a store.
//!
//! Only says what to write; whoever writes asks [`crate::foreign::detect`] first.

use crate::block::{BLOCK_BYTES, BlockBuf, Blocks};
use crate::disk::superblock::Superblock;
use crate::geometry::{Area, Geometry};
use crate::types::DeviceId;

/// What the caller decides. The three random values must come from a good source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes of the device.
    pub device_bytes: u64,
    /// How to divide it; see [`Geometry::for_size`].
    pub geometry: Geometry,
    /// Random identity.
    pub device_id: DeviceId,
    /// Random, the same for devices that are formatted together.
    pub store_id: u128,
    /// Random, the same for devices that are formatted together.
    pub hash_seed: u64,
    /// Seconds since 1970.
    pub now: u64,
}

/// The writes (offset on the device, bytes) that make a device a store; sync after them. What was on the
/// device before is no longer found, though most of it is not overwritten.
///
/// Checkpoint headers come first and superblocks last: a format that was interrupted leaves no store.
pub fn format(options: &FormatOptions) -> Vec<(u64, Blocks)> {
    let FormatOptions { device_bytes, geometry, device_id, store_id, hash_seed, now } = *options;
    let superblock = Superblock { device_id, store_id, hash_seed, geometry, device_bytes, formatted_at: now };
    let copies = Area::BOTH.into_iter().flat_map(|area| geometry.checkpoint_copies(area));
    let empty = copies.map(|at| (at, BlockBuf::zeroed(BLOCK_BYTES).freeze()));
    let superblocks = superblock.encode().map(BlockBuf::freeze);
    empty.chain(geometry.superblocks().into_iter().zip(superblocks)).collect()
}
