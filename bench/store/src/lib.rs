//! The product's own store and disk driver, without the network above them: what benchmarks drive.
//!
//! What is measured is what `tidegate` runs: the settings with their defaults, `proxy::disk` with its queue and its
//! housekeeping thread, the store with its checkpoints. Nothing here knows a shorter way.
#![forbid(unsafe_code)]

pub mod cpu;
pub mod engine;
pub mod random;
