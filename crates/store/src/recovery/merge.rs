//! Merging contents tables into the index while the store serves, newest entry first over all devices: the first entry
//! of an object decides.
//!
//! ```text
//! read ahead → the newest entry of all devices, as long as each shows its newest → … → all tables merged → End
//! ```
//! What is found by a lookup meanwhile is the newest version: everything newer was merged before, or was put or removed
//! in this run, which outranks what is merged ([`Index::merge`], [`Index::decide`]). What was not reached yet is a miss.
//!
//! A crash on the way loses nothing and decides nothing: the tables are all still listed by the checkpoints, because
//! nothing is taken back before the end.

use super::tables::{Front, Tables};
use crate::disk::segment::{Entry, EntryKind};
use crate::fingerprint::Fingerprint;
use crate::index::{Index, Location, Merged};
use crate::io::{Io, IoId, Outbox};
use bytes::Bytes;
use std::collections::HashSet;

/// See the module.
#[derive(Debug)]
pub(crate) struct Merge {
    devices: Vec<Tables>,
    /// Queue: contents tables read ahead.
    under_way: HashSet<IoId>,
    total: usize,
    lost: u64,
}

/// What the store has to do for a device because of an entry that was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Tombstones were lost: this life and all older ones have no contents.
    Distrust(u64),
    /// A record of this object lost to something that this device's log may know nothing of.
    VoidOlder(Fingerprint),
}

/// How far it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sealed segments of all devices at the start.
    pub segments: u64,
    /// Of these, those whose contents are in the index.
    pub merged: u64,
    /// Contents tables that were lost in both copies.
    pub lost: u64,
}

impl Merge {
    pub(crate) fn new(devices: Vec<Tables>) -> Self {
        let total = devices.iter().map(Tables::len).sum();
        Self { devices, under_way: HashSet::new(), total, lost: 0 }
    }

    pub(crate) fn progress(&self) -> Progress {
        let left: usize = self.devices.iter().map(Tables::len).sum();
        Progress { segments: self.total as u64, merged: (self.total - left) as u64, lost: self.lost }
    }

    /// Whether there is nothing more to merge.
    pub(crate) fn is_over(&self) -> bool {
        self.devices.iter().all(|tables| tables.len() == 0)
    }

    /// Whether it waits for no device. Those that were given up are not waited for.
    pub(crate) fn is_quiet(&self) -> bool {
        let in_use = |id: &IoId| !self.devices[id.device().at()].device.is_retired();
        !self.under_way.iter().any(in_use)
    }

    /// Merges nothing more.
    pub(crate) fn end(&mut self) {
        self.devices.iter_mut().for_each(Tables::end);
    }

    /// Takes the outcome of a read; says whether it was one of these.
    pub(crate) fn complete(&mut self, id: IoId, bytes: Option<&Bytes>, out: &mut Outbox) -> bool {
        let known = self.under_way.remove(&id);
        if known && let Some(tables) = self.devices.get_mut(id.device().at()) {
            let again = tables.complete(id, bytes);
            self.under_way.extend(again.iter().map(Io::id));
            out.extend(again);
        }
        known
    }

    /// Asks for tables, and takes in entries as long as every device that has more shows its newest. `duty` is called
    /// with the position of a device.
    pub(crate) fn go_on(
        &mut self,
        index: &Index,
        out: &mut Outbox,
        mut duty: impl FnMut(usize, Duty, &mut Outbox),
    ) {
        while let Some(at) = self.newest(|at, sequence| duty(at, Duty::Distrust(sequence), out)) {
            let tables = &mut self.devices[at];
            if let Some(entry) = tables.take_newest()
                && take(tables, &entry, index)
            {
                duty(at, Duty::VoidOlder(entry.fingerprint), out);
            }
        }
        for tables in &mut self.devices {
            let reads = tables.read_ahead();
            self.under_way.extend(reads.iter().map(Io::id));
            out.extend(reads);
        }
    }

    /// The device with the newest entry, once that is known.
    fn newest(&mut self, mut distrust: impl FnMut(usize, u64)) -> Option<usize> {
        let mut newest = None;
        for (at, tables) in self.devices.iter_mut().enumerate() {
            if tables.device.is_retired() {
                tables.end();
            }
            match tables.front() {
                Front::Newest(lsn) => newest = newest.max(Some((lsn, at))),
                Front::Awaited => return None,
                Front::End => {}
                Front::Lost(sequence) => {
                    tables.end();
                    self.lost += 1;
                    distrust(at, sequence);
                }
            }
        }
        newest.map(|(_, at)| at)
    }
}

/// Takes in an entry; says whether it is a record that lost to something which is not on its device.
fn take(tables: &mut Tables, entry: &Entry, index: &Index) -> bool {
    match entry.kind {
        EntryKind::Extent => {}
        EntryKind::Tombstone => _ = tables.dead.insert(entry.fingerprint),
        EntryKind::Clear => tables.end(),
        EntryKind::Record { elsewhere } => return take_record(tables, entry, elsewhere, index),
    }
    false
}

fn take_record(tables: &mut Tables, entry: &Entry, elsewhere: bool, index: &Index) -> bool {
    let of = entry.fingerprint;
    let Some(life) = tables.life().copied().filter(|_| !tables.dead.contains(&of)) else { return false };
    let device = &tables.device;
    let location = Location::new(device.base + life.segment, entry.offset, entry.len, false, elsewhere);
    let merged = index.merge(of, || device.counts(life.sequence).then_some(location));
    let is_here = || index.get(of).is_some_and(|winner| device.has(winner));
    merged == Merged::Outranked && !is_here() && tables.dead.insert(of)
}
