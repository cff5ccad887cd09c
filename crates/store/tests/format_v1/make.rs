//! The store's side: making the images, opening them, looking objects up.

use super::*;
use crate::memory::{Disks, bytes_at, options, settle};
use store::format::FormatOptions;

const SEGMENT_BYTES: u32 = 64 << 10;
const DEVICE_BYTES: u64 = 12 * SEGMENT_BYTES as u64;
const EXTENT_BYTES: u32 = 8 << 10;

pub(crate) const NOTE: &[u8] = b"a note";
pub(crate) const REMOVED: &str = "small-2";

pub(crate) fn hash(key: &str) -> KeyHash {
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_01b3 << 64 | 0x013b);
    let mixed = key.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    KeyHash(mixed ^ mixed >> 61)
}

pub(crate) fn open(devices: &mut [Vec<u8>]) -> Store {
    let config = Config {
        gather_bytes: 16 << 10,
        extent_bytes_max: EXTENT_BYTES,
        checkpoint_every: 10,
        ..Config::default()
    };
    memory::open(devices, config)
}

/// The object as the store gives it, every checksum compared.
pub(crate) fn look(store: &Store, devices: &[Vec<u8>], key: &str) -> Option<Object> {
    let found = store.lookup(hash(key))?;
    let bytes = bytes_at(store, devices, &found.at);
    let record = store.record(&found.place, &bytes).unwrap();
    assert_eq!((record.key, record.is_intact()), (key.as_bytes(), true));
    let body = match record.body() {
        Body::Inline(inline) => inline.bytes.iter().copied().map(Some).collect(),
        Body::Extents(table) => table.iter().flat_map(|extent| piece(store, devices, &extent)).collect(),
    };
    Some((record.head.to_vec(), body))
}

fn piece(store: &Store, devices: &[Vec<u8>], extent: &ExtentRef) -> Vec<Option<u8>> {
    let Some(at) = store.extent_place(extent).and_then(|place| store.at(&place)) else {
        return vec![None; extent.len as usize];
    };
    let bytes = bytes_at(store, devices, &at);
    assert_eq!(crc32c(&bytes), extent.crc);
    bytes.into_iter().map(Some).collect()
}

/// Writes images and list.
pub(crate) fn bless() {
    let mut maker = Maker::new();
    maker.history();
    for (name, device) in ["a", "b"].iter().zip(&maker.devices) {
        std::fs::write(path(name), image::encode(device)).unwrap();
    }
    let lines: String = maker.lines.iter().map(|(key, rest)| format!("{key} {rest}\n")).collect();
    std::fs::write(path("objects"), lines).unwrap();
}

struct Maker {
    devices: Disks,
    store: Store,
    now: Millis,
    lines: BTreeMap<String, String>,
}

impl Maker {
    fn new() -> Self {
        let mut devices: Disks = (1..=2).map(formatted).collect();
        let store = open(&mut devices);
        Self { devices, store, now: 0, lines: BTreeMap::new() }
    }

    fn history(&mut self) {
        for number in 0..8 {
            self.small(&format!("small-{number}"), "first", 100 + number, b'a');
        }
        self.large(
            "large",
            "first",
            &[(0, EXTENT_BYTES), (EXTENT_BYTES, EXTENT_BYTES), (2 * EXTENT_BYTES, 3000)],
        );
        self.checkpoint();
        for number in 0..16 {
            self.small(&format!("filler-{number}"), "first", 10_000, b'f');
        }
        self.checkpoint();
        self.small("small-1", "second", 3000, b'b');
        self.refresh("large", "second");
        self.large("partial", "first", &[(0, EXTENT_BYTES), (2 * EXTENT_BYTES, 5000)]);
        self.small("empty", "first", 0, b'e');
        let mut out = Outbox::new();
        assert!(self.store.remove(hash(REMOVED), &mut out));
        self.lines.remove(REMOVED);
        self.settle(out);
        self.store.set_note(NOTE.into()).unwrap();
        self.checkpoint();
        // What no checkpoint covers is not listed.
        let lines = self.lines.clone();
        self.small("late", "first", 100, b'l');
        self.lines = lines;
    }

    fn settle(&mut self, out: Outbox) {
        settle(&self.store, &mut self.devices, out);
    }

    fn checkpoint(&mut self) {
        let before = self.store.checkpoints();
        while self.store.checkpoints() == before {
            self.now += 20;
            let mut out = Outbox::new();
            self.store.tick(self.now, &mut out);
            self.settle(out);
        }
    }

    fn small(&mut self, key: &str, head: &str, len: usize, byte: u8) {
        let mut out = Outbox::new();
        let body = vec![byte; len];
        self.store.put_inline(hash(key), key.as_bytes(), head.as_bytes(), &body, &mut out).unwrap();
        self.settle(out);
        self.lines.insert(key.into(), format!("{head} {len}*{}", byte as char));
    }

    /// A body whose pieces have these starts and lengths, with a hole of 4000 bytes at its end where there are others.
    fn large(&mut self, key: &str, head: &str, pieces: &[(u32, u32)]) {
        let end = pieces.iter().map(|(start, len)| start + len).max().unwrap();
        let stored: u32 = pieces.iter().map(|(_, len)| len).sum();
        let length = if stored == end { end } else { end + 4000 };
        let mut table = Table::hole(length.into());
        let (mut held, mut line, mut at) = (Vec::new(), head.to_owned(), 0);
        for (&(start, len), byte) in pieces.iter().zip(b'p'..) {
            let written = self.extent(key, len, byte);
            table.add(vec![Piece { start: start.into(), extent: *written.extent() }]);
            held.push(written);
            if start > at {
                line += &format!(" {}*-", start - at);
            }
            line += &format!(" {len}*{}", byte as char);
            at = start + len;
        }
        if length > at {
            line += &format!(" {}*-", length - at);
        }
        let terms = Terms { expected: Expected::Anything, verified: true };
        let mut out = Outbox::new();
        let (key_bytes, head) = (key.as_bytes(), head.as_bytes());
        self.store.put_table(hash(key), key_bytes, head, &table, terms, &mut out).unwrap();
        self.settle(out);
        self.lines.insert(key.into(), line);
    }

    fn extent(&mut self, key: &str, len: u32, byte: u8) -> WrittenExtent {
        let mut out = Outbox::new();
        let reservation = self.store.reserve_extent(hash(key), len, &mut out).unwrap();
        self.settle(out);
        let place = *reservation.place();
        let offset = self.store.device_offset(&place).unwrap() as usize;
        let bytes = vec![byte; len as usize];
        self.devices[usize::from(place.device.0)][offset..][..bytes.len()].copy_from_slice(&bytes);
        reservation.written(crc32c(&bytes))
    }

    fn refresh(&mut self, key: &str, head: &str) {
        let found = self.store.lookup(hash(key)).unwrap();
        let bytes = bytes_at(&self.store, &self.devices, &found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let mut out = Outbox::new();
        self.store.refresh(hash(key), &found.place, &record, head.as_bytes(), true, &mut out).unwrap();
        self.settle(out);
        let line = self.lines.get_mut(key).unwrap();
        *line = format!("{head} {}", line.split_once(' ').unwrap().1);
    }
}

fn formatted(number: u128) -> Vec<u8> {
    let id = 0x1111_2222_3333_4444_5555_6666_7777_0000 + number;
    let (store_id, hash_seed, now) = (0x9999, 0x8888, 1_700_000_000);
    let options = options(id, DEVICE_BYTES, SEGMENT_BYTES);
    memory::formatted(&FormatOptions { store_id, hash_seed, now, ..options })
}
