//! CRC-32C (RFC 3720 §12.1, the Castagnoli polynomial), in one go or as the bytes arrive.
//!
//! One polynomial for everything that is stored: heads, bodies, contents tables, superblocks.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum under way, for a body that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// The checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 §B.4 test vectors.
    #[test]
    fn agrees_with_the_rfc() {
        let ascending: Vec<u8> = (0..32).collect();
        let table: [(&[u8], u32); 4] = [
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (b"123456789", 0xe306_9283),
        ];
        for (bytes, expected) in table {
            assert_eq!(crc32c(bytes), expected, "{bytes:02x?}");
            let mut pieces = Crc32c::new();
            bytes.chunks(5).for_each(|piece| pieces.update(piece));
            assert_eq!(pieces.value(), expected, "{bytes:02x?} in pieces");
        }
    }
}
