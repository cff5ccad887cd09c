//! Which waiting writes of one device go out next, and which of them as one. Pure.
//!
//! ```text
//! nothing under way                        → a write goes at once
//! something under way                      → it waits, unless it is large or makes a long run with its neighbours
//! all of that is answered                  → its run goes, whatever else has come meanwhile
//! ```
//! So a device that keeps up sees each write as it comes, and one that is behind sees few and large ones, in the order of
//! their age. A *run* is what lies side by side on the device, whoever wrote it. Holds always: no more than the caller's
//! limit is under way; whoever waits does so for no more answers than there were writes under way or older when it came.

use std::collections::{BTreeMap, VecDeque};

use sys::operation::PARTS_MAX;

/// A write this long gains little by waiting.
const LARGE_BYTES: u64 = 1 << 20;

/// No run grows longer, because reads have to wait for it; so one this long waits no more.
const RUN_BYTES_MAX: u64 = 2 << 20;

/// See the module. `T` is what the caller wants to have back with a write.
#[derive(Debug)]
pub(super) struct Joiner<T> {
    /// By offset, and then by age.
    /// Queue: writes to all devices, pieces of fills.
    waiting: BTreeMap<(u64, u64), Waiting<T>>,
    /// Oldest first; some may have gone out as neighbours of others.
    /// Queue: writes to all devices, pieces of fills.
    by_age: VecDeque<(u64, u64)>,
    /// Writes whose run was full when they came; some may have gone since.
    /// Queue: writes to all devices, pieces of fills.
    full: VecDeque<(u64, u64)>,
    under_way: usize,
    born: u64,
    /// Answers so far.
    answers: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    len: u64,
    /// The number of the answer that it need not wait beyond.
    until: u64,
    /// Goes out by itself.
    alone: bool,
    what: T,
}

/// Writes that go out as one, in the order of their places.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<T> {
    /// Where the first one begins.
    pub(super) offset: u64,
    /// Never empty.
    pub(super) parts: Vec<T>,
}

impl<T> Default for Joiner<T> {
    fn default() -> Self {
        let (by_age, full) = (VecDeque::new(), VecDeque::new());
        Self { waiting: BTreeMap::new(), by_age, full, under_way: 0, born: 0, answers: 0 }
    }
}

impl<T> Joiner<T> {
    /// A write of `len` bytes at `offset`; `alone` keeps it apart from its neighbours.
    pub(super) fn push(&mut self, offset: u64, len: u64, alone: bool, what: T) {
        self.born += 1;
        let key = (offset, self.born);
        let until = self.answers + self.under_way as u64;
        self.waiting.insert(key, Waiting { len, until, alone, what });
        self.by_age.push_back(key);
        if self.is_full(key) {
            self.full.push_back(key);
        }
    }

    /// One that was under way is answered: ask for the [`next`](Self::next).
    pub(super) fn answered(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        self.answers += 1;
    }

    /// What goes out now, where `limit` may be under way.
    pub(super) fn next(&mut self, limit: usize) -> Option<Run<T>> {
        if self.under_way >= limit.max(1) {
            return None;
        }
        let key = self.oldest().or_else(|| self.first_full())?;
        self.under_way += 1;
        Some(self.take(key))
    }

    /// Writes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes under way.
    pub(super) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Gives up what waits.
    pub(super) fn clear(&mut self) {
        (self.by_age, self.full) = (VecDeque::new(), VecDeque::new());
        self.waiting.clear();
    }

    /// The oldest, if it has waited long enough.
    fn oldest(&mut self) -> Option<(u64, u64)> {
        while let Some(&key) = self.by_age.front() {
            match self.waiting.get(&key) {
                Some(waiting) if waiting.until > self.answers && self.under_way > 0 => return None,
                Some(_) => return Some(key),
                None => self.by_age.pop_front(),
            };
        }
        None
    }

    fn is_full(&self, key: (u64, u64)) -> bool {
        let large = self.waiting.get(&key).is_some_and(|waiting| waiting.len >= LARGE_BYTES);
        large || self.extent_of(key).1 >= RUN_BYTES_MAX
    }

    fn first_full(&mut self) -> Option<(u64, u64)> {
        while let Some(key) = self.full.pop_front() {
            if self.is_full(key) {
                return Some(key);
            }
        }
        None
    }

    fn take(&mut self, key: (u64, u64)) -> Run<T> {
        let (keys, _) = self.extent_of(key);
        let offset = keys.front().map_or(key.0, |(offset, _)| *offset);
        let parts = keys.iter().filter_map(|key| self.waiting.remove(key)).map(|waiting| waiting.what);
        Run { offset, parts: parts.collect() }
    }

    /// The writes beside this one that go out with it, by place, and their bytes.
    fn extent_of(&self, key: (u64, u64)) -> (VecDeque<(u64, u64)>, u64) {
        let Some(first) = self.waiting.get(&key) else { return (VecDeque::new(), 0) };
        let (mut keys, mut bytes) = (VecDeque::from([key]), first.len);
        let (mut start, mut end) = (key.0, key.0 + first.len);
        let mut fits = |len: u64, count: usize| {
            let fits = !first.alone && count < PARTS_MAX && bytes + len <= RUN_BYTES_MAX;
            bytes += if fits { len } else { 0 };
            fits
        };
        for (&before, waiting) in self.waiting.range(..(start, 0)).rev() {
            if waiting.alone || before.0 + waiting.len != start || !fits(waiting.len, keys.len()) {
                break;
            }
            start = before.0;
            keys.push_front(before);
        }
        for (&behind, waiting) in self.waiting.range((end, 0)..) {
            if waiting.alone || behind.0 != end || !fits(waiting.len, keys.len()) {
                break;
            }
            end += waiting.len;
            keys.push_back(behind);
        }
        (keys, bytes)
    }
}

#[cfg(test)]
mod tests;
