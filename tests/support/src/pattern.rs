//! Bodies that can be made and checked at any offset without being kept: each eight bytes follow from the seed
//! and their position, so a swapped, stale or zeroed block is found, and its place named.

use std::io;

use crate::wire::Wire;

/// Bytes made and compared in one go.
const STEP_BYTES: u64 = 256 * 1024;

/// An endless body that follows from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(pub u64);

impl Pattern {
    /// The pattern that belongs to a request target.
    pub fn of(target: &str) -> Pattern {
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Pattern(target.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
    }

    /// `count` bytes from `offset` on.
    pub fn bytes(self, offset: u64, count: usize) -> Vec<u8> {
        let (first, skip) = (offset / 8, (offset % 8) as usize);
        let words = (skip + count).div_ceil(8) as u64;
        let mut bytes: Vec<u8> = (first..first + words).flat_map(|i| self.word(i).to_le_bytes()).collect();
        bytes.drain(..skip);
        bytes.truncate(count);
        bytes
    }

    /// Reads `count` body bytes from `offset` on from `wire` and compares them as they come.
    ///
    /// # Panics
    /// When a byte differs or the stream ends early.
    #[track_caller]
    pub fn expect(self, wire: &mut Wire, offset: u64, count: u64) {
        let mut at = 0;
        while at < count {
            let got = wire.try_some((count - at).min(STEP_BYTES) as usize).expect("more of the body");
            assert!(!got.is_empty(), "the body ends after {at} of {count} bytes");
            self.compare(&got, offset + at);
            at += got.len() as u64;
        }
    }

    /// Compares `got` with the pattern from `offset` on.
    ///
    /// # Panics
    /// Names the first byte that differs.
    #[track_caller]
    pub fn compare(self, got: &[u8], offset: u64) {
        let want = self.bytes(offset, got.len());
        if got != want {
            let at = got.iter().zip(&want).position(|(a, b)| a != b).unwrap_or_default();
            panic!("wrong byte at offset {}", offset + at as u64);
        }
    }

    pub(crate) fn write(self, count: u64, mut send: impl FnMut(Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        while at < count {
            let step = (count - at).min(STEP_BYTES);
            send(self.bytes(at, step as usize))?;
            at += step;
        }
        Ok(())
    }

    /// A cheap mix of seed and position (the finisher of a well-known 64-bit generator).
    fn word(self, index: u64) -> u64 {
        let mut z = self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    }
}
