//! A shard: one table of slots, kept in the order of their tags.
//!
//! A tag's home is `tag * homes / 2^32`, which grows with the tag: slots sit at or behind their home in tag
//! order (linear probing with ordering, Amble and Knuth 1974), so that a search for an absent tag ends at
//! the first larger one, deletion closes the gap, and growth is one walk. The table has a few slots behind the
//! last home instead of wrapping around, more if runs need them.
//!
//! Holds always: occupied slots ascend by tag; no free slot lies between a slot and its home.
//! Homes grow and shrink by a fifth, so memory follows what is stored and a resize moves one shard only.

use super::entry::{Location, Slot};

/// Slots behind the last home, for runs that reach past it.
const OVERHANG: usize = 8;
/// Grow when more than 23 of 25 homes' worth of slots are taken.
const LOAD: (usize, usize) = (23, 25);
const HOMES_MIN: usize = 8;

/// A table; empty ones own no memory.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    slots: Vec<Slot>,
    homes: usize,
    used: usize,
}

impl Shard {
    /// Entries.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Bytes of memory that the table owns.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    pub(crate) fn get(&self, tag: u32) -> Option<Location> {
        self.slots[self.find(tag).ok()?].location()
    }

    /// Changes an entry in place.
    pub(crate) fn update(&mut self, tag: u32, change: impl FnOnce(&mut Location)) -> Option<Location> {
        let at = self.find(tag).ok()?;
        let mut location = self.slots[at].location()?;
        change(&mut location);
        self.slots[at].set(location);
        Some(location)
    }

    /// Puts an entry in the place of the one with this tag, which is returned.
    pub(crate) fn insert(&mut self, tag: u32, location: Location) -> Option<Location> {
        if (self.used + 1) * LOAD.1 > self.homes * LOAD.0 {
            self.resize((self.homes + self.homes / 5 + 1).max(HOMES_MIN));
        }
        match self.find(tag) {
            Ok(at) => {
                let old = self.slots[at].location();
                self.slots[at].set(location);
                old
            }
            Err(at) => {
                self.make_room(at);
                self.slots[at] = Slot::new(tag, location);
                self.used += 1;
                None
            }
        }
    }

    /// Takes an entry out if `condition` holds for it.
    pub(crate) fn remove_if(
        &mut self,
        tag: u32,
        condition: impl FnOnce(Location) -> bool,
    ) -> Option<Location> {
        let at = self.find(tag).ok()?;
        let location = self.slots[at].location().filter(|&location| condition(location))?;
        self.close_gap(at);
        self.used -= 1;
        if self.homes > HOMES_MIN && self.used * 2 < self.homes {
            self.resize((self.used + self.used / 5).max(HOMES_MIN));
        }
        Some(location)
    }

    /// Keeps the entries for which `keep` holds and returns the others' tags.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(Location) -> bool) -> Vec<u32> {
        let gone: Vec<u32> =
            self.entries().filter(|&(_, location)| !keep(location)).map(|(tag, _)| tag).collect();
        for &tag in &gone {
            self.remove_if(tag, |_| true);
        }
        gone
    }

    fn entries(&self) -> impl Iterator<Item = (u32, Location)> {
        self.slots.iter().filter_map(|slot| Some((slot.tag, slot.location()?)))
    }

    fn home(&self, tag: u32) -> usize {
        (tag as usize * self.homes) >> 32
    }

    /// The slot with this tag, or the one where it would have to be.
    fn find(&self, tag: u32) -> Result<usize, usize> {
        let home = self.home(tag);
        for (at, slot) in self.slots.iter().enumerate().skip(home) {
            match slot.location() {
                None => return Err(at),
                Some(_) if slot.tag == tag => return Ok(at),
                Some(_) if slot.tag > tag => return Err(at),
                Some(_) => {}
            }
        }
        Err(self.slots.len())
    }

    /// Moves the run that starts at `at` one slot back; the table gets longer where its end is in the way.
    fn make_room(&mut self, at: usize) {
        let run = self.slots[at..].iter().take_while(|slot| slot.location().is_some()).count();
        if at + run == self.slots.len() {
            self.slots.reserve_exact(OVERHANG);
            self.slots.resize(self.slots.len() + OVERHANG, Slot::FREE);
        }
        self.slots.copy_within(at..at + run, at + 1);
    }

    /// Moves the slots behind `at` forward that are not at their home.
    fn close_gap(&mut self, at: usize) {
        let behind = &self.slots[at + 1..];
        let run = behind
            .iter()
            .zip(at + 1..)
            .take_while(|(slot, here)| slot.location().is_some() && self.home(slot.tag) < *here);
        let run = run.count();
        self.slots.copy_within(at + 1..=at + run, at);
        self.slots[at + run] = Slot::FREE;
    }

    /// Rebuilds with so many homes.
    fn resize(&mut self, homes: usize) {
        let old = std::mem::take(&mut self.slots);
        self.homes = homes;
        let mut slots = Vec::new();
        slots.reserve_exact(homes + OVERHANG);
        for slot in old.iter().filter(|slot| slot.location().is_some()) {
            let home = self.home(slot.tag);
            if slots.len() < home {
                slots.resize(home, Slot::FREE);
            }
            slots.push(*slot);
        }
        slots.resize(slots.len().max(homes + OVERHANG), Slot::FREE);
        self.slots = slots;
    }

    #[cfg(test)]
    pub(crate) fn assert_sound(&self) {
        let mut last = None;
        let mut used = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.location().is_none() {
                continue;
            }
            used += 1;
            assert!(last < Some(slot.tag), "tags ascend");
            assert!(self.home(slot.tag) <= at);
            assert!(self.slots[self.home(slot.tag)..at].iter().all(|slot| slot.location().is_some()));
            last = Some(slot.tag);
        }
        assert_eq!(used, self.used);
    }
}
