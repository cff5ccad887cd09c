//! A reader made from docs/disk-format.md. Uses nothing of the store.

use super::Objects;
use std::collections::HashSet;

const BLOCK: usize = 4096;

/// What the devices hold.
pub(crate) struct Contents {
    pub(crate) note: Vec<u8>,
    pub(crate) objects: Objects,
}

struct Device<'a> {
    bytes: &'a [u8],
    id: u128,
    segment: usize,
    segments: usize,
    checkpoints: Vec<Checkpoint>,
}

#[derive(Clone)]
struct Checkpoint {
    store_id: u128,
    number: u64,
    generation: u64,
    members: Vec<u128>,
    lives: Vec<Life>,
    open: Option<(Life, Vec<Entry>)>,
    /// Bit 0 of the flags.
    is_clear_owed: bool,
    owed: Vec<u64>,
    note: Vec<u8>,
}

#[derive(Clone)]
struct Life {
    sequence: u64,
    segment: usize,
    entries: usize,
    crc: u32,
}

#[derive(Clone)]
struct Entry {
    fingerprint: u64,
    lsn: u64,
    offset: usize,
    len: usize,
    kind: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().unwrap())
}

/// CRC-32C, a bit at a time.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}

/// Whether a block starts with `magic`, has its checksum, and is of version 1.
fn is_good(block: &[u8], magic: &[u8; 8]) -> bool {
    block[..8] == magic[..] && u32_at(block, 8) == crc(&block[12..BLOCK]) && u16_at(block, 12) == 1
}

fn device(bytes: &[u8]) -> Device<'_> {
    let superblock = &bytes[16 << 10..][..BLOCK];
    assert!(is_good(superblock, b"TIDEGATE") && u32_at(superblock, 16) == 0);
    let (segment, segments) = (u32_at(superblock, 20) as usize, u32_at(superblock, 24) as usize);
    let id = u128_at(superblock, 32);
    let mut device = Device { bytes, id, segment, segments, checkpoints: Vec::new() };
    device.checkpoints =
        checkpoint_copies(bytes).into_iter().filter_map(|at| checkpoint(&bytes[at..], id)).collect();
    device
}

/// Where the copies of checkpoints start: two in area A, two in area B.
pub(crate) fn checkpoint_copies(bytes: &[u8]) -> [usize; 4] {
    let segment = u32_at(&bytes[16 << 10..], 20) as usize;
    let superblocks = [16 << 10, segment / 2 + (8 << 10), segment - (4 << 10)];
    let [a, b] = [0, 1].map(|area| {
        let start = superblocks[area] + BLOCK;
        [start, start + (superblocks[area + 1] - start) / 2 / BLOCK * BLOCK]
    });
    [a[0], a[1], b[0], b[1]]
}

fn checkpoint(area: &[u8], id: u128) -> Option<Checkpoint> {
    if !is_good(&area[..BLOCK], b"TGCHECKP") || u128_at(area, 16) != id {
        return None;
    }
    let [lives, entries] = [104, 108].map(|at| u32_at(area, at) as usize);
    let note = u32_at(area, 120) as usize;
    let rest = area.get(BLOCK..BLOCK + 24 * lives + 32 * entries + note)?;
    if crc(rest) != u32_at(area, 112) {
        return None;
    }
    let life = |at: &[u8]| Life {
        sequence: u64_at(at, 0),
        segment: u32_at(at, 8) as usize,
        entries: u32_at(at, 12) as usize,
        crc: u32_at(at, 16),
    };
    let (listed, behind) = rest.split_at(24 * lives);
    let (open_entries, note) = behind.split_at(32 * entries);
    let open = Life { sequence: u64_at(area, 88), segment: u32_at(area, 96) as usize, entries, crc: 0 };
    Some(Checkpoint {
        store_id: u128_at(area, 32),
        number: u64_at(area, 56),
        generation: u64_at(area, 64),
        members: (0..usize::from(u16_at(area, 14))).map(|n| u128_at(area, 128 + 16 * n)).collect(),
        lives: listed.chunks(24).map(life).collect(),
        open: (open.segment != 0).then(|| (open, entries_of(open_entries))),
        is_clear_owed: u32_at(area, 124) & 1 == 1,
        owed: (0..u32_at(area, 116) as usize).map(|n| u64_at(area, 1152 + 8 * n)).collect(),
        note: note.to_vec(),
    })
}

fn entries_of(bytes: &[u8]) -> Vec<Entry> {
    let entry = |at: &[u8]| Entry {
        fingerprint: u64_at(at, 0),
        lsn: u64_at(at, 8),
        offset: u32_at(at, 16) as usize,
        len: u32_at(at, 20) as usize,
        kind: u16_at(at, 24),
    };
    bytes.chunks(32).map(entry).collect()
}

/// Whether two checkpoints are one of the store.
fn same(one: &Checkpoint, other: &Checkpoint) -> bool {
    let name = |of: &Checkpoint| (of.store_id, of.generation, of.number);
    name(one) == name(other) && one.members == other.members
}

/// The checkpoint that counts.
fn chosen(devices: &[Device<'_>]) -> Option<Checkpoint> {
    let mut all: Vec<&Checkpoint> = devices.iter().flat_map(|device| &device.checkpoints).collect();
    all.sort_by_key(|checkpoint| std::cmp::Reverse((checkpoint.generation, checkpoint.number)));
    let has =
        |device: &Device<'_>, wanted: &Checkpoint| device.checkpoints.iter().any(|own| same(own, wanted));
    let complete = |wanted: &&&Checkpoint| {
        let asked =
            |device: &&Device<'_>| wanted.members.contains(&device.id) && !device.checkpoints.is_empty();
        devices.iter().filter(asked).all(|device| has(device, wanted))
    };
    all.iter().find(complete).or(all.first()).map(|checkpoint| (*checkpoint).clone())
}

/// A device with its checkpoint that counts.
struct Counting<'a> {
    device: Device<'a>,
    checkpoint: Checkpoint,
}

impl Counting<'_> {
    /// The bytes of a segment.
    fn segment(&self, number: usize) -> &[u8] {
        assert!((1..=self.device.segments).contains(&number));
        &self.device.bytes[number * self.device.segment..][..self.device.segment]
    }

    fn table(&self, life: &Life) -> Option<Vec<Entry>> {
        let bytes = 32 * life.entries;
        let second = self.device.segment - BLOCK - bytes.next_multiple_of(BLOCK);
        let copies = [second - bytes.next_multiple_of(BLOCK), second];
        let copies = copies.map(|at| &self.segment(life.segment)[at..at + bytes]);
        copies.into_iter().find(|copy| crc(copy) == life.crc).map(entries_of)
    }

    /// All entries that count with their segments and lives, newest first.
    fn entries(&self) -> Vec<(usize, u64, Entry)> {
        let mut all = Vec::new();
        let open = self.checkpoint.open.iter().map(|(life, entries)| (life, Some(entries.clone())));
        let sealed = self.checkpoint.lives.iter().rev().map(|life| (life, self.table(life)));
        for (life, entries) in open.chain(sealed) {
            let Some(entries) = entries else { break };
            all.extend(entries.into_iter().rev().map(|entry| (life.segment, life.sequence, entry)));
        }
        all
    }

    /// Whether a life counts.
    fn lives(&self, segment: usize, sequence: u64) -> bool {
        let open = self.checkpoint.open.iter().map(|(life, _)| life);
        self.checkpoint
            .lives
            .iter()
            .chain(open)
            .any(|life| (life.segment, life.sequence) == (segment, sequence))
    }
}

pub(crate) fn read(images: &[Vec<u8>]) -> Contents {
    let devices: Vec<Device<'_>> = images.iter().map(|bytes| device(bytes)).collect();
    let chosen = chosen(&devices).unwrap();
    let devices: Vec<Counting<'_>> =
        devices.into_iter().filter_map(|device| counting(device, &chosen)).collect();
    Contents { note: chosen.note, objects: merge(&devices) }
}

fn counting<'a>(device: Device<'a>, chosen: &Checkpoint) -> Option<Counting<'a>> {
    let checkpoint = device.checkpoints.iter().find(|own| same(own, chosen))?.clone();
    Some(Counting { device, checkpoint })
}

/// The first entry of a fingerprint by falling lsn decides.
fn merge(devices: &[Counting<'_>]) -> Objects {
    let mut all: Vec<(usize, usize, u64, Entry)> = Vec::new();
    for (on, device) in devices.iter().enumerate().filter(|(_, device)| !device.checkpoint.is_clear_owed) {
        let mut dead: HashSet<u64> = device.checkpoint.owed.iter().copied().collect();
        for (segment, sequence, entry) in device.entries() {
            match entry.kind {
                1 if !dead.contains(&entry.fingerprint) => all.push((on, segment, sequence, entry)),
                1 | 2 => {}
                3 => _ = dead.insert(entry.fingerprint),
                4 => break,
                other => panic!("kind {other}"),
            }
        }
    }
    all.sort_by_key(|(.., entry)| std::cmp::Reverse(entry.lsn));
    let mut decided = HashSet::new();
    all.retain(|(.., entry)| decided.insert(entry.fingerprint));
    all.iter()
        .map(|(on, segment, sequence, entry)| record(devices, *on, *segment, *sequence, entry))
        .collect()
}

fn record(
    devices: &[Counting<'_>],
    on: usize,
    segment: usize,
    sequence: u64,
    entry: &Entry,
) -> (Vec<u8>, super::Object) {
    let bytes = &devices[on].segment(segment)[entry.offset..][..entry.len];
    let [key_len, head_len, extents, inline] = [68, 72, 76, 80].map(|at| u32_at(bytes, at) as usize);
    let table_end = 96 + key_len + head_len + 32 * extents;
    assert!(bytes[..4] == *b"TGR1" && u32_at(bytes, 4) == crc(&bytes[8..table_end]));
    assert_eq!((u16_at(bytes, 8), u32_at(bytes, 12) as usize), (1, entry.len));
    assert_eq!((u64_at(bytes, 32), u64_at(bytes, 48)), (entry.lsn, sequence));
    assert_eq!((u64_at(bytes, 56), u32_at(bytes, 64) as usize), (devices[on].device.id as u64, entry.offset));
    assert_eq!(u128_at(bytes, 16) as u64 & ((1 << 44) - 1), entry.fingerprint);
    let (key, rest) = bytes[96..].split_at(key_len);
    let (head, rest) = rest.split_at(head_len);
    let (table, rest) = rest.split_at(32 * extents);
    assert_eq!(crc(&rest[..inline]), u32_at(bytes, 84));
    let mut body: Vec<Option<u8>> = rest[..inline].iter().copied().map(Some).collect();
    body.extend(table.chunks(32).flat_map(|entry| extent(devices, entry)));
    assert_eq!(body.len() as u64, u64_at(bytes, 40));
    (key.to_vec(), (head.to_vec(), body))
}

fn extent(devices: &[Counting<'_>], entry: &[u8]) -> Vec<Option<u8>> {
    let (device, sequence) = (u64_at(entry, 0), u64_at(entry, 8));
    let [segment, offset, len] = [16, 20, 24].map(|at| u32_at(entry, at) as usize);
    let holder = devices.iter().find(|holder| holder.device.id as u64 == device);
    let Some(holder) = holder.filter(|holder| sequence != 0 && holder.lives(segment, sequence)) else {
        return vec![None; len];
    };
    let bytes = &holder.segment(segment)[offset..][..len];
    assert_eq!(crc(bytes), u32_at(entry, 28));
    bytes.iter().copied().map(Some).collect()
}
