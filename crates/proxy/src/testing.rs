//! What the crate's own tests share.

use std::time::Duration;

/// How long a fuzz target runs: two seconds, or what `TIDEGATE_FUZZ_SECONDS` says.
pub(crate) fn fuzz_time() -> Duration {
    let seconds = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

/// A text of the pieces of an alphabet: random bytes alone hardly ever get past the first rule of a grammar.
pub(crate) fn text(bytes: &[u8], alphabet: &[&str]) -> String {
    bytes.iter().map(|byte| alphabet[usize::from(*byte) % alphabet.len()]).collect()
}
