//! Runs: things that lie near each other in a segment and are got by one read.

use super::segment::Entry;
use crate::block::{BLOCK_BYTES, round_to_blocks};

/// What one read gets: whole blocks, and what is looked for in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run<T> {
    /// First byte within the segment.
    pub(crate) from: u32,
    /// Bytes, in whole blocks.
    pub(crate) len: u32,
    /// By rising offset.
    pub(crate) items: Vec<T>,
}

/// Puts what lies near each other together, in runs of at most `bytes_max` (longer only for what is longer by itself), by
/// rising offset.
pub(crate) fn runs<T>(mut items: Vec<T>, bytes_max: u32, entry: impl Fn(&T) -> &Entry) -> Vec<Run<T>> {
    items.sort_by_key(|item| entry(item).offset);
    let mut runs: Vec<Run<T>> = Vec::new();
    for item in items {
        let &Entry { offset, len, .. } = entry(&item);
        let (from, end) = (offset / BLOCK_BYTES * BLOCK_BYTES, round_to_blocks(offset + len));
        match runs.last_mut() {
            Some(run) if end - run.from <= bytes_max => {
                run.len = run.len.max(end - run.from);
                run.items.push(item);
            }
            _ => runs.push(Run { from, len: end - from, items: vec![item] }),
        }
    }
    runs
}
