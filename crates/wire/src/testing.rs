//! What the tests of several modules share.
#![allow(clippy::unwrap_used)]

extern crate std;

use core::time::Duration;

/// How long one fuzz target runs: two seconds, or `TIDEGATE_FUZZ_SECONDS` (at most ten).
pub(crate) fn fuzz_time() -> Duration {
    let seconds = match std::env::var("TIDEGATE_FUZZ_SECONDS") {
        Ok(text) => text.parse::<u64>().unwrap().min(10),
        Err(_) => 2,
    };
    Duration::from_secs(seconds)
}
