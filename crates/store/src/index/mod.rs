//! The index in memory: fingerprint → where the newest record is. At most 16 bytes an object.
//!
//! 4096 shards, each a small table behind a lock of its own: no lock is held for longer than the rebuild of
//! one table (25 000 slots at a hundred million objects), and memory follows what is stored. The upper bits
//! of a fingerprint choose the shard, so a tag means the same whatever the tables' sizes.
//!
//! Knows nothing of devices: a location's segment is a number.

mod entry;
mod shard;

pub(crate) use entry::Location;

use crate::fingerprint::{Fingerprint, SHARD_BITS};
use parking_lot::Mutex;
use shard::Shard;

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Mutex<Shard>]>,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { shards: (0..1 << SHARD_BITS).map(|_| Mutex::default()).collect() }
    }

    /// Finds an entry, counts the use, and lets `take` make something of it while it cannot go away.
    pub(crate) fn lookup<T>(&self, of: Fingerprint, take: impl FnOnce(Location) -> Option<T>) -> Option<T> {
        let mut shard = self.shard(of).lock();
        let location = shard.update(of.tag(), Location::count_hit)?;
        take(location)
    }

    /// The entry, without counting a use.
    pub(crate) fn get(&self, of: Fingerprint) -> Option<Location> {
        self.shard(of).lock().get(of.tag())
    }

    /// Counts a use, if the entry is there.
    pub(crate) fn count_use(&self, of: Fingerprint) -> bool {
        self.shard(of).lock().update(of.tag(), Location::count_hit).is_some()
    }

    /// Sets an entry's uses, unless it is no longer at `place`.
    pub(crate) fn set_uses(&self, of: Fingerprint, place: Location, uses: u32) {
        self.shard(of).lock().update(of.tag(), |location| {
            if location.same_place(place) {
                *location = location.with_hits(uses);
            }
        });
    }

    /// Enters what `make` returns, which is called under the shard's lock; returns what was there before.
    pub(crate) fn insert(&self, of: Fingerprint, make: impl FnOnce() -> Location) -> Option<Location> {
        self.insert_if(of, |_| true, make).ok().flatten()
    }

    /// The same, if `condition` holds for what is there; both are called under the shard's lock. Otherwise gives what
    /// is there.
    pub(crate) fn insert_if(
        &self,
        of: Fingerprint,
        condition: impl FnOnce(Option<Location>) -> bool,
        make: impl FnOnce() -> Location,
    ) -> Result<Option<Location>, Option<Location>> {
        let mut shard = self.shard(of).lock();
        let now = shard.get(of.tag());
        if condition(now) { Ok(shard.insert(of.tag(), make())) } else { Err(now) }
    }

    /// Moves an entry, unless it is no longer at `old`. `make` is called under the shard's lock.
    pub(crate) fn replace(&self, of: Fingerprint, old: Location, make: impl FnOnce() -> Location) -> bool {
        let mut shard = self.shard(of).lock();
        match shard.get(of.tag()) {
            Some(now) if now.same_place(old) => {
                shard.insert(of.tag(), make());
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
        self.shard(of).lock().remove_if(of.tag(), condition)
    }

    /// Marks an entry as checked, unless it is no longer at `place`.
    pub(crate) fn set_verified(&self, of: Fingerprint, place: Location) {
        self.shard(of).lock().update(of.tag(), |location| {
            if location.same_place(place) {
                location.set_verified();
            }
        });
    }

    /// Takes out all entries for which `gone` holds, shard by shard, and returns them.
    pub(crate) fn sweep(&self, gone: impl Fn(Location) -> bool) -> Vec<Fingerprint> {
        let shards = self.shards.iter().enumerate();
        let swept = shards.flat_map(|(number, shard)| {
            let tags = shard.lock().retain(|location| !gone(location));
            tags.into_iter().map(move |tag| Fingerprint::from_parts(number, tag))
        });
        swept.collect()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().len() as u64).sum()
    }

    /// Number of entries and bytes of memory.
    pub(crate) fn size(&self) -> (u64, u64) {
        let fixed = size_of_val(&*self.shards) as u64;
        self.shards.iter().fold((0, fixed), |(entries, bytes), shard| {
            let shard = shard.lock();
            (entries + shard.len() as u64, bytes + shard.bytes() as u64)
        })
    }

    fn shard(&self, of: Fingerprint) -> &Mutex<Shard> {
        &self.shards[of.shard()]
    }
}

#[cfg(test)]
mod tests;
