//! A fake device: what is on it, what was asked of it, what its cache would lose.
//!
//! It does what [`super::world`] tells it; which of its powers a run uses is decided there, with the fault model.

use super::{Rng, SEGMENT};
use crate::geometry::Area;
use crate::*;
use std::ops::Range;

const SECTOR: usize = 512;

/// When a request is due that is never answered.
pub(super) const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone)]
struct Unsynced {
    offset: usize,
    data: Vec<u8>,
}

/// A request under way.
#[derive(Debug, Clone)]
struct Request {
    io: Io,
    /// For a sync: how many of the unsynced writes it covers.
    covers: usize,
    asked: u64,
    /// Not answered before.
    due: u64,
}

/// What becomes of a write that no sync covers when the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Each for itself: there, missing, or torn.
    Chance,
    Missing,
    There,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    geometry: Geometry,
    durable: Vec<u8>,
    /// What reads see.
    seen: Vec<u8>,
    /// Sectors that hold something else than was written to them last, since the last start.
    wrong: Vec<bool>,
    unsynced: Vec<Unsynced>,
    under_way: Vec<Request>,
    /// Whether a copy of a checkpoint was damaged since the last successful start.
    checkpoint_hurt: bool,
}

impl Disk {
    pub(super) fn formatted(options: &format::FormatOptions) -> Self {
        let mut durable = vec![0; options.device_bytes as usize];
        for (offset, data) in format::format(options) {
            durable[offset as usize..][..data.len() as usize].copy_from_slice(data.as_ref());
        }
        Self {
            geometry: options.geometry,
            seen: durable.clone(),
            wrong: vec![false; durable.len() / SECTOR],
            durable,
            unsynced: Vec::new(),
            under_way: Vec::new(),
            checkpoint_hurt: false,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.seen.len() as u64
    }

    pub(super) fn see(&self, offset: u64, len: u32) -> &[u8] {
        &self.seen[offset as usize..][..len as usize]
    }

    // --- requests ---

    pub(super) fn submit(&mut self, io: Io, asked: u64, due: u64) {
        if let Io::Write { offset, data, .. } = &io {
            assert!(offset.is_multiple_of(4096) && *offset >= 16 << 10);
            assert!(*offset as usize + data.len() as usize <= self.seen.len());
        }
        self.under_way.push(Request { io, covers: self.unsynced.len(), asked, due });
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// One of the requests that may be answered now, with what a sync covers.
    pub(super) fn take_due(&mut self, now: u64, rng: &mut Rng) -> Option<(Io, usize)> {
        let due: Vec<usize> = (0..self.under_way.len()).filter(|&at| self.under_way[at].due <= now).collect();
        let chosen = rng.below(due.len().max(1) as u64) as usize;
        let request = self.under_way.swap_remove(*due.get(chosen)?);
        Some((request.io, request.covers))
    }

    /// Whether a request has waited since before `moment`.
    pub(super) fn is_behind(&self, moment: u64) -> bool {
        self.under_way.iter().any(|request| request.asked < moment)
    }

    /// The device wakes up: what it never would have answered is answered now.
    pub(super) fn wake(&mut self, now: u64) {
        self.under_way
            .iter_mut()
            .filter(|request| request.due == NEVER)
            .for_each(|request| request.due = now);
    }

    // --- bytes ---

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.put(offset, data, false);
    }

    /// Some sectors of a write.
    pub(super) fn write_part(&mut self, offset: u64, data: &[u8], rng: &mut Rng) {
        for (sector, at) in data.chunks(SECTOR).zip((offset..).step_by(SECTOR)) {
            if rng.one_in(2) {
                self.write(at, sector);
            }
        }
    }

    /// A write that belongs elsewhere lands here.
    pub(super) fn strike(&mut self, offset: u64, data: &[u8]) {
        self.put(offset, data, true);
        self.checkpoint_hurt |= self.copies_in(offset, data.len()) > 0;
    }

    /// A write that belongs here lands elsewhere.
    pub(super) fn miss(&mut self, offset: u64, len: usize) {
        self.wrong[sectors(offset, len)].fill(true);
        self.checkpoint_hurt |= self.copies_in(offset, len) > 0;
    }

    fn put(&mut self, offset: u64, data: &[u8], wrong: bool) {
        self.seen[offset as usize..][..data.len()].copy_from_slice(data);
        self.wrong[sectors(offset, data.len())].fill(wrong);
        self.unsynced.push(Unsynced { offset: offset as usize, data: data.to_vec() });
    }

    /// Whether something else is there than was written since the last start.
    pub(super) fn is_wrong(&self, offset: u64, len: usize) -> bool {
        self.wrong[sectors(offset, len)].contains(&true)
    }

    pub(super) fn sync(&mut self, covers: usize) {
        for write in self.unsynced.drain(..covers) {
            self.durable[write.offset..][..write.data.len()].copy_from_slice(&write.data);
        }
        for other in &mut self.under_way {
            other.covers -= covers.min(other.covers);
        }
    }

    // --- damage ---

    /// Copies of checkpoints that a range touches.
    pub(super) fn copies_in(&self, offset: u64, len: usize) -> usize {
        let copies = Area::BOTH.into_iter().flat_map(|area| self.geometry.checkpoint_copies(area));
        let copy_bytes = u64::from(self.geometry.checkpoint_bytes());
        copies.filter(|&at| at < offset + len as u64 && offset < at + copy_bytes).count()
    }

    pub(super) fn is_checkpoint_hurt(&self) -> bool {
        self.checkpoint_hurt
    }

    /// The power goes, and comes back.
    pub(super) fn crash(&mut self, fate: Fate, rng: &mut Rng) {
        let mut writes = std::mem::take(&mut self.unsynced);
        for Request { io, .. } in self.under_way.drain(..) {
            if let Io::Write { offset, data, .. } = io {
                writes.push(Unsynced { offset: offset as usize, data: data.as_ref().to_vec() });
            }
        }
        while !writes.is_empty() {
            let at = if fate == Fate::There { 0 } else { rng.below(writes.len() as u64) as usize };
            let write = writes.remove(at);
            self.settle(&write, fate, rng);
        }
        self.wrong.fill(false);
        self.seen.clone_from(&self.durable);
    }

    /// Changes one bit, at once and for good.
    pub(super) fn flip(&mut self, at: u64, bit: u32) {
        self.seen[at as usize] ^= 1 << bit;
        self.durable[at as usize] ^= 1 << bit;
    }

    fn settle(&mut self, write: &Unsynced, fate: Fate, rng: &mut Rng) {
        let share = match fate {
            Fate::Chance => rng.below(3),
            Fate::Missing => 0,
            Fate::There => 2,
        };
        for (sector, at) in write.data.chunks(SECTOR).zip((write.offset..).step_by(SECTOR)) {
            if share == 2 || (share == 1 && rng.one_in(2)) {
                self.durable[at..][..sector.len()].copy_from_slice(sector);
            }
        }
    }

    /// Flips a bit anywhere behind the first superblock.
    pub(super) fn rot(&mut self, rng: &mut Rng) {
        let at = 20 * 1024 + rng.below(self.bytes() - 20 * 1024);
        let in_slot_0 = at < u64::from(SEGMENT);
        if !(in_slot_0 && self.checkpoint_hurt) {
            self.checkpoint_hurt |= in_slot_0;
            self.durable[at as usize] ^= 1 << rng.below(8);
            self.seen[at as usize] = self.durable[at as usize];
        }
    }

    /// A store was opened on it: its checkpoint is whole again.
    pub(super) fn opened(&mut self) {
        self.checkpoint_hurt = false;
    }
}

fn sectors(offset: u64, len: usize) -> Range<usize> {
    offset as usize / SECTOR..(offset as usize + len).div_ceil(SECTOR)
}
