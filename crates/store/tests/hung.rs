//! A device that stops answering: what the store does when a request never completes.
//!
//! Checked: checkpoints over the other devices go on once it is retired, and what they hold is found at the next start;
//! bytes on their way to it count no more; the stop comes to its end; an answer that comes too late does no harm.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod memory;

use memory::{Disks, formatted, options, perform};
use store::*;

const DEVICE_BYTES: u64 = 24 * (128 << 10);
const HUNG: DeviceIndex = DeviceIndex(1);

/// Devices in memory, of which one may stop answering.
struct World {
    disks: Disks,
    store: Store,
    hangs: bool,
    unanswered: Vec<Io>,
    now: Millis,
}

fn open(disks: &mut [Vec<u8>]) -> Store {
    let config = Config { gather_bytes: 32 << 10, checkpoint_every: 100, ..Config::default() };
    memory::open(disks, config)
}

impl World {
    fn new() -> Self {
        let mut disks = [1, 2].map(|id| formatted(&options(id, DEVICE_BYTES, 128 << 10))).to_vec();
        let store = open(&mut disks);
        Self { disks, store, hangs: false, unanswered: Vec::new(), now: 0 }
    }

    fn perform(&mut self, mut out: Outbox) {
        while let Some(io) = out.pop() {
            if self.hangs && io.id().device() == HUNG {
                self.unanswered.push(io);
            } else {
                self.store.complete(io.id(), perform(&mut self.disks, &io), &mut out);
            }
        }
    }

    /// Lets time pass, and says whether a checkpoint was completed.
    fn tick(&mut self) -> bool {
        let before = self.store.checkpoints();
        for _ in 0..10 {
            self.now += 50;
            let mut out = Outbox::new();
            self.store.tick(self.now, &mut out);
            self.perform(out);
        }
        self.store.checkpoints() > before
    }

    fn put_all(&mut self, keys: std::ops::Range<u64>) {
        for key in keys {
            let mut out = Outbox::new();
            let _ =
                self.store.put_inline(hash(key), &key.to_le_bytes(), b"head", &[key as u8; 3000], &mut out);
            self.perform(out);
        }
    }

    fn found(&self, keys: std::ops::Range<u64>) -> Vec<u64> {
        keys.filter(|&key| self.store.lookup(hash(key)).is_some()).collect()
    }
}

fn hash(key: u64) -> KeyHash {
    let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    KeyHash(u128::from(mixed ^ mixed >> 29) | u128::from(mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)) << 64)
}

#[test]
fn the_others_go_on_without_a_device_that_does_not_answer() {
    let mut world = World::new();
    world.put_all(0..100);
    assert!(world.tick(), "a checkpoint while all is well");
    world.hangs = true;
    world.put_all(100..200);
    assert!(!world.tick(), "a checkpoint waits for all devices");
    assert!(!world.unanswered.is_empty() && world.store.stats().in_flight_bytes > 0);

    world.store.note_hung(HUNG);
    assert!(world.store.is_retired(HUNG) && !world.store.is_retired(DeviceIndex(0)));
    assert!(world.tick(), "the checkpoint waits for a device that was given up");
    assert_eq!(world.store.stats().in_flight_bytes, 0);
    world.put_all(200..300);
    assert_eq!(world.found(200..300).len(), 100, "what is new goes to the device that is left");

    // Answers that come after all: good ones, then a failure.
    for (n, io) in std::mem::take(&mut world.unanswered).into_iter().enumerate() {
        let result = if n % 2 == 0 { perform(&mut world.disks, &io) } else { Err(IoError::Failed(5)) };
        let mut out = Outbox::new();
        world.store.complete(io.id(), result, &mut out);
        assert!(out.is_empty());
    }
    assert_eq!(world.found(200..300).len(), 100);
}

#[test]
fn a_stop_comes_to_its_end_and_keeps_what_the_others_hold() {
    let mut world = World::new();
    world.put_all(0..100);
    world.tick();
    world.hangs = true;
    world.put_all(100..200);
    let mut out = Outbox::new();
    world.store.shutdown(&mut out);
    world.perform(out);
    world.tick();
    assert!(!world.store.idle(), "a request is unanswered");
    world.store.note_hung(HUNG);
    world.tick();
    assert!(world.store.idle());
    let kept = world.found(0..200);
    assert!(!kept.is_empty() && kept.len() < 200, "{} of 200", kept.len());

    // At the next start it answers again, but has missed something: none of its contents count.
    world.store = open(&mut world.disks);
    assert_eq!(world.found(0..200), kept);
}
