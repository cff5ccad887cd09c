//! The simulator: random operations on the real machine over fake devices, against a naive twin.
//!
//! Checked at every step: a lookup gives the newest version or nothing; what was removed or replaced never
//! appears; no wrong byte; bytes under a lease never change. Checked after every crash: an object is what it
//! was at some moment since the last completed checkpoint, and nothing that this checkpoint covers is lost. Half of the
//! starts go on with operations, crashes and stops while contents tables are being merged.
//!
//! What may go wrong is written down in [`world`]. A failing seed prints the command that replays it;
//! `TIDEGATE_SEED` picks one seed, `TIDEGATE_SEEDS` how many of each theme are run.
//!
//! Reading order: [`twin`], [`disk`], [`world`], this file, [`write`], [`read`], [`restart`], [`scrub`], [`cut`].

mod cut;
mod disk;
mod read;
mod restart;
mod scrub;
mod tests;
mod twin;
mod world;
mod write;

use crate::*;
use disk::Fate;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use twin::{Twin, Version};
use world::{Faults, World};
use write::Upload;

/// Chance, from a seed.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        testing::mix(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

const KEYS: u64 = 40;
const SEGMENT: u32 = 64 << 10;
const EXTENT: usize = 8 << 10;

/// A run. The devices have a chance of their own: what goes wrong does not change what is asked for.
struct Sim {
    seed: u64,
    rng: Rng,
    faults: Faults,
    /// What a crash makes of writes that no sync covers.
    fate: Fate,
    world: World,
    store: Store,
    twin: Twin,
    /// Numbers that were noted, with their steps.
    notes: Vec<(u64, u64)>,
    /// Large bodies on their way.
    uploads: VecDeque<Upload>,
    held: Vec<(Lease, Vec<u8>)>,
    step: u64,
    now: Millis,
    /// Number of the checkpoint under way and when it began.
    begun: (u64, u64),
    durable: u64,
    /// Whether contents tables are still being merged, and what must be there once they are.
    merging: bool,
    expected: Vec<u64>,
    sums: Sums,
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    lookups: u64,
    hits: u64,
    /// Objects found after starts.
    recovered: u64,
    /// Damage that was noticed.
    damaged: u64,
    /// Devices that a run ended without.
    retired: u64,
}

fn key_hash(key: u64) -> KeyHash {
    let [low, high] = [key * 2, key * 2 + 1].map(testing::mix);
    KeyHash(u128::from(low) | u128::from(high) << 64)
}

fn config() -> Config {
    Config {
        inline_bytes_max: 2048,
        gather_bytes: 16 << 10,
        extent_bytes_max: EXTENT as u32,
        checkpoint_every: 200,
        in_flight_bytes_max: 256 << 10,
        device_errors_max: 4,
        recovery_depth: 3,
        scrub: ScrubConfig { bytes_per_second: 4 << 20, pass_every: 300, slow_read: 1000 },
        ..Config::default()
    }
}

impl Sim {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut world = World::new(Rng(seed << 32 | 1 << 31), faults);
        world.behave();
        let store = restart::open(&mut world).unwrap();
        world.resume(faults);
        Self {
            seed,
            rng: Rng(seed << 32),
            faults,
            fate: Fate::Chance,
            world,
            store,
            twin: Twin::default(),
            notes: vec![(0, 0)],
            uploads: VecDeque::new(),
            held: Vec::new(),
            step: 1,
            now: 1000,
            begun: (0, 0),
            durable: 0,
            merging: false,
            expected: Vec::new(),
            sums: Sums::default(),
        }
    }

    /// Runs so many steps, or until the power goes; then crashes and compares.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step();
            if self.world.is_off() || self.world.was_cut() {
                break;
            }
        }
        self.expect_no_false_alarm();
        self.crash();
        self.finish_merge();
    }

    fn step(&mut self) {
        self.step += 1;
        self.world.beat();
        let key = self.rng.below(KEYS);
        match self.rng.below(100) {
            0..22 => self.put_small(key),
            22..30 => self.put_large(key),
            30..35 => self.refresh(key),
            35..39 => self.remove(key),
            39..60 => self.look_up(key),
            60..64 => self.hold(key),
            64..68 => self.release(),
            68..79 => self.tick(),
            79 => self.set_note(),
            80..97 => self.complete_some(),
            97 => self.crash_sometimes(3),
            98 => self.stop_sometimes(),
            _ => self.clear_sometimes(),
        }
    }

    // --- driving ---

    fn perform(&mut self, out: Outbox) {
        self.world.submit(out);
    }

    fn tick(&mut self) {
        self.now += self.rng.below(100);
        if self.faults.hung {
            self.count_out_the_hung();
        }
        let mut out = Outbox::new();
        self.store.tick(self.now, &mut out);
        self.perform(out);
        self.note_checkpoints();
        self.note_merged();
    }

    /// A device that does not answer is reported, as the driver does.
    fn count_out_the_hung(&mut self) {
        for device in self.world.behind() {
            if !self.store.is_retired(device) {
                self.store.note_hung(device);
            } else if self.seed.is_multiple_of(2) && self.rng.one_in(20) {
                self.world.wake(device);
            }
        }
    }

    fn complete_some(&mut self) {
        let devices = self.world.devices();
        for _ in 0..1 + self.rng.below(6) {
            let at = self.rng.below(devices.len() as u64) as usize;
            self.complete_on(devices[at]);
        }
    }

    fn complete_on(&mut self, device: DeviceIndex) {
        if let Some((id, result)) = self.world.complete(device) {
            let mut out = Outbox::new();
            self.store.complete(id, result, &mut out);
            self.perform(out);
            self.note_checkpoints();
            self.note_merged();
        }
    }

    fn note_checkpoints(&mut self) {
        let (begun, done) = self.store.checkpoint_numbers();
        if begun != self.begun.0 {
            self.begun = (begun, self.step);
        }
        if done == self.begun.0 && done > 0 {
            self.durable = self.durable.max(self.begun.1);
        }
    }
}

impl Store {
    fn checkpoint_numbers(&self) -> (u64, u64) {
        let common = &self.shared.common;
        (common.checkpoint_begun.load(SeqCst), common.checkpoint_done.load(SeqCst))
    }
}
