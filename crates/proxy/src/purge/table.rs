//! The marks of one epoch as a value: what is in it, what it says of a response, and its form in the store's note.
//!
//! One entry for each target: a later mark on the same target says all that the earlier one said, so repeated purges do
//! not pile up. A response is compared with a few entries, however many there are: that of its URI, those of its
//! beginnings (one for each length that a prefix has), those of its tags.

use hashbrown::HashMap;
use semantics::UnixSeconds;

use super::{Epoch, NotKept, Target, Verdict, tags, target};

/// Targets that can be kept.
pub(super) const MARKS_MAX: usize = 4096;

/// A mark that is to be set.
pub(super) struct Mark {
    /// What it names.
    pub(super) target: Target,
    /// What becomes of it.
    pub(super) firmness: Firmness,
}

/// What becomes of responses that a mark names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmness {
    /// They are purged.
    Hard,
    /// They are stale from this moment on: good for `stale-while-revalidate` and `stale-if-error`, and to be validated.
    Soft(UnixSeconds),
}

/// The marks on one target: the epochs that the last of each kind began; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    hard: Epoch,
    soft: Epoch,
    /// When the soft one was set.
    soft_at: UnixSeconds,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    epoch: Epoch,
    /// What was asked for before this epoch is purged.
    floor: Epoch,
    /// By kind of target: URLs, prefixes, tags.
    /// Queue: purge marks.
    marks: [HashMap<Box<[u8]>, Marks>; 3],
    /// The lengths that prefixes have, ascending.
    lengths: Vec<usize>,
}

const URLS: usize = 0;
const PREFIXES: usize = 1;
const TAGS: usize = 2;

impl Table {
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Targets in it.
    pub(super) fn len(&self) -> usize {
        self.marks.iter().map(HashMap::len).sum()
    }

    /// What the marks since `seen` say of a response.
    pub(super) fn judge(&self, key: &[u8], tags: &[u8], seen: Epoch) -> Verdict {
        if seen >= self.epoch {
            return Verdict::Keep;
        }
        if seen < self.floor {
            return Verdict::Purged;
        }
        let mut stale_from: Option<UnixSeconds> = None;
        for marks in self.on(target::resource(key), tags) {
            if marks.hard > seen {
                return Verdict::Purged;
            }
            if marks.soft > seen {
                stale_from = Some(stale_from.map_or(marks.soft_at, |at| at.min(marks.soft_at)));
            }
        }
        stale_from.map_or(Verdict::Keep, Verdict::Stale)
    }

    /// The marks whose targets are, or are on, this resource and these tags.
    fn on<'t>(&'t self, resource: &'t [u8], tags: &'t [u8]) -> impl Iterator<Item = &'t Marks> {
        let [urls, prefixes, by_tag] = &self.marks;
        let lengths = self.lengths.iter().take_while(|length| **length <= resource.len());
        let begins = lengths.filter_map(|length| prefixes.get(&resource[..*length]));
        let tagged = tags::each(tags).filter_map(|tag| by_tag.get(tag));
        urls.get(resource).into_iter().chain(begins).chain(tagged)
    }

    /// Adds a mark, which begins a new epoch. `bytes_max`: what the table may take in its stored form.
    pub(super) fn set(&mut self, mark: Mark, bytes_max: usize) -> Result<(), NotKept> {
        self.epoch += 1;
        let epoch = self.epoch;
        if mark.firmness == Firmness::Hard {
            self.drop_covered(&mark.target);
        }
        let (kind, bytes) = split(mark.target);
        let marks = self.marks[kind].entry(bytes).or_default();
        match mark.firmness {
            Firmness::Hard => marks.hard = epoch,
            Firmness::Soft(at) => (marks.soft, marks.soft_at) = (epoch, at),
        }
        self.measure_prefixes();
        let is_full = self.len() > MARKS_MAX || self.encoded_bytes() > bytes_max;
        if is_full { Err(NotKept::Full { marks: MARKS_MAX, bytes: bytes_max }) } else { Ok(()) }
    }

    /// Purges all that was asked for so far.
    pub(super) fn set_all(&mut self) {
        let epoch = self.epoch + 1;
        *self = Self { epoch, floor: epoch, ..Self::default() };
    }

    fn drop_covered(&mut self, by: &Target) {
        for (kind, marks) in self.marks.iter_mut().enumerate() {
            marks.retain(|bytes, _| !join(kind, bytes).is_some_and(|target| by.covers(&target)));
        }
    }

    fn measure_prefixes(&mut self) {
        let mut lengths: Vec<usize> = self.marks[PREFIXES].keys().map(|prefix| prefix.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        self.lengths = lengths;
    }
}

fn split(target: Target) -> (usize, Box<[u8]>) {
    match target {
        Target::Url(url) => (URLS, url),
        Target::Prefix(prefix) => (PREFIXES, prefix),
        Target::Tag(tag) => (TAGS, tag),
    }
}

fn join(kind: usize, bytes: &[u8]) -> Option<Target> {
    match kind {
        URLS => Some(Target::Url(bytes.into())),
        PREFIXES => Some(Target::Prefix(bytes.into())),
        TAGS => Some(Target::Tag(bytes.into())),
        _ => None,
    }
}

// --- the stored form ---
//
// form (1), epoch (8), floor (8), then for each target: kind (1), length (2), hard (8), soft (8), soft_at (8), bytes.
// Numbers are little-endian. No bytes at all: no mark was ever set.

const FORM: u8 = 1;
const ENTRY_BYTES: usize = 1 + 2 + 3 * 8;

/// The stored marks are of a form that this release does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Table {
    /// The form in which the table rests in the store's note.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes());
        out.push(FORM);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.floor.to_le_bytes());
        for (kind, marks) in self.marks.iter().enumerate() {
            for (bytes, marks) in marks {
                out.push(kind as u8);
                out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
                for number in [marks.hard, marks.soft, marks.soft_at.0] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    fn encoded_bytes(&self) -> usize {
        let entries = self.marks.iter().flat_map(HashMap::keys).map(|bytes| ENTRY_BYTES + bytes.len());
        1 + 16 + entries.sum::<usize>()
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(note: &[u8]) -> Result<Self, Unreadable> {
        let mut table = Self::default();
        if note.is_empty() {
            return Ok(table);
        }
        let mut rest = note;
        if take::<1>(&mut rest)? != [FORM] {
            return Err(Unreadable);
        }
        table.epoch = number(&mut rest)?;
        table.floor = number(&mut rest)?;
        while !rest.is_empty() {
            table.decode_entry(&mut rest)?;
        }
        table.measure_prefixes();
        Ok(table)
    }

    fn decode_entry(&mut self, rest: &mut &[u8]) -> Result<(), Unreadable> {
        let [kind] = take(rest)?;
        let length = usize::from(u16::from_le_bytes(take(rest)?));
        let (hard, soft, soft_at) = (number(rest)?, number(rest)?, UnixSeconds(number(rest)?));
        let (bytes, behind) = rest.split_at_checked(length).ok_or(Unreadable)?;
        *rest = behind;
        let marks = self.marks.get_mut(usize::from(kind)).ok_or(Unreadable)?;
        if hard.max(soft) > self.epoch {
            return Err(Unreadable);
        }
        marks.insert(bytes.into(), Marks { hard, soft, soft_at });
        Ok(())
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let (bytes, behind) = rest.split_first_chunk().ok_or(Unreadable)?;
    *rest = behind;
    Ok(*bytes)
}

fn number(rest: &mut &[u8]) -> Result<u64, Unreadable> {
    take(rest).map(u64::from_le_bytes)
}
