//! The second phase of a start: contents tables are merged into the index while the store is in use.
//!
//! Lookups find what was merged; the rest are misses. Nothing is taken back until it is over, so puts are declined where
//! no segment is free. What is put or removed outranks what is merged, and leaves tombstones on every device that may
//! have something older, because nobody knows yet.
//!
//! Order of locks: merge, log, index shard.

use super::{Shared, Store};
use crate::fingerprint::Fingerprint;
use crate::log::Failure;
use crate::recovery::{Duty, Merge, Progress};
use crate::*;
use std::sync::atomic::Ordering::Relaxed;

impl Shared {
    /// Merges what is there, and asks for more.
    pub(super) fn merge_on(&self, out: &mut Outbox) {
        if self.may_merge() {
            self.merge_under(&mut self.merge.lock(), out);
        }
    }

    /// Takes the outcome of a request that may have been for a contents table.
    pub(super) fn merge_complete(&self, id: IoId, bytes: Option<&bytes::Bytes>, out: &mut Outbox) {
        let mut merge = self.merge.lock();
        if !merge.complete(id, bytes, out) {
            return;
        }
        if let (None, Some(device)) = (bytes, self.device(id.device())) {
            self.count_error(device, Failure::Counted);
        }
        if self.may_merge() {
            self.merge_under(&mut merge, out);
        }
    }

    /// Not any more at a stop: the next start goes through the contents tables again.
    fn may_merge(&self) -> bool {
        self.common.index.is_merging() && !self.closed.load(Relaxed)
    }

    fn merge_under(&self, merge: &mut Merge, out: &mut Outbox) {
        merge.go_on(&self.common.index, out, |at, duty, out| {
            let mut log = self.devices[at].log.lock();
            match duty {
                Duty::Distrust(sequence) => log.distrust_up_to(sequence),
                Duty::VoidOlder(of) => log.void_older(of, out),
            }
        });
        if merge.is_over() {
            self.common.index.end_merging();
        }
    }

    /// Nothing is merged any more: all that is older is void.
    pub(super) fn end_merge(&self) {
        self.merge.lock().end();
        self.common.index.end_merging();
    }

    /// Tombstones wherever something older of an object may be that was not merged yet. `but` needs none.
    pub(super) fn void_unmerged(&self, of: Fingerprint, but: Option<DeviceIndex>, out: &mut Outbox) {
        if !self.common.index.is_merging() || !self.common.index.decide(of) {
            return;
        }
        for device in self.devices.iter().filter(|device| Some(device.info.index) != but) {
            device.log.lock().void_older(of, out);
        }
    }
}

impl Store {
    /// How far the merging of contents tables is; nothing once it is over and every object can be found.
    pub fn recovering(&self) -> Option<Progress> {
        self.shared.common.index.is_merging().then(|| self.recovered())
    }

    /// What was merged since the store was opened.
    pub fn recovered(&self) -> Progress {
        self.shared.merge.lock().progress()
    }
}
