//! Storing, refreshing, removing, as the proxy does.

use super::*;

/// A large body that is being written.
#[derive(Debug)]
pub(super) struct Upload {
    key: u64,
    version: Version,
    /// Taken and not yet written.
    reserved: VecDeque<(Reservation, Vec<u8>)>,
    written: Vec<WrittenExtent>,
}

impl Sim {
    pub(super) fn put_small(&mut self, key: u64) {
        let len = [0, 10, 700, 2048][self.rng.below(4) as usize];
        let version = Version { head: self.step, body: self.step, len };
        let mut out = Outbox::new();
        let (head, body) = (version.head_bytes(), version.body_bytes());
        let put = self.store.put_inline(key_hash(key), &key.to_le_bytes(), &head, &body, &mut out);
        self.perform(out);
        self.note_put(key, version, put);
    }

    /// Begins a large object, or finishes one that was begun.
    pub(super) fn put_large(&mut self, key: u64) {
        let len = 2049 + self.rng.below(30_000) as u32;
        let version = Version { head: self.step, body: self.step, len };
        let begun = self.reserve(key, version);
        self.uploads.extend(begun);
        if self.uploads.len() > 3 || self.rng.one_in(2) {
            let at = self.rng.below(self.uploads.len().max(1) as u64) as usize;
            if let Some(upload) = self.uploads.remove(at) {
                self.finish(upload);
            }
        }
    }

    fn reserve(&mut self, key: u64, version: Version) -> Option<Upload> {
        let mut out = Outbox::new();
        let mut reserved = VecDeque::new();
        for piece in version.body_bytes().chunks(EXTENT) {
            let reservation = self.store.reserve_extent(key_hash(key), piece.len() as u32, &mut out);
            reserved.extend(reservation.ok().map(|reservation| (reservation, piece.to_vec())));
        }
        self.perform(out);
        let whole = reserved.len() == (version.len as usize).div_ceil(EXTENT);
        whole.then_some(Upload { key, version, reserved, written: Vec::new() })
    }

    /// Writes what is left, with other things happening in between, and stores the record.
    fn finish(&mut self, mut upload: Upload) {
        while let Some((reservation, piece)) = upload.reserved.pop_front() {
            match self.write_extent(reservation, &piece) {
                Some(written) => upload.written.push(written),
                None => return,
            }
            if self.rng.one_in(8) {
                self.complete_some();
            }
        }
        let Upload { key, version, written, .. } = upload;
        let mut out = Outbox::new();
        let (hash, head) = (key_hash(key), version.head_bytes());
        let put = self.store.put_extents(hash, &key.to_le_bytes(), &head, &written, &mut out);
        self.perform(out);
        self.note_put(key, version, put);
    }

    fn write_extent(&mut self, reservation: Reservation, piece: &[u8]) -> Option<WrittenExtent> {
        let offset = self.store.device_offset(reservation.place()).unwrap();
        let blocks = BlockBuf::copy_of(piece);
        if self.world.write(reservation.place().device, offset, blocks.as_ref()) {
            return Some(reservation.written(crc32c(piece)));
        }
        reservation.failed();
        None
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

    pub(super) fn refresh(&mut self, key: u64) {
        let Some((found, bytes)) = self.fetch(key) else { return };
        let Some(version) = self.check(key, &found, &bytes) else { return };
        let Ok(record) = self.store.record(&found.place, &bytes) else { return };
        let version = Version { head: self.step, ..version };
        let mut out = Outbox::new();
        let put =
            self.store.refresh(key_hash(key), &found.place, &record, &version.head_bytes(), true, &mut out);
        self.perform(out);
        if put != Err(Declined::BodyGone) {
            self.note_put(key, version, put);
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        let mut out = Outbox::new();
        self.store.remove(key_hash(key), &mut out);
        self.perform(out);
        self.note(key, None);
    }

    pub(super) fn clear_sometimes(&mut self) {
        if self.rng.one_in(10) {
            let mut out = Outbox::new();
            self.store.clear(&mut out);
            self.perform(out);
            (0..KEYS).for_each(|key| self.note(key, None));
        }
    }

    pub(super) fn set_note(&mut self) {
        if self.store.set_note(self.step.to_le_bytes().to_vec().into()).is_ok() {
            self.notes.push((self.step, self.step));
        }
        if self.rng.one_in(2) {
            self.store.ask_checkpoint();
        }
    }
}
