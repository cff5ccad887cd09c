//! The superblock: says that a device is ours, who it is and how it is divided. Written once, at format.
//!
//! Three identical copies, each a block of its own. One good copy is enough.

use super::{Corrupt, VERSION, read};
use crate::block::{BLOCK_BYTES, BlockBuf};
use crate::checksum::crc32c;
use crate::geometry::{Geometry, GeometryError, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, superblock_offsets};
use crate::types::DeviceId;
use bytemuck::{Pod, Zeroable};

const MAGIC: [u8; 8] = *b"TIDEGATE";
const CRC_FROM: usize = 12;

/// Features that this code must understand to read a device. None so far.
const FEATURES_KNOWN: u32 = 0;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Raw {
    magic: [u8; 8],
    crc: u32,
    version: u16,
    copy: u16,
    features: u32,
    segment_bytes: u32,
    segments: u32,
    copies: u32,
    device_id: [u64; 2],
    store_id: [u64; 2],
    hash_seed: u64,
    device_bytes: u64,
    formatted_at: u64,
}

const RAW_BYTES: usize = size_of::<Raw>();
const _: () = assert!(RAW_BYTES == 88);

/// What a superblock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Who the device is.
    pub device_id: DeviceId,
    /// The store it was formatted for; a device that joins another store before first use takes its id.
    pub store_id: u128,
    /// Seed of the key hash, as `store_id`.
    pub hash_seed: u64,
    /// How the device is divided.
    pub geometry: Geometry,
    /// Bytes of the device at format.
    pub device_bytes: u64,
    /// When, in seconds since 1970.
    pub formatted_at: u64,
}

/// Why a device cannot be taken for a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// No copy is there, not even a damaged one.
    #[error("not a tidegate store (format it first)")]
    NotOurs,
    /// Formatted by another version of the format.
    #[error("store of format version {0}, this program reads version {VERSION}")]
    OtherVersion(u16),
    /// Needs features that this code does not have.
    #[error("store needs features {0:#x} that this program does not have")]
    UnknownFeatures(u32),
    /// Copies are there, none is intact.
    #[error("all superblocks are damaged ({damaged} of {copies} found damaged)")]
    Damaged {
        /// Copies that are recognisable and damaged.
        damaged: u32,
        /// Copies that there should be.
        copies: u32,
    },
    /// The device is smaller than it was at format.
    #[error("device has {device_bytes} bytes, was formatted with {formatted_bytes}")]
    Shrunk {
        /// Bytes it has.
        device_bytes: u64,
        /// Bytes it had.
        formatted_bytes: u64,
    },
    /// What it says of its division is impossible.
    #[error("superblock contradicts itself: {0}")]
    Geometry(GeometryError),
}

impl Superblock {
    /// The blocks to write at [`Geometry::superblocks`], one for each.
    pub(crate) fn encode(&self) -> [BlockBuf; 3] {
        [0, 1, 2].map(|copy| self.encode_copy(copy))
    }

    fn encode_copy(&self, copy: u16) -> BlockBuf {
        let halves = |id: u128| [id as u64, (id >> 64) as u64];
        let raw = Raw {
            magic: MAGIC,
            crc: 0,
            version: VERSION,
            copy,
            features: 0,
            segment_bytes: self.geometry.segment_bytes(),
            segments: self.geometry.segments(),
            copies: 3,
            device_id: halves(self.device_id.0),
            store_id: halves(self.store_id),
            hash_seed: self.hash_seed,
            device_bytes: self.device_bytes,
            formatted_at: self.formatted_at,
        };
        let mut block = BlockBuf::copy_of(bytemuck::bytes_of(&raw));
        let crc = crc32c(&block.as_ref()[CRC_FROM..]);
        block.as_mut()[8..12].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Decodes one copy.
    fn decode(block: &[u8]) -> Result<Self, CopyError> {
        let raw: Raw = read(block)?;
        if raw.magic != MAGIC {
            return Err(Corrupt::Magic.into());
        }
        let rest = block.get(CRC_FROM..BLOCK_BYTES as usize).ok_or(Corrupt::Short)?;
        if crc32c(rest) != raw.crc {
            return Err(Corrupt::Checksum.into());
        }
        if raw.version != VERSION {
            return Err(CopyError::Final(SuperblockError::OtherVersion(raw.version)));
        }
        if raw.features & !FEATURES_KNOWN != 0 {
            return Err(CopyError::Final(SuperblockError::UnknownFeatures(raw.features)));
        }
        let used = (u64::from(raw.segments) + 1).saturating_mul(u64::from(raw.segment_bytes));
        let geometry = Geometry::new(used, raw.segment_bytes)
            .map_err(|why| CopyError::Final(SuperblockError::Geometry(why)))?;
        let whole = |[low, high]: [u64; 2]| u128::from(low) | u128::from(high) << 64;
        Ok(Self {
            device_id: DeviceId(whole(raw.device_id)),
            store_id: whole(raw.store_id),
            hash_seed: raw.hash_seed,
            geometry,
            device_bytes: raw.device_bytes,
            formatted_at: raw.formatted_at,
        })
    }

    /// Takes the first intact copy of `blocks` (what was read at [`candidates`], in any number and order)
    /// and checks that the device, which has `device_bytes`, still holds the store.
    pub fn find<'a>(
        blocks: impl IntoIterator<Item = &'a [u8]>,
        device_bytes: u64,
    ) -> Result<Self, SuperblockError> {
        let mut damaged = 0;
        for block in blocks {
            match Self::decode(block) {
                Ok(found) => return found.fits(device_bytes),
                Err(CopyError::Final(why)) => return Err(why),
                Err(CopyError::Damaged(Corrupt::Checksum)) => damaged += 1,
                Err(CopyError::Damaged(_)) => {}
            }
        }
        match damaged {
            0 => Err(SuperblockError::NotOurs),
            damaged => Err(SuperblockError::Damaged { damaged, copies: 3 }),
        }
    }

    fn fits(self, device_bytes: u64) -> Result<Self, SuperblockError> {
        if self.geometry.used_bytes() > device_bytes {
            return Err(SuperblockError::Shrunk { device_bytes, formatted_bytes: self.device_bytes });
        }
        Ok(self)
    }
}

/// Why one copy is of no use.
#[derive(Debug, PartialEq, Eq)]
enum CopyError {
    /// Another copy may be better.
    Damaged(Corrupt),
    /// Intact, and says no.
    Final(SuperblockError),
}

impl From<Corrupt> for CopyError {
    fn from(why: Corrupt) -> Self {
        Self::Damaged(why)
    }
}

/// Offsets at which a copy can be on a device of this size, whatever its segments; the first one is where
/// every store has one.
pub fn candidates(device_bytes: u64) -> Vec<u64> {
    let sizes = (SEGMENT_BYTES_MIN.ilog2()..=SEGMENT_BYTES_MAX.ilog2()).map(|power| 1_u32 << power);
    let mut offsets: Vec<u64> = sizes.flat_map(superblock_offsets).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets.retain(|&at| at + u64::from(BLOCK_BYTES) <= device_bytes);
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn superblock() -> Superblock {
        Superblock {
            device_id: DeviceId(1 << 100 | 7),
            store_id: 99,
            hash_seed: 5,
            geometry: Geometry::new(10 << 20, 1 << 20).unwrap(),
            device_bytes: 10 << 20,
            formatted_at: 1_700_000_000,
        }
    }

    #[test]
    fn one_good_copy_is_enough() {
        let [mut a, mut b, c] = superblock().encode();
        a.as_mut()[40] ^= 1;
        b.as_mut()[4000] ^= 1;
        let found = Superblock::find([a.as_ref(), b.as_ref(), c.as_ref()], 10 << 20);
        assert_eq!(found, Ok(superblock()));
    }

    #[test]
    fn every_refusal_has_its_name() {
        let good = superblock().encode()[0].clone();
        let changed = |at: usize, value: u8| {
            let mut block = good.clone();
            block.as_mut()[at] = value;
            let crc = crc32c(&block.as_ref()[CRC_FROM..]);
            block.as_mut()[8..12].copy_from_slice(&crc.to_le_bytes());
            block
        };
        let mut torn = good.clone();
        torn.as_mut()[1000] = 1;
        let table = [
            (BlockBuf::zeroed(4096), 10 << 20, SuperblockError::NotOurs),
            (torn, 10 << 20, SuperblockError::Damaged { damaged: 1, copies: 3 }),
            (changed(12, 2), 10 << 20, SuperblockError::OtherVersion(2)),
            (changed(16, 4), 10 << 20, SuperblockError::UnknownFeatures(4)),
            (changed(20, 3), 10 << 20, SuperblockError::Geometry(GeometryError::SegmentSize(1 << 20 | 3))),
            (
                good.clone(),
                9 << 20,
                SuperblockError::Shrunk { device_bytes: 9 << 20, formatted_bytes: 10 << 20 },
            ),
        ];
        for (block, bytes, expected) in table {
            assert_eq!(Superblock::find([block.as_ref()], bytes), Err(expected));
        }
    }

    #[test]
    fn candidates_hold_every_real_offset() {
        for power in 16..=28 {
            let geometry = Geometry::new(8 << power, 1 << power).unwrap();
            let candidates = candidates(8 << power);
            assert_eq!(candidates[0], geometry.superblocks()[0]);
            assert!(geometry.superblocks().iter().all(|at| candidates.contains(at)));
        }
    }

    #[test]
    fn hostile_bytes_never_panic() {
        bolero::check!().with_test_time(crate::testing::fuzz_time()).for_each(|bytes: &[u8]| {
            let mut block = BlockBuf::copy_of(bytes);
            block.grow_to(BLOCK_BYTES);
            block.as_mut()[..8].copy_from_slice(&MAGIC);
            let crc = crc32c(&block.as_ref()[CRC_FROM..BLOCK_BYTES as usize]);
            block.as_mut()[8..12].copy_from_slice(&crc.to_le_bytes());
            _ = Superblock::find([block.as_ref(), bytes], 1 << 40);
        });
    }
}
