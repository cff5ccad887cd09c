//! The store's side of scrubbing ([`crate::scrub`]): which segment is next, what the index says of a record, and what
//! is done about damage ([`super::damage`]).
//!
//! Order of locks: the scrubber, then as everywhere (log, index shard).

use super::damage::Culprit;
use super::{At, Device, Shared, Store};
use crate::disk::segment::{Contents, Entry, EntryKind};
use crate::fingerprint::Fingerprint;
use crate::log::{Failure, Sealed};
use crate::scrub::{BodyCheck, Damage, Damaged, Judged, Reading, Scrub, Step, records};
use crate::*;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// No read is awaited.
const NONE: u64 = u64::MAX;

/// Bytes that a device is asked for by others above which it is busy.
const BUSY_BYTES: u64 = 1 << 20;

/// The scrubber, and what others may know of it without its lock.
#[derive(Debug)]
pub(super) struct Scrubber {
    machine: Mutex<Scrub>,
    /// The read that it waits for.
    awaited: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) passes: AtomicU64,
}

impl Scrubber {
    pub(super) fn new(config: ScrubConfig, devices: usize) -> Self {
        Self {
            machine: Mutex::new(Scrub::new(config, devices)),
            awaited: AtomicU64::new(NONE),
            bytes: AtomicU64::new(0),
            passes: AtomicU64::new(0),
        }
    }

    /// Whether no read is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.awaited.load(SeqCst) == NONE
    }
}

impl Store {
    /// What scrubbing has found since the last call. The objects have left the index; whoever keeps copies that
    /// refer to bytes of theirs (by [`Damage::hash`]) must drop these too.
    pub fn take_damage(&self) -> Vec<Damage> {
        self.shared.scrub.machine.lock().take_found()
    }
}

impl Shared {
    /// Lets the scrubber go on.
    pub(super) fn scrub_tick(&self, now: Millis, out: &mut Outbox) {
        if self.common.index.is_merging() {
            return; // What counts is known only when the index is whole.
        }
        let mut scrub = self.scrub.machine.lock();
        scrub.advance(now);
        let from = scrub.reads_from().and_then(|device| self.device(device));
        if from.is_some_and(|device| device.info.is_retired()) {
            scrub.abandon();
            self.scrub.awaited.store(NONE, SeqCst);
        }
        self.scrub_on(&mut scrub, out);
    }

    /// Takes the outcome of a request, if it was the scrubber's.
    pub(super) fn scrub_complete(&self, id: IoId, result: &IoResult, out: &mut Outbox) -> bool {
        // Without the lock: almost all requests are others', and judging holds it for as long as a checksum takes.
        if self.scrub.awaited.compare_exchange(id.number(), NONE, SeqCst, SeqCst).is_err() {
            return false;
        }
        let mut scrub = self.scrub.machine.lock();
        let Some(Reading { step, lease, .. }) = scrub.end(id) else { return true };
        match result {
            Ok(IoDone::Read(bytes)) => self.judge(&mut scrub, step, bytes, out),
            Ok(_) | Err(_) => self.unreadable(&mut scrub, step, &lease, out),
        }
        drop(lease);
        self.scrub_on(&mut scrub, out);
        true
    }

    /// Goes from step to step until a read is under way or nothing is due.
    fn scrub_on(&self, scrub: &mut Scrub, out: &mut Outbox) {
        while scrub.is_due() && !self.has_better_to_do() {
            let Some(step) = scrub.todo.pop().or_else(|| self.next_segment(scrub)) else { return };
            self.take_step(scrub, step, out);
        }
    }

    /// Whether the devices are wanted by others: by a stop, by reclaim, for reads and writes that pile up.
    fn has_better_to_do(&self) -> bool {
        let is_busy = |device: &Device| {
            let info = &device.info;
            !info.is_retired() && (info.health.load() > BUSY_BYTES || device.log.lock().is_reclaiming())
        };
        self.closed.load(Relaxed) || self.devices.iter().any(is_busy)
    }

    /// The next segment of the device whose turn it is; ends the pass where there is none on any.
    fn next_segment(&self, scrub: &mut Scrub) -> Option<Step> {
        for _ in 0..self.devices.len() {
            let at = scrub.turn % self.devices.len();
            scrub.turn = at + 1;
            let device = &self.devices[at];
            if let Some((segment, sealed)) = device.log.lock().next_sealed(scrub.reached[at]) {
                scrub.reached[at] = sealed.sequence;
                return Some(Step::Contents(contents_place(device, segment, sealed)));
            }
        }
        if scrub.end_pass() {
            self.scrub.passes.fetch_add(1, Relaxed);
        }
        None
    }

    /// Asks for the read that a step needs; a step that became superfluous is dropped.
    fn take_step(&self, scrub: &mut Scrub, step: Step, out: &mut Outbox) {
        match step {
            Step::Contents(place) => self.read_for(scrub, step, place, out),
            Step::Records { place, mut entries } => {
                entries.retain(|entry| self.is_current(&place, entry));
                if !entries.is_empty() {
                    self.read_for(scrub, Step::Records { place, entries }, place, out);
                }
            }
            Step::Body(body) => self.read_body(scrub, body, out),
        }
    }

    /// Reads `place`, unless that life is over.
    fn read_for(&self, scrub: &mut Scrub, step: Step, place: Place, out: &mut Outbox) {
        let Some(device) = self.device(place.device) else { return };
        let Some(lease) = device.info.lives.lease(place) else { return };
        let id = device.info.new_io();
        let offset = place.device_offset(&device.info.geometry);
        scrub.begin(id, step, lease, place.len);
        self.scrub.awaited.store(id.number(), SeqCst);
        self.scrub.bytes.fetch_add(place.len.into(), Relaxed);
        out.push(Io::Read { id, device: place.device, offset, len: place.len });
    }

    /// Reads on in a body. An extent that is gone is its reader's to notice, and one that has not reached its device
    /// was written by this process.
    fn read_body(&self, scrub: &mut Scrub, mut body: Box<BodyCheck>, out: &mut Outbox) {
        while let Some(extent) = body.extents.last() {
            match self.extent_place(extent).and_then(|place| Some((place, self.find(&place)?))) {
                Some((place, At::Device(_))) => {
                    let (read, _) = body.next_read(&place);
                    return self.read_for(scrub, Step::Body(body), read, out);
                }
                Some((_, At::Buffered(_))) | None => body.skip(),
            }
        }
        self.verified(Fingerprint::from(body.hash), &body.record);
    }

    fn judge(&self, scrub: &mut Scrub, step: Step, bytes: &Bytes, out: &mut Outbox) {
        match step {
            Step::Contents(place) => self.judge_contents(scrub, &place, bytes),
            Step::Records { place, entries } => {
                for entry in entries {
                    let from = (entry.offset - place.offset) as usize;
                    let range = from..from + entry.len as usize;
                    let raw = if range.end <= bytes.len() { bytes.slice(range) } else { Bytes::new() };
                    self.judge_record(scrub, &place, &entry, raw, out);
                }
            }
            Step::Body(body) => self.judge_body(scrub, body, bytes, out),
        }
    }

    fn judge_contents(&self, scrub: &mut Scrub, place: &Place, bytes: &[u8]) {
        let Some(info) = self.device(place.device).map(|device| &device.info) else { return };
        let life = (info.id, place.segment, place.sequence);
        let contents = Contents::read(bytes, &info.geometry, life);
        let damaged = match &contents {
            None => Some(Damaged::Contents),
            Some(contents) if !contents.both_good => Some(Damaged::ContentsCopy),
            Some(_) => None,
        };
        if let Some(what) = damaged {
            self.common.bad.fetch_add(1, Relaxed);
            self.tell(scrub, place, what, None);
        }
        let mut entries = contents.map(|contents| contents.entries).unwrap_or_default();
        entries.retain(|entry| self.is_current(place, entry));
        scrub.todo = records(place, entries);
    }

    fn judge_record(&self, scrub: &mut Scrub, segment: &Place, entry: &Entry, raw: Bytes, out: &mut Outbox) {
        let place = Place { offset: entry.offset, len: entry.len, ..*segment };
        let Some(device) = self.device(place.device) else { return };
        let record = Record::decode_at(&raw, device.info.id, &place);
        let hash = record.as_ref().ok().map(Record::key_hash);
        match record {
            Ok(record) if record.is_intact() => match record.body() {
                Body::Extents(table) => {
                    let extents = table.iter().collect();
                    let body = BodyCheck::boxed(record.key_hash(), (place, raw.clone()), extents);
                    scrub.todo.push(Step::Body(body));
                }
                Body::Inline(_) => self.verified(entry.fingerprint, &place),
            },
            Ok(_) | Err(_) => {
                let culprit = Culprit { of: entry.fingerprint, record: place, at: place, hash };
                self.condemn(scrub, culprit, Damaged::Record, out);
            }
        }
    }

    fn judge_body(&self, scrub: &mut Scrub, mut body: Box<BodyCheck>, bytes: &[u8], out: &mut Outbox) {
        let extent = body.extents.last().copied();
        let Some((extent, place)) = extent.and_then(|extent| Some((extent, self.extent_place(&extent)?)))
        else {
            return;
        };
        let (_, skip) = body.next_read(&place);
        match body.take(bytes, skip) {
            Judged::Good | Judged::Unfinished => scrub.todo.push(Step::Body(body)),
            Judged::Bad => self.lose_piece(scrub, body, extent, (place, Damaged::Body), out),
        }
    }

    /// A read failed. Of records read together each is tried alone before it is given up.
    fn unreadable(&self, scrub: &mut Scrub, step: Step, lease: &Lease, out: &mut Outbox) {
        let place = *lease.place();
        match step {
            Step::Contents(_) => self.tell(scrub, &place, Damaged::Unreadable, None),
            Step::Records { place, entries } if entries.len() > 1 => {
                scrub.todo.extend(entries.into_iter().flat_map(|entry| records(&place, vec![entry])));
            }
            Step::Records { place, entries } => {
                for entry in entries {
                    let record = Place { offset: entry.offset, len: entry.len, ..place };
                    let culprit = Culprit { of: entry.fingerprint, record, at: record, hash: None };
                    self.condemn(scrub, culprit, Damaged::Unreadable, out);
                }
            }
            Step::Body(mut body) => {
                if let Some(&extent) = body.extents.last() {
                    body.skip();
                    self.lose_piece(scrub, body, extent, (place, Damaged::Unreadable), out);
                }
            }
        }
        if let Some(device) = self.device(place.device) {
            self.count_error(device, Failure::Counted);
        }
    }

    fn verified(&self, of: Fingerprint, place: &Place) {
        if let Some(location) = self.location_of(place) {
            self.common.index.set_verified(of, location);
        }
    }

    /// Whether the index names the record of an entry of the segment that `segment` lies in.
    fn is_current(&self, segment: &Place, entry: &Entry) -> bool {
        let is_record = matches!(entry.kind, EntryKind::Record { .. });
        let place = Place { offset: entry.offset, len: entry.len, ..*segment };
        let here = self.location_of(&place).filter(|_| is_record);
        let now = self.common.index.get(entry.fingerprint);
        here.zip(now).is_some_and(|(here, now)| now.same_place(here))
    }
}

/// A segment's contents tables and trailer.
fn contents_place(device: &Device, segment: u32, sealed: Sealed) -> Place {
    let Sealed { sequence, table, .. } = sealed;
    let [offset, _] = table.copies(&device.info.geometry);
    let len = device.info.geometry.segment_bytes() - offset;
    Place { device: device.info.index, segment, sequence, offset, len }
}
