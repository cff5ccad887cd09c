//! Memory in whole, aligned 4 KiB blocks: what a device with direct I/O accepts.
//!
//! Holds always: the first byte of a buffer is 4096-aligned in memory and its length is a multiple of 4096.
//! A [`BlockBuf`] has one owner who may change it; [`Blocks`] are frozen and shared, so the bytes under a
//! write in flight can never change. Knows nothing of what the bytes mean.

use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// Bytes in a block: the unit of every offset and length that reaches a device.
pub const BLOCK_BYTES: u32 = 4096;

#[repr(C, align(4096))]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Block([u8; BLOCK_BYTES as usize]);

const _: () = assert!(size_of::<Block>() == BLOCK_BYTES as usize && align_of::<Block>() == 4096);

/// `bytes` rounded up to whole blocks.
///
/// Callers pass lengths bounded by a segment, so the sum cannot overflow.
pub const fn round_to_blocks(bytes: u32) -> u32 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// An aligned buffer with one owner.
#[derive(Clone, Default)]
pub struct BlockBuf {
    blocks: Vec<Block>,
}

impl BlockBuf {
    /// An empty buffer with room for `bytes` (rounded up) before it has to move.
    pub fn with_capacity(bytes: u32) -> Self {
        Self { blocks: Vec::with_capacity(bytes.div_ceil(BLOCK_BYTES) as usize) }
    }

    /// A zeroed buffer of `bytes`, rounded up to whole blocks.
    pub fn zeroed(bytes: u32) -> Self {
        Self { blocks: bytemuck::allocation::zeroed_vec(bytes.div_ceil(BLOCK_BYTES) as usize) }
    }

    /// A buffer that starts with `bytes` and is zero behind them.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::default();
        buf.grow_to(bytes.len() as u32);
        buf.as_mut()[..bytes.len()].copy_from_slice(bytes);
        buf
    }

    /// Extends with zeros until at least `bytes` are there.
    pub fn grow_to(&mut self, bytes: u32) {
        let blocks = bytes.div_ceil(BLOCK_BYTES) as usize;
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, Block::zeroed());
        }
    }

    /// Bytes in the buffer, a multiple of [`BLOCK_BYTES`].
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32 * BLOCK_BYTES
    }

    /// Whether there is no block in it.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Gives up the right to change the bytes.
    pub fn freeze(self) -> Blocks {
        Blocks { blocks: Arc::new(self.blocks) }
    }
}

impl AsRef<[u8]> for BlockBuf {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.blocks)
    }
}

impl AsMut<[u8]> for BlockBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.blocks)
    }
}

impl std::fmt::Debug for BlockBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlockBuf({} bytes)", self.len())
    }
}

/// Frozen blocks; a clone shares them.
#[derive(Clone)]
pub struct Blocks {
    blocks: Arc<Vec<Block>>,
}

impl Blocks {
    /// Bytes, a multiple of [`BLOCK_BYTES`].
    pub fn len(&self) -> u32 {
        self.blocks.len() as u32 * BLOCK_BYTES
    }

    /// Whether there is no block in it.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// `len` bytes from `offset` without a copy, or nothing where that is out of range.
    pub fn bytes(&self, offset: u32, len: u32) -> Option<bytes::Bytes> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len())?;
        Some(bytes::Bytes::from_owner(self.clone()).slice(offset as usize..end as usize))
    }
}

impl AsRef<[u8]> for Blocks {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.blocks)
    }
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blocks({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_whole() {
        for bytes in [1, 4095, 4096, 4097, 70_000] {
            let buf = BlockBuf::copy_of(&vec![7; bytes]);
            assert_eq!(buf.as_ref().as_ptr() as usize % 4096, 0);
            assert_eq!(buf.len(), round_to_blocks(bytes as u32));
            assert!(buf.as_ref()[..bytes].iter().all(|&b| b == 7));
            assert!(buf.as_ref()[bytes..].iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn a_slice_past_the_end_is_refused() {
        let blocks = BlockBuf::zeroed(8192).freeze();
        assert!(blocks.bytes(4096, 4096).is_some());
        assert!(blocks.bytes(4096, 4097).is_none());
        assert!(blocks.bytes(u32::MAX, 2).is_none());
    }
}
