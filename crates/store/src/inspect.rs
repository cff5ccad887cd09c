//! Looking at devices without opening the store: for `tidegate inspect`.
//!
//! ```text
//! open (who it is) → agree (which checkpoint counts, what each segment is) → Device::merge, newest first → Newest
//!   → Device::entries that count → Device::verify (the record) → verify_extents (a body that is elsewhere)
//! ```
//! Pure decoding over readers that the caller supplies; nothing is written, one segment's contents are in memory at a
//! time. What counts is told as recovery tells it, among the devices that are shown. Of a store in use the last
//! checkpoint is seen.

use std::collections::{HashMap, HashSet};

use crate::block::{BLOCK_BYTES, round_to_blocks};
use crate::checksum::Crc32c;
use crate::disk::checkpoint::{Checkpoint, Life, Owed};
use crate::disk::extent::ExtentRef;
use crate::disk::record::Record;
use crate::disk::segment::{Entry, EntryKind, Header};
use crate::disk::superblock::{Superblock, SuperblockError, candidates};
use crate::fingerprint::Fingerprint;
use crate::geometry::Area;
use crate::recovery::choose;
use crate::types::{DeviceIndex, Lsn, Place};

/// Reads `len` bytes at an offset of the device; `None` where that fails. Whole blocks are asked for.
pub type Read<'a> = dyn FnMut(u64, u32) -> Option<Vec<u8>> + 'a;

/// The same of the device with that place in a list.
pub type ReadOf<'a> = dyn FnMut(usize, u64, u32) -> Option<Vec<u8>> + 'a;

/// Step in which a body is read.
const STEP_BYTES: u32 = 1 << 20;

/// What a segment is, as the device says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentState {
    /// No contents that count.
    Free,
    /// Open at the last checkpoint, which lists its contents.
    Open,
    /// With a contents table of its own.
    Sealed(Life),
}

/// A segment of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Which one, 1 and up.
    pub number: u32,
    /// Its life; 0 where it is free.
    pub sequence: u64,
    /// What it is.
    pub state: SegmentState,
}

/// A device as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Who it is and how it is divided.
    pub superblock: Superblock,
    /// All checkpoints that are intact.
    found: Vec<Checkpoint>,
    /// The one that counts; without one there are no contents.
    pub checkpoint: Option<Checkpoint>,
    /// All of its segments, by number.
    pub segments: Vec<Segment>,
}

/// What reading an object's bytes showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All that was read has its checksum.
    Intact,
    /// The record is damaged or not the one that the contents table names.
    BadRecord,
    /// The record is good, its body is not.
    BadBody,
    /// The device did not give the bytes.
    Unreadable,
    /// A piece of the body was in a segment that was used again since: the next request is a miss.
    BodyGone,
    /// A piece of the body is on a device that was not shown.
    BodyUnseen,
}

impl Verdict {
    /// The word for listings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Intact => "intact",
            Self::BadRecord => "bad-record",
            Self::BadBody => "bad-body",
            Self::Unreadable => "unreadable",
            Self::BodyGone => "body-gone",
            Self::BodyUnseen => "body-unseen",
        }
    }

    /// Whether something is not as it was written.
    pub const fn is_damage(self) -> bool {
        matches!(self, Self::BadRecord | Self::BadBody | Self::Unreadable)
    }
}

/// Finds superblock and checkpoints of a device of `device_bytes`; what its segments are is for [`agree`] to say.
///
/// # Errors
/// When it is not a store that this code reads.
pub fn open(device_bytes: u64, read: &mut Read<'_>) -> Result<Device, SuperblockError> {
    let copies: Vec<Vec<u8>> =
        candidates(device_bytes).into_iter().filter_map(|at| read(at, BLOCK_BYTES)).collect();
    let superblock = Superblock::find(copies.iter().map(Vec::as_slice), device_bytes)?;
    let geometry = superblock.geometry;
    let places = Area::BOTH.into_iter().flat_map(|area| geometry.checkpoint_copies(area));
    let found = places.filter_map(|at| {
        let used = Checkpoint::used_bytes(&read(at, BLOCK_BYTES)?, geometry.checkpoint_bytes()).ok()?;
        Checkpoint::decode(&read(at, used)?, superblock.device_id, &geometry).ok()
    });
    let found = found.collect();
    Ok(Device { superblock, found, checkpoint: None, segments: Vec::new() })
}

/// Finds out among the devices of a store which checkpoint counts, and what their segments are.
pub fn agree(devices: &mut [Device]) {
    let found: Vec<Vec<&Checkpoint>> = devices.iter().map(|device| device.found.iter().collect()).collect();
    let chosen = choose(&found).unwrap_or_else(|| vec![None; devices.len()]);
    for (device, chosen) in devices.iter_mut().zip(chosen) {
        device.checkpoint = chosen.and_then(|at| device.found.get(at).cloned());
        device.segments = device.sort_segments();
    }
}

impl Device {
    /// Superblock copies that are not as they were written.
    pub fn bad_superblocks(&self, read: &mut Read<'_>) -> u64 {
        let Superblock { device_bytes, geometry, .. } = self.superblock;
        let is_good = |block: Vec<u8>| Superblock::find([&*block], device_bytes) == Ok(self.superblock);
        let copies = geometry.superblocks().into_iter();
        copies.filter(|&at| !read(at, BLOCK_BYTES).is_some_and(is_good)).count() as u64
    }

    /// Bytes of records and extents in a segment, dead ones included.
    pub fn data_bytes(&self, segment: &Segment) -> u64 {
        let open = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.open.as_ref());
        match &segment.state {
            SegmentState::Open => open.map_or(0, |open| open.data_bytes.into()),
            SegmentState::Sealed(life) => life.data_bytes.into(),
            SegmentState::Free => 0,
        }
    }

    /// Shows `newest` all that counts on this device; returns how many contents tables are damaged, copies counted
    /// apart.
    pub fn merge(&self, newest: &mut Newest, read: &mut Read<'_>) -> u64 {
        let owed = self.checkpoint.as_ref().map_or_else(Owed::default, |checkpoint| checkpoint.owed.clone());
        let mut void: HashSet<Fingerprint> = owed.tombstones.into_iter().collect();
        let mut used: Vec<&Segment> =
            self.segments.iter().filter(|segment| segment.state != SegmentState::Free).collect();
        used.sort_by_key(|segment| std::cmp::Reverse(segment.sequence));
        let (mut bad, mut counts) = (0, !owed.clear);
        for segment in used {
            let contents = self.contents(segment, read);
            bad += contents.bad_copies;
            // With a contents table tombstones are lost: nothing older can be trusted.
            counts = counts && contents.entries.is_some_and(|entries| newest.take(&entries, &mut void));
        }
        bad
    }

    /// What the contents table of a segment lists; nothing where there is no intact one.
    pub fn entries(&self, segment: &Segment, read: &mut Read<'_>) -> Vec<Entry> {
        self.contents(segment, read).entries.unwrap_or_default()
    }

    /// Reads the record of an entry, judges it with its inline body, and shows it to `with` if it is good.
    pub fn verify(
        &self,
        segment: &Segment,
        entry: &Entry,
        read: &mut Read<'_>,
        with: impl FnOnce(&Record<'_>),
    ) -> Verdict {
        let from = entry.offset / BLOCK_BYTES * BLOCK_BYTES;
        let len = round_to_blocks(entry.offset + entry.len) - from;
        let at = self.start(segment) + u64::from(from);
        let Some(bytes) = read(at, len) else { return Verdict::Unreadable };
        let Segment { number, sequence, .. } = *segment;
        let place =
            Place { device: DeviceIndex(0), segment: number, sequence, offset: entry.offset, len: entry.len };
        let record = bytes.get((entry.offset - from) as usize..).unwrap_or_default();
        match Record::decode_at(record, self.superblock.device_id, &place) {
            Err(_) => Verdict::BadRecord,
            Ok(record) if !record.is_intact() => Verdict::BadBody,
            Ok(record) => {
                with(&record);
                Verdict::Intact
            }
        }
    }

    /// Where the record of an entry begins on the device, in bytes.
    pub fn offset(&self, segment: &Segment, entry: &Entry) -> u64 {
        self.start(segment) + u64::from(entry.offset)
    }

    /// Whether a segment is in another life than when it was looked at: somebody uses the store.
    pub fn moved_on(&self, segment: &Segment, read: &mut Read<'_>) -> bool {
        let header = read(self.start(segment), BLOCK_BYTES).and_then(|block| Header::decode(&block).ok());
        header.is_some_and(|header| header.sequence != segment.sequence)
    }

    fn start(&self, segment: &Segment) -> u64 {
        self.superblock.geometry.segment_start(segment.number)
    }

    /// All segments, as the checkpoint that counts has them.
    fn sort_segments(&self) -> Vec<Segment> {
        let free = |number| Segment { number, sequence: 0, state: SegmentState::Free };
        let mut segments: Vec<Segment> = (1..=self.superblock.geometry.segments()).map(free).collect();
        let Some(checkpoint) = &self.checkpoint else { return segments };
        let sealed = checkpoint.sealed.iter();
        let sealed = sealed.map(|life| (life.segment, life.sequence, SegmentState::Sealed(*life)));
        let open = checkpoint.open.iter().map(|open| (open.segment, open.sequence, SegmentState::Open));
        for (number, sequence, state) in sealed.chain(open) {
            segments[number as usize - 1] = Segment { number, sequence, state };
        }
        segments
    }

    fn contents(&self, segment: &Segment, read: &mut Read<'_>) -> Contents {
        match &segment.state {
            SegmentState::Free => Contents { entries: Some(Vec::new()), bad_copies: 0 },
            SegmentState::Open => {
                let open = self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.open.as_ref());
                Contents { entries: open.map(|open| open.entries.clone()), bad_copies: 0 }
            }
            SegmentState::Sealed(life) => self.sealed(life, segment, read),
        }
    }

    fn sealed(&self, life: &Life, segment: &Segment, read: &mut Read<'_>) -> Contents {
        let geometry = &self.superblock.geometry;
        let copies = life.table.copies(geometry).map(|from| match life.table.bytes() {
            0 => Some(Vec::new()),
            len => {
                let bytes = read(self.start(segment) + u64::from(from), len)?;
                life.table.decode(&bytes, geometry).ok()
            }
        });
        let bad_copies = copies.iter().filter(|copy| copy.is_none()).count() as u64;
        Contents { entries: copies.into_iter().flatten().next(), bad_copies }
    }
}

/// A segment's contents, where an intact table was found, and how many were not intact.
struct Contents {
    entries: Option<Vec<Entry>>,
    bad_copies: u64,
}

/// Which records count: the newest of each object over all devices that were shown.
#[derive(Debug, Default)]
pub struct Newest {
    /// Queue: objects of the store.
    objects: HashMap<Fingerprint, Lsn>,
}

impl Newest {
    /// Whether an entry is the record that a lookup would find.
    pub fn counts(&self, entry: &Entry) -> bool {
        let is_record = matches!(entry.kind, EntryKind::Record { .. });
        is_record && self.objects.get(&entry.fingerprint) == Some(&entry.lsn)
    }

    /// Takes the entries of a device's next older segment, except what newer ones have voided; false when nothing
    /// older counts.
    fn take(&mut self, entries: &[Entry], void: &mut HashSet<Fingerprint>) -> bool {
        for entry in entries.iter().rev() {
            match entry.kind {
                EntryKind::Extent => {}
                EntryKind::Clear => return false,
                EntryKind::Tombstone => _ = void.insert(entry.fingerprint),
                EntryKind::Record { .. } if void.contains(&entry.fingerprint) => {}
                EntryKind::Record { .. } => {
                    let newest = self.objects.entry(entry.fingerprint).or_insert(entry.lsn);
                    *newest = entry.lsn.max(*newest);
                }
            }
        }
        true
    }
}

/// The first extent of a body that is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadExtent {
    /// What reading it showed.
    pub verdict: Verdict,
    /// On which of the devices it is, and where on it in bytes; nothing where that device was not shown.
    pub place: Option<(usize, u64)>,
}

/// Reads a body in extents, on whichever of the `devices` they are; `None` where it is intact. Holes have nothing to be
/// read.
pub fn verify_extents(
    devices: &[Device],
    extents: impl IntoIterator<Item = ExtentRef>,
    read: &mut ReadOf<'_>,
) -> Option<BadExtent> {
    let extents = extents.into_iter().filter(|extent| !extent.is_hole());
    extents.map(|extent| verify_extent(devices, &extent, read)).find(|bad| bad.verdict != Verdict::Intact)
}

fn verify_extent(devices: &[Device], extent: &ExtentRef, read: &mut ReadOf<'_>) -> BadExtent {
    let on = devices.iter().position(|device| device.superblock.device_id.short() == extent.device);
    let Some(on) = on else { return BadExtent { verdict: Verdict::BodyUnseen, place: None } };
    let (device, mut read) = (&devices[on], |at, len| read(on, at, len));
    let segments = &mut device.segments.iter();
    let segment = segments.find(|s| (s.number, s.sequence) == (extent.segment, extent.sequence));
    let Some(segment) = segment else { return BadExtent { verdict: Verdict::BodyGone, place: None } };
    let start = device.start(segment);
    let verdict = match crc_of(extent, start, &mut read) {
        Some(crc) if crc == extent.crc => Verdict::Intact,
        _ if device.moved_on(segment, &mut read) => Verdict::BodyGone,
        Some(_) => Verdict::BadBody,
        None => Verdict::Unreadable,
    };
    BadExtent { verdict, place: Some((on, start + u64::from(extent.offset))) }
}

/// The checksum of the bytes of an extent as they are now.
fn crc_of(extent: &ExtentRef, segment_start: u64, read: &mut Read<'_>) -> Option<u32> {
    let end = u64::from(extent.offset) + u64::from(extent.len);
    let mut at = u64::from(extent.offset);
    let mut crc = Crc32c::new();
    while at < end {
        let skip = (at % u64::from(BLOCK_BYTES)) as usize;
        let take = (end - at).min(u64::from(STEP_BYTES) - skip as u64) as usize;
        let bytes = read(segment_start + at - skip as u64, round_to_blocks((skip + take) as u32))?;
        crc.update(bytes.get(skip..skip + take)?);
        at += take as u64;
    }
    Some(crc.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: EntryKind, object: u32, lsn: u64) -> Entry {
        let fingerprint = Fingerprint::from_parts(1, object);
        Entry { kind, fingerprint, lsn: Lsn(lsn), offset: 4096, len: 64 }
    }

    fn record(object: u32, lsn: u64) -> Entry {
        entry(EntryKind::Record { elsewhere: false }, object, lsn)
    }

    /// Lsns of the records that count, of devices given as segments from the newest to the oldest.
    fn counting(devices: &[&[&[Entry]]]) -> Vec<u64> {
        let mut newest = Newest::default();
        for device in devices {
            let mut void = HashSet::new();
            let _ = device.iter().all(|segment| newest.take(segment, &mut void));
        }
        let all = devices.iter().flat_map(|device| device.iter().flat_map(|segment| segment.iter()));
        let mut lsns: Vec<u64> = all.filter(|entry| newest.counts(entry)).map(|entry| entry.lsn.0).collect();
        lsns.sort_unstable();
        lsns
    }

    #[test]
    fn the_newest_record_that_nothing_voids_counts() {
        let tombstone = |object, lsn| entry(EntryKind::Tombstone, object, lsn);
        let clear = |lsn| entry(EntryKind::Clear, 0, lsn);
        let extent = |object, lsn| entry(EntryKind::Extent, object, lsn);
        assert_eq!(counting(&[&[&[record(1, 1), record(2, 2)]]]), [1, 2]);
        assert_eq!(counting(&[&[&[record(1, 3)], &[record(1, 1), record(2, 2)]]]), [2, 3]);
        assert_eq!(counting(&[&[&[tombstone(1, 3)], &[record(1, 1), record(2, 2)]]]), [2]);
        assert_eq!(counting(&[&[&[tombstone(1, 3), record(1, 4)], &[record(1, 1)]]]), [4]);
        assert_eq!(counting(&[&[&[record(3, 3), clear(4), record(4, 5)], &[record(1, 1)]]]), [5]);
        assert_eq!(counting(&[&[&[extent(1, 1), record(1, 2), extent(1, 3)]]]), [2]);
        // The newest over all devices; a tombstone speaks of its own device only.
        assert_eq!(counting(&[&[&[record(1, 1)]], &[&[record(1, 2)]]]), [2]);
        assert_eq!(counting(&[&[&[record(1, 2)]], &[&[record(1, 1)]]]), [2]);
        assert_eq!(counting(&[&[&[record(1, 1)]], &[&[tombstone(1, 3)], &[record(1, 2)]]]), [1]);
    }

    #[test]
    fn an_extent_is_read_in_steps_at_any_offset() {
        let disk: Vec<u8> = (0..3 * STEP_BYTES).map(|at| (at % 251) as u8).collect();
        for (offset, len) in [(0, 1), (4096, 4096), (100, 5000), (4095, STEP_BYTES), (64, 2 * STEP_BYTES + 9)]
        {
            let extent = ExtentRef { device: 0, segment: 1, sequence: 1, offset, len, crc: 0 };
            let mut read = |at: u64, len: u32| {
                assert!(at.is_multiple_of(4096) && len.is_multiple_of(4096) && len <= STEP_BYTES);
                disk.get(at as usize..at as usize + len as usize).map(<[u8]>::to_vec)
            };
            let expected = crate::crc32c(&disk[offset as usize..(offset + len) as usize]);
            assert_eq!(crc_of(&extent, 0, &mut read), Some(expected), "{offset}+{len}");
        }
    }
}
