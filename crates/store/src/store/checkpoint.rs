//! Checkpoints of the whole store.
//!
//! ```text
//! Idle → Flush: gather buffers out, wait for all log writes begun before
//!      → SyncData: every device that has news      → WriteAreas: into the area not used last
//!      → SyncAreas → Idle, done
//! ```
//! All devices go through each step together, because a record on one may name extents on another. A failure
//! on the way leaves the checkpoint undone, which promises nothing; the next one starts over.

use super::{Device, Shared, Store};
use crate::disk::checkpoint::Checkpoint;
use crate::geometry::Area;
use crate::log::{Covered, Failure, Log};
use crate::*;
use bytes::Bytes;
use parking_lot::MutexGuard;
use std::collections::HashSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Where a checkpoint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Idle,
    Flush,
    SyncData,
    WriteAreas,
    SyncAreas,
}

/// A device's part in a checkpoint.
#[derive(Debug)]
struct Part {
    device: DeviceIndex,
    area: Blocks,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    step: Step,
    /// Queue: operations of one checkpoint.
    waiting: HashSet<IoId>,
    parts: Vec<Part>,
    failed: bool,
    /// Number on disk of the last checkpoint; counted over all runs.
    number: u64,
    /// For each device, the area that is to be written next.
    areas: Vec<Area>,
    last: Option<Millis>,
}

impl Checkpointer {
    pub(crate) fn new(number: u64, areas: Vec<Area>) -> Self {
        let (waiting, parts) = (HashSet::new(), Vec::new());
        Self { step: Step::Idle, waiting, parts, failed: false, number, areas, last: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }
}

impl Shared {
    /// Begins a checkpoint if one is due.
    pub(crate) fn checkpoint_if_due(&self, now: Millis, out: &mut Outbox) {
        let mut checkpoint = self.checkpoint.lock();
        self.go_on_without_the_retired(&mut checkpoint, out);
        let last = *checkpoint.last.get_or_insert(now);
        if checkpoint.step != Step::Idle || !self.is_due(now.saturating_sub(last)) {
            return;
        }
        checkpoint.last = Some(now);
        self.begin(&mut checkpoint, out);
        self.advance(&mut checkpoint, out);
    }

    /// A retired device may never answer: nobody waits for it.
    fn go_on_without_the_retired(&self, checkpoint: &mut Checkpointer, out: &mut Outbox) {
        let answers = |id: &IoId| self.device(id.device()).is_some_and(|device| !device.info.is_retired());
        checkpoint.waiting.retain(answers);
        self.advance(checkpoint, out);
    }

    fn is_due(&self, elapsed: Millis) -> bool {
        if self.common.checkpoint_wanted.load(SeqCst) > self.common.checkpoint_begun.load(SeqCst) {
            return true;
        }
        let urgent = self.closed.load(Relaxed) || elapsed >= self.common.config.checkpoint_every;
        self.devices.iter().any(|device| {
            let log = device.log.lock();
            log.wants_checkpoint() || (urgent && log.dirty)
        })
    }

    fn begin(&self, checkpoint: &mut Checkpointer, out: &mut Outbox) {
        checkpoint.step = Step::Flush;
        checkpoint.failed = false;
        checkpoint.number += 1;
        self.common.checkpoint_begun.fetch_add(1, SeqCst);
        let parts = self.cut(&mut checkpoint.waiting, out);
        // Taken last: whatever is covered was stored under this note or an older one.
        let note = self.note.lock().clone();
        for (device, covered) in parts {
            let contents = self.contents(device, checkpoint.number, covered, note.clone());
            checkpoint.parts.push(Part { device: device.info.index, area: contents.encode().freeze() });
        }
    }

    /// What all logs hold at one moment. An object that moves from one to another has its new record covered with the
    /// tombstone for its old one, or only the record, because that comes first. Everybody waits meanwhile: what there is much
    /// of is shared here and copied afterwards.
    fn cut(&self, waiting: &mut HashSet<IoId>, out: &mut Outbox) -> Vec<(&Device, Covered)> {
        let healthy = self.devices.iter().filter(|device| !device.info.is_retired());
        let mut logs: Vec<_> = healthy.map(|device| (device, device.log.lock())).collect();
        let cover = |(device, log): &mut (_, MutexGuard<'_, Log>)| {
            let covered = log.flush_for_checkpoint(out);
            waiting.extend(log.writes_under_way());
            (*device, covered)
        };
        logs.iter_mut().map(cover).collect()
    }

    fn contents(&self, device: &Device, number: u64, covered: Covered, note: Bytes) -> Checkpoint {
        let Covered { next_sequence, sealed, last_lsn, owed, open } = covered;
        let healthy =
            |id| self.devices.iter().any(|device| device.info.id == id && !device.info.is_retired());
        let members = self.identity.members.iter().filter(|&&member| healthy(member));
        Checkpoint {
            device: device.info.id,
            store_id: self.identity.store_id,
            hash_seed: self.identity.hash_seed,
            number,
            generation: self.identity.generation,
            next_sequence,
            sealed,
            last_lsn,
            members: members.copied().collect(),
            owed,
            open: open.map(|open| open.contents()),
            note,
        }
    }

    /// Takes the outcome of a request that the checkpoint may wait for.
    pub(super) fn checkpoint_complete(&self, id: IoId, failed: bool, out: &mut Outbox) {
        let mut checkpoint = self.checkpoint.lock();
        if !checkpoint.waiting.remove(&id) {
            return;
        }
        checkpoint.failed |= failed;
        // Bytes that a sync did not reach may be lost at any time: such a device is not trusted any more. A log
        // write that failed was dealt with by its log.
        if failed
            && checkpoint.step != Step::Flush
            && let Some(device) = self.device(id.device())
        {
            self.count_error(device, Failure::Fatal);
        }
        self.advance(&mut checkpoint, out);
    }

    fn advance(&self, checkpoint: &mut Checkpointer, out: &mut Outbox) {
        while checkpoint.step != Step::Idle && checkpoint.waiting.is_empty() {
            checkpoint.step = match checkpoint.step {
                _ if checkpoint.failed || self.lost_a_device(checkpoint) => self.give_up(checkpoint),
                Step::Flush => self.ask(checkpoint, Step::SyncData, out),
                Step::SyncData => self.ask(checkpoint, Step::WriteAreas, out),
                Step::WriteAreas => self.ask(checkpoint, Step::SyncAreas, out),
                Step::SyncAreas => self.finish(checkpoint),
                Step::Idle => Step::Idle,
            };
        }
    }

    /// Whether a device was retired on the way: what was prepared still counts it among the members.
    fn lost_a_device(&self, checkpoint: &Checkpointer) -> bool {
        let retired = |part: &Part| self.device(part.device).is_none_or(|device| device.info.is_retired());
        checkpoint.parts.iter().any(retired)
    }

    /// Asks every device that takes part for the request that belongs to `step`.
    fn ask(&self, checkpoint: &mut Checkpointer, step: Step, out: &mut Outbox) -> Step {
        for part in &checkpoint.parts {
            let Some(device) = self.device(part.device).filter(|device| !device.info.is_retired()) else {
                continue;
            };
            if step == Step::WriteAreas {
                let area = checkpoint.areas[part.device.at()];
                let writes =
                    device.info.geometry.checkpoint_copies(area).map(|at| self.write_copy(device, part, at));
                checkpoint.waiting.extend(writes.iter().map(Io::id));
                out.extend(writes);
            } else {
                let id = device.info.new_io();
                checkpoint.waiting.insert(id);
                out.push(Io::Sync { id, device: part.device });
            }
        }
        step
    }

    fn write_copy(&self, device: &Device, part: &Part, offset: u64) -> Io {
        device.info.writes.fetch_add(1, Relaxed);
        self.common.written_bytes.fetch_add(u64::from(part.area.len()), Relaxed);
        Io::Write { id: device.info.new_io(), device: part.device, offset, data: part.area.clone() }
    }

    fn finish(&self, checkpoint: &mut Checkpointer) -> Step {
        // Where every device is retired nothing was made durable.
        if checkpoint.parts.is_empty() {
            return Step::Idle;
        }
        for part in checkpoint.parts.drain(..) {
            let area = &mut checkpoint.areas[part.device.at()];
            *area = area.other();
        }
        let begun = self.common.checkpoint_begun.load(SeqCst);
        self.common.checkpoint_done.store(begun, SeqCst);
        Step::Idle
    }

    fn give_up(&self, checkpoint: &mut Checkpointer) -> Step {
        for part in checkpoint.parts.drain(..) {
            if let Some(device) = self.device(part.device).filter(|device| !device.info.is_retired()) {
                device.log.lock().dirty = true;
            }
        }
        Step::Idle
    }
}

impl Store {
    /// Checkpoints that were completed since opening. What was stored or removed before the call of the
    /// `tick` that began one is durable once it is counted here.
    pub fn checkpoints(&self) -> u64 {
        self.shared.common.checkpoint_done.load(SeqCst)
    }

    /// Asks for a checkpoint at the next `tick`, whenever the next one is due. What was stored, removed or noted
    /// before this call is durable once [`Store::checkpoints`] has reached the number returned.
    pub fn ask_checkpoint(&self) -> u64 {
        let common = &self.shared.common;
        let number = common.checkpoint_begun.load(SeqCst) + 1;
        common.checkpoint_wanted.fetch_max(number, SeqCst);
        number
    }
}

#[cfg(test)]
mod tests;
