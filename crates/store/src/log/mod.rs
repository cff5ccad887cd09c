//! One device's log: its segments, the open one, the writes under way.
//!
//! ```text
//! Free → Open → Sealed → Reclaiming → Free          a write failed: → Unusable for this run
//! ```
//! Holds always:
//! * records and marks enter the index in the order of their lsn, and the open segment lists them in it;
//! * no block of a life is handed to the device twice;
//! * a segment becomes Free only when its life is closed, nobody reads it, and a checkpoint that began after
//!   its entries left the index is complete (what superseded them, and what was carried out of it, is durable).
//!
//! Knows one device; the order of locks is checkpoint, log, index shard.

mod append;
mod entries;
mod reclaim;
mod victim;

pub(crate) use append::{Flags, Source};

use crate::block::{BLOCK_BYTES, BlockBuf, Blocks};
use crate::config::Config;
use crate::disk::checkpoint::{Life, OWED_MAX, OpenContents, Owed, entries_max};
use crate::disk::segment::{ContentsTable, ENTRY_BYTES, Entry, EntryKind, Header, Trailer};
use crate::fingerprint::Fingerprint;
use crate::geometry::Geometry;
use crate::health::Health;
use crate::index::{Index, Location};
use crate::io::{Io, IoDone, IoId, IoResult, Outbox};
use crate::lease::Lives;
use crate::policy::Policy;
use crate::stats::SegmentCounts;
use crate::types::{Declined, DeviceId, DeviceIndex, Lsn, Millis, Place};
use append::Gather;
use bytes::Bytes;
use entries::Entries;
pub(crate) use reclaim::Body;
use reclaim::{Draining, Reclaim};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// What all logs of a store share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) config: Config,
    pub(crate) index: Index,
    pub(crate) policy: Policy,
    pub(crate) last_lsn: AtomicU64,
    pub(crate) in_flight_bytes: AtomicU64,
    pub(crate) now: AtomicU64,
    /// Number of the checkpoint that began last, and of the one that was completed last.
    pub(crate) checkpoint_begun: AtomicU64,
    pub(crate) checkpoint_done: AtomicU64,
    /// Number of a checkpoint that somebody waits for, whether or not it is due.
    pub(crate) checkpoint_wanted: AtomicU64,
    pub(crate) admitted_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) carried: AtomicU64,
    pub(crate) carried_bytes: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) declined: [AtomicU64; Declined::ALL.len()],
    pub(crate) bad: AtomicU64,
}

impl Common {
    pub(crate) fn new(config: Config, index: Index, last_lsn: Lsn) -> Arc<Self> {
        let policy = Policy::new(config.admission);
        policy.fit(index.len());
        Arc::new(Self {
            config,
            index,
            policy,
            last_lsn: AtomicU64::new(last_lsn.0),
            in_flight_bytes: AtomicU64::new(0),
            now: AtomicU64::new(0),
            checkpoint_begun: AtomicU64::new(0),
            checkpoint_done: AtomicU64::new(0),
            checkpoint_wanted: AtomicU64::new(0),
            admitted_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            carried: AtomicU64::new(0),
            carried_bytes: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            declined: Default::default(),
            bad: AtomicU64::new(0),
        })
    }

    /// Counts a refusal, and gives it back.
    pub(crate) fn count_declined(&self, why: Declined) -> Declined {
        self.declined[why as usize].fetch_add(1, Relaxed);
        why
    }

    fn next_lsn(&self) -> Lsn {
        Lsn(self.last_lsn.fetch_add(1, Relaxed) + 1)
    }
}

/// What is known of a device without its log's lock.
#[derive(Debug)]
pub(crate) struct DeviceInfo {
    pub(crate) index: DeviceIndex,
    pub(crate) id: DeviceId,
    pub(crate) geometry: Geometry,
    /// Number of segment 0 among the segments of all devices.
    pub(crate) base: u32,
    pub(crate) lives: Arc<Lives>,
    pub(crate) health: Health,
    /// Whether nothing had to be taken back yet in this run, so that what is stored displaces nothing.
    pub(crate) has_room: AtomicBool,
    /// Sealed lives before this one have no contents. Raised before what they held leaves the index.
    pub(crate) floor: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) given_bytes: AtomicU64,
    pub(crate) next_io: AtomicU64,
}

impl DeviceInfo {
    pub(crate) fn new_io(&self) -> IoId {
        IoId::new(self.index, self.next_io.fetch_add(1, Relaxed))
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.health.is_retired()
    }

    /// Whether the contents of a sealed life count.
    pub(crate) fn counts(&self, sequence: u64) -> bool {
        sequence >= self.floor.load(SeqCst) && !self.is_retired()
    }

    fn raise_floor(&self, to: u64) {
        self.floor.fetch_max(to, SeqCst);
    }

    fn place(&self, segment: u32, sequence: u64, offset: u32, len: u32) -> Place {
        Place { device: self.index, segment, sequence, offset, len }
    }

    /// Whether a location of the index is on this device.
    pub(crate) fn has(&self, location: Location) -> bool {
        (self.base..=self.base + self.geometry.segments()).contains(&location.segment())
    }

    /// The place as the index has it, fit for comparing.
    pub(crate) fn location(&self, place: &Place, verified: bool, elsewhere: bool) -> Location {
        Location::new(self.base + place.segment, place.offset, place.len, verified, elsewhere)
    }
}

/// What a segment is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Open,
    Sealed(Sealed),
    Reclaiming,
    Unusable,
}

/// A full segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) sequence: u64,
    pub(crate) table: ContentsTable,
    pub(crate) data_bytes: u32,
}

/// The segment that is being written.
#[derive(Debug)]
struct Open {
    segment: u32,
    sequence: u64,
    /// End of the space that was given out.
    top: u32,
    data_bytes: u32,
    entries: Entries,
    gather: Option<Gather>,
}

/// A write under way.
#[derive(Debug)]
struct Write {
    segment: u32,
    sequence: u64,
    offset: u32,
    data: Blocks,
}

/// A log as a checkpoint has it.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) next_sequence: u64,
    pub(crate) sealed: Vec<Life>,
    pub(crate) last_lsn: u64,
    pub(crate) owed: Owed,
    pub(crate) open: Option<CoveredOpen>,
}

/// The open segment as a checkpoint has it.
#[derive(Debug)]
pub(crate) struct CoveredOpen {
    segment: u32,
    sequence: u64,
    data_bytes: u32,
    entries: Entries,
}

impl CoveredOpen {
    /// As it is written. All its entries are copied: not under a log's lock.
    pub(crate) fn contents(&self) -> OpenContents {
        let Self { segment, sequence, data_bytes, ref entries } = *self;
        OpenContents { segment, sequence, data_bytes, entries: entries.to_vec() }
    }
}

/// A request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// To be counted.
    Counted,
    /// A sync or a checkpoint: what the device holds is not known any more.
    Fatal,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Log {
    device: Arc<DeviceInfo>,
    common: Arc<Common>,
    states: Vec<State>,
    /// Queue: segments of one device.
    free: VecDeque<u32>,
    /// Queue: segments of one device.
    sealed: VecDeque<u32>,
    /// What sealed segments list that have writes under way.
    /// Queue: segments of one device.
    unsettled: HashMap<u32, Vec<Entry>>,
    open: Option<Open>,
    /// Queue: writes to all devices, pieces of fills.
    writes: HashMap<IoId, Write>,
    /// The segment that is being taken back: one at a time, because the floor only knows one order.
    victim: Option<u32>,
    /// What is being read of it.
    reclaim: Option<Reclaim>,
    /// Whether bodies of it went to other devices.
    moved_off: bool,
    /// Records of it that will not be carried.
    doomed: Vec<(Entry, Location)>,
    draining: Vec<Draining>,
    next_sequence: u64,
    /// Marks that found no room; checkpoints keep them until they do. While a clear is owed no segment is open, so nothing
    /// is logged before it.
    owed: Owed,
    pub(crate) dirty: bool,
}

impl Log {
    /// A log over the segments in `states` (slot 0 included), of which `sealed` are full, oldest first; lives begin
    /// from `next_sequence` on; marks of `owed` are to be logged.
    pub(crate) fn new(
        device: Arc<DeviceInfo>,
        common: Arc<Common>,
        states: Vec<State>,
        sealed: VecDeque<u32>,
        next_sequence: u64,
        owed: Owed,
    ) -> Self {
        let free = (1..states.len() as u32).filter(|&n| states[n as usize] == State::Free).collect();
        Self {
            device,
            common,
            states,
            free,
            sealed,
            unsettled: HashMap::new(),
            open: None,
            writes: HashMap::new(),
            victim: None,
            reclaim: None,
            moved_off: false,
            doomed: Vec::new(),
            draining: Vec::new(),
            next_sequence,
            owed,
            dirty: false,
        }
    }

    /// The bytes of a place that have not reached the device.
    pub(crate) fn buffered(&self, place: &Place) -> Option<Bytes> {
        if let Some(open) = self.open.as_ref().filter(|open| open.sequence == place.sequence)
            && let Some(bytes) = open.gather.as_ref().and_then(|gather| gather.copy(place))
        {
            return Some(bytes);
        }
        let holds = |write: &&Write| write.sequence == place.sequence && write.offset <= place.offset;
        self.writes
            .values()
            .filter(holds)
            .find_map(|write| write.data.bytes(place.offset - write.offset, place.len))
    }

    /// Begins the next life of a free segment. One is kept back for what must be logged in any case.
    fn open_segment(&mut self, source: Source, out: &mut Outbox) -> Result<(), Declined> {
        let kept_back = if source == Source::Store { 1 } else { 0 };
        if self.device.is_retired() {
            return Err(Declined::DeviceRetired);
        }
        if self.free.len() <= kept_back {
            self.start_reclaim(out);
            return Err(Declined::NoSpace);
        }
        let Some(segment) = self.free.pop_front() else { return Err(Declined::NoSpace) };
        let sequence = self.take_sequence();
        self.states[segment as usize] = State::Open;
        self.device.lives.open(segment, sequence, false);
        let header = Header { device: self.device.id, segment, sequence };
        self.write(segment, sequence, 0, header.encode(), out);
        let (entries, gather) = (Entries::default(), None);
        self.open = Some(Open { segment, sequence, top: BLOCK_BYTES, data_bytes: 0, entries, gather });
        self.pay_owed();
        self.start_reclaim(out);
        Ok(())
    }

    fn take_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence - 1
    }

    /// Closes the open segment with its contents table.
    fn seal(&mut self, out: &mut Outbox) {
        self.close_gather(out);
        let Some(open) = self.open.take() else { return };
        let Open { segment, sequence, data_bytes, .. } = open;
        let entries = open.entries.to_vec();
        let (contents_offset, table, run) = Trailer::encode_with_contents(
            self.device.id,
            segment,
            sequence,
            &entries,
            data_bytes,
            &self.device.geometry,
        );
        debug_assert!(contents_offset >= open.top);
        self.write(segment, sequence, contents_offset, run, out);
        self.states[segment as usize] = State::Sealed(Sealed { sequence, table, data_bytes });
        self.sealed.push_back(segment);
        self.unsettled.insert(segment, entries);
        self.dirty = true;
    }

    fn write(&mut self, segment: u32, sequence: u64, offset: u32, data: BlockBuf, out: &mut Outbox) {
        let data = data.freeze();
        let id = self.device.new_io();
        let start = self.device.geometry.segment_start(segment);
        let len = u64::from(data.len());
        debug_assert!(u64::from(offset) + len <= u64::from(self.device.geometry.segment_bytes()));
        self.common.in_flight_bytes.fetch_add(len, Relaxed);
        self.common.written_bytes.fetch_add(len, Relaxed);
        self.device.writes.fetch_add(1, Relaxed);
        self.writes.insert(id, Write { segment, sequence, offset, data: data.clone() });
        out.push(Io::Write { id, device: self.device.index, offset: start + u64::from(offset), data });
    }

    /// Takes the outcome of one of the log's requests. A failure was dealt with here as far as this log goes.
    pub(crate) fn complete(&mut self, id: IoId, result: IoResult, out: &mut Outbox) -> Result<(), Failure> {
        match self.writes.remove(&id) {
            Some(write) => self.complete_write(&write, result, out),
            None => self.complete_read(id, result, out),
        }
    }

    fn complete_write(&mut self, write: &Write, result: IoResult, out: &mut Outbox) -> Result<(), Failure> {
        self.common.in_flight_bytes.fetch_sub(u64::from(write.data.len()), Relaxed);
        if matches!(result, Ok(IoDone::Written)) {
            self.settle_if_done(write.segment);
            return Ok(());
        }
        if !self.device.is_retired() {
            self.give_up_segment(write, out);
        }
        Err(Failure::Counted)
    }

    /// A write failed, so nothing of that life is trusted any more. What it superseded gets tombstones, in the same
    /// checkpoint that does not list the life any more.
    fn give_up_segment(&mut self, write: &Write, out: &mut Outbox) {
        let segment = write.segment;
        if self.states[segment as usize] == State::Unusable {
            return;
        }
        self.device.lives.close(segment);
        self.states[segment as usize] = State::Unusable;
        self.sealed.retain(|&sealed| sealed != segment);
        let open = self.open.take_if(|open| open.segment == segment).map(|open| open.entries.to_vec());
        let entries = open.or_else(|| self.unsettled.remove(&segment)).unwrap_or_default();
        let number = self.device.base + segment;
        self.common.index.sweep(|location| location.segment() == number);
        self.dirty = true;
        self.keep_superseding(write.sequence, &entries, out);
    }

    /// What the lost entries superseded must stay superseded.
    fn keep_superseding(&mut self, sequence: u64, lost: &[Entry], out: &mut Outbox) {
        for entry in lost {
            let newer_here = self.is_newest_here(entry.fingerprint);
            match entry.kind {
                EntryKind::Clear => self.distrust_up_to(sequence),
                EntryKind::Record { .. } | EntryKind::Tombstone if !newer_here => {
                    self.mark(EntryKind::Tombstone, Some(entry.fingerprint), out);
                }
                _ => {}
            }
        }
    }

    fn settle_if_done(&mut self, segment: u32) {
        let sealed = matches!(self.states[segment as usize], State::Sealed(_));
        if sealed && !self.writes.values().any(|write| write.segment == segment) {
            self.unsettled.remove(&segment);
            self.device.lives.settle(segment);
        }
    }

    /// The oldest sealed segment begun after life `after`, once all of it is on the device.
    pub(crate) fn next_sealed(&self, after: u64) -> Option<(u32, Sealed)> {
        self.sealed.iter().find_map(|&segment| match self.states[segment as usize] {
            State::Sealed(sealed) if sealed.sequence > after && self.device.lives.is_settled(segment) => {
                Some((segment, sealed))
            }
            _ => None,
        })
    }

    /// Whether a segment is being taken back.
    pub(crate) fn is_reclaiming(&self) -> bool {
        self.victim.is_some()
    }

    /// Requests of writes under way.
    pub(crate) fn writes_under_way(&self) -> impl Iterator<Item = IoId> {
        self.writes.keys().copied()
    }

    /// Whether the log waits for no device.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writes.is_empty() && self.reclaim.is_none()
    }

    /// What a checkpoint says of this log. Everything listed is handed to the device.
    pub(crate) fn flush_for_checkpoint(&mut self, out: &mut Outbox) -> Covered {
        self.settle_debts(out);
        self.dirty = false;
        self.flush_gather(out);
        let open = self.open.as_ref().map(|open| {
            let Open { segment, sequence, data_bytes, ref entries, .. } = *open;
            CoveredOpen { segment, sequence, data_bytes, entries: entries.clone() }
        });
        let counts = |life: &Life| self.device.counts(life.sequence);
        let sealed = self.lives().filter(counts).collect();
        // Under the log's lock: every smaller lsn of this log is listed.
        let last_lsn = self.common.last_lsn.load(Relaxed);
        Covered { next_sequence: self.next_sequence, sealed, last_lsn, owed: self.owed.clone(), open }
    }

    /// The sealed lives, oldest first; the one that is being taken back is the oldest.
    fn lives(&self) -> impl Iterator<Item = Life> {
        self.victim.iter().chain(&self.sealed).filter_map(|&segment| match self.states[segment as usize] {
            State::Sealed(Sealed { sequence, table, data_bytes }) => {
                Some(Life { sequence, segment, table, data_bytes })
            }
            _ => None,
        })
    }

    /// The contents of a life are lost, and with them tombstones: nothing older here is trusted.
    pub(crate) fn distrust_up_to(&mut self, sequence: u64) {
        self.device.raise_floor(sequence + 1);
        self.dirty = true;
    }

    /// Writes a mark (a tombstone, a clear) that voids older entries of this device; owed where no room is.
    pub(crate) fn mark(&mut self, kind: EntryKind, of: Option<Fingerprint>, out: &mut Outbox) {
        self.dirty = true;
        match of {
            Some(of) if kind == EntryKind::Tombstone => self.owed.tombstone(of),
            _ => self.owed.clear = true,
        }
        self.settle_debts(out);
    }

    /// A tombstone for an object of which this device may have an older record, unless the newest one is here (under
    /// this log's lock it cannot come here meanwhile).
    pub(crate) fn void_older(&mut self, of: Fingerprint, out: &mut Outbox) {
        if !self.device.is_retired() && !self.is_newest_here(of) {
            self.mark(EntryKind::Tombstone, Some(of), out);
        }
    }

    fn is_newest_here(&self, of: Fingerprint) -> bool {
        let newest = self.common.index.get(of);
        newest.is_some_and(|location| self.device.has(location))
    }

    /// Logs what is owed as far as there is room.
    fn settle_debts(&mut self, out: &mut Outbox) {
        if !self.owed.is_nothing() && (self.mark_room() || self.make_mark_room(out)) {
            self.pay_owed();
        }
        if self.owed.tombstones.len() > OWED_MAX {
            self.give_up_contents();
        }
    }

    /// A tombstone to be logged in the open segment, or before anything else in the one that is opened next.
    pub(crate) fn owe_tombstone(&mut self, of: Fingerprint) {
        self.owed.tombstone(of);
        self.dirty = true;
        self.pay_owed();
    }

    fn make_mark_room(&mut self, out: &mut Outbox) -> bool {
        self.seal(out);
        self.open_segment(Source::Upkeep, out).is_ok()
    }

    /// More tombstones are owed than a checkpoint can keep: all records on the device go instead. What of them is not merged
    /// yet is kept out by the floor, which costs the extents too.
    fn give_up_contents(&mut self) {
        self.owed = Owed { clear: true, tombstones: Vec::new() };
        if self.common.index.is_merging() {
            self.device.raise_floor(self.open.as_ref().map_or(self.next_sequence, |open| open.sequence));
        }
        let device = Arc::clone(&self.device);
        self.common.index.sweep(|location| device.has(location));
    }

    fn mark_room(&mut self) -> bool {
        let fits = |open: &Open| open.top <= self.data_limit(open.entries.len() + 1);
        self.open.as_ref().is_some_and(fits)
    }

    fn pay_owed(&mut self) {
        if self.owed.clear && self.mark_room() {
            self.owed = Owed::default();
            self.push_mark(EntryKind::Clear, Fingerprint::from_parts(0, 0));
        }
        while !self.owed.tombstones.is_empty() && self.mark_room() {
            if let Some(of) = self.owed.tombstones.pop() {
                self.push_mark(EntryKind::Tombstone, of);
            }
        }
    }

    fn push_mark(&mut self, kind: EntryKind, fingerprint: Fingerprint) {
        let lsn = self.common.next_lsn();
        if let Some(open) = &mut self.open {
            open.entries.push(Entry { kind, fingerprint, lsn, offset: 0, len: 0 });
        }
    }

    /// Where data must end if so many entries are to be listed; 0 where they cannot be.
    fn data_limit(&self, entries: usize) -> u32 {
        let geometry = &self.device.geometry;
        if entries as u64 > u64::from(entries_max(geometry)) {
            return 0;
        }
        let table = crate::block::round_to_blocks(entries as u32 * ENTRY_BYTES);
        geometry.trailer_offset().saturating_sub(2 * table)
    }

    /// The device was given up: everything on it becomes a miss. Requests under way are not waited for; what they still
    /// may do is nothing that anybody looks at.
    pub(crate) fn retire(&mut self) {
        for segment in 1..self.states.len() as u32 {
            self.device.lives.close(segment);
        }
        self.states[1..].fill(State::Unusable);
        self.free.clear();
        self.sealed.clear();
        self.draining.clear();
        self.doomed.clear();
        self.owed = Owed::default();
        self.unsettled.clear();
        let unanswered: u64 = self.writes.drain().map(|(_, write)| u64::from(write.data.len())).sum();
        self.common.in_flight_bytes.fetch_sub(unanswered, Relaxed);
        (self.open, self.reclaim, self.dirty) = (None, None, false);
        (self.victim, self.moved_off) = (None, false);
        let device = Arc::clone(&self.device);
        self.common.index.sweep(|location| device.has(location));
    }

    /// Segments by state, and bytes of data in them.
    pub(crate) fn count(&self) -> (SegmentCounts, u64) {
        let mut counts = SegmentCounts::default();
        let mut bytes = self.open.as_ref().map_or(0, |open| u64::from(open.data_bytes));
        for state in &self.states[1..] {
            match state {
                State::Free => counts.free += 1,
                State::Open => counts.open += 1,
                State::Sealed(sealed) => {
                    counts.sealed += 1;
                    bytes += u64::from(sealed.data_bytes);
                }
                State::Reclaiming => counts.reclaiming += 1,
                State::Unusable => counts.unusable += 1,
            }
        }
        (counts, bytes)
    }

    fn now(&self) -> Millis {
        self.common.now.load(Relaxed)
    }
}
