//! A fake device and its fault model.
//!
//! * Requests complete in any order. A write is seen by reads from its completion on.
//! * A sync makes durable what had *completed* when it was asked for; nothing else does.
//! * A crash decides for every write that is not durable, completed or not, in any order: it is there, or not at
//!   all, or torn: any set of its 512-byte sectors. Syncs under way are forgotten.
//! * Where a run has `errors`, requests fail now and then: a failed write may have happened, wholly or in part.
//! * Where a run has `rot`, a crash may flip one bit anywhere behind the first superblock. In segments these add
//!   up; in slot 0 there is one at most between two successful starts, because a checkpoint has two copies and
//!   the loss of both cannot be told from one that was never written.
//!
//! Not modelled: devices that lie about syncs; writes that end up elsewhere.

use super::Rng;
use crate::*;

const SECTOR: usize = 512;

#[derive(Debug, Clone)]
struct Unsynced {
    offset: usize,
    data: Vec<u8>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    durable: Vec<u8>,
    /// What reads see.
    seen: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// Requests under way; syncs with the number of writes that they cover.
    under_way: Vec<(Io, usize)>,
    /// Whether a bit of slot 0 was flipped since the last successful start.
    slot_0_rotten: bool,
}

impl Disk {
    pub(super) fn formatted(options: &format::FormatOptions) -> Self {
        let mut durable = vec![0; options.device_bytes as usize];
        for (offset, data) in format::format(options) {
            durable[offset as usize..][..data.len() as usize].copy_from_slice(data.as_ref());
        }
        Self {
            seen: durable.clone(),
            durable,
            unsynced: Vec::new(),
            under_way: Vec::new(),
            slot_0_rotten: false,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn see(&self, offset: u64, len: u32) -> &[u8] {
        &self.seen[offset as usize..][..len as usize]
    }

    pub(super) fn submit(&mut self, io: Io) {
        if let Io::Write { offset, data, .. } = &io {
            assert!(offset.is_multiple_of(4096) && *offset >= 16 << 10);
            assert!(*offset as usize + data.len() as usize <= self.seen.len());
        }
        let covers = self.unsynced.len();
        self.under_way.push((io, covers));
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A write by the store's user, complete at once.
    pub(super) fn write_now(&mut self, offset: u64, data: &[u8]) {
        self.seen[offset as usize..][..data.len()].copy_from_slice(data);
        self.unsynced.push(Unsynced { offset: offset as usize, data: data.to_vec() });
    }

    /// Completes one request, chosen by chance.
    pub(super) fn complete_one(&mut self, rng: &mut Rng, errors: bool) -> Option<(IoId, IoResult)> {
        if self.under_way.is_empty() {
            return None;
        }
        let at = rng.below(self.under_way.len() as u64) as usize;
        let (io, covers) = self.under_way.swap_remove(at);
        let fails = errors && rng.one_in(60);
        let id = io.id();
        let done = match io {
            Io::Write { offset, data, .. } => {
                if fails {
                    self.write_part(offset as usize, data.as_ref(), rng);
                } else {
                    self.write_now(offset, data.as_ref());
                }
                IoDone::Written
            }
            Io::Read { offset, len, .. } => {
                IoDone::Read(bytes::Bytes::copy_from_slice(self.see(offset, len)))
            }
            Io::Sync { .. } => {
                if !fails {
                    self.sync(covers);
                }
                IoDone::Synced
            }
        };
        Some((id, if fails { Err(IoError::Failed(5)) } else { Ok(done) }))
    }

    fn write_part(&mut self, offset: usize, data: &[u8], rng: &mut Rng) {
        for (number, sector) in data.chunks(SECTOR).enumerate() {
            if rng.one_in(2) {
                self.write_now((offset + number * SECTOR) as u64, sector);
            }
        }
    }

    fn sync(&mut self, covers: usize) {
        for write in self.unsynced.drain(..covers) {
            self.durable[write.offset..][..write.data.len()].copy_from_slice(&write.data);
        }
        for (_, other) in &mut self.under_way {
            *other -= covers.min(*other);
        }
    }

    /// The power goes, and comes back.
    pub(super) fn crash(&mut self, rng: &mut Rng, rot: bool) {
        let mut writes = std::mem::take(&mut self.unsynced);
        for (io, _) in self.under_way.drain(..) {
            if let Io::Write { offset, data, .. } = io {
                writes.push(Unsynced { offset: offset as usize, data: data.as_ref().to_vec() });
            }
        }
        while !writes.is_empty() {
            let at = rng.below(writes.len() as u64) as usize;
            let write = writes.swap_remove(at);
            let fate = rng.below(3);
            for (number, sector) in write.data.chunks(SECTOR).enumerate() {
                if fate == 0 || (fate == 1 && rng.one_in(2)) {
                    self.durable[write.offset + number * SECTOR..][..sector.len()].copy_from_slice(sector);
                }
            }
        }
        if rot && rng.one_in(2) {
            self.rot(rng);
        }
        self.seen.clone_from(&self.durable);
    }

    fn rot(&mut self, rng: &mut Rng) {
        let at = 20 * 1024 + rng.below(self.bytes() - 20 * 1024) as usize;
        let in_slot_0 = at < super::SEGMENT as usize;
        if !(in_slot_0 && self.slot_0_rotten) {
            self.slot_0_rotten |= in_slot_0;
            self.durable[at] ^= 1 << rng.below(8);
        }
    }

    /// A store was opened on it: its checkpoint is whole again.
    pub(super) fn opened(&mut self) {
        self.slot_0_rotten = false;
    }
}
