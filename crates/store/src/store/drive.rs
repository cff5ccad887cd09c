//! Driving the machine: outcomes in, time in, a clean stop, figures out.

use super::{Blocked, Store};
use crate::log::Failure;
use crate::*;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// How often the policy is told how many objects there are, in milliseconds.
const FIT_EVERY: Millis = 1000;

impl Store {
    /// Takes the outcome of a request.
    pub fn complete(&self, id: IoId, result: IoResult, out: &mut Outbox) {
        let shared = &self.shared;
        if shared.scrub_complete(id, &result, out) {
            return;
        }
        let Some(device) = shared.device(id.device()) else { return };
        let failed = result.is_err();
        let for_body = shared.awaited_by_body(id).then(|| result.clone());
        let read = match &result {
            Ok(IoDone::Read(bytes)) => Some(Some(bytes.clone())),
            Ok(IoDone::Written | IoDone::Synced) => None,
            Err(_) => Some(None),
        };
        let outcome = device.log.lock().complete(id, result, out);
        if let Err(failure) = outcome {
            shared.count_error(device, failure);
        }
        if let Some(result) = for_body {
            shared.move_complete(id, &result, out);
        }
        shared.carry_bodies(device, out);
        shared.checkpoint_complete(id, failed, out);
        if let Some(bytes) = read {
            shared.merge_complete(id, bytes.as_ref(), out);
        }
    }

    /// The driver asks a device to move so many bytes, for whatever purpose. Where others have less to do, they are given
    /// more of what is stored.
    pub fn asked(&self, device: DeviceIndex, bytes: u64) {
        if let Some(device) = self.shared.device(device) {
            device.info.health.ask(bytes);
        }
    }

    /// The device has answered for so many bytes, well or badly, or was given up.
    pub fn answered(&self, device: DeviceIndex, bytes: u64) {
        if let Some(device) = self.shared.device(device) {
            device.info.health.answer(bytes);
        }
    }

    /// A request has waited for its answer for longer than any healthy device needs: the device is retired. Whether the
    /// answer ever comes does not matter any more; it may still be given to [`Store::complete`].
    pub fn note_hung(&self, device: DeviceIndex) {
        if let Some(device) = self.shared.device(device) {
            self.shared.count_error(device, Failure::Fatal);
        }
    }

    /// Whether the device was given up. A device that is not here counts as such.
    pub fn is_retired(&self, device: DeviceIndex) -> bool {
        self.shared.device(device).is_none_or(|device| device.info.is_retired())
    }

    /// Does what is due: checkpoints, reclaim, scrubbing, after a start the merging of contents tables. To be called a
    /// few times a second at least.
    pub fn tick(&self, now: Millis, out: &mut Outbox) {
        let shared = &self.shared;
        let before = shared.common.now.swap(now, Relaxed);
        if before / FIT_EVERY != now / FIT_EVERY {
            shared.common.policy.fit(shared.common.index.len());
        }
        for device in &shared.devices {
            device.log.lock().upkeep(out);
            shared.carry_bodies(device, out);
        }
        shared.abandon_moves(out);
        shared.checkpoint_if_due(now, out);
        shared.scrub_tick(now, out);
        shared.merge_on(out);
    }

    /// Begins a clean stop: nothing is stored any more, everything stored is flushed and checkpointed. A start that
    /// was not complete stays so; the next one goes through the contents tables again.
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
            && self.shared.scrub.is_idle()
            && self.shared.merge.lock().is_quiet()
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
            declined: std::array::from_fn(|why| common.declined[why].load(Relaxed)),
            checkpoints: common.checkpoint_done.load(SeqCst),
            scrubbed_bytes: self.shared.scrub.bytes.load(Relaxed),
            scrub_passes: self.shared.scrub.passes.load(Relaxed),
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
        errors: info.health.errors(),
        writes: info.writes.load(Relaxed),
        retired: info.is_retired(),
    }
}
