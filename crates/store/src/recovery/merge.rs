//! Merging contents tables, newest entry first over all devices: the first entry of an object decides.
//!
//! A record that lost to one on *another* device gets a tombstone in its own device's log: the winner may be
//! reclaimed or removed first, and the loser must not come back then. (The tombstone that was written when it lost
//! may not have survived the crash.) The checkpoint at the end of recovery keeps these tombstones: without it the
//! next crash could find a removal of the winner durable, and the loser's tombstone not.

use super::device::DeviceRecovery;
use super::*;
use crate::disk::segment::Entry;
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use std::collections::HashSet;

/// See the module.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) index: Index,
    pub(super) last_lsn: Lsn,
    /// For each device, tombstones that its log owes.
    pub(super) superseded: Vec<Vec<Fingerprint>>,
    /// For each device, objects of which older records are void there.
    dead: Vec<HashSet<Fingerprint>>,
    bases: Vec<u32>,
}

impl Merge {
    /// For each device its base, and the tombstones that are newer than all that its segments list; the last
    /// lsn that a checkpoint names.
    pub(super) fn new(devices: Vec<(u32, Vec<Fingerprint>)>, last_lsn: Lsn) -> Self {
        let (bases, superseded): (Vec<u32>, Vec<Vec<Fingerprint>>) = devices.into_iter().unzip();
        let dead = superseded.iter().map(|owed| owed.iter().copied().collect()).collect();
        Self { index: Index::new(), last_lsn, superseded, dead, bases }
    }

    /// Takes in entries as long as every device that has more shows its newest.
    pub(super) fn run(&mut self, devices: &mut [DeviceRecovery]) {
        while devices.iter_mut().all(DeviceRecovery::shows_newest) {
            let newest = devices.iter_mut().filter_map(|device| Some((device.newest()?, device)));
            let Some((_, device)) = newest.max_by_key(|(lsn, _)| *lsn) else { return };
            let Some((segment, entry)) = device.take_newest() else { return };
            self.take(device, segment, &entry);
        }
    }

    /// Drops the contents of devices that owe more tombstones than a checkpoint can keep.
    pub(super) fn limit_owed(&mut self, devices: &mut [DeviceRecovery]) {
        for (device, superseded) in devices.iter_mut().zip(&mut self.superseded) {
            if superseded.len() > device.owed_max() {
                superseded.clear();
                let segments = device.give_up_contents();
                self.index.sweep(|location| segments.contains(&location.segment()));
            }
        }
    }

    fn take(&mut self, device: &mut DeviceRecovery, segment: u32, entry: &Entry) {
        self.last_lsn = self.last_lsn.max(entry.lsn);
        let at = device.index.at();
        match entry.kind {
            EntryKind::Extent => {}
            EntryKind::Tombstone => _ = self.dead[at].insert(entry.fingerprint),
            EntryKind::Clear => device.ignore_older(),
            EntryKind::Record { elsewhere } => {
                let location =
                    Location::new(device.base + segment, entry.offset, entry.len, false, elsewhere);
                self.record(at, entry.fingerprint, location);
            }
        }
    }

    fn record(&mut self, at: usize, of: Fingerprint, location: Location) {
        if self.dead[at].contains(&of) {
            return;
        }
        match self.index.get(of) {
            None => _ = self.index.insert(of, || location),
            Some(winner) if self.is_on(at, winner) => {}
            Some(_) => {
                self.superseded[at].push(of);
                self.dead[at].insert(of);
            }
        }
    }

    fn is_on(&self, at: usize, location: Location) -> bool {
        let end = self.bases.get(at + 1).copied().unwrap_or(u32::MAX);
        (self.bases[at]..end).contains(&location.segment())
    }
}
