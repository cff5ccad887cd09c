//! The store itself as one of the caches: the real machine over a device in memory that answers at once.
//!
//! Its segments, tables, free reserve and block padding all count against it: the opponents get as many bytes as
//! the device has segments, and waste none of them.

use super::opponents::Cache;
use store::format::{FormatOptions, format};
use store::*;

/// Bytes of a record that are not body: header and key.
const RECORD_OVERHEAD: u32 = 96 + KEY_BYTES;
const KEY_BYTES: u32 = 8;
const INLINE_MAX: u32 = 16 << 10;
/// Segments that a cache should have at least.
const SEGMENTS_WANTED: u64 = 64;
/// Writes between two ticks, and the time that passes with one.
const PUTS_A_TICK: u64 = 16;
const TICK_MS: Millis = 100;

/// A store and its device.
pub(crate) struct Tidegate {
    store: Store,
    disk: Vec<u8>,
    now: Millis,
    puts: u64,
    zeros: Vec<u8>,
}

impl Tidegate {
    /// A store whose segments hold `bytes` (rounded down to whole segments).
    pub(crate) fn new(bytes: u64, admission: Admission) -> Self {
        let segment = segment_bytes(bytes);
        let device_bytes = (bytes / u64::from(segment) + 1) * u64::from(segment);
        let mut disk = vec![0; device_bytes as usize];
        let options = FormatOptions {
            device_bytes,
            geometry: Geometry::new(device_bytes, segment).expect("segments are small enough"),
            device_id: DeviceId(1),
            store_id: 1,
            hash_seed: 0,
            now: 0,
        };
        for (offset, data) in format(&options) {
            disk[offset as usize..][..data.len() as usize].copy_from_slice(data.as_ref());
        }
        let store = open(&mut disk, config(segment, admission));
        Self { store, disk, now: 0, puts: 0, zeros: vec![0; 1 << 20] }
    }

    /// Bytes of objects that it holds when it is full, all stored once and none used: what is left of the device
    /// after tables, padding, and the segments that are kept free.
    pub(crate) fn holds(bytes: u64, sizes: &[u32]) -> u64 {
        let mut store = Self::new(bytes, Admission::All);
        let mut put = 0;
        let filled = (0..).zip(sizes.iter().cycle()).take_while(|(_, size)| {
            put += u64::from(**size);
            put < bytes * 2
        });
        let filled: Vec<(u32, u32)> = filled.map(|(of, &size)| (of, size)).collect();
        filled.iter().for_each(|&(of, size)| store.put(of, size));
        let held = filled.into_iter().filter(|&(of, size)| store.find(hash(of), size));
        held.map(|(_, size)| u64::from(size)).sum()
    }

    /// Bytes written for each byte that was stored, and bytes written.
    pub(crate) fn written(&self) -> (f64, u64) {
        let stats = self.store.stats();
        (stats.written_bytes as f64 / stats.admitted_bytes.max(1) as f64, stats.written_bytes)
    }

    fn carry_out(&mut self, mut out: Outbox) {
        while !out.is_empty() {
            for io in std::mem::take(&mut out) {
                let (id, done) = perform(&mut self.disk, io);
                self.store.complete(id, Ok(done), &mut out);
            }
        }
    }

    fn tick(&mut self) {
        self.now += TICK_MS;
        let mut out = Outbox::new();
        self.store.tick(self.now, &mut out);
        self.carry_out(out);
    }

    /// Looks an object up as the proxy does: all of a large body has to be there.
    fn find(&mut self, hash: KeyHash, size: u32) -> bool {
        let Some(found) = self.store.lookup(hash) else { return false };
        if size <= INLINE_MAX {
            return true;
        }
        let bytes = self.read(&found.at);
        let Ok(record) = self.store.record(&found.place, &bytes) else { return false };
        let Body::Extents(table) = record.body() else { return true };
        let alive =
            |extent| self.store.extent_place(&extent).and_then(|place| self.store.at(&place)).is_some();
        let whole = table.iter().all(alive);
        if !whole {
            self.store.forget(hash, &found.place);
        }
        whole
    }

    fn read(&self, at: &At) -> Vec<u8> {
        match at {
            At::Buffered(bytes) => bytes.to_vec(),
            At::Device(lease) => {
                let offset = self.store.device_offset(lease.place()).unwrap_or(0) as usize;
                self.disk[offset..offset + lease.place().len as usize].to_vec()
            }
        }
    }

    /// Stores an object, unless it does not earn it. Space that reclaim makes is waited for.
    fn put(&mut self, of: u32, size: u32) {
        let hash = hash(of);
        if self.store.admit(hash).is_err() {
            return;
        }
        self.puts += 1;
        if self.puts.is_multiple_of(PUTS_A_TICK) {
            self.tick();
        }
        for _ in 0..20 {
            match self.try_put(of, hash, size.saturating_sub(RECORD_OVERHEAD)) {
                Err(Declined::NoSpace | Declined::WritesBehind) => self.tick(),
                _ => return,
            }
        }
    }

    fn try_put(&mut self, of: u32, hash: KeyHash, body: u32) -> Result<(), Declined> {
        let key = u64::from(of).to_le_bytes();
        let mut out = Outbox::new();
        let done = if body <= INLINE_MAX {
            self.store.put_inline(hash, &key, &[], &self.zeros[..body as usize], &mut out)
        } else {
            self.extents(hash, body, &mut out)
                .and_then(|extents| self.store.put_extents(hash, &key, &[], &extents, &mut out))
        };
        self.carry_out(out);
        done.map(|_| ())
    }

    fn extents(&self, hash: KeyHash, body: u32, out: &mut Outbox) -> Result<Vec<WrittenExtent>, Declined> {
        let longest = self.store.config().extent_bytes_max;
        let starts = (0..body).step_by(longest as usize);
        starts
            .map(|from| {
                let len = longest.min(body - from);
                let reservation = self.store.reserve_extent(hash, len, out)?;
                Ok(reservation.written(crc32c(&self.zeros[..len as usize])))
            })
            .collect()
    }
}

impl Cache for Tidegate {
    fn request(&mut self, of: u32, size: u32) -> bool {
        let hit = self.find(hash(of), size);
        if !hit {
            self.put(of, size);
        }
        hit
    }
}

/// As large as leaves enough segments, from 64 KiB to 1 MiB.
fn segment_bytes(bytes: u64) -> u32 {
    let fits = |size: &u32| bytes / u64::from(*size) >= SEGMENTS_WANTED;
    [1 << 20, 512 << 10, 256 << 10, 128 << 10].into_iter().find(fits).unwrap_or(64 << 10)
}

fn config(segment: u32, admission: Admission) -> Config {
    Config {
        inline_bytes_max: INLINE_MAX,
        gather_bytes: segment / 2,
        extent_bytes_max: segment / 16,
        admission,
        ..Config::default()
    }
}

fn open(disk: &mut [u8], config: Config) -> Store {
    let mut recovery =
        Recovery::new(&[DeviceToOpen { bytes: disk.len() as u64 }], config).expect("one device");
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while !recovery.is_finished() {
        for io in std::mem::take(&mut out) {
            let (id, done) = perform(disk, io);
            recovery.complete(id, Ok(done), &mut out);
        }
    }
    recovery.into_store().expect("freshly formatted").0
}

fn perform(disk: &mut [u8], io: Io) -> (IoId, IoDone) {
    let id = io.id();
    let done = match io {
        Io::Write { offset, data, .. } => {
            let at = offset as usize;
            disk[at..at + data.len() as usize].copy_from_slice(data.as_ref());
            IoDone::Written
        }
        Io::Read { offset, len, .. } => {
            let at = offset as usize;
            IoDone::Read(bytes::Bytes::copy_from_slice(&disk[at..at + len as usize]))
        }
        Io::Sync { .. } => IoDone::Synced,
    };
    (id, done)
}

fn hash(of: u32) -> KeyHash {
    let mut chance = super::chance::Chance::new(u64::from(of) << 20);
    KeyHash(u128::from(chance.next()) << 64 | u128::from(chance.next()))
}
