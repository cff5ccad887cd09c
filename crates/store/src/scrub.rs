//! Scrubbing: what lies on the devices is read again and again, slowly, so that damage is found before a request
//! meets it.
//!
//! ```text
//! next sealed segment → Contents (its table, both copies) → Records (those that the index names)
//!   → Body (of a record whose body is elsewhere, extent by extent, on whichever devices) → …
//! ```
//! A pass goes through the sealed segments of each device from the oldest to the newest, devices in turn; then the
//! next pass begins. One read is under way at a time, of at most [`STEP_BYTES`] (a longer record is read whole).
//!
//! What must hold: only bytes read under a lease are judged, so a segment that is used again is never taken for
//! damage; what the index has left is not judged at all; requests, reclaim and the log's writes go first.
//!
//! Here are the pace, the steps still to do and what was found; the store's side, which knows index and leases, is
//! `store/scrub.rs`. Knows no clock: a read's duration is counted in the ticks of [`crate::Store::tick`].

use crate::block::{BLOCK_BYTES, round_to_blocks};
use crate::checksum::Crc32c;
use crate::config::ScrubConfig;
use crate::disk::extent::ExtentRef;
use crate::disk::run::{Run, runs};
use crate::disk::segment::Entry;
use crate::io::IoId;
use crate::lease::Lease;
use crate::types::{DeviceIndex, KeyHash, Millis, Place};
use bytes::Bytes;
use std::collections::VecDeque;

/// Bytes of one read.
pub(crate) const STEP_BYTES: u32 = 256 << 10;

/// A read that is slow says that the device is busy: nothing is scrubbed for this many times its duration.
const REST_FACTOR: u64 = 8;

/// Findings that are kept until they are asked for; further ones are only counted.
const FOUND_MAX: usize = 1024;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damaged {
    /// Both copies of a contents table: after the next start nothing on the device that is as old is found.
    Contents,
    /// One copy of a contents table. Nothing is lost.
    ContentsCopy,
    /// A record: its object has left the index.
    Record,
    /// A piece of a body: a hole of its object now. The object has left the index where nothing else was stored of it.
    Body,
    /// The device did not give the bytes: what they belong to has left the index.
    Unreadable,
}

impl Damaged {
    /// The word for logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Contents => "contents-table",
            Self::ContentsCopy => "contents-table-copy",
            Self::Record => "record",
            Self::Body => "body",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Something that scrubbing found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// On which device.
    pub device: DeviceIndex,
    /// The first byte of the damaged thing, counted from the start of the device.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
    /// What it is.
    pub what: Damaged,
    /// Whose it is, where that is known: copies of this object in memory may refer to the damaged bytes.
    pub hash: Option<KeyHash>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Scrub {
    config: ScrubConfig,
    /// Bytes that may be read now; a read may overdraw it.
    credit: i64,
    now: Millis,
    rest_until: Millis,
    pass_begun: Option<Millis>,
    /// Of each device, the life of the last segment that this pass came to.
    pub(crate) reached: Vec<u64>,
    /// The device whose turn it is.
    pub(crate) turn: usize,
    /// What is still to be done for the segment, the next step last.
    pub(crate) todo: Vec<Step>,
    reading: Option<Reading>,
    /// Queue: damage that was found.
    found: VecDeque<Damage>,
}

/// A read under way.
#[derive(Debug)]
pub(crate) struct Reading {
    id: IoId,
    since: Millis,
    pub(crate) step: Step,
    pub(crate) lease: Lease,
}

/// Something to read and judge.
#[derive(Debug)]
pub(crate) enum Step {
    /// A segment's contents tables and trailer.
    Contents(Place),
    /// Records near each other; the place is all of them, in whole blocks.
    Records { place: Place, entries: Vec<Entry> },
    /// What is left of the body of a good record.
    Body(Box<BodyCheck>),
}

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct BodyCheck {
    pub(crate) hash: KeyHash,
    /// The record's place; another one once a hole was made.
    pub(crate) record: Place,
    /// The record as it was read, and from where.
    pub(crate) read: (Place, Bytes),
    /// Extents that were found damaged.
    pub(crate) damaged: Vec<ExtentRef>,
    /// Extents that are not read to their end, the next one last.
    pub(crate) extents: Vec<ExtentRef>,
    /// How much of the next one was read, and its checksum so far.
    done: u32,
    crc: Crc32c,
}

/// What the bytes of an extent came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    Good,
    Bad,
    /// There is more of it to read.
    Unfinished,
}

impl Scrub {
    pub(crate) fn new(config: ScrubConfig, devices: usize) -> Self {
        Self {
            config,
            credit: 0,
            now: 0,
            rest_until: 0,
            pass_begun: None,
            reached: vec![0; devices],
            turn: 0,
            todo: Vec::new(),
            reading: None,
            found: VecDeque::new(),
        }
    }

    /// Lets time pass. What was not read is saved up for a tenth of a second only: no bursts after a rest.
    pub(crate) fn advance(&mut self, now: Millis) {
        let rate = self.config.bytes_per_second;
        let earned = rate.saturating_mul(now.saturating_sub(self.now)) / 1000;
        let most = (rate / 10).max(u64::from(STEP_BYTES));
        let credit = self.credit.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        self.credit = credit.min(i64::try_from(most).unwrap_or(i64::MAX));
        self.now = now;
    }

    /// Whether the next read may begin, as far as pace and rests go.
    pub(crate) fn is_due(&self) -> bool {
        self.config.bytes_per_second > 0
            && self.reading.is_none()
            && self.credit > 0
            && self.now >= self.rest_until
    }

    /// A read was asked for.
    pub(crate) fn begin(&mut self, id: IoId, step: Step, lease: Lease, len: u32) {
        self.pass_begun.get_or_insert(self.now);
        self.credit -= i64::from(len);
        self.reading = Some(Reading { id, since: self.now, step, lease });
    }

    /// The read that this is the answer to, if it is one of ours.
    pub(crate) fn end(&mut self, id: IoId) -> Option<Reading> {
        let reading = self.reading.take_if(|reading| reading.id == id)?;
        let took = self.now.saturating_sub(reading.since);
        if took >= self.config.slow_read {
            self.rest_until = self.now.saturating_add(took.saturating_mul(REST_FACTOR));
        }
        Some(reading)
    }

    /// The device that a read is under way on.
    pub(crate) fn reads_from(&self) -> Option<DeviceIndex> {
        self.reading.as_ref().map(|reading| reading.lease.place().device)
    }

    /// Gives up what is being done: its device is gone.
    pub(crate) fn abandon(&mut self) {
        self.reading = None;
        self.todo.clear();
    }

    /// All devices were gone through; says whether there was anything to do.
    pub(crate) fn end_pass(&mut self) -> bool {
        self.reached.fill(0);
        let begun = self.pass_begun.take();
        let next = begun.unwrap_or(self.now).saturating_add(self.config.pass_every);
        self.rest_until = self.rest_until.max(next);
        begun.is_some()
    }

    pub(crate) fn tell(&mut self, damage: Damage) {
        if self.found.len() < FOUND_MAX {
            self.found.push_back(damage);
        }
    }

    pub(crate) fn take_found(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.found).into()
    }
}

impl BodyCheck {
    pub(crate) fn boxed(hash: KeyHash, read: (Place, Bytes), extents: Vec<ExtentRef>) -> Box<Self> {
        let mut extents = extents;
        extents.reverse();
        let (record, damaged) = (read.0, Vec::new());
        Box::new(Self { hash, record, read, damaged, extents, done: 0, crc: Crc32c::new() })
    }

    /// What is to be read next of an extent at `place`, in whole blocks; and how many of its first bytes are not
    /// the extent's.
    pub(crate) fn next_read(&self, place: &Place) -> (Place, usize) {
        let at = place.offset + self.done;
        let from = at / BLOCK_BYTES * BLOCK_BYTES;
        let end = round_to_blocks((place.offset + place.len).min(from.saturating_add(STEP_BYTES)));
        (Place { offset: from, len: end - from, ..*place }, (at - from) as usize)
    }

    /// Takes bytes of the next extent, as [`BodyCheck::next_read`] had them read.
    pub(crate) fn take(&mut self, bytes: &[u8], skip: usize) -> Judged {
        let Some(extent) = self.extents.last() else { return Judged::Good };
        let bytes = bytes.get(skip..).unwrap_or_default();
        let wanted = &bytes[..bytes.len().min((extent.len - self.done) as usize)];
        self.crc.update(wanted);
        self.done += wanted.len() as u32;
        match (self.done == extent.len, self.crc.value() == extent.crc) {
            (false, _) if wanted.is_empty() => Judged::Bad,
            (false, _) => Judged::Unfinished,
            (true, good) => {
                self.skip();
                if good { Judged::Good } else { Judged::Bad }
            }
        }
    }

    /// Goes on to the next extent.
    pub(crate) fn skip(&mut self) {
        self.extents.pop();
        self.done = 0;
        self.crc = Crc32c::new();
    }
}

/// The records of a segment as steps of one read each; the first one last.
pub(crate) fn records(segment: &Place, entries: Vec<Entry>) -> Vec<Step> {
    let step = |Run { from, len, items }| {
        let place = Place { offset: from, len, ..*segment };
        Step::Records { place, entries: items }
    };
    runs(entries, STEP_BYTES, |entry| entry).into_iter().rev().map(step).collect()
}

#[cfg(test)]
#[path = "scrub/tests.rs"]
mod tests;
