//! The index in memory: fingerprint → where the newest record is. At most 16 bytes an object.
//!
//! 4096 shards, each a small table behind a lock of its own: no lock is held for longer than the rebuild of
//! one table (25 000 slots at a hundred million objects), and memory follows what is stored. The upper bits
//! of a fingerprint choose the shard, so a tag means the same whatever the tables' sizes.
//!
//! While contents tables are merged in, newest entry first, an object that is there is newer than all that is still to
//! come. What has left since, or was never there and has been decided upon, is noted beside the table, so that nothing
//! older of it comes in.
//!
//! Knows nothing of devices: a location's segment is a number.

mod entry;
mod shard;

pub(crate) use entry::Location;

use crate::fingerprint::{Fingerprint, SHARD_BITS};
use hashbrown::HashSet;
use parking_lot::Mutex;
use shard::Shard;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Mutex<Part>]>,
    merging: AtomicBool,
}

#[derive(Debug, Default)]
struct Part {
    table: Shard,
    /// Tags that are not in the table and must not be merged in; nothing where no merge is under way.
    /// Queue: what changes while an index is completed.
    decided: Option<Box<HashSet<u32>>>,
}

/// What became of an entry that was to be merged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merged {
    /// It is the newest, and there now.
    Entered,
    /// There is a newer one, or the object is gone.
    Outranked,
    /// It does not count any more.
    Void,
}

impl Index {
    /// An empty one that contents tables are merged into until [`Index::end_merging`].
    pub(crate) fn merging() -> Self {
        let part = || Mutex::new(Part { table: Shard::default(), decided: Some(Box::default()) });
        Self { shards: (0..1 << SHARD_BITS).map(|_| part()).collect(), merging: AtomicBool::new(true) }
    }

    pub(crate) fn is_merging(&self) -> bool {
        self.merging.load(SeqCst)
    }

    pub(crate) fn end_merging(&self) {
        for part in &self.shards {
            part.lock().decided = None;
        }
        self.merging.store(false, SeqCst);
    }

    /// Enters what `make` returns (under the shard's lock), unless something newer is known of the object.
    pub(crate) fn merge(&self, of: Fingerprint, make: impl FnOnce() -> Option<Location>) -> Merged {
        let mut part = self.part(of).lock();
        let is_decided = part.decided.as_ref().is_none_or(|decided| decided.contains(&of.tag()));
        if is_decided || part.table.get(of.tag()).is_some() {
            return Merged::Outranked;
        }
        let Some(location) = make() else { return Merged::Void };
        part.table.insert(of.tag(), location);
        Merged::Entered
    }

    /// From now on nothing is merged in of this object. Says whether something might have been.
    pub(crate) fn decide(&self, of: Fingerprint) -> bool {
        let mut part = self.part(of).lock();
        part.decided.as_mut().is_some_and(|decided| decided.insert(of.tag()))
    }

    /// Finds an entry, counts the use, and lets `take` make something of it while it cannot go away.
    pub(crate) fn lookup<T>(&self, of: Fingerprint, take: impl FnOnce(Location) -> Option<T>) -> Option<T> {
        let mut part = self.part(of).lock();
        let location = part.table.update(of.tag(), Location::count_hit)?;
        take(location)
    }

    /// The entry, without counting a use.
    pub(crate) fn get(&self, of: Fingerprint) -> Option<Location> {
        self.part(of).lock().table.get(of.tag())
    }

    /// Counts a use, if the entry is there.
    pub(crate) fn count_use(&self, of: Fingerprint) -> bool {
        self.part(of).lock().table.update(of.tag(), Location::count_hit).is_some()
    }

    /// Sets an entry's uses, unless it is no longer at `place`.
    pub(crate) fn set_uses(&self, of: Fingerprint, place: Location, uses: u32) {
        self.part(of).lock().table.update(of.tag(), |location| {
            if location.same_place(place) {
                *location = location.with_hits(uses);
            }
        });
    }

    /// Enters what `make` returns; returns what was there before.
    #[cfg(test)]
    pub(crate) fn insert(&self, of: Fingerprint, make: impl FnOnce() -> Location) -> Option<Location> {
        self.insert_if(of, |_| true, make).ok().flatten()
    }

    /// Enters what `make` returns, if `condition` holds for what is there; both are called under the shard's lock.
    /// Returns what was there before, or still is.
    pub(crate) fn insert_if(
        &self,
        of: Fingerprint,
        condition: impl FnOnce(Option<Location>) -> bool,
        make: impl FnOnce() -> Location,
    ) -> Result<Option<Location>, Option<Location>> {
        let mut part = self.part(of).lock();
        let now = part.table.get(of.tag());
        if condition(now) { Ok(part.table.insert(of.tag(), make())) } else { Err(now) }
    }

    /// Moves an entry, unless it is no longer at `old`. `make` is called under the shard's lock.
    pub(crate) fn replace(&self, of: Fingerprint, old: Location, make: impl FnOnce() -> Location) -> bool {
        let mut part = self.part(of).lock();
        match part.table.get(of.tag()) {
            Some(now) if now.same_place(old) => {
                part.table.insert(of.tag(), make());
                true
            }
            _ => false,
        }
    }

    /// Takes an entry out if `condition` holds for it.
    pub(crate) fn remove_if(
        &self,
        of: Fingerprint,
        condition: impl FnOnce(Location) -> bool,
    ) -> Option<Location> {
        let mut part = self.part(of).lock();
        let removed = part.table.remove_if(of.tag(), condition)?;
        part.decided.iter_mut().for_each(|decided| _ = decided.insert(of.tag()));
        Some(removed)
    }

    /// Marks an entry as checked, unless it is no longer at `place`.
    pub(crate) fn set_verified(&self, of: Fingerprint, place: Location) {
        self.part(of).lock().table.update(of.tag(), |location| {
            if location.same_place(place) {
                location.set_verified();
            }
        });
    }

    /// Takes out all entries for which `gone` holds, shard by shard, and returns them.
    pub(crate) fn sweep(&self, gone: impl Fn(Location) -> bool) -> Vec<Fingerprint> {
        let parts = self.shards.iter().enumerate();
        let swept = parts.flat_map(|(number, part)| {
            let mut part = part.lock();
            let tags = part.table.retain(|location| !gone(location));
            part.decided.iter_mut().for_each(|decided| decided.extend(&tags));
            tags.into_iter().map(move |tag| Fingerprint::from_parts(number, tag))
        });
        swept.collect()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().table.len() as u64).sum()
    }

    /// Number of entries and bytes of memory.
    pub(crate) fn size(&self) -> (u64, u64) {
        let fixed = size_of_val(&*self.shards) as u64;
        self.shards.iter().fold((0, fixed), |(entries, bytes), part| {
            let part = part.lock();
            (entries + part.table.len() as u64, bytes + part.table.bytes() as u64)
        })
    }

    fn part(&self, of: Fingerprint) -> &Mutex<Part> {
        &self.shards[of.shard()]
    }
}

#[cfg(test)]
mod tests;
