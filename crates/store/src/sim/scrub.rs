//! Scrubbing in the simulator. It runs in every theme, at a pace that gets it round several times a run; here is what
//! it must find, and what it must leave alone.
#![cfg(test)]

use super::*;

/// A stored object and the bytes of it that a checksum covers: ranges of devices.
#[derive(Debug)]
struct Stored {
    key: u64,
    place: Place,
    covered: Vec<(DeviceIndex, u64, u64)>,
}

impl Sim {
    /// What nobody damaged is not taken for damaged.
    pub(super) fn expect_no_false_alarm(&mut self) {
        let Faults { errors, rot, astray, .. } = self.faults;
        if !(errors || rot || astray) {
            assert_eq!(self.store.stats().bad, 0, "seed {}: a false alarm", self.seed);
            assert_eq!(self.store.take_damage(), [], "seed {}", self.seed);
        }
    }

    fn stored(&self, key: u64) -> Option<Stored> {
        let Found { place, at, .. } = self.store.lookup(key_hash(key))?;
        let At::Device(lease) = at else { return None };
        let start = self.store.device_offset(&place).unwrap();
        let bytes = self.world.see(place.device, start, lease.place().len);
        let record = self.store.record(&place, &bytes).unwrap();
        let fixed = 96 + record.key.len() as u64 + record.head.len() as u64;
        let mut covered = vec![(place.device, start, fixed)];
        match record.body() {
            Body::Inline(inline) => covered.push((place.device, start + fixed, inline.bytes.len() as u64)),
            Body::Extents(table) => {
                covered.push((place.device, start + fixed, 32 * table.iter().len() as u64));
                for extent in table.iter() {
                    let place = self.store.extent_place(&extent)?;
                    self.store.at(&place)?;
                    covered.push((
                        place.device,
                        self.store.device_offset(&place).unwrap(),
                        extent.len.into(),
                    ));
                }
            }
        }
        covered.retain(|(_, _, len)| *len > 0);
        Some(Stored { key, place, covered })
    }

    /// Flips one bit of an object; returns where.
    fn damage(&mut self, stored: &Stored) -> (DeviceIndex, u64) {
        let (device, start, len) = stored.covered[self.rng.below(stored.covered.len() as u64) as usize];
        let (at, bit) = (start + self.rng.below(len), self.rng.below(8) as u32);
        self.world.flip(device, at, bit);
        (device, at)
    }

    /// Lets time pass, and nothing else happen, until scrubbing has begun and ended a pass.
    fn scrub_once(&mut self) {
        let passes = self.store.stats().scrub_passes;
        for _ in 0..5000 {
            self.tick();
            self.world.devices().into_iter().for_each(|device| self.complete_on(device));
            if self.store.stats().scrub_passes >= passes + 2 {
                return;
            }
        }
        panic!("seed {}: scrubbing does not come round", self.seed);
    }

    /// Whether reclaim has taken nothing of it: neither moved its record nor ended the life of an extent.
    /// Opens the store again, with a whole index, and reads nothing of what is found.
    fn open_unread(&mut self) {
        self.store = restart::open(&mut self.world).unwrap();
        while self.store.recovering().is_some() {
            self.world.beat();
            self.tick();
            self.world.devices().into_iter().for_each(|device| self.complete_on(device));
        }
    }

    fn is_whole(&self, stored: &Stored) -> bool {
        self.is_still_at(stored) && self.stored(stored.key).is_some()
    }

    fn is_still_at(&self, stored: &Stored) -> bool {
        self.store.lookup(key_hash(stored.key)).is_some_and(|found| found.place == stored.place)
    }
}

#[test]
fn damage_is_found_where_it_is_and_nowhere_else() {
    let (mut flipped, mut told) = (0, 0);
    for seed in 0..60 {
        let mut sim = Sim::new(seed, Faults::default());
        sim.run(300);
        let all: Vec<Stored> = (0..KEYS).filter_map(|key| sim.stored(key)).collect();
        let (bad, good): (Vec<Stored>, Vec<Stored>) = all.into_iter().partition(|_| sim.rng.one_in(4));
        let places: Vec<(DeviceIndex, u64)> = bad.iter().map(|stored| sim.damage(stored)).collect();
        sim.scrub_once();
        for damage in sim.store.take_damage() {
            let here = |&(device, at): &(DeviceIndex, u64)| {
                device == damage.device
                    && (damage.offset..damage.offset + u64::from(damage.len)).contains(&at)
            };
            assert!(places.iter().any(here), "seed {seed}: {damage:?}");
            told += 1;
        }
        // Reclaim, which goes on, may have taken some and carried others.
        assert!(!bad.iter().any(|stored| sim.is_whole(stored)), "seed {seed}: damage was passed over");
        for stored in good {
            assert!(!sim.is_whole(&stored) || sim.serves(stored.key), "seed {seed}: {stored:?} is lost");
        }
        flipped += bad.len();
        sim.stop();
        sim.open_unread();
        assert!(!bad.iter().any(|stored| sim.is_whole(stored)), "seed {seed}: damage is back");
    }
    assert!(told * 10 > flipped * 9, "{told} of {flipped} were told");
}

/// A good pass vouches for what a start has found: first reads need no check of their own then.
#[test]
fn a_pass_verifies_what_a_start_has_found() {
    let mut verified = 0;
    for seed in 0..20 {
        let mut sim = Sim::new(seed, Faults::default());
        sim.run(300);
        sim.stop();
        sim.open_unread();
        let found: Vec<Stored> = (0..KEYS).filter_map(|key| sim.stored(key)).collect();
        let is_verified =
            |sim: &Sim, key| sim.store.lookup(key_hash(key)).is_some_and(|found| found.verified);
        assert!(!found.iter().any(|stored| is_verified(&sim, stored.key)), "seed {seed}");
        sim.scrub_once();
        let left: Vec<&Stored> = found.iter().filter(|stored| sim.is_whole(stored)).collect();
        assert!(left.iter().all(|stored| is_verified(&sim, stored.key)), "seed {seed}");
        verified += left.len();
    }
    assert!(verified > 100, "the test looks at too little: {verified}");
}

impl Sim {
    /// What is stored of an object's body, as far as it is on devices.
    fn table(&self, key: u64) -> Option<(Found, Table)> {
        let found = self.store.lookup(key_hash(key))?;
        let bytes = match &found.at {
            At::Buffered(bytes) => bytes.to_vec(),
            At::Device(lease) => {
                let start = self.store.device_offset(&found.place).unwrap();
                self.world.see(found.place.device, start, lease.place().len)
            }
        };
        let record = self.store.record(&found.place, &bytes).unwrap();
        let table = self.store.table_of(&found.place, &record)?;
        Some((found, table))
    }

    /// An object in several pieces, all of them there.
    fn in_pieces(&self) -> Option<(u64, Table)> {
        let is_there = |extent: &ExtentRef| self.store.is_there(extent);
        let whole = |table: &Table| table.pieces().len() > 1 && table.extents().iter().all(is_there);
        (0..KEYS).find_map(|key| Some((key, self.table(key)?.1)).filter(|(_, table)| whole(table)))
    }
}

/// Where the pieces of a body start, and their checksums.
fn shape(table: &Table) -> Vec<(u64, u32)> {
    table.pieces().iter().map(|piece| (piece.start, piece.extent.crc)).collect()
}

/// A damaged piece becomes a hole, in this run and in the next; the rest of the body stays, and is checked.
#[test]
fn of_a_damaged_body_the_rest_stays() {
    let mut found_holes = 0;
    for seed in 0..60 {
        let mut sim = Sim::new(seed, Faults::default());
        sim.run(300);
        sim.scrub_once();
        let Some((key, mut table)) = sim.in_pieces() else { continue };
        let piece = table.pieces()[sim.rng.below(table.pieces().len() as u64) as usize];
        let place = sim.store.extent_place(&piece.extent).unwrap();
        let at = sim.store.device_offset(&place).unwrap() + sim.rng.below(place.len.into());
        sim.world.flip(place.device, at, 0);
        sim.scrub_once();
        table.retain(|extent| *extent != piece.extent);
        let told = sim.store.take_damage();
        // Reclaim, which goes on, may have taken or carried it.
        let Some((found, now)) = sim.table(key).filter(|_| !told.is_empty()) else { continue };
        assert_eq!((told.len(), told[0].what, told[0].hash), (1, Damaged::Body, Some(key_hash(key))));
        assert_eq!(shape(&now), shape(&table), "seed {seed}");
        assert!(found.verified || now != table, "seed {seed}: the rest was not checked");
        sim.stop();
        sim.open_unread();
        let after = sim.table(key).map(|(_, after)| shape(&after));
        assert_eq!(after, Some(shape(&table)), "seed {seed}: after the next start");
        found_holes += 1;
    }
    assert!(found_holes > 20, "the test looks at too little: {found_holes}");
}
