//! What the tests of several modules share.
#![allow(clippy::unwrap_used)]

extern crate std;

use alloc::vec::Vec;
use core::time::Duration;

/// How long one fuzz target runs: two seconds, or `TIDEGATE_FUZZ_SECONDS` (at most ten).
pub(crate) fn fuzz_time() -> Duration {
    let seconds = match std::env::var("TIDEGATE_FUZZ_SECONDS") {
        Ok(text) => text.parse::<u64>().unwrap().min(10),
        Err(_) => 2,
    };
    Duration::from_secs(seconds)
}

/// Cuts `len` bytes into pieces at the given points (taken modulo the length): the ends of the pieces, rising,
/// the last one `len`.
pub(crate) fn cuts(len: usize, points: &[usize]) -> Vec<usize> {
    let mut ends: Vec<usize> = points.iter().map(|point| point % (len + 1)).collect();
    ends.push(len);
    ends.sort_unstable();
    ends
}

/// Text that gets past the first checks, from arbitrary bytes: each picks one of the scraps.
pub(crate) fn from_scraps(bytes: &[u8], scraps: &[&[u8]]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| scraps[usize::from(byte) % scraps.len()].iter().copied()).collect()
}
