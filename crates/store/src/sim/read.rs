//! Looking up and reading, as the proxy does, and comparing with the twin.

use super::*;

impl Sim {
    pub(super) fn look_up(&mut self, key: u64) {
        self.sums.lookups += 1;
        self.sums.hits += u64::from(self.serves(key));
    }

    /// Whether the object is found, whole and right.
    pub(super) fn serves(&mut self, key: u64) -> bool {
        self.fetch(key).is_some_and(|(found, bytes)| self.check(key, &found, &bytes).is_some())
    }

    pub(super) fn fetch(&mut self, key: u64) -> Option<(Found, Vec<u8>)> {
        let found = self.store.lookup(key_hash(key))?;
        let bytes = self.bytes_at(&found.at)?;
        Some((found, bytes))
    }

    /// Nothing where the read failed.
    fn bytes_at(&mut self, at: &At) -> Option<Vec<u8>> {
        let place = match at {
            At::Buffered(bytes) => return Some(bytes.to_vec()),
            At::Device(lease) => *lease.place(),
        };
        let offset = self.store.device_offset(&place).unwrap();
        let bytes = self.world.read(place.device, offset, place.len);
        if bytes.is_none() {
            self.store.note_io_error(place.device);
        }
        bytes
    }

    /// Reads the body; checks everything against the twin. Nothing where the store rightly has nothing.
    pub(super) fn check(&mut self, key: u64, found: &Found, bytes: &[u8]) -> Option<Version> {
        let (head, body) = self.read(key, found, bytes)?;
        let version = Version::of_head(&head).unwrap();
        let (allowed, seed, step) = (self.twin.now(key), self.seed, self.step);
        let right = allowed.contains(&Some(version));
        assert!(right, "seed {seed}: step {step}: key {key} is {version:?}, not {allowed:?}");
        assert!(body == version.body_bytes(), "seed {seed}: step {step}: body of key {key}");
        self.twin.saw(key, version);
        Some(version)
    }

    /// Head and body, with every checksum compared. Where `verified` spares a reader that, only a stray write
    /// can have done damage, and this is the scrub that finds it.
    pub(super) fn read(&mut self, key: u64, found: &Found, bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let Ok(record) = self.store.record(&found.place, bytes) else {
            self.damaged(key, found, &[found.place]);
            return None;
        };
        assert_eq!(record.key, key.to_le_bytes());
        let mut places = vec![found.place];
        let (body, intact) = match record.body() {
            Body::Inline(inline) => (inline.bytes.to_vec(), record.is_intact()),
            Body::Extents(table) => {
                let extents: Vec<ExtentRef> = table.iter().collect();
                places.extend(extents.iter().filter_map(|extent| self.store.extent_place(extent)));
                self.read_extents(key, found, &extents)?
            }
        };
        if !intact {
            self.damaged(key, found, &places);
            return None;
        }
        self.store.note_verified(key_hash(key), &found.place);
        Some((record.head.to_vec(), body))
    }

    fn read_extents(&mut self, key: u64, found: &Found, extents: &[ExtentRef]) -> Option<(Vec<u8>, bool)> {
        let places = extents.iter().map(|extent| self.store.extent_place(extent));
        let held: Option<Vec<At>> = places.map(|place| self.store.at(&place?)).collect();
        let Some(held) = held else {
            self.store.forget(key_hash(key), &found.place);
            return None;
        };
        let (mut body, mut intact) = (Vec::new(), true);
        for (extent, at) in extents.iter().zip(&held) {
            let piece = self.bytes_at(at)?;
            intact &= crc32c(&piece) == extent.crc;
            body.extend(piece);
        }
        Some((body, intact))
    }

    fn damaged(&mut self, key: u64, found: &Found, places: &[Place]) {
        self.sums.damaged += 1;
        let excused = !found.verified || places.iter().any(|place| self.is_wrong(place));
        assert!(excused, "seed {}: key {key} was verified and is damaged, step {}", self.seed, self.step);
        let mut out = Outbox::new();
        self.store.note_bad(key_hash(key), &found.place, &mut out);
        self.perform(out);
    }

    fn is_wrong(&self, place: &Place) -> bool {
        let offset = self.store.device_offset(place).unwrap();
        self.world.is_wrong(place.device, offset, place.len)
    }

    pub(super) fn hold(&mut self, key: u64) {
        let Some((Found { at: At::Device(lease), .. }, bytes)) = self.fetch(key) else { return };
        self.held.push((lease, bytes));
    }

    pub(super) fn release(&mut self) {
        if self.held.len() > 3 {
            let at = self.rng.below(self.held.len() as u64) as usize;
            let (lease, bytes) = self.held.swap_remove(at);
            let place = lease.place();
            let offset = self.store.device_offset(place).unwrap();
            let same = self.world.see(place.device, offset, place.len) == bytes;
            assert!(
                same || self.is_wrong(place),
                "seed {}: leased bytes changed, step {}",
                self.seed,
                self.step
            );
        }
    }
}
