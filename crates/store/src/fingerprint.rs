//! What the store takes for identity: 44 bits of the key hash.
//!
//! Index, contents tables, tombstones and the choice of a device all use the fingerprint and nothing else.
//! Two keys with one fingerprint displace each other exactly as two versions of one key do (the caller's
//! comparison of whole keys turns that into a miss), so no argument about replaced or removed versions has
//! to treat collisions apart. At a hundred million objects one insert in 170 000 displaces a stranger.

use crate::types::KeyHash;

/// Index shards: the upper bits of a fingerprint.
pub(crate) const SHARD_BITS: u32 = 12;
const BITS: u32 = 32 + SHARD_BITS;

/// Identity of an object within a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// From a contents table; `None` where bits are set that no fingerprint has.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        (number >> BITS == 0).then_some(Self(number))
    }

    pub(crate) fn from_parts(shard: usize, tag: u32) -> Self {
        Self((shard as u64) << 32 | u64::from(tag))
    }

    /// The 44 bits as a number.
    pub fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn shard(self) -> usize {
        (self.0 >> 32) as usize
    }

    pub(crate) fn tag(self) -> u32 {
        self.0 as u32
    }
}

impl From<KeyHash> for Fingerprint {
    fn from(hash: KeyHash) -> Self {
        Self(hash.0 as u64 & ((1 << BITS) - 1))
    }
}
