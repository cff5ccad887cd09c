//! Leases: the right to lend bytes of one life of a segment.
//!
//! A segment is used again only when nobody can lend bytes of its old life any more (bytes already lent to a
//! socket are safe under direct I/O; bytes *not yet* lent are not). The protocol, all `SeqCst`:
//!
//! * taking: count yourself as reader, then look whether the life is still the wanted one; if not, uncount;
//! * ending: close the life (sequence 0), then look at the readers; reuse only after seeing none.
//!
//! In the one order of these four steps either the closer sees the reader or the reader sees the closing.
//! Nobody waits here, and nothing is known of devices or records.

use crate::types::Place;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

/// Sequence of a segment that lends nothing. Real sequences start at 1.
const CLOSED: u64 = 0;

/// The part of a segment that readers touch.
#[derive(Debug, Default)]
struct Life {
    sequence: AtomicU64,
    readers: AtomicU32,
    settled: AtomicBool,
}

/// The lives of all segments of a device.
#[derive(Debug)]
pub(crate) struct Lives(Box<[Life]>);

impl Lives {
    /// All closed. Slot 0 is there but never lives.
    pub(crate) fn new(segments: u32) -> Arc<Self> {
        Arc::new(Self((0..=segments).map(|_| Life::default()).collect()))
    }

    fn of(&self, segment: u32) -> &Life {
        &self.0[segment as usize]
    }

    /// The current life, or nothing where the segment lends nothing.
    pub(crate) fn sequence(&self, segment: u32) -> Option<u64> {
        match self.of(segment).sequence.load(SeqCst) {
            CLOSED => None,
            sequence => Some(sequence),
        }
    }

    /// The same for a segment number from outside.
    pub(crate) fn sequence_checked(&self, segment: u32) -> Option<u64> {
        self.0.get(segment as usize).and_then(|_| self.sequence(segment))
    }

    /// Begins a life. Nobody reads: the caller saw that when it took the segment from the free ones.
    pub(crate) fn open(&self, segment: u32, sequence: u64, settled: bool) {
        let life = self.of(segment);
        life.settled.store(settled, SeqCst);
        life.sequence.store(sequence, SeqCst);
    }

    /// Ends a life for new readers.
    pub(crate) fn close(&self, segment: u32) {
        self.of(segment).sequence.store(CLOSED, SeqCst);
    }

    /// Readers that still hold the segment.
    pub(crate) fn readers(&self, segment: u32) -> u32 {
        self.of(segment).readers.load(SeqCst)
    }

    /// Says that all bytes of the segment are on the device.
    pub(crate) fn settle(&self, segment: u32) {
        self.of(segment).settled.store(true, SeqCst);
    }

    /// Whether all bytes of the segment are on the device, so that no buffer needs to be asked.
    pub(crate) fn is_settled(&self, segment: u32) -> bool {
        self.of(segment).settled.load(SeqCst)
    }

    /// Takes a lease, unless that life of the segment is over.
    pub(crate) fn lease(self: &Arc<Self>, place: Place) -> Option<Lease> {
        let life = self.0.get(place.segment as usize)?;
        life.readers.fetch_add(1, SeqCst);
        let lease = Lease { lives: Arc::clone(self), place };
        (place.sequence != CLOSED && life.sequence.load(SeqCst) == place.sequence).then_some(lease)
    }
}

/// The right to read and lend the bytes at [`Lease::place`]; given back on drop.
#[derive(Debug)]
pub struct Lease {
    lives: Arc<Lives>,
    place: Place,
}

impl Lease {
    /// What may be read.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether the store wants the segment back. Who lends slowly should finish or be cut: the segment
    /// stays out of use until this lease is dropped.
    pub fn recalled(&self) -> bool {
        self.lives.of(self.place.segment).sequence.load(SeqCst) != self.place.sequence
    }

    /// The same right for a part of the bytes (an inline body inside its record), or nothing where that
    /// part reaches outside of the place.
    pub fn part(&self, offset: u32, len: u32) -> Option<Self> {
        offset.checked_add(len).filter(|&end| end <= self.place.len)?;
        let mut lease = self.clone();
        lease.place.offset += offset;
        lease.place.len = len;
        Some(lease)
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        self.lives.of(self.place.segment).readers.fetch_add(1, SeqCst);
        Self { lives: Arc::clone(&self.lives), place: self.place }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lives.of(self.place.segment).readers.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::DeviceIndex;

    fn place(segment: u32, sequence: u64) -> Place {
        Place { device: DeviceIndex(0), segment, sequence, offset: 4096, len: 100 }
    }

    #[test]
    fn a_lease_counts_and_gives_itself_back() {
        let lives = Lives::new(4);
        lives.open(2, 7, true);
        let lease = lives.lease(place(2, 7)).unwrap();
        let second = lease.clone();
        let part = lease.part(10, 90).unwrap();
        assert_eq!((part.place().offset, part.place().len), (4106, 90));
        assert!(lease.part(10, 91).is_none());
        assert_eq!(lives.readers(2), 3);
        drop((lease, second, part));
        assert_eq!(lives.readers(2), 0);
    }

    #[test]
    fn an_ended_life_is_not_leased_and_recalls() {
        let lives = Lives::new(4);
        lives.open(2, 7, true);
        let lease = lives.lease(place(2, 7)).unwrap();
        assert!(!lease.recalled());
        lives.close(2);
        assert!(lease.recalled());
        for refused in [place(2, 7), place(2, 0), place(2, 8), place(3, 7), place(99, 7)] {
            assert!(lives.lease(refused).is_none(), "{refused:?}");
        }
        assert_eq!(lives.readers(2), 1);
    }
}
