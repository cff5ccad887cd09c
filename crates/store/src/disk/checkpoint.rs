//! Checkpoint areas.
