//! A checkpoint is cut at one moment over all devices, whatever other threads do: here one of them moves an object from
//! one device to another while the checkpoint is on its way from log to log.
#![cfg(test)]

use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// A key that the twin does not know.
const KEY: u64 = KEYS + 1;
const FIRST: DeviceIndex = DeviceIndex(0);
const SECOND: DeviceIndex = DeviceIndex(1);
const THIRD: DeviceIndex = DeviceIndex(2);

/// What makes a device look so busy that it gets nothing.
const BUSY_BYTES: u64 = 1 << 40;

/// How long a step is given that another one may keep from happening.
const GRACE: Duration = Duration::from_millis(200);

/// Waits until it is so, or for long enough.
fn await_that(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() < GRACE {
        thread::yield_now();
    }
}

impl Sim {
    fn on_three_devices() -> Self {
        let mut sims = (0..).map(|seed| Sim::new(seed, Faults::default()));
        sims.find(|sim| sim.world.devices().len() == 3).unwrap()
    }

    /// Puts `KEY` on this device, as far as load can decide it.
    fn store_on(&self, device: DeviceIndex) -> Outbox {
        let others: Vec<_> = self.world.devices().into_iter().filter(|&other| other != device).collect();
        others.iter().for_each(|&other| self.store.asked(other, BUSY_BYTES));
        let mut out = Outbox::new();
        let put = self.store.put_inline(key_hash(KEY), &KEY.to_le_bytes(), b"head", b"body", &mut out);
        others.iter().for_each(|&other| self.store.answered(other, BUSY_BYTES));
        assert_eq!(put.unwrap().device, device, "another key would do");
        out
    }

    fn settle(&mut self) {
        while !self.world.is_idle() {
            self.world.devices().into_iter().for_each(|device| self.complete_on(device));
        }
    }
}

#[test]
fn an_object_that_moves_meanwhile_is_not_lost() {
    let mut sim = Sim::on_three_devices();
    let out = sim.store_on(THIRD);
    sim.perform(out);
    let log = |device: DeviceIndex| &sim.store.shared.devices[device.at()].log;
    let begun = sim.store.ask_checkpoint();
    let (checkpoint, put) = thread::scope(|scope| {
        // The checkpoint comes no further than to the second log.
        let held = log(SECOND).lock();
        let checkpoint = scope.spawn(|| {
            let mut out = Outbox::new();
            sim.store.shared.checkpoint_if_due(2000, &mut out);
            out
        });
        await_that(|| sim.store.checkpoint_numbers().0 == begun && log(FIRST).try_lock().is_some());
        let put = scope.spawn(|| sim.store_on(FIRST));
        await_that(|| put.is_finished());
        drop(held);
        (checkpoint.join().unwrap(), put.join().unwrap())
    });
    sim.perform(checkpoint);
    sim.perform(put);
    sim.settle();
    assert_eq!(sim.store.checkpoint_numbers(), (begun, begun));
    sim.world.crash(Fate::Missing);
    sim.store = restart::open(&mut sim.world).unwrap();
    sim.merging = true;
    sim.finish_merge();
    assert!(sim.store.contains(key_hash(KEY)), "the tombstone is covered, and the record is not");
}
