//! Crashes, clean stops, starts, and what must be there afterwards.

use super::*;

impl Sim {
    pub(super) fn crash_sometimes(&mut self, n: u64) {
        if self.rng.one_in(n) {
            self.crash();
        }
    }

    pub(super) fn stop_sometimes(&mut self) {
        if self.rng.one_in(3) {
            self.stop();
            self.crash();
        }
    }

    /// A clean stop. Everything is durable afterwards, unless a device failed or the power went.
    pub(super) fn stop(&mut self) {
        self.leave();
        let mut out = Outbox::new();
        self.store.shutdown(&mut out);
        self.perform(out);
        let mut rounds = 0;
        while !self.store.idle() && !self.world.is_off() {
            self.world.beat();
            self.world.devices().into_iter().for_each(|device| self.complete_on(device));
            self.tick();
            rounds += 1;
            assert!(rounds < 10_000, "seed {}: never idle", self.seed);
        }
        if !self.faults.retire() && !self.world.is_off() {
            assert!(self.world.is_idle(), "seed {}", self.seed);
            self.durable = self.step;
        }
        if self.store.idle() {
            assert_eq!(self.store.stats().in_flight_bytes, 0, "seed {}", self.seed);
        }
    }

    pub(super) fn crash(&mut self) {
        let expected = self.expected();
        self.world.crash(self.fate);
        self.reopen(expected);
    }

    /// The store's users go.
    fn leave(&mut self) {
        self.held.clear();
        self.uploads.clear();
    }

    /// Keys that must survive: covered by the last checkpoint and served, or still to be merged.
    fn expected(&mut self) -> Vec<u64> {
        if !self.faults.spare_everything() {
            return Vec::new();
        }
        let covered = |key: u64| self.twin.since(key, self.durable).len() == 1;
        let keys: Vec<u64> = (0..KEYS).filter(|&key| self.is_expected(key) || covered(key)).collect();
        keys.into_iter().filter(|&key| self.is_expected(key) || self.serves(key)).collect()
    }

    fn is_expected(&self, key: u64) -> bool {
        self.twin.is_untouched(key) && self.expected.contains(&key)
    }

    fn reopen(&mut self, expected: Vec<u64>) {
        self.leave();
        let retired = self.store.stats().devices.iter().filter(|device| device.retired).count() as u64;
        self.sums.retired += retired;
        if self.faults.moves && retired == 0 {
            self.world.move_devices();
        }
        self.start_and_crash();
        self.store = self.start();
        (self.begun, self.now) = ((0, 0), 1000);
        self.check_note();
        self.twin.start(self.durable);
        (self.durable, self.expected, self.merging) = (0, expected, true);
        self.note_merged();
        if self.rng.one_in(2) {
            self.finish_merge();
        }
    }

    /// Until all contents tables are merged, or the power goes.
    pub(super) fn finish_merge(&mut self) {
        let mut rounds = 0;
        while self.merging && !self.world.is_off() {
            self.world.beat();
            self.tick();
            self.world.devices().into_iter().for_each(|device| self.complete_on(device));
            rounds += 1;
            assert!(rounds < 10_000, "seed {}: never merged", self.seed);
        }
    }

    /// Once all is merged, what nobody has touched is there, or is rightly gone.
    pub(super) fn note_merged(&mut self) {
        if !self.merging || self.store.recovering().is_some() {
            return;
        }
        self.merging = false;
        let faults = self.world.behave();
        let untouched: Vec<u64> = (0..KEYS).filter(|&key| self.twin.is_untouched(key)).collect();
        for key in untouched {
            let (found, expected) = (self.serves(key), self.is_expected(key));
            assert!(found || !expected, "seed {}: step {}: key {key} is lost", self.seed, self.step);
            self.sums.recovered += u64::from(found);
        }
        self.world.resume(faults);
        self.expected.clear();
    }

    /// The note after a start is that of the last checkpoint, or a newer one.
    fn check_note(&mut self) {
        let found = self.store.note();
        let found = found.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let durable =
            self.notes.iter().rev().find(|(at, _)| *at <= self.durable).map_or(0, |(_, note)| *note);
        let known = self.notes.iter().any(|(_, note)| *note == found);
        assert!(known && found >= durable, "seed {}: note {found}, not {durable}", self.seed);
        self.notes = vec![(0, found)];
    }

    /// Starts that do not get far.
    fn start_and_crash(&mut self) {
        while self.rng.one_in(4) {
            let requests = self.rng.below(60);
            self.world.starting();
            let mut recovery = Recovering::new(&self.world);
            for _ in 0..requests {
                recovery.go_on(&mut self.world);
            }
            self.world.crash(self.fate);
        }
    }

    /// A start that does; one that fails, or that the power leaves, is tried again.
    fn start(&mut self) -> Store {
        for _ in 0..3 {
            match open(&mut self.world) {
                Ok(store) => return store,
                Err(OpenError::Device { .. } | OpenError::NotFinished) => self.world.crash(self.fate),
                Err(why) => panic!("seed {}: step {}: {why}", self.seed, self.step),
            }
        }
        let faults = self.world.behave();
        let store = open(&mut self.world).unwrap();
        self.world.resume(faults);
        store
    }
}

/// Opens the store that is on the devices.
pub(super) fn open(world: &mut World) -> Result<Store, OpenError> {
    world.starting();
    let mut recovery = Recovering::new(world);
    while !world.is_off() && recovery.go_on(world) {}
    let (store, _) = recovery.recovery.into_store()?;
    world.opened();
    Ok(store)
}

/// A recovery and the requests that it has not handed out.
struct Recovering {
    recovery: Recovery,
    out: Outbox,
}

impl Recovering {
    fn new(world: &World) -> Self {
        let devices: Vec<DeviceToOpen> =
            world.disks().map(|disk| DeviceToOpen { bytes: disk.bytes() }).collect();
        let mut recovery = Recovery::new(&devices, config()).unwrap();
        let mut out = Outbox::new();
        recovery.start(&mut out);
        Self { recovery, out }
    }

    /// Completes a request on each device; says whether there is more to do.
    fn go_on(&mut self, world: &mut World) -> bool {
        world.beat();
        world.submit(std::mem::take(&mut self.out));
        for device in world.devices() {
            if let Some((id, result)) = world.complete(device) {
                self.recovery.complete(id, result, &mut self.out);
            }
        }
        !self.recovery.is_finished()
    }
}
