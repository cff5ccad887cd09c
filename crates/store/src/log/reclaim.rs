//! Taking segments back, oldest first.
//!
//! ```text
//! read contents → decide (victim.rs) → carry bodies (store/bodies.rs) → read used records, carry them
//!   → close the life, raise the floor → readers gone and a later checkpoint complete → Free
//! ```
//! The floor (lives before it have no contents) becomes durable in the same checkpoint as the carried copies: a
//! crash finds either the old segment or the copies, and what was dropped does not come back once a
//! checkpoint promises that it does not. That works because lives are taken back in their order.
//!
//! Objects whose *extents* are in the segment but whose record is elsewhere stay in the index: the life in
//! the extent reference is over, a reader is refused the lease and finds a hole. (Telling them from objects that were
//! replaced by newer ones would cost a read for each.)

use super::victim::{self, Fate};
use super::{Failure, Log, Sealed, State};
use crate::disk::extent::ExtentRef;
use crate::disk::record::{self, BodyToWrite, Record, RecordToWrite};
use crate::disk::run::{Run, runs};
use crate::disk::segment::{Contents, Entry};
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use crate::io::{Io, IoDone, IoId, IoResult, Outbox};
use crate::store::Blocked;
use crate::table::Table;
use crate::types::Millis;
use bytes::Bytes;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The segment that is being taken back.
#[derive(Debug)]
pub(super) struct Reclaim {
    segment: u32,
    sequence: u64,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// The contents table is being read.
    Contents { io: IoId },
    /// The whole store carries bodies, one after the other ([`Log::next_body`]).
    Bodies { bodies: Vec<(Fingerprint, u32)>, records: Vec<Batch> },
    /// Used records are being read, a batch at a time. `moved`: bodies were carried before.
    Carrying { io: IoId, now: Batch, rest: Vec<Batch>, moved: bool },
    /// All is carried, and some of it to other devices: waits for the checkpoint that covers it there.
    Done { after: u64 },
}

impl Step {
    fn waits_for(&self, id: IoId) -> bool {
        matches!(self, Self::Contents { io } | Self::Carrying { io, .. } if *io == id)
    }
}

/// A body of which a part is in the segment that is taken back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body {
    pub(crate) of: Fingerprint,
    /// So many bytes of it may be carried.
    pub(crate) bytes: u32,
    pub(crate) segment: u32,
    pub(crate) sequence: u64,
}

/// Records that one read gets, with what the index says of them.
type Batch = Run<(Entry, Location)>;

/// A segment without contents that may still have readers.
#[derive(Debug)]
pub(super) struct Draining {
    pub(super) segment: u32,
    since: Millis,
    /// The first checkpoint that covers what made it superfluous.
    after: u64,
}

impl Log {
    /// Free segments below which one is taken back: a sixteenth of the device, from 2 to 16.
    fn low_water(&self) -> usize {
        (self.device.geometry.segments() as usize / 16).clamp(2, 16)
    }

    /// Segments that are free, or are with the next checkpoint.
    fn soon_free(&self) -> usize {
        let unread = self.draining.iter().filter(|draining| self.device.lives.readers(draining.segment) == 0);
        self.free.len() + unread.count()
    }

    /// Takes the oldest segment back if free ones are few and it is not already under way. Not while contents tables
    /// are merged into the index: it does not know yet what of a segment counts.
    pub(super) fn start_reclaim(&mut self, out: &mut Outbox) {
        if self.common.index.is_merging() || self.victim.is_some() || self.soon_free() > self.low_water() {
            return;
        }
        let Some(&segment) = self.sealed.front() else { return };
        let State::Sealed(Sealed { sequence, table, .. }) = self.states[segment as usize] else { return };
        if !self.device.lives.is_settled(segment) {
            return;
        }
        self.sealed.pop_front();
        self.victim = Some(segment);
        self.device.has_room.store(false, Relaxed);
        let [from, _] = table.copies(&self.device.geometry);
        let io = self.read(segment, from, self.device.geometry.segment_bytes() - from, out);
        self.reclaim = Some(Reclaim { segment, sequence, step: Step::Contents { io } });
    }

    fn read(&self, segment: u32, offset: u32, len: u32, out: &mut Outbox) -> IoId {
        let id = self.device.new_io();
        let offset = self.device.geometry.segment_start(segment) + u64::from(offset);
        out.push(Io::Read { id, device: self.device.index, offset, len });
        id
    }

    pub(super) fn complete_read(
        &mut self,
        id: IoId,
        result: IoResult,
        out: &mut Outbox,
    ) -> Result<(), Failure> {
        let Some(reclaim) = self.reclaim.take_if(|reclaim| reclaim.step.waits_for(id)) else { return Ok(()) };
        let (bytes, outcome) = match result {
            Ok(IoDone::Read(bytes)) => (Some(bytes), Ok(())),
            Ok(_) | Err(_) => (None, Err(Failure::Counted)),
        };
        let Reclaim { segment, sequence, step } = reclaim;
        match step {
            Step::Contents { .. } => {
                let Fate { records, bodies, doomed } = self.sort_contents(segment, sequence, bytes);
                self.doomed = doomed;
                let records = runs(records, self.common.config.gather_bytes, |(entry, _)| entry);
                self.reclaim = Some(Reclaim { segment, sequence, step: Step::Bodies { bodies, records } });
                self.skip_bodies_if_none(out);
            }
            Step::Carrying { now, rest, moved, .. } => {
                self.carry(segment, sequence, &now, bytes, out);
                self.carry_on(segment, sequence, rest, moved, out);
            }
            Step::Bodies { .. } | Step::Done { .. } => {}
        }
        outcome
    }

    fn skip_bodies_if_none(&mut self, out: &mut Outbox) {
        let none =
            |reclaim: &mut Reclaim| matches!(&reclaim.step, Step::Bodies { bodies, .. } if bodies.is_empty());
        if let Some(Reclaim { segment, sequence, step: Step::Bodies { records, .. } }) =
            self.reclaim.take_if(none)
        {
            self.carry_on(segment, sequence, records, false, out);
        }
    }

    /// The next body to be carried; after the last one the records' turn comes.
    pub(crate) fn next_body(&mut self, out: &mut Outbox) -> Option<Body> {
        let &mut Reclaim { segment, sequence, ref mut step } = self.reclaim.as_mut()?;
        let Step::Bodies { bodies, records } = step else { return None };
        match bodies.pop() {
            Some((of, bytes)) => Some(Body { of, bytes, segment, sequence }),
            None => {
                let records = std::mem::take(records);
                self.reclaim = None;
                let moved = std::mem::take(&mut self.moved_off);
                self.carry_on(segment, sequence, records, moved, out);
                None
            }
        }
    }

    /// Reads the next batch of records, or comes to an end: at once, or, where bodies moved to other devices, as soon as
    /// that is durable there. The floor is raised afterwards: a crash in the middle of a checkpoint may find the new
    /// floor here and the old record there.
    fn carry_on(&mut self, segment: u32, sequence: u64, mut rest: Vec<Batch>, moved: bool, out: &mut Outbox) {
        let step = match rest.pop() {
            None if !moved => return self.drain(segment, sequence, out),
            None => Step::Done { after: self.common.checkpoint_begun.load(SeqCst) + 1 },
            Some(now) => {
                let io = self.read(segment, now.from, now.len, out);
                Step::Carrying { io, now, rest, moved }
            }
        };
        self.reclaim = Some(Reclaim { segment, sequence, step });
    }

    /// A body was carried to another device.
    pub(crate) fn note_moved_off(&mut self) {
        self.moved_off = true;
    }

    /// Ends a reclaim whose bodies are durable on other devices.
    fn finish_if_covered(&mut self, out: &mut Outbox) {
        let done = self.common.checkpoint_done.load(SeqCst);
        let is_covered = |it: &mut Reclaim| matches!(it.step, Step::Done { after } if after <= done);
        if let Some(Reclaim { segment, sequence, .. }) = self.reclaim.take_if(is_covered) {
            self.drain(segment, sequence, out);
        }
    }

    fn waits_for_checkpoint(&self, begun: u64) -> bool {
        matches!(&self.reclaim, Some(Reclaim { step: Step::Done { after }, .. }) if *after > begun)
    }

    /// Decides what is carried. Without a contents table that can be trusted everything is dropped.
    fn sort_contents(&mut self, segment: u32, sequence: u64, bytes: Option<Bytes>) -> Fate {
        let number = self.device.base + segment;
        let (life, geometry) = ((self.device.id, segment, sequence), &self.device.geometry);
        let contents = bytes.and_then(|bytes| Contents::read(&bytes, geometry, life));
        let Some(Contents { entries, .. }) = contents else {
            let gone = self.common.index.sweep(|location| location.segment() == number);
            gone.into_iter().for_each(|of| self.count_evicted(of));
            return Fate::default();
        };
        let terms = victim::Terms {
            segment_bytes: self.device.geometry.segment_bytes(),
            percent: self.common.config.carry_percent,
            free: (self.soon_free(), self.low_water()),
        };
        victim::decide(&entries, number, terms, |of| self.common.index.get(of))
    }

    /// Drops what was not carried, in the same breath as the floor is raised: a checkpoint in between would
    /// promise that an object is gone which was dropped and then removed, and its segment would still count.
    fn evict(&self, entry: &Entry, here: Location) {
        if self.common.index.remove_if(entry.fingerprint, |now| now.same_place(here)).is_some() {
            self.count_evicted(entry.fingerprint);
        }
    }

    fn count_evicted(&self, of: Fingerprint) {
        self.common.evicted.fetch_add(1, Relaxed);
        self.common.policy.evicted(of);
    }

    fn carry(&mut self, segment: u32, sequence: u64, batch: &Batch, bytes: Option<Bytes>, out: &mut Outbox) {
        for (entry, old) in &batch.items {
            let from = (entry.offset - batch.from) as usize;
            let raw = bytes.as_ref().and_then(|bytes| bytes.get(from..from + entry.len as usize));
            let carried = raw.is_some_and(|raw| self.carry_one(segment, sequence, entry, *old, raw, out));
            if !carried {
                self.doomed.push((*entry, *old));
            }
        }
    }

    /// Carries one record, if it is intact. Of a body elsewhere what will not live on becomes a hole; with nothing left of
    /// it there is nothing to carry. (What is on other devices its reader will find out.)
    fn carry_one(
        &mut self,
        segment: u32,
        sequence: u64,
        entry: &Entry,
        old: Location,
        raw: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let place = self.device.place(segment, sequence, entry.offset, entry.len);
        let Ok(record) = Record::decode_at(raw, self.device.id, &place) else { return false };
        let extents: Vec<ExtentRef>;
        let body = match record.body() {
            record::Body::Inline(inline) if inline.is_intact() => {
                BodyToWrite::Inline { bytes: inline.bytes, crc: inline.crc }
            }
            record::Body::Inline(_) => return false,
            record::Body::Extents(table) => {
                let mut table = Table::of(table.iter());
                table.retain(|extent| self.will_live(segment, extent));
                if table.pieces().is_empty() && table.length() > 0 {
                    return false;
                }
                extents = table.extents();
                BodyToWrite::Extents(&extents)
            }
        };
        let copy = RecordToWrite { hash: record.key_hash(), key: record.key, head: record.head, body };
        let carried = matches!(self.append_carried(entry.fingerprint, &copy, old, out), Ok(Some(_)));
        if carried {
            self.common.carried.fetch_add(1, Relaxed);
            self.common.carried_bytes.fetch_add(u64::from(entry.len), Relaxed);
        }
        carried
    }

    fn will_live(&self, victim: u32, extent: &ExtentRef) -> bool {
        if extent.device != self.device.id.short() {
            return true;
        }
        let known = (1..self.states.len() as u32).contains(&extent.segment);
        known
            && extent.segment != victim
            && self.device.lives.sequence(extent.segment) == Some(extent.sequence)
    }

    /// The segment has no contents any more; from here on only readers keep it.
    fn drain(&mut self, segment: u32, sequence: u64, out: &mut Outbox) {
        for (entry, here) in std::mem::take(&mut self.doomed) {
            self.evict(&entry, here);
        }
        self.device.lives.close(segment);
        self.states[segment as usize] = State::Reclaiming;
        self.device.raise_floor(sequence + 1);
        self.dirty = true;
        let after = self.common.checkpoint_begun.load(SeqCst) + 1;
        self.draining.push(Draining { segment, since: self.now(), after });
        self.victim = None;
        self.start_reclaim(out);
    }

    /// Frees what nothing keeps any more, and takes the next segment back if that is not enough.
    pub(crate) fn upkeep(&mut self, out: &mut Outbox) {
        let done = self.common.checkpoint_done.load(SeqCst);
        self.finish_if_covered(out);
        let lives = std::sync::Arc::clone(&self.device.lives);
        for draining in
            self.draining.extract_if(.., |it| it.after <= done && may_reuse(lives.readers(it.segment)))
        {
            self.states[draining.segment as usize] = State::Free;
            self.free.push_back(draining.segment);
        }
        self.start_reclaim(out);
    }

    /// Whether a checkpoint now would free segments that are needed, or let a reclaim end.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let begun = self.common.checkpoint_begun.load(SeqCst);
        if self.waits_for_checkpoint(begun) {
            return true;
        }
        self.free.len() <= self.low_water() && self.draining.iter().any(|draining| draining.after > begun)
    }

    /// Segments that only readers keep.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = Blocked> {
        let device = &self.device;
        self.draining.iter().filter_map(|&Draining { segment, since, .. }| {
            let readers = device.lives.readers(segment);
            (readers > 0).then_some(Blocked { device: device.index, segment, readers, since })
        })
    }
}

/// Only a segment without readers is used again.
fn may_reuse(readers: u32) -> bool {
    #[cfg(any(test, feature = "faults"))]
    if crate::faults::LEASES_IGNORED.get() {
        return true;
    }
    readers == 0
}
