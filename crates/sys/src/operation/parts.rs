//! Buffers that one write takes one behind the other.

use std::io::IoSlice;

use bytes::Bytes;

/// As many parts as one system call takes (`IOV_MAX`).
pub const PARTS_MAX: usize = 1024;

/// Buffers in the order in which they are written; their bytes stay where they are.
#[derive(Debug)]
pub struct Parts {
    parts: Vec<Bytes>,
    len: usize,
}

impl Parts {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Their bytes, all together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is not one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What follows the first `done` bytes.
    pub(crate) fn rest(&self, done: usize) -> Vec<IoSlice<'_>> {
        let mut skipped = done;
        let unwritten = self.parts.iter().filter_map(|part| {
            let skip = skipped.min(part.len());
            skipped -= skip;
            (skip < part.len()).then(|| IoSlice::new(&part[skip..]))
        });
        unwritten.collect()
    }
}

impl From<Vec<Bytes>> for Parts {
    fn from(parts: Vec<Bytes>) -> Self {
        let len = parts.iter().map(Bytes::len).sum();
        Self { parts, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_begins_where_the_last_write_ended() {
        let parts = Parts::from(vec![Bytes::from_static(b"abc"), Bytes::new(), Bytes::from_static(b"defg")]);
        assert_eq!((parts.len(), parts.count()), (7, 3));
        for done in 0..=7 {
            let left: Vec<u8> = parts.rest(done).iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(left, b"abcdefg"[done..], "after {done}");
        }
        assert_eq!(parts.rest(3).len(), 1, "what is written or empty is not named again");
    }
}
