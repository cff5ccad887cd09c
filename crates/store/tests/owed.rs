//! Marks that find no room in the log: a clear on a device without a free segment.
//!
//! Checked: after a crash behind a checkpoint what was cleared is gone, and an object that was stored afterwards keeps
//! its body, although a part of that was written to the full device before the clear.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod memory;

use memory::{Disks, bytes_at, formatted, options, settle};
use store::*;

const SEGMENT_BYTES: u32 = 64 << 10;
const FULL: DeviceIndex = DeviceIndex(1);
const EXTENT: usize = 8 << 10;
const BUSY_BYTES: u64 = 1 << 30;

fn config() -> Config {
    Config { gather_bytes: 16 << 10, extent_bytes_max: EXTENT as u32, ..Config::default() }
}

fn hash(key: u64) -> KeyHash {
    let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    KeyHash(u128::from(mixed ^ mixed >> 29) | u128::from(mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9)) << 64)
}

/// A large device and a small one, which is filled.
struct World {
    store: Store,
    disks: Disks,
    keys: u64,
}

impl World {
    fn new() -> Self {
        let segment = u64::from(SEGMENT_BYTES);
        let disk = |id, segments| formatted(&options(id, segments * segment, SEGMENT_BYTES));
        let mut disks = vec![disk(1, 60), disk(2, 14)];
        let store = memory::open(&mut disks, config());
        // As long as the large device has so much to do, most goes to the small one.
        store.asked(DeviceIndex(0), BUSY_BYTES);
        Self { store, disks, keys: 0 }
    }

    fn with<T>(&mut self, act: impl FnOnce(&Store, &mut Outbox) -> T) -> T {
        let mut out = Outbox::new();
        let result = act(&self.store, &mut out);
        settle(&self.store, &mut self.disks, out);
        result
    }

    fn put(&mut self, key: u64, len: usize) -> Result<Place, Declined> {
        self.with(|store, out| store.put_inline(hash(key), &key.to_le_bytes(), b"", &vec![7; len], out))
    }

    /// Puts objects until the small device has so many segments left.
    fn fill_until(&mut self, free: u32) {
        while self.store.stats().devices[1].segments.free > free {
            self.keys += 1;
            let _ = self.put(self.keys, 3000);
        }
    }

    /// Fills what is left of the small device: with objects, and with tombstones, which may take the last segment.
    fn fill_up(&mut self) {
        let mut doomed = 0..self.keys;
        let has_room = |segments: SegmentCounts| segments.open + segments.free > 0;
        while has_room(self.store.stats().devices[1].segments) {
            for _ in 0..50 {
                self.keys += 1;
                let _ = self.put(self.keys, 3000);
            }
            let key = doomed.next().expect("a tombstone without room");
            self.with(|store, out| store.remove(hash(key), out));
        }
    }

    /// An extent on the small device.
    fn extent(&mut self, key: u64) -> WrittenExtent {
        loop {
            let reserved =
                self.with(|store, out| store.reserve_extent(hash(key), EXTENT as u32, out)).unwrap();
            if reserved.place().device == FULL {
                let at = self.store.device_offset(reserved.place()).unwrap() as usize;
                let body = vec![9; EXTENT];
                self.disks[1][at..at + EXTENT].copy_from_slice(&body);
                return reserved.written(crc32c(&body));
            }
        }
    }

    fn checkpoint(&mut self) {
        let before = self.store.checkpoints();
        for now in (1..).map(|n| n * 1000) {
            self.with(|store, out| store.tick(now, out));
            if self.store.checkpoints() > before {
                return;
            }
        }
    }

    /// The power goes, and comes back.
    fn crash(&mut self) {
        self.store = memory::open(&mut self.disks, config());
    }

    fn body(&self, key: u64) -> Option<Vec<u8>> {
        let found = self.store.lookup(hash(key))?;
        let bytes = bytes_at(&self.store, &self.disks, &found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let Body::Extents(table) = record.body() else { panic!("it has extents") };
        let piece = |extent| self.store.at(&self.store.extent_place(&extent)?);
        let pieces: Option<Vec<At>> = table.iter().map(piece).collect();
        Some(pieces?.iter().flat_map(|at| bytes_at(&self.store, &self.disks, at)).collect())
    }
}

#[test]
fn a_clear_without_room_spares_what_is_stored_afterwards() {
    let mut world = World::new();
    // Reclaim takes the oldest segments: the extent is not to be in these.
    world.fill_until(6);
    let large = (1 << 40..).find(|&key| world.put(key, 10).is_ok_and(|place| place.device != FULL)).unwrap();
    let extent = world.extent(large);
    world.fill_up();
    world.store.answered(DeviceIndex(0), BUSY_BYTES);
    world.with(|store, out| store.clear(out));
    assert_eq!(world.store.stats().objects, 0);
    let put = |store: &Store, out: &mut Outbox| {
        store.put_extents(hash(large), &large.to_le_bytes(), b"", [&extent], out)
    };
    assert_ne!(world.with(put).unwrap().device, FULL);
    drop(extent);
    world.checkpoint();
    let is_whole = |world: &World| world.body(large) == Some(vec![9; EXTENT]);
    assert!(is_whole(&world));
    for crash in ["first", "second"] {
        world.crash();
        assert!(is_whole(&world), "{crash} crash");
        assert_eq!(world.store.stats().objects, 1, "{crash} crash: what was cleared is back");
    }
}
