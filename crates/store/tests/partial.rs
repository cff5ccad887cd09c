//! Objects with holes, against a plain map: pieces are added under conditions, heads refreshed, objects removed, segments
//! reclaimed, the store closed and opened again. Each byte that the store has is the right one, pieces that were added are
//! there until their segment is taken back, and who comes with an old view is told so.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod memory;

use memory::{Disks, bytes_at, formatted, options, settle};
use std::collections::{HashMap, HashSet};
use store::*;

const KEYS: u64 = 6;
const BODY_BYTES: u64 = 200_000;
const PIECE_BYTES: u64 = 16 << 10;
const SEGMENT_BYTES: u32 = 128 << 10;
const DEVICE_BYTES: u64 = 12 * SEGMENT_BYTES as u64;

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

fn hash(key: u64) -> KeyHash {
    KeyHash(u128::from(mix(key + 1)) | u128::from(mix(key + 1000)) << 64)
}

/// The representation of a key in a version: what its origin has.
fn body(key: u64, version: u64, from: u64, to: u64) -> Vec<u8> {
    (from..to).map(|at| mix((key << 40) ^ (version << 20) ^ (at / 8)) as u8 ^ at as u8).collect()
}

/// A store over one device in memory, whose requests are carried out at once.
struct World {
    store: Store,
    disks: Disks,
    now: Millis,
    seed: u64,
    /// Of each key: its version, the pieces that were added, and whether a place was seen before the last change.
    twin: HashMap<u64, (u64, HashSet<(u64, u64)>)>,
    versions: u64,
}

fn config() -> Config {
    Config {
        inline_bytes_max: 2048,
        gather_bytes: 32 << 10,
        extent_bytes_max: PIECE_BYTES as u32,
        checkpoint_every: 20,
        ..Config::default()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut disks = vec![formatted(&options(7, DEVICE_BYTES, SEGMENT_BYTES))];
        let store = memory::open(&mut disks, config());
        Self { store, disks, now: 0, seed, twin: HashMap::new(), versions: 0 }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.seed = self.seed.wrapping_add(1);
        mix(self.seed) % n
    }

    fn finish(&mut self, out: Outbox) {
        settle(&self.store, &mut self.disks, out);
    }

    fn tick(&mut self) {
        self.now += 30;
        let mut out = Outbox::new();
        self.store.tick(self.now, &mut out);
        self.finish(out);
    }

    fn bytes(&self, at: &At) -> Vec<u8> {
        bytes_at(&self.store, &self.disks, at)
    }

    /// Looks the object up and compares every byte that it has; gives its place, head and table.
    fn look(&self, key: u64) -> Option<(Found, Vec<u8>, Table)> {
        let found = self.store.lookup(hash(key))?;
        let bytes = self.bytes(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let (version, added) = self.twin.get(&key).unwrap_or_else(|| panic!("key {key} is back"));
        assert_eq!(record.key, key.to_le_bytes());
        assert!(record.head.starts_with(&version.to_le_bytes()), "key {key}: another version");
        assert_eq!(record.body_len(), BODY_BYTES);
        let mut table = self.store.table_of(&found.place, &record).unwrap();
        let listed: HashSet<_> = table.pieces().iter().map(|piece| (piece.start, piece.end())).collect();
        assert!(listed.is_subset(added), "key {key} has pieces that nobody added");
        table.retain(|extent| self.store.is_there(extent));
        for piece in table.pieces() {
            let place = self.store.extent_place(&piece.extent).unwrap();
            let bytes = self.bytes(&self.store.at(&place).unwrap());
            assert!(bytes == body(key, *version, piece.start, piece.end()), "key {key} at {}", piece.start);
            assert_eq!(crc32c(&bytes), piece.extent.crc);
        }
        let head = record.head.to_vec();
        Some((found, head, table))
    }

    /// Writes a piece on an aligned or an odd boundary.
    fn piece(&mut self, key: u64, version: u64) -> Option<(WrittenExtent, Piece)> {
        let start = match self.below(3) {
            0 => self.below(BODY_BYTES),
            _ => self.below(BODY_BYTES / PIECE_BYTES) * PIECE_BYTES,
        };
        let end = BODY_BYTES.min(start + 1 + self.below(PIECE_BYTES));
        let bytes = body(key, version, start, end);
        let mut out = Outbox::new();
        let reserved = self.store.reserve_extent(hash(key), bytes.len() as u32, &mut out);
        self.finish(out);
        let reserved = reserved.ok()?;
        let offset = self.store.device_offset(reserved.place()).unwrap() as usize;
        self.disks[0][offset..][..bytes.len()].copy_from_slice(&bytes);
        let written = reserved.written(crc32c(&bytes));
        let piece = Piece { start, extent: *written.extent() };
        Some((written, piece))
    }

    /// Adds pieces to what is there, or begins anew; sometimes with a view that has grown old meanwhile.
    fn add(&mut self, key: u64) {
        let seen = self.look(key);
        let is_new = seen.is_none();
        let version = match self.twin.get(&key) {
            Some((version, _)) if !is_new => *version,
            _ => {
                self.versions += 1;
                self.versions
            }
        };
        let count = 1 + self.below(4);
        let written: Vec<_> = (0..count).filter_map(|_| self.piece(key, version)).collect();
        let overtaken = self.below(4) == 0;
        if overtaken {
            self.overtake(key, is_new);
        }
        let mut table = seen.as_ref().map_or(Table::hole(BODY_BYTES), |(_, _, table)| table.clone());
        let before: HashSet<_> = table.pieces().iter().map(|piece| (piece.start, piece.end())).collect();
        table.add(written.iter().map(|(_, piece)| *piece).collect());
        let expected = seen.as_ref().map_or(Expected::Nothing, |(found, ..)| Expected::At(found.place));
        // Reclaim may have moved the record while the pieces were written.
        let moved = match &seen {
            Some((found, ..)) => !self.store.is_at(hash(key), &found.place),
            None => self.store.lookup(hash(key)).is_some(),
        };
        let mut out = Outbox::new();
        let terms = Terms { expected, verified: true };
        let head = [&version.to_le_bytes()[..], b"head"].concat();
        let put = self.store.put_table(hash(key), &key.to_le_bytes(), &head, &table, terms, &mut out);
        self.finish(out);
        match put {
            Ok(_) => {
                assert!(!moved, "key {key} was put over what its writer had not seen");
                let now: HashSet<_> = table.pieces().iter().map(|piece| (piece.start, piece.end())).collect();
                assert!(now.len() + written.len() >= before.len());
                self.twin.insert(key, (version, now));
            }
            Err(Declined::Superseded) => assert!(moved, "key {key} was refused for nothing"),
            Err(why) => assert!(matches!(why, Declined::NoSpace | Declined::WritesBehind), "{why}"),
        }
    }

    /// Somebody else is faster: removes the object, or puts one where there was none.
    fn overtake(&mut self, key: u64, is_new: bool) {
        if is_new { self.replace(key) } else { self.remove(key) }
    }

    fn replace(&mut self, key: u64) {
        self.versions += 1;
        let mut out = Outbox::new();
        let (table, head) = (Table::hole(BODY_BYTES), self.versions.to_le_bytes());
        let terms = Terms { expected: Expected::Anything, verified: true };
        let put = self.store.put_table(hash(key), &key.to_le_bytes(), &head, &table, terms, &mut out);
        self.finish(out);
        if put.is_ok() {
            self.twin.insert(key, (self.versions, HashSet::new()));
        }
    }

    fn remove(&mut self, key: u64) {
        let mut out = Outbox::new();
        self.store.remove(hash(key), &mut out);
        self.finish(out);
        self.twin.remove(&key);
    }

    fn refresh(&mut self, key: u64) {
        let Some((found, _, table)) = self.look(key) else { return };
        let bytes = self.bytes(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let head = [&self.twin[&key].0.to_le_bytes()[..], &self.now.to_le_bytes()].concat();
        let mut out = Outbox::new();
        let put = self.store.refresh(hash(key), &found.place, &record, &head, true, &mut out);
        self.finish(out);
        match put {
            Ok(_) => {
                // Writing the record may have ended the life of a piece.
                let (_, now, mut kept) = self.look(key).unwrap();
                let mut table = table;
                table.retain(|extent| self.store.is_there(extent));
                kept.retain(|extent| self.store.is_there(extent));
                assert_eq!((now, kept), (head, table), "a refreshed object keeps its pieces and holes");
            }
            Err(Declined::BodyGone) => assert!(table.pieces().is_empty()),
            Err(why) => assert!(matches!(why, Declined::NoSpace | Declined::WritesBehind), "{why}"),
        }
    }

    fn reopen(&mut self) {
        let mut out = Outbox::new();
        self.store.shutdown(&mut out);
        self.finish(out);
        while !self.store.idle() {
            self.tick();
        }
        self.store = memory::open(&mut self.disks, config());
        (0..KEYS).for_each(|key| _ = self.look(key));
    }
}

#[test]
fn pieces_and_holes_agree_with_a_plain_map() {
    let (mut found, mut pieces, mut whole_lives) = (0, 0, 0);
    for seed in 0..30 {
        let mut world = World::new(seed << 32);
        for _ in 0..600 {
            let key = world.below(KEYS);
            match world.below(100) {
                0..70 => world.add(key),
                70..78 => world.refresh(key),
                78..80 => world.remove(key),
                80..97 => world.tick(),
                _ => {
                    world.reopen();
                    whole_lives += 1;
                }
            }
            if let Some((_, _, table)) = world.look(key) {
                found += 1;
                pieces += table.pieces().len();
            }
        }
    }
    assert!(found > 5000 && pieces > found && whole_lives > 100, "{found} {pieces} {whole_lives}");
}

#[test]
fn a_table_that_no_record_can_hold_is_declined() {
    let mut world = World::new(1);
    let extent = ExtentRef { device: 7, segment: 1, sequence: 1, offset: 0, len: 1, crc: 0 };
    let pieces = (0..EXTENTS_MAX as u64).map(|at| Piece { start: 2 * at, extent });
    let mut table = Table::hole(2 * EXTENTS_MAX as u64);
    table.add(pieces.collect());
    let terms = Terms { expected: Expected::Nothing, verified: true };
    let mut out = Outbox::new();
    let put = world.store.put_table(hash(1), b"key", b"head", &table, terms, &mut out);
    world.finish(out);
    assert_eq!(put, Err(Declined::TooFragmented));
}
