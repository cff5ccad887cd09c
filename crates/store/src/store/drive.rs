//! Driving the machine: outcomes in, time in, a clean stop, figures out.

use super::{Blocked, Store};
use crate::*;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

impl Store {
    /// Takes the outcome of a request.
    pub fn complete(&self, id: IoId, result: IoResult, out: &mut Outbox) {
        let shared = &self.shared;
        let Some(device) = shared.device(id.device()) else { return };
        let failed = result.is_err();
        let outcome = device.log.lock().complete(id, result, out);
        if let Err(failure) = outcome {
            shared.count_error(device, failure);
        }
        shared.checkpoint_complete(id, failed, out);
    }

    /// Does what is due: checkpoints, reclaim. To be called a few times a second at least.
    pub fn tick(&self, now: Millis, out: &mut Outbox) {
        let shared = &self.shared;
        shared.common.now.store(now, Relaxed);
        for device in &shared.devices {
            device.log.lock().upkeep(out);
        }
        shared.checkpoint_if_due(now, out);
    }

    /// Begins a clean stop: nothing is stored any more, everything stored is flushed and checkpointed.
    /// Goes on with `complete` and `tick` until [`Store::idle`].
    pub fn shutdown(&self, out: &mut Outbox) {
        self.shared.closed.store(true, Relaxed);
        self.shared.checkpoint_if_due(self.shared.common.now.load(Relaxed), out);
    }

    /// After [`Store::shutdown`]: everything is durable and no request is under way.
    pub fn idle(&self) -> bool {
        let at_rest = |log: &log::Log| log.is_quiet() && !log.dirty;
        self.shared.closed.load(Relaxed)
            && self.shared.checkpoint.lock().is_idle()
            && self
                .shared
                .devices
                .iter()
                .all(|device| device.info.is_retired() || at_rest(&device.log.lock()))
    }

    /// Figures for metrics and the status page. Walks the index shards: for scrapes, not for requests.
    pub fn stats(&self) -> Stats {
        let common = &self.shared.common;
        let devices: Vec<DeviceStats> = self.shared.devices.iter().map(device_stats).collect();
        let (objects, index_bytes) = common.index.size();
        Stats {
            objects,
            bytes: devices.iter().map(|device| device.bytes).sum(),
            index_bytes,
            admitted_bytes: common.admitted_bytes.load(Relaxed),
            written_bytes: common.written_bytes.load(Relaxed),
            in_flight_bytes: common.in_flight_bytes.load(Relaxed),
            bad: common.bad.load(Relaxed),
            carried: common.carried.load(Relaxed),
            carried_bytes: common.carried_bytes.load(Relaxed),
            evicted: common.evicted.load(Relaxed),
            checkpoints: common.checkpoint_done.load(SeqCst),
            devices,
        }
    }

    /// Segments that only leases keep from being used again: cut the clients that hold leases with
    /// [`Lease::recalled`] where one grows old.
    pub fn blocked(&self) -> Vec<Blocked> {
        let logs = self.shared.devices.iter().map(|device| device.log.lock());
        logs.flat_map(|log| log.blocked().collect::<Vec<_>>()).collect()
    }
}

fn device_stats(device: &super::Device) -> DeviceStats {
    let info = &device.info;
    let (segments, bytes) = device.log.lock().count();
    DeviceStats {
        id: info.id,
        geometry: info.geometry,
        segments,
        bytes,
        errors: info.errors.load(Relaxed),
        writes: info.writes.load(Relaxed),
        retired: info.is_retired(),
    }
}
