//! The entries of the open segment, in the order in which they were logged, so that a checkpoint may take them along quickly.
//!
//! What must hold: a copy stays as it was, and making one moves no more than [`PART`] entries, however many there are: what is
//! full is shared.

use crate::disk::segment::Entry;
use std::sync::Arc;

/// Entries that are copied at most: 40 KiB.
const PART: usize = 1024;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries {
    /// Of `PART` entries each.
    full: Vec<Arc<[Entry]>>,
    last: Vec<Entry>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.full.len() * PART + self.last.len()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.last.push(entry);
        if self.last.len() == PART {
            self.full.push(self.last.drain(..).collect());
        }
    }

    /// All of them side by side.
    pub(crate) fn to_vec(&self) -> Vec<Entry> {
        let mut all = Vec::with_capacity(self.len());
        self.full.iter().for_each(|part| all.extend_from_slice(part));
        all.extend_from_slice(&self.last);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::segment::EntryKind;
    use crate::fingerprint::Fingerprint;
    use crate::types::Lsn;

    #[test]
    fn a_copy_stays_as_it_was() {
        let entry = |n: u32| Entry {
            kind: EntryKind::Tombstone,
            fingerprint: Fingerprint::from_parts(0, 0),
            lsn: Lsn(n.into()),
            offset: 0,
            len: 0,
        };
        let (mut entries, mut twin, mut copies) = (Entries::default(), Vec::new(), Vec::new());
        for n in 0..3 * PART as u32 + 5 {
            if n as usize % PART <= 1 || n as usize % PART == PART - 1 {
                copies.push((entries.clone(), twin.clone()));
            }
            entries.push(entry(n));
            twin.push(entry(n));
            assert_eq!(entries.len(), twin.len());
        }
        copies.push((entries, twin));
        for (copy, twin) in copies {
            assert_eq!(copy.to_vec(), twin);
        }
    }
}
