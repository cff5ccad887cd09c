//! What the crate's own tests share.

use std::time::Duration;

/// How long a fuzz target runs: two seconds, or what `TIDEGATE_FUZZ_SECONDS` says.
pub(crate) fn fuzz_time() -> Duration {
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// A well mixed 64-bit value for each number (SplitMix64, Steele et al. 2014).
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
