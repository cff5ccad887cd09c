//! What the crate's own tests share.

use std::time::Duration;

/// How long a fuzz target runs: two seconds, or what `TIDEGATE_FUZZ_SECONDS` says.
pub(crate) fn fuzz_time() -> Duration {
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}
