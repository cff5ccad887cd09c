//! The simulator: random operations on the real machine over fake devices, against a naive twin.
//!
//! Checked at every step: a lookup gives the newest version or nothing; what was removed or replaced never
//! appears; no wrong byte; bytes under a lease never change. Checked after every crash: an object is what it
//! was at some moment since the last completed checkpoint, and nothing that this checkpoint covers is lost.
//!
//! A failing seed is replayed with `TIDEGATE_SEED=n cargo test -p store sim`; `TIDEGATE_SEEDS` sets how many run.

mod disk;
mod tests;

use crate::geometry::Geometry;
use crate::*;
use disk::Disk;
use std::collections::HashMap;
use std::sync::atomic::Ordering::SeqCst;

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

/// What may go wrong in a run.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    errors: bool,
    rot: bool,
    /// Devices come and go.
    moves: bool,
}

/// What was stored: a head and a body, each with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    head: u64,
    body: u64,
    len: u32,
}

impl Version {
    fn head_bytes(&self) -> Vec<u8> {
        format!("{} {} {}", self.head, self.body, self.len).into_bytes()
    }

    fn body_bytes(&self) -> Vec<u8> {
        (0..u64::from(self.len)).map(|at| testing::mix(self.body << 20 | (at / 8)) as u8 ^ at as u8).collect()
    }
}

/// All values of a key since the last start, with the moment of each. The first one was found at the start.
#[derive(Debug, Clone)]
struct History {
    values: Vec<(u64, Option<Version>)>,
}

impl History {
    fn empty() -> Self {
        Self { values: vec![(0, None)] }
    }

    fn now(&self) -> Option<Version> {
        self.values.last().and_then(|(_, version)| *version)
    }

    /// Values that a crash may bring back if everything up to `moment` is durable.
    fn since(&self, moment: u64) -> Vec<Option<Version>> {
        let covered = self.values.iter().rposition(|(at, _)| *at <= moment).unwrap_or(0);
        self.values[covered..].iter().map(|(_, version)| *version).collect()
    }
}

const KEYS: u64 = 40;
const SEGMENT: u32 = 64 << 10;

struct Sim {
    seed: u64,
    rng: Rng,
    faults: Faults,
    disks: Vec<Disk>,
    /// Devices that take part, by position in `disks`.
    present: Vec<usize>,
    store: Store,
    twin: HashMap<u64, History>,
    /// Numbers that were noted, with their steps.
    notes: Vec<(u64, u64)>,
    held: Vec<(Lease, Vec<u8>)>,
    step: u64,
    now: Millis,
    /// Number of the checkpoint under way and when it began.
    begun: (u64, u64),
    durable: u64,
    hits: u64,
    lookups: u64,
    recovered: u64,
}

fn key_hash(key: u64) -> KeyHash {
    let [low, high] = [key * 2, key * 2 + 1].map(testing::mix);
    KeyHash(u128::from(low) | u128::from(high) << 64)
}

fn config() -> Config {
    Config {
        inline_bytes_max: 2048,
        gather_bytes: 16 << 10,
        extent_bytes_max: 8 << 10,
        checkpoint_every: 200,
        in_flight_bytes_max: 256 << 10,
        device_errors_max: 4,
        recovery_depth: 3,
        ..Config::default()
    }
}

impl Sim {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut rng = Rng(seed << 32);
        let count = 1 + rng.below(3);
        let disks: Vec<Disk> = (0..count).map(|n| new_disk(&mut rng, n)).collect();
        let present: Vec<usize> = (0..disks.len()).collect();
        let mut disks = disks;
        let store = open(&mut disks, &present, &mut rng);
        Self {
            seed,
            rng,
            faults,
            disks,
            present,
            store,
            twin: HashMap::new(),
            notes: vec![(0, 0)],
            held: Vec::new(),
            step: 1,
            now: 1000,
            begun: (0, 0),
            durable: 0,
            hits: 0,
            lookups: 0,
            recovered: 0,
        }
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step += 1;
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
        self.held.clear();
        self.crash();
    }

    // --- operations ---

    fn put_small(&mut self, key: u64) {
        let len = [0, 10, 700, 2048][self.rng.below(4) as usize];
        let version = Version { head: self.step, body: self.step, len };
        let mut out = Outbox::new();
        let (head, body) = (version.head_bytes(), version.body_bytes());
        let put = self.store.put_inline(key_hash(key), &key.to_le_bytes(), &head, &body, &mut out);
        self.perform(out);
        self.note_put(key, version, put);
    }

    fn put_large(&mut self, key: u64) {
        let len = 2049 + self.rng.below(30_000) as u32;
        let version = Version { head: self.step, body: self.step, len };
        let body = version.body_bytes();
        let mut out = Outbox::new();
        let mut written = Vec::new();
        for piece in body.chunks(8 << 10) {
            match self.store.reserve_extent(key_hash(key), piece.len() as u32, &mut out) {
                Ok(reservation) => written.push(self.write_extent(reservation, piece)),
                Err(_) => return self.perform(out),
            }
            if self.rng.one_in(20) {
                self.perform(std::mem::take(&mut out));
                self.complete_some();
            }
        }
        let put = self.store.put_extents(
            key_hash(key),
            &key.to_le_bytes(),
            &version.head_bytes(),
            &written,
            &mut out,
        );
        self.perform(out);
        self.note_put(key, version, put);
    }

    fn write_extent(&mut self, reservation: Reservation, piece: &[u8]) -> WrittenExtent {
        let offset = self.store.device_offset(reservation.place()).unwrap();
        let blocks = BlockBuf::copy_of(piece);
        self.disk_of(reservation.place().device).write_now(offset, blocks.as_ref());
        reservation.written(crc32c(piece))
    }

    fn note_put(&mut self, key: u64, version: Version, put: Result<Place, Declined>) {
        match put {
            Ok(_) => self.note(key, Some(version)),
            Err(why) => assert!(
                matches!(why, Declined::NoSpace | Declined::WritesBehind | Declined::DeviceRetired),
                "seed {}: {why}",
                self.seed
            ),
        }
    }

    fn note(&mut self, key: u64, version: Option<Version>) {
        self.twin.entry(key).or_insert_with(History::empty).values.push((self.step, version));
    }

    fn refresh(&mut self, key: u64) {
        let Some((found, bytes)) = self.fetch(key) else { return };
        let Some(version) = self.check(key, &found, &bytes) else { return };
        let record = self.store.record(&found.place, &bytes).unwrap();
        let version = Version { head: self.step, ..version };
        let mut out = Outbox::new();
        let put =
            self.store.refresh(key_hash(key), &found.place, &record, &version.head_bytes(), true, &mut out);
        self.perform(out);
        if put != Err(Declined::BodyGone) {
            self.note_put(key, version, put);
        }
    }

    fn remove(&mut self, key: u64) {
        let mut out = Outbox::new();
        self.store.remove(key_hash(key), &mut out);
        self.perform(out);
        self.note(key, None);
    }

    fn clear_sometimes(&mut self) {
        if self.rng.one_in(10) {
            let mut out = Outbox::new();
            self.store.clear(&mut out);
            self.perform(out);
            (0..KEYS).for_each(|key| self.note(key, None));
        }
    }

    fn set_note(&mut self) {
        if self.store.set_note(self.step.to_le_bytes().to_vec().into()).is_ok() {
            self.notes.push((self.step, self.step));
        }
        if self.rng.one_in(2) {
            self.store.ask_checkpoint();
        }
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

    fn look_up(&mut self, key: u64) {
        self.lookups += 1;
        if let Some((found, bytes)) = self.fetch(key)
            && self.check(key, &found, &bytes).is_some()
        {
            self.hits += 1;
        }
    }

    // --- reading as the proxy does ---

    fn fetch(&mut self, key: u64) -> Option<(Found, Vec<u8>)> {
        let found = self.store.lookup(key_hash(key))?;
        let bytes = self.bytes_at(&found.at);
        Some((found, bytes))
    }

    fn bytes_at(&mut self, at: &At) -> Vec<u8> {
        match at {
            At::Buffered(bytes) => bytes.to_vec(),
            At::Device(lease) => {
                let offset = self.store.device_offset(lease.place()).unwrap();
                let len = lease.place().len;
                self.disk_of(lease.place().device).see(offset, len).to_vec()
            }
        }
    }

    /// Reads the body; checks everything against the twin. Nothing where the store rightly has nothing.
    fn check(&mut self, key: u64, found: &Found, bytes: &[u8]) -> Option<Version> {
        let (head, body) = self.read(key, found, bytes)?;
        let now = self.twin.get(&key).and_then(History::now);
        let Some(now) = now else {
            panic!("seed {}: key {key} is back: {:?}", self.seed, String::from_utf8(head))
        };
        assert_eq!(head, now.head_bytes(), "seed {}: head of key {key} at step {}", self.seed, self.step);
        assert!(body == now.body_bytes(), "seed {}: body of key {key} at step {}", self.seed, self.step);
        Some(now)
    }

    fn read(&mut self, key: u64, found: &Found, bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let hash = key_hash(key);
        let mut out = Outbox::new();
        let record = match self.store.record(&found.place, bytes) {
            Ok(record) => record,
            Err(why) => {
                assert!(!found.verified, "seed {}: key {key}: {why} in a verified record", self.seed);
                self.store.note_bad(hash, &found.place, &mut out);
                self.perform(out);
                return None;
            }
        };
        assert_eq!(record.key, key.to_le_bytes());
        let mut intact = record.is_intact();
        let body = match record.body() {
            Body::Inline(inline) => inline.bytes.to_vec(),
            Body::Extents(table) => {
                let places = table.iter().map(|extent| self.store.extent_place(&extent));
                let held: Option<Vec<At>> = places.map(|place| self.store.at(&place?)).collect();
                let Some(held) = held else {
                    self.store.forget(hash, &found.place);
                    return None;
                };
                let mut body = Vec::new();
                for (extent, at) in table.iter().zip(&held) {
                    let piece = self.bytes_at(at);
                    intact &= crc32c(&piece) == extent.crc;
                    body.extend(piece);
                }
                body
            }
        };
        let head = record.head.to_vec();
        if found.verified {
            return Some((head, body));
        }
        if intact {
            self.store.note_verified(hash, &found.place);
            return Some((head, body));
        }
        self.store.note_bad(hash, &found.place, &mut out);
        self.perform(out);
        None
    }

    fn hold(&mut self, key: u64) {
        let Some((Found { at: At::Device(lease), .. }, bytes)) = self.fetch(key) else { return };
        self.held.push((lease, bytes));
    }

    fn release(&mut self) {
        if self.held.len() > 3 {
            let at = self.rng.below(self.held.len() as u64) as usize;
            let (lease, bytes) = self.held.swap_remove(at);
            let now = self.bytes_at(&At::Device(lease));
            assert!(now == bytes, "seed {}: leased bytes changed, step {}", self.seed, self.step);
        }
    }

    // --- driving ---

    fn disk_of(&mut self, device: DeviceIndex) -> &mut Disk {
        &mut self.disks[self.present[device.at()]]
    }

    fn perform(&mut self, out: Outbox) {
        for io in out {
            self.disk_of(io.id().device()).submit(io);
        }
    }

    fn tick(&mut self) {
        self.now += self.rng.below(100);
        let mut out = Outbox::new();
        self.store.tick(self.now, &mut out);
        self.perform(out);
        self.note_checkpoints();
    }

    fn complete_some(&mut self) {
        for _ in 0..1 + self.rng.below(6) {
            let at = self.rng.below(self.present.len() as u64) as usize;
            self.complete_on(self.present[at]);
        }
    }

    fn complete_on(&mut self, disk: usize) {
        if let Some((id, result)) = self.disks[disk].complete_one(&mut self.rng, self.faults.errors) {
            let mut out = Outbox::new();
            self.store.complete(id, result, &mut out);
            self.perform(out);
            self.note_checkpoints();
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

    // --- stops and starts ---

    fn crash_sometimes(&mut self, n: u64) {
        if self.rng.one_in(n) {
            self.crash();
        }
    }

    fn crash(&mut self) {
        let expected = self.present_keys();
        for disk in &mut self.disks {
            disk.crash(&mut self.rng, self.faults.rot);
        }
        self.reopen(&expected);
    }

    fn stop_sometimes(&mut self) {
        if self.rng.one_in(3) {
            self.stop();
            self.crash();
        }
    }

    fn stop(&mut self) {
        self.held.clear();
        let mut out = Outbox::new();
        self.store.shutdown(&mut out);
        self.perform(out);
        let mut rounds = 0;
        while !self.store.idle() {
            (0..self.present.len()).for_each(|at| self.complete_on(self.present[at]));
            self.tick();
            rounds += 1;
            assert!(rounds < 10_000, "seed {}: never idle", self.seed);
        }
        if !self.faults.errors {
            assert!(self.disks.iter().all(Disk::is_idle), "seed {}", self.seed);
            self.durable = self.step;
        }
    }

    /// Keys that must survive: in the index, body alive, and covered by the last checkpoint.
    fn present_keys(&mut self) -> Vec<u64> {
        let keys: Vec<u64> = (0..KEYS).filter(|key| self.is_covered(*key)).collect();
        let faultless = !self.faults.errors && !self.faults.rot && !self.faults.moves;
        keys.into_iter().filter(|&key| faultless && self.reads_well(key)).collect()
    }

    fn is_covered(&self, key: u64) -> bool {
        self.twin
            .get(&key)
            .is_some_and(|history| history.since(self.durable).len() == 1 && history.now().is_some())
    }

    fn reads_well(&mut self, key: u64) -> bool {
        self.fetch(key).is_some_and(|(found, bytes)| self.check(key, &found, &bytes).is_some())
    }

    fn reopen(&mut self, expected: &[u64]) {
        self.held.clear();
        if self.faults.moves {
            self.move_devices();
        }
        self.start_and_crash();
        self.store = open(&mut self.disks, &self.present, &mut self.rng);
        (self.begun, self.now) = ((0, 0), 1000);
        self.check_note();
        for key in 0..KEYS {
            let allowed = self.twin.get(&key).map_or(vec![None], |history| history.since(self.durable));
            let found = self.find_after_start(key);
            let may_be_gone = !expected.contains(&key);
            let right = allowed.contains(&found) || (found.is_none() && may_be_gone);
            assert!(right, "seed {}: step {}: key {key} is {found:?}, not {allowed:?}", self.seed, self.step);
            assert!(found.is_some() || may_be_gone, "seed {}: key {key} is lost", self.seed);
            self.recovered += u64::from(found.is_some());
            self.twin.insert(key, History { values: vec![(0, found)] });
        }
        self.durable = 0;
    }

    /// Starts that do not get far.
    fn start_and_crash(&mut self) {
        while self.rng.one_in(4) {
            let mut requests = self.rng.below(60);
            let mut recovery = Recovering::new(&self.disks, &self.present);
            while requests > 0 && recovery.go_on(&mut self.disks, &self.present, &mut self.rng) {
                requests -= 1;
            }
            for disk in &mut self.disks {
                disk.crash(&mut self.rng, self.faults.rot);
            }
        }
    }

    /// What a key is after a start; the bytes must be those of the version that the head names.
    fn find_after_start(&mut self, key: u64) -> Option<Version> {
        let (found, bytes) = self.fetch(key)?;
        let (head, body) = self.read(key, &found, &bytes)?;
        let head = String::from_utf8(head).unwrap();
        let parts: Vec<u64> = head.split(' ').map(|part| part.parse().unwrap()).collect();
        let version = Version { head: parts[0], body: parts[1], len: parts[2] as u32 };
        assert!(body == version.body_bytes(), "seed {}: body of key {key} after a start", self.seed);
        Some(version)
    }

    /// Takes a device away, brings one back, adds a new one, or changes the order.
    fn move_devices(&mut self) {
        match self.rng.below(4) {
            0 if self.disks.len() < 4 => {
                let disk = new_disk(&mut self.rng, self.disks.len() as u64);
                self.disks.push(disk);
                self.present.push(self.disks.len() - 1);
            }
            1 if self.present.len() > 1 => {
                // The first one stays: a device that missed a run cannot know that, alone.
                let at = self.rng.below(self.present.len() as u64) as usize;
                if self.present[at] != 0 {
                    self.present.remove(at);
                }
            }
            2 => self.present = (0..self.disks.len()).collect(),
            _ => self.present.rotate_left(1),
        }
    }
}

fn new_disk(rng: &mut Rng, number: u64) -> Disk {
    let device_bytes = u64::from(SEGMENT) * (6 + rng.below(8));
    Disk::formatted(&format::FormatOptions {
        device_bytes,
        geometry: Geometry::new(device_bytes, SEGMENT).unwrap(),
        device_id: DeviceId(u128::from(rng.next()) << 64 | u128::from(number + 1)),
        store_id: 1,
        hash_seed: 7,
        now: 0,
    })
}

/// A recovery and the requests that it has not handed out.
struct Recovering {
    recovery: Recovery,
    out: Outbox,
}

impl Recovering {
    fn new(disks: &[Disk], present: &[usize]) -> Self {
        let devices: Vec<DeviceToOpen> =
            present.iter().map(|&at| DeviceToOpen { bytes: disks[at].bytes() }).collect();
        let mut recovery = Recovery::new(&devices, config()).unwrap();
        let mut out = Outbox::new();
        recovery.start(&mut out);
        Self { recovery, out }
    }

    /// Completes a request on each device; says whether there is more to do.
    fn go_on(&mut self, disks: &mut [Disk], present: &[usize], rng: &mut Rng) -> bool {
        for io in self.out.drain(..) {
            disks[present[io.id().device().at()]].submit(io);
        }
        for &at in present {
            if let Some((id, result)) = disks[at].complete_one(rng, false) {
                self.recovery.complete(id, result, &mut self.out);
            }
        }
        !self.recovery.is_finished()
    }
}

fn open(disks: &mut [Disk], present: &[usize], rng: &mut Rng) -> Store {
    let mut recovery = Recovering::new(disks, present);
    while recovery.go_on(disks, present, rng) {}
    present.iter().for_each(|&at| disks[at].opened());
    recovery.recovery.into_store().unwrap().0
}

impl Store {
    fn checkpoint_numbers(&self) -> (u64, u64) {
        let common = &self.shared.common;
        (common.checkpoint_begun.load(SeqCst), common.checkpoint_done.load(SeqCst))
    }
}
