//! A checkpoint: what of the open segment is durable, who belongs to the store, and the caller's note.
//!
//! Two areas in slot 0 are written in turn, each with two copies: a header block, then the entries of the open
//! segment, then the note (opaque bytes, the same on every device). The newest intact one counts. (Two copies: going back to the area before would bring back what
//! was removed since.) A checkpoint is written after a sync of everything that it covers, on all devices,
//! so an entry that it lists has its bytes (and its extents, wherever they are) on their devices.
//!
//! Membership: a device's contents count only if it took part in every run since it joined. Else it would
//! bring back what was removed while it was away.

use super::segment::{
    ENTRY_BYTES, Entry, EntryKind, decode_entries, encode_entries, halves, open_block, seal, whole,
};
use super::{Corrupt, VERSION};
use crate::block::{BLOCK_BYTES, BlockBuf};
use crate::checksum::crc32c;
use crate::fingerprint::Fingerprint;
use crate::geometry::Geometry;
use crate::types::{DeviceId, Lsn};
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;

const MAGIC: [u8; 8] = *b"TGCHECKP";

/// Devices in a store.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of the longest note; less where checkpoint areas are small ([`note_max`]).
const NOTE_BYTES_MAX: u32 = 256 << 10;
/// Tombstones that found no room in the log and are kept in the header block. Where no segment is open the
/// others are entries ([`owed_max`]).
pub const OWED_MAX: usize = 64;

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
    floor_sequence: u64,
    next_sequence: u64,
    open_sequence: u64,
    open_segment: u32,
    entries: u32,
    entries_crc: u32,
    data_bytes: u32,
    last_lsn: u64,
    owed: u32,
    sealed: u32,
}
const _: () = assert!(size_of::<Raw>() == 128);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawMember {
    device: [u64; 2],
    joined: u64,
}
const MEMBER_BYTES: usize = size_of::<RawMember>();
const OWED_AT: usize = size_of::<Raw>() + MEMBERS_MAX * MEMBER_BYTES;
const NOTE_AT: usize = OWED_AT + OWED_MAX * size_of::<u64>();
const _: () = assert!(NOTE_AT + size_of::<RawNote>() <= BLOCK_BYTES as usize);

/// How long the note is that stands behind the entries.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct RawNote {
    bytes: u32,
    crc: u32,
}

/// A device of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub device: DeviceId,
    /// In which generation it joined; contents from before do not count.
    pub joined: u64,
}

/// Which lives a checkpoint speaks of: those from `floor` on that are before `next` and not open are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequences {
    /// Lives before this one have no contents.
    pub floor: u64,
    /// Lives from this one on were begun later.
    pub next: u64,
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
    /// Which lives of segments it knows.
    pub sequences: Sequences,
    /// How many of them are sealed. Fewer on the device: one is lost without a trace.
    pub sealed: u32,
    /// Entries of this device's log up to this lsn are durable.
    pub last_lsn: u64,
    /// Who belongs to the store.
    pub members: Vec<Member>,
    /// Objects whose older records are void although no segment says so yet.
    pub owed: Vec<Fingerprint>,
    /// The open segment, if any.
    pub open: Option<OpenContents>,
    /// What the store's caller wants to find again at the next start.
    pub note: Bytes,
}

impl Checkpoint {
    /// Header block, entries and note, in whole blocks.
    pub(crate) fn encode(&self) -> BlockBuf {
        let owed = self.owed_entries();
        let entries = self.open.as_ref().map_or(&owed[..], |open| &open.entries);
        let entries_bytes = entries.len() as u32 * ENTRY_BYTES;
        let mut area = BlockBuf::zeroed(BLOCK_BYTES + entries_bytes + self.note.len() as u32);
        let (header, rest) = area.as_mut().split_at_mut(BLOCK_BYTES as usize);
        let entries_crc = encode_entries(entries, rest);
        let raw = self.raw(entries.len() as u32, entries_crc);
        header[..size_of::<Raw>()].copy_from_slice(bytemuck::bytes_of(&raw));
        let slots = header[size_of::<Raw>()..].chunks_exact_mut(MEMBER_BYTES);
        for (member, slot) in self.members.iter().zip(slots) {
            let raw = RawMember { device: halves(member.device), joined: member.joined };
            slot.copy_from_slice(bytemuck::bytes_of(&raw));
        }
        for (of, slot) in self.owed.iter().zip(header[OWED_AT..].chunks_exact_mut(size_of::<u64>())) {
            slot.copy_from_slice(&of.number().to_le_bytes());
        }
        rest[entries_bytes as usize..][..self.note.len()].copy_from_slice(&self.note);
        let raw = RawNote { bytes: self.note.len() as u32, crc: crc32c(&self.note) };
        header[NOTE_AT..][..size_of::<RawNote>()].copy_from_slice(bytemuck::bytes_of(&raw));
        seal(header);
        area
    }

    /// Owed tombstones behind those that the header block holds.
    fn owed_entries(&self) -> Vec<Entry> {
        debug_assert!(self.open.is_none() || self.owed.len() <= OWED_MAX);
        let more = self.owed.iter().skip(OWED_MAX).zip(self.last_lsn + 1..);
        let entry = |(&fingerprint, lsn): (&Fingerprint, u64)| Entry {
            kind: EntryKind::Tombstone,
            fingerprint,
            lsn: Lsn(lsn),
            offset: 0,
            len: 0,
        };
        more.map(entry).collect()
    }

    fn raw(&self, entries: u32, entries_crc: u32) -> Raw {
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
            floor_sequence: self.sequences.floor,
            next_sequence: self.sequences.next,
            open_sequence: open.map_or(0, |open| open.sequence),
            open_segment: open.map_or(0, |open| open.segment),
            entries,
            entries_crc,
            data_bytes: open.map_or(0, |open| open.data_bytes),
            last_lsn: self.last_lsn,
            owed: self.owed.len().min(OWED_MAX) as u32,
            sealed: self.sealed,
        }
    }

    /// Bytes of a copy according to its header block, which is included; at most `bytes_max`.
    pub fn used_bytes(header: &[u8], bytes_max: u32) -> Result<u32, Corrupt> {
        let raw: Raw = open_block(header, MAGIC)?;
        let behind = u64::from(raw.entries) * u64::from(ENTRY_BYTES) + u64::from(raw_note(header).bytes);
        let used = u64::from(BLOCK_BYTES) + behind.next_multiple_of(u64::from(BLOCK_BYTES));
        if used > u64::from(bytes_max) { Err(Corrupt::Lengths) } else { Ok(used as u32) }
    }

    /// Decodes a copy on the device called `device`.
    pub fn decode(area: &[u8], device: DeviceId, geometry: &Geometry) -> Result<Self, Corrupt> {
        let raw: Raw = open_block(area, MAGIC)?;
        if whole(raw.device) != device {
            return Err(Corrupt::Elsewhere);
        }
        if usize::from(raw.members) > MEMBERS_MAX
            || raw.owed as usize > OWED_MAX
            || raw.open_segment > geometry.segments()
        {
            return Err(Corrupt::Lengths);
        }
        let rest = &area[BLOCK_BYTES as usize..];
        let entries = decode_entries(rest, raw.entries, raw.entries_crc, geometry)?;
        let note = decode_note(&rest[entries.len() * ENTRY_BYTES as usize..], raw_note(area))?;
        let members = area[size_of::<Raw>()..BLOCK_BYTES as usize].chunks_exact(MEMBER_BYTES);
        let members = members.take(raw.members.into()).map(|slot| {
            let raw: RawMember = bytemuck::pod_read_unaligned(slot);
            Member { device: whole(raw.device), joined: raw.joined }
        });
        let owed = area[OWED_AT..BLOCK_BYTES as usize].chunks_exact(size_of::<u64>()).take(raw.owed as usize);
        let owed = owed.map(|slot| Fingerprint::from_number(bytemuck::pod_read_unaligned(slot)));
        let mut owed: Vec<Fingerprint> = owed.collect::<Option<_>>().ok_or(Corrupt::Lengths)?;
        if raw.open_segment == 0 {
            owed.extend(entries.iter().map(|entry| entry.fingerprint));
        }
        let open = (raw.open_segment != 0).then_some(OpenContents {
            segment: raw.open_segment,
            sequence: raw.open_sequence,
            data_bytes: raw.data_bytes,
            entries,
        });
        Ok(Self {
            device,
            store_id: whole(raw.store_id).0,
            hash_seed: raw.hash_seed,
            number: raw.number,
            generation: raw.generation,
            sequences: Sequences { floor: raw.floor_sequence, next: raw.next_sequence },
            sealed: raw.sealed,
            last_lsn: raw.last_lsn,
            members: members.collect(),
            owed,
            open,
            note,
        })
    }
}

fn raw_note(header: &[u8]) -> RawNote {
    bytemuck::pod_read_unaligned(&header[NOTE_AT..NOTE_AT + size_of::<RawNote>()])
}

fn decode_note(bytes: &[u8], raw: RawNote) -> Result<Bytes, Corrupt> {
    let note = bytes.get(..raw.bytes as usize).ok_or(Corrupt::Short)?;
    if crc32c(note) == raw.crc { Ok(Bytes::copy_from_slice(note)) } else { Err(Corrupt::Checksum) }
}

/// Bytes of the longest note in a checkpoint of so many bytes.
pub(crate) fn note_max(bytes: u32) -> u32 {
    ((bytes - BLOCK_BYTES) / 8).min(NOTE_BYTES_MAX)
}

/// Entries that fit into a checkpoint of so many bytes beside the longest note.
pub(crate) fn entries_max(bytes: u32) -> u32 {
    (bytes - BLOCK_BYTES - note_max(bytes)) / ENTRY_BYTES
}

/// Owed tombstones that fit into a checkpoint of so many bytes while no segment is open.
pub(crate) fn owed_max(bytes: u32) -> usize {
    OWED_MAX + entries_max(bytes) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceId = DeviceId(1 << 70 | 2);

    fn geometry() -> Geometry {
        Geometry::new(10 << 16, 1 << 16).unwrap()
    }

    fn checkpoint(entries: u32) -> Checkpoint {
        let entry = |n: u32| Entry {
            kind: EntryKind::Record { elsewhere: true },
            fingerprint: Fingerprint::from_parts(1, n),
            lsn: Lsn(u64::from(n)),
            offset: 4096,
            len: 128,
        };
        let member = |n: u64| Member { device: DeviceId(u128::from(n)), joined: n };
        Checkpoint {
            device: DEVICE,
            store_id: 4,
            hash_seed: 5,
            number: 6,
            generation: 7,
            sequences: Sequences { floor: 8, next: 11 },
            sealed: 2,
            last_lsn: 9,
            owed: (0..OWED_MAX as u32).map(|n| Fingerprint::from_parts(9, n)).collect(),
            members: (0..MEMBERS_MAX as u64).map(member).collect(),
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
        let owed = (0..500).map(|n| Fingerprint::from_parts(9, n)).collect();
        let owing = Checkpoint { owed, ..closed.clone() };
        let quiet = Checkpoint { note: Bytes::new(), ..checkpoint(128) };
        let long = Checkpoint { note: Bytes::from(vec![7; 9000]), ..checkpoint(127) };
        let open = [checkpoint(0), checkpoint(1), checkpoint(128), checkpoint(300)];
        for written in open.into_iter().chain([closed, owing, quiet, long]) {
            let area = written.encode();
            assert_eq!(Checkpoint::used_bytes(area.as_ref(), 1 << 20), Ok(area.len()));
            assert_eq!(Checkpoint::decode(area.as_ref(), DEVICE, &geometry()), Ok(written));
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
