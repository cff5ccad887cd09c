//! What is in use stays when its segments are taken back: small objects, large bodies in many pieces over several
//! devices, small bodies whose head was refreshed. Byte for byte. What is not in use leaves.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod memory;

use memory::{Disks, bytes_at, formatted, options, settle};
use store::*;

const SEGMENT: u32 = 128 << 10;
const SEGMENTS: u64 = 24;
const EXTENT: usize = 16 << 10;

/// A store over devices in memory that answer at once.
struct World {
    store: Store,
    disks: Disks,
    now: Millis,
}

impl World {
    fn new(devices: usize) -> Self {
        let device_bytes = (SEGMENTS + 1) * u64::from(SEGMENT);
        let disk = |number: usize| formatted(&options(number as u128 + 1, device_bytes, SEGMENT));
        let mut disks: Disks = (0..devices).map(disk).collect();
        let config = Config {
            inline_bytes_max: 4 << 10,
            gather_bytes: 32 << 10,
            extent_bytes_max: EXTENT as u32,
            ..Config::default()
        };
        Self { store: memory::open(&mut disks, config), disks, now: 0 }
    }

    fn carry_out(&mut self, out: Outbox) {
        settle(&self.store, &mut self.disks, out);
    }

    /// Calls `put` until there is space.
    fn put(&mut self, put: impl Fn(&mut Self, &mut Outbox) -> Result<Place, Declined>) -> Place {
        for _ in 0..100 {
            let mut out = Outbox::new();
            let done = put(self, &mut out);
            self.carry_out(out);
            match done {
                Ok(place) => return place,
                Err(Declined::NoSpace) => self.tick(),
                Err(why) => panic!("{why}"),
            }
        }
        panic!("no space for a hundred ticks");
    }

    fn tick(&mut self) {
        self.now += 100;
        let mut out = Outbox::new();
        self.store.tick(self.now, &mut out);
        self.carry_out(out);
    }

    fn put_small(&mut self, key: u64, len: usize) -> Place {
        let body = body(key, len);
        self.put(|world, out| world.store.put_inline(hash(key), &key.to_le_bytes(), b"head", &body, out))
    }

    fn put_large(&mut self, key: u64, len: usize) -> Place {
        let body = body(key, len);
        self.put(|world, out| {
            let mut extents = Vec::new();
            for piece in body.chunks(EXTENT) {
                let reservation = world.store.reserve_extent(hash(key), piece.len() as u32, out)?;
                let at = world.store.device_offset(reservation.place()).unwrap() as usize;
                let disk = &mut world.disks[usize::from(reservation.place().device.0)];
                disk[at..at + piece.len()].copy_from_slice(piece);
                extents.push(reservation.written(crc32c(piece)));
            }
            world.store.put_extents(hash(key), &key.to_le_bytes(), b"head", &extents, out)
        })
    }

    fn refresh(&mut self, key: u64, place: Place) {
        self.put(|world, out| {
            let at = world.store.at(&place).unwrap();
            let bytes = world.bytes(&at);
            let record = world.store.record(&place, &bytes).unwrap();
            world.store.refresh(hash(key), &place, &record, b"new head", true, out)
        });
    }

    fn bytes(&self, at: &At) -> Vec<u8> {
        bytes_at(&self.store, &self.disks, at)
    }

    /// Looks the object up; its bytes, if all of them are there.
    fn get(&self, key: u64) -> Option<Vec<u8>> {
        let found = self.store.lookup(hash(key))?;
        let bytes = self.bytes(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        assert_eq!(record.key, key.to_le_bytes());
        match record.body() {
            Body::Inline(inline) => Some(inline.bytes.to_vec()),
            Body::Extents(table) => {
                let piece = |extent| Some(self.bytes(&self.store.at(&self.store.extent_place(&extent)?)?));
                table.iter().map(piece).collect::<Option<Vec<_>>>().map(|pieces| pieces.concat())
            }
        }
    }

    /// What is there of a large body, each piece with where it starts.
    fn pieces(&self, key: u64) -> Vec<(usize, Vec<u8>)> {
        let Some(found) = self.store.lookup(hash(key)) else { return Vec::new() };
        let bytes = self.bytes(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let table = self.store.table_of(&found.place, &record).unwrap();
        let place = |piece: &Piece| self.store.at(&self.store.extent_place(&piece.extent)?);
        let there = table.pieces().iter().filter_map(|piece| Some((piece.start as usize, place(piece)?)));
        there.map(|(start, at)| (start, self.bytes(&at))).collect()
    }

    /// Writes the store over `times`; every so often `uses` are made.
    fn turn_over(&mut self, times: u64, mut uses: impl FnMut(&mut Self)) {
        let puts = times * self.disks.len() as u64 * SEGMENTS * u64::from(SEGMENT) / 4096;
        for n in 0..puts {
            self.put_small(1_000_000 + n, 4000);
            if n % 16 == 0 {
                uses(self);
                self.tick();
            }
        }
    }
}

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

fn hash(key: u64) -> KeyHash {
    KeyHash(u128::from(mix(key + 1)) << 64 | u128::from(mix(key + 77)))
}

fn body(key: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| mix(key << 32 | (at / 8)) as u8).collect()
}

#[test]
fn large_bodies_in_use_stay_and_others_leave() {
    for devices in [1, 3] {
        let mut world = World::new(devices);
        // One piece, and several.
        let sizes = [9_000, 25_000, 60_000];
        for (key, len) in (0_u64..).zip(sizes) {
            world.put_large(key, len);
            world.put_large(100 + key, len);
        }
        let used =
            |world: &World| (0_u64..).zip(sizes).all(|(key, len)| world.get(key) == Some(body(key, len)));
        world.turn_over(4, |world| assert!(used(world), "{devices} devices"));
        assert!(used(&world));
        assert!((100..103).all(|key| world.get(key).is_none()), "unused, and still there");
        assert!(world.store.stats().carried_bytes > 94_000, "the log went round");
    }
}

/// A segment gives on at most nine tenths of itself, so a body that fills segments gets holes; what is there is right.
#[test]
fn of_a_body_longer_than_a_segment_most_stays() {
    let mut world = World::new(1);
    let long = body(1, 300_000);
    world.put_large(1, long.len());
    world.turn_over(2, |world| {
        assert!(world.pieces(1).iter().all(|(at, piece)| long[*at..][..piece.len()] == **piece))
    });
    let there: usize = world.pieces(1).iter().map(|(_, piece)| piece.len()).sum();
    assert!(there > long.len() / 3 && there < long.len(), "{there} bytes of {}", long.len());
}

#[test]
fn a_large_body_leaves_once_it_is_used_no_more() {
    let mut world = World::new(1);
    world.put_large(1, 100_000);
    (0..5).for_each(|_| assert!(world.get(1).is_some()));
    world.turn_over(4, |_| {});
    assert!(world.get(1).is_none());
}

#[test]
fn a_small_body_with_a_refreshed_head_stays_in_use() {
    let mut world = World::new(2);
    let places: Vec<Place> = (0..10).map(|key| world.put_small(key, 3000)).collect();
    world.turn_over(1, |world| (0..10).for_each(|key| assert!(world.get(key).is_some())));
    drop(places);
    for key in 0..10 {
        let place = world.store.lookup(hash(key)).unwrap().place;
        world.refresh(key, place);
    }
    world.turn_over(4, |world| (0..10).for_each(|key| assert_eq!(world.get(key), Some(body(key, 3000)))));
}
