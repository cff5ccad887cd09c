//! The bytes on disk: one file per structure, each a plain struct with its layout asserted beside it.
//!
//! Everything is little-endian and decoding is total: hostile bytes give a named [`Corrupt`], never a panic
//! and never an allocation larger than the input. `docs/disk-format.md` describes the same bytes in words.

pub mod checkpoint;
pub mod extent;
pub mod record;
pub(crate) mod run;
pub mod segment;
pub mod superblock;

use bytemuck::AnyBitPattern;

#[cfg(not(target_endian = "little"))]
compile_error!("the disk format is read and written in place, little-endian");

/// Version of every structure that this code writes, and the only one that it reads.
pub const VERSION: u16 = 1;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// Fewer bytes than the structure needs.
    #[error("too short")]
    Short,
    /// The structure's first bytes are something else.
    #[error("magic number is wrong")]
    Magic,
    /// Written by another version of the format.
    #[error("format version {0} is not known")]
    Version(u16),
    /// Bytes changed since they were written.
    #[error("checksum is wrong")]
    Checksum,
    /// A length or count contradicts another one.
    #[error("lengths contradict each other")]
    Lengths,
    /// A good structure of another device, segment, life or offset.
    #[error("belongs to another place")]
    Elsewhere,
}

/// Reads a structure from the front of `bytes`.
pub(crate) fn read<T: AnyBitPattern>(bytes: &[u8]) -> Result<T, Corrupt> {
    let raw = bytes.get(..size_of::<T>()).ok_or(Corrupt::Short)?;
    Ok(bytemuck::pod_read_unaligned(raw))
}
