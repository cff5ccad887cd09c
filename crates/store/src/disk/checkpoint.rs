//! A checkpoint: which lives of segments count, what of the open segment is durable, who belongs to the
//! store, and the caller's note.
//!
//! Two areas in slot 0 are written in turn, each with two copies: a header block, then the sealed lives, then the
//! entries of the open segment, then the note (opaque bytes, the same on every device). (Two copies: going back to the area before would bring back what was removed since.)
//! A checkpoint is written after a sync of everything that it covers, on all devices, so an entry that it lists has
//! its bytes (and its extents, wherever they are) on their devices.
//!
//! It lists all that counts: a start reads slot 0 and nothing else, whatever the size of the device. What a checkpoint
//! does not list has no contents.
//!
//! A checkpoint is one of the whole store: it counts where every device that it names has it
//! ([`crate::recovery`]). A device that does not have it missed something and would bring back what was removed
//! meanwhile.

use super::segment::{
    ContentsTable, ENTRY_BYTES, Entry, encode_entries, entries_of, halves, open_block, seal, whole,
};
use super::{Corrupt, VERSION};
use crate::block::{BLOCK_BYTES, BlockBuf};
use crate::checksum::crc32c;
use crate::fingerprint::Fingerprint;
use crate::geometry::Geometry;
use crate::types::DeviceId;
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;

const MAGIC: [u8; 8] = *b"TGCHECKP";

/// Devices in a store.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of the longest note; less where checkpoint areas are small ([`note_max`]).
const NOTE_BYTES_MAX: u32 = 256 << 10;
/// Tombstones that found no room in the log and are kept in the header block.
pub const OWED_MAX: usize = 64;
/// A flag of the header: a clear found no room in the log.
const FLAG_CLEAR_OWED: u32 = 1;
/// Bytes of a sealed life on disk.
pub(crate) const LIFE_BYTES: u32 = size_of::<RawLife>() as u32;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Raw {
    magic: [u8; 8],
    crc: u32,
    version: u16,
    members: u16,
    device: [u64; 2],
    store_id: [u64; 2],
    hash_seed: u64,
    number: u64,
    generation: u64,
    next_sequence: u64,
    last_lsn: u64,
    open_sequence: u64,
    open_segment: u32,
    data_bytes: u32,
    sealed: u32,
    entries: u32,
    rest_crc: u32,
    owed: u32,
    note_bytes: u32,
    flags: u32,
}
const _: () = assert!(size_of::<Raw>() == 128);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawLife {
    sequence: u64,
    segment: u32,
    entries: u32,
    contents_crc: u32,
    data_bytes: u32,
}
const _: () = assert!(size_of::<RawLife>() == 24);

const MEMBER_BYTES: usize = size_of::<[u64; 2]>();
const OWED_AT: usize = size_of::<Raw>() + MEMBERS_MAX * MEMBER_BYTES;
const _: () = assert!(OWED_AT + OWED_MAX * size_of::<u64>() <= BLOCK_BYTES as usize);

/// A sealed segment whose contents count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// Names it.
    pub sequence: u64,
    /// Which segment.
    pub segment: u32,
    /// Its contents table.
    pub table: ContentsTable,
    /// Bytes of records and extents, padding included.
    pub data_bytes: u32,
}

/// The segment that was open, and what of it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenContents {
    /// Which segment.
    pub segment: u32,
    /// Its life.
    pub sequence: u64,
    /// Bytes of records and extents.
    pub data_bytes: u32,
    /// Durable entries.
    pub entries: Vec<Entry>,
}

/// What is void on a device although no segment says so yet. Newer than all entries of the device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owed {
    /// All records. (Their extents may be another device's by now: lives are listed none the less.)
    pub clear: bool,
    /// The records of these objects.
    pub tombstones: Vec<Fingerprint>,
}

impl Owed {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.clear && self.tombstones.is_empty()
    }

    /// A tombstone is owed, once.
    pub(crate) fn tombstone(&mut self, of: Fingerprint) {
        if !self.tombstones.contains(&of) {
            self.tombstones.push(of);
        }
    }

    fn flags(&self) -> u32 {
        if self.clear { FLAG_CLEAR_OWED } else { 0 }
    }
}

/// The contents of a checkpoint area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whose.
    pub device: DeviceId,
    /// The store that the device belongs to.
    pub store_id: u128,
    /// Seed of the key hash.
    pub hash_seed: u64,
    /// Higher is newer.
    pub number: u64,
    /// Counts the runs of the store.
    pub generation: u64,
    /// Lives from this one on were begun later.
    pub next_sequence: u64,
    /// The sealed segments whose contents count, by rising sequence.
    pub sealed: Vec<Life>,
    /// Entries of this device's log up to this lsn are durable.
    pub last_lsn: u64,
    /// The devices that it was taken over.
    pub members: Vec<DeviceId>,
    /// Marks that no segment has yet.
    pub owed: Owed,
    /// The open segment, if any.
    pub open: Option<OpenContents>,
    /// What the store's caller wants to find again at the next start.
    pub note: Bytes,
}

impl Checkpoint {
    /// Header block, lives, entries and note, in whole blocks.
    pub(crate) fn encode(&self) -> BlockBuf {
        let entries = self.open.as_ref().map_or(&[][..], |open| &open.entries);
        let lives_bytes = self.sealed.len() * LIFE_BYTES as usize;
        let entries_bytes = entries.len() * ENTRY_BYTES as usize;
        let rest_bytes = lives_bytes + entries_bytes + self.note.len();
        let mut area = BlockBuf::zeroed(BLOCK_BYTES + rest_bytes as u32);
        let (header, rest) = area.as_mut().split_at_mut(BLOCK_BYTES as usize);
        let (lives, behind) = rest[..rest_bytes].split_at_mut(lives_bytes);
        let (listed, note) = behind.split_at_mut(entries_bytes);
        for (life, slot) in self.sealed.iter().zip(lives.chunks_exact_mut(LIFE_BYTES as usize)) {
            slot.copy_from_slice(bytemuck::bytes_of(&life.to_raw()));
        }
        encode_entries(entries, listed);
        note.copy_from_slice(&self.note);
        let raw = self.raw(entries.len() as u32, crc32c(&rest[..rest_bytes]));
        header[..size_of::<Raw>()].copy_from_slice(bytemuck::bytes_of(&raw));
        let slots = header[size_of::<Raw>()..].chunks_exact_mut(MEMBER_BYTES);
        for (member, slot) in self.members.iter().zip(slots) {
            slot.copy_from_slice(bytemuck::bytes_of(&halves(*member)));
        }
        for (of, slot) in
            self.owed.tombstones.iter().zip(header[OWED_AT..].chunks_exact_mut(size_of::<u64>()))
        {
            slot.copy_from_slice(&of.number().to_le_bytes());
        }
        seal(header);
        area
    }

    fn raw(&self, entries: u32, rest_crc: u32) -> Raw {
        debug_assert!(self.members.len() <= MEMBERS_MAX && self.owed.tombstones.len() <= OWED_MAX);
        let open = self.open.as_ref();
        Raw {
            magic: MAGIC,
            crc: 0,
            version: VERSION,
            members: self.members.len() as u16,
            device: halves(self.device),
            store_id: halves(DeviceId(self.store_id)),
            hash_seed: self.hash_seed,
            number: self.number,
            generation: self.generation,
            next_sequence: self.next_sequence,
            last_lsn: self.last_lsn,
            open_sequence: open.map_or(0, |open| open.sequence),
            open_segment: open.map_or(0, |open| open.segment),
            data_bytes: open.map_or(0, |open| open.data_bytes),
            sealed: self.sealed.len() as u32,
            entries,
            rest_crc,
            owed: self.owed.tombstones.len() as u32,
            note_bytes: self.note.len() as u32,
            flags: self.owed.flags(),
        }
    }

    /// Bytes of a copy according to its header block, which is included; at most `bytes_max`.
    pub fn used_bytes(header: &[u8], bytes_max: u32) -> Result<u32, Corrupt> {
        let raw: Raw = open_block(header, MAGIC)?;
        let used = (u64::from(BLOCK_BYTES) + raw.rest_bytes()).next_multiple_of(u64::from(BLOCK_BYTES));
        if used > u64::from(bytes_max) { Err(Corrupt::Lengths) } else { Ok(used as u32) }
    }

    /// Decodes a copy on the device called `device`.
    pub fn decode(area: &[u8], device: DeviceId, geometry: &Geometry) -> Result<Self, Corrupt> {
        let raw: Raw = open_block(area, MAGIC)?;
        if whole(raw.device) != device {
            return Err(Corrupt::Elsewhere);
        }
        let idle = raw.open_segment == 0 && raw.entries > 0;
        if usize::from(raw.members) > MEMBERS_MAX || raw.owed as usize > OWED_MAX || idle {
            return Err(Corrupt::Lengths);
        }
        let (header, rest) = area.split_at(BLOCK_BYTES as usize);
        let rest = rest.get(..raw.rest_bytes() as usize).ok_or(Corrupt::Short)?;
        if crc32c(rest) != raw.rest_crc {
            return Err(Corrupt::Checksum);
        }
        let (lives, behind) = rest.split_at(raw.sealed as usize * LIFE_BYTES as usize);
        let (listed, note) = behind.split_at(raw.entries as usize * ENTRY_BYTES as usize);
        let open = (raw.open_segment != 0).then_some(OpenContents {
            segment: raw.open_segment,
            sequence: raw.open_sequence,
            data_bytes: raw.data_bytes,
            entries: entries_of(listed, geometry)?,
        });
        let members = header[size_of::<Raw>()..].chunks_exact(MEMBER_BYTES).take(raw.members.into());
        let owed = header[OWED_AT..].chunks_exact(size_of::<u64>()).take(raw.owed as usize);
        let owed = owed.map(|slot| Fingerprint::from_number(bytemuck::pod_read_unaligned(slot)));
        let found = Self {
            device,
            store_id: whole(raw.store_id).0,
            hash_seed: raw.hash_seed,
            number: raw.number,
            generation: raw.generation,
            next_sequence: raw.next_sequence,
            sealed: lives.chunks_exact(LIFE_BYTES as usize).map(Life::from_bytes).collect(),
            last_lsn: raw.last_lsn,
            members: members.map(|slot| whole(bytemuck::pod_read_unaligned(slot))).collect(),
            owed: Owed {
                clear: raw.flags & FLAG_CLEAR_OWED != 0,
                tombstones: owed.collect::<Option<_>>().ok_or(Corrupt::Lengths)?,
            },
            open,
            note: Bytes::copy_from_slice(note),
        };
        if found.is_sound(geometry) { Ok(found) } else { Err(Corrupt::Lengths) }
    }

    /// Whether the lives are possible together: each in a segment of its own, each with room for its table.
    fn is_sound(&self, geometry: &Geometry) -> bool {
        let open = self.open.iter().map(|open| (open.sequence, open.segment));
        let lives = self.sealed.iter().map(|life| (life.sequence, life.segment)).chain(open);
        let mut segments: Vec<u32> = lives.clone().map(|(_, segment)| segment).collect();
        segments.sort_unstable();
        let apart = segments.windows(2).all(|pair| pair[0] < pair[1]);
        let there = segments.iter().all(|segment| (1..=geometry.segments()).contains(segment));
        let known = lives.clone().all(|(sequence, _)| (1..self.next_sequence).contains(&sequence));
        let rising = self.sealed.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
        let fits = self.sealed.iter().all(|life| life.table.fits(geometry));
        apart && there && known && rising && fits
    }

    /// Whether `other` is the same checkpoint, on another device.
    pub(crate) fn is_with(&self, other: &Self) -> bool {
        let name = |of: &Self| (of.store_id, of.generation, of.number);
        name(self) == name(other) && self.members == other.members
    }
}

impl Raw {
    fn rest_bytes(&self) -> u64 {
        let lives = u64::from(self.sealed) * u64::from(LIFE_BYTES);
        lives + u64::from(self.entries) * u64::from(ENTRY_BYTES) + u64::from(self.note_bytes)
    }
}

impl Life {
    fn to_raw(self) -> RawLife {
        let Self { sequence, segment, table: ContentsTable { entries, crc }, data_bytes } = self;
        RawLife { sequence, segment, entries, contents_crc: crc, data_bytes }
    }

    fn from_bytes(slot: &[u8]) -> Self {
        let RawLife { sequence, segment, entries, contents_crc, data_bytes } =
            bytemuck::pod_read_unaligned(slot);
        Self { sequence, segment, table: ContentsTable { entries, crc: contents_crc }, data_bytes }
    }
}

/// Bytes of the longest note in a checkpoint of so many bytes.
pub(crate) fn note_max(bytes: u32) -> u32 {
    ((bytes - BLOCK_BYTES) / 8).min(NOTE_BYTES_MAX)
}

/// Entries of an open segment that fit into a checkpoint beside the longest note and the lives of all other segments.
pub(crate) fn entries_max(geometry: &Geometry) -> u32 {
    let (bytes, lives) = (geometry.checkpoint_bytes(), geometry.segments() * LIFE_BYTES);
    (bytes - BLOCK_BYTES - note_max(bytes) - lives) / ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::super::segment::EntryKind;
    use super::*;
    use crate::types::Lsn;

    const DEVICE: DeviceId = DeviceId(1 << 70 | 2);

    fn geometry() -> Geometry {
        Geometry::new(10 << 16, 1 << 16).unwrap()
    }

    fn life(n: u32) -> Life {
        let table = ContentsTable { entries: n, crc: n };
        Life { sequence: u64::from(n), segment: n, table, data_bytes: 7 }
    }

    fn checkpoint(entries: u32) -> Checkpoint {
        let entry = |n: u32| Entry {
            kind: EntryKind::Record { elsewhere: true },
            fingerprint: Fingerprint::from_parts(1, n),
            lsn: Lsn(u64::from(n)),
            offset: 4096,
            len: 128,
        };
        Checkpoint {
            device: DEVICE,
            store_id: 4,
            hash_seed: 5,
            number: 6,
            generation: 7,
            next_sequence: 11,
            sealed: [1, 2, 4, 5].map(life).to_vec(),
            last_lsn: 9,
            owed: Owed {
                clear: false,
                tombstones: (0..OWED_MAX as u32).map(|n| Fingerprint::from_parts(9, n)).collect(),
            },
            members: (0..MEMBERS_MAX as u128).map(DeviceId).collect(),
            open: Some(OpenContents {
                segment: 3,
                sequence: 10,
                data_bytes: 11,
                entries: (0..entries).map(entry).collect(),
            }),
            note: Bytes::from_static(b"remember"),
        }
    }

    #[test]
    fn a_checkpoint_comes_back() {
        let closed = Checkpoint { open: None, ..checkpoint(0) };
        let empty = Checkpoint { sealed: Vec::new(), ..closed.clone() };
        let quiet = Checkpoint { note: Bytes::new(), ..checkpoint(128) };
        let long = Checkpoint { note: Bytes::from(vec![7; 9000]), ..checkpoint(127) };
        let cleared = Checkpoint { owed: Owed { clear: true, tombstones: Vec::new() }, ..checkpoint(3) };
        let open = [checkpoint(0), checkpoint(1), checkpoint(128), checkpoint(300)];
        for written in open.into_iter().chain([closed, empty, quiet, long, cleared]) {
            let area = written.encode();
            assert_eq!(Checkpoint::used_bytes(area.as_ref(), 1 << 20), Ok(area.len()));
            assert_eq!(Checkpoint::decode(area.as_ref(), DEVICE, &geometry()), Ok(written));
        }
    }

    #[test]
    fn lives_that_cannot_be_are_refused() {
        let absurd = Life { table: ContentsTable { entries: u32::MAX, crc: 0 }, ..life(5) };
        let wrong =
            [vec![life(2), life(1)], vec![life(1), life(1)], vec![life(3)], vec![life(11)], vec![absurd]];
        for sealed in wrong {
            let area = Checkpoint { sealed, ..checkpoint(1) }.encode();
            assert_eq!(Checkpoint::decode(area.as_ref(), DEVICE, &geometry()), Err(Corrupt::Lengths));
        }
    }

    #[test]
    fn a_torn_checkpoint_is_noticed() {
        let area = Checkpoint { note: Bytes::from(vec![7; 9000]), ..checkpoint(300) }.encode();
        for block in 0..area.len() / BLOCK_BYTES {
            let mut torn = area.clone();
            torn.as_mut()[(block * BLOCK_BYTES) as usize..][..4096].fill(0);
            assert!(Checkpoint::decode(torn.as_ref(), DEVICE, &geometry()).is_err(), "block {block}");
        }
        assert_eq!(Checkpoint::decode(area.as_ref(), DeviceId(1), &geometry()), Err(Corrupt::Elsewhere));
    }

    #[test]
    fn hostile_bytes_never_panic() {
        bolero::check!().with_test_time(crate::testing::fuzz_time()).for_each(|bytes: &[u8]| {
            let mut area = BlockBuf::copy_of(bytes);
            area.grow_to(BLOCK_BYTES);
            area.as_mut()[..8].copy_from_slice(&MAGIC);
            area.as_mut()[12..14].copy_from_slice(&VERSION.to_le_bytes());
            area.as_mut()[16..32].copy_from_slice(&DEVICE.0.to_le_bytes());
            seal(area.as_mut());
            _ = Checkpoint::used_bytes(area.as_ref(), 1 << 20);
            _ = Checkpoint::decode(area.as_ref(), DEVICE, &geometry());
        });
    }
}
