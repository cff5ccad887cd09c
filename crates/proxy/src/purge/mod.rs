//! Purging by prefix, by tag and of everything: marks that stored responses are compared with when they are next wanted.
//!
//! A mark names many responses at once, and nobody knows where they are: no index of tags or paths is kept. So the
//! mark is kept instead, under a number, the *epoch*, which grows by one with each. Each response remembers the epoch
//! in which its fetch began; a lookup of one that is older compares it with the marks that it has not seen.
//!
//! What must hold:
//! - a response whose fetch began before a mark that names it is not found by any request that comes after the mark,
//!   wherever it was: in memory, in the store, still on its way, or in the store of the process before this one;
//! - a lookup where no mark was set meanwhile costs one comparison of two numbers;
//! - a mark is given up only for a later one that names all that it names;
//! - marks are bounded in number and bytes, and who sets one too many is told.
//!
//! The marks are the store's note (`store::Store::set_note`), which every checkpoint carries: they are there before
//! anything stored is used, and never older than anything stored (docs/decisions/0013-purge-marks.md).
//!
//! This room knows no request and no client; purging one URL for good needs no mark ([`crate::invalidate`]).

mod table;
pub mod tags;
pub mod target;

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use semantics::UnixSeconds;

use crate::object::{Content, Head, Object};
pub use table::{Firmness, Unreadable};
use table::{Mark, Table};
pub use target::Target;

/// How many marks were set before a moment: of two, the greater is the later.
pub type Epoch = u64;

/// What the marks say of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No mark names it.
    Keep,
    /// It is stale from then on: a soft mark names it.
    Stale(UnixSeconds),
    /// It is purged.
    Purged,
}

/// Why a mark is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// There are as many marks as there may be. Nothing was changed.
    #[error("there are as many purge marks as can be kept ({} marks, {} bytes): a prefix takes the place of those below it, and purging everything of all; single URLs can be purged at any time", .marks, .bytes)]
    Full {
        /// Marks that can be kept.
        marks: usize,
        /// Bytes that they may take.
        bytes: usize,
    },
    /// The mark holds in this run, but the store cannot keep it for the next one.
    #[error("the purge holds now, but the store could not keep it ({}): a restart would forget it", .0.word())]
    Forgetful(store::Declined),
}

/// Up to which epoch a response was compared with the marks, and is not named by any.
#[derive(Debug, Default)]
pub struct Seen(AtomicU64);

impl Seen {
    /// Not since `epoch`.
    #[must_use]
    pub fn at(epoch: Epoch) -> Self {
        Self(AtomicU64::new(epoch))
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.load(Ordering::Relaxed)
    }

    fn advance(&self, epoch: Epoch) {
        self.0.fetch_max(epoch, Ordering::Relaxed);
    }
}

/// The marks of one store. Shared by all threads.
pub struct Purges {
    /// The table's, for the comparison that is made for every hit.
    epoch: AtomicU64,
    table: RwLock<Table>,
    /// Held by who changes the table, so that readers wait for the exchange alone.
    setting: Mutex<()>,
    purged: AtomicU64,
}

/// The right to store a response that no mark names: while it is held, no mark is set.
pub struct Storing<'p> {
    table: RwLockReadGuard<'p, Table>,
}

impl Storing<'_> {
    /// The epoch to be stored with the response.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.table.epoch()
    }
}

impl Default for Purges {
    fn default() -> Self {
        Self::with(Table::default())
    }
}

impl Purges {
    /// The marks in the note of a store.
    ///
    /// # Errors
    /// When this release cannot read them. Then nothing that is stored may be used.
    pub fn read(note: &[u8]) -> Result<Self, Unreadable> {
        Table::decode(note).map(Self::with)
    }

    fn with(table: Table) -> Self {
        let epoch = AtomicU64::new(table.epoch());
        Self { epoch, table: RwLock::new(table), setting: Mutex::default(), purged: AtomicU64::new(0) }
    }

    /// The epoch of now: to be taken before the origin is asked.
    #[must_use]
    pub fn now(&self) -> Epoch {
        self.epoch.load(Ordering::Acquire)
    }

    /// What the marks say of an object that a lookup found.
    #[must_use]
    pub fn check(&self, object: &Object) -> Verdict {
        let seen = object.seen.epoch();
        if seen >= self.now() {
            return Verdict::Keep;
        }
        let Content::Response(head, _) = &object.content else { return Verdict::Keep };
        let table = self.table.read();
        let verdict = table.judge(&object.key, &head.tags, seen);
        if verdict == Verdict::Keep {
            object.seen.advance(table.epoch());
        }
        verdict
    }

    /// Whether a mark names a response that is on its way since `head.epoch`: it is for those who asked before.
    #[must_use]
    pub fn name(&self, key: &[u8], head: &Head) -> bool {
        head.epoch < self.now() && self.table.read().judge(key, &head.tags, head.epoch) != Verdict::Keep
    }

    /// The right to store a response; `None` where a mark names it that was set since it was asked for.
    #[must_use]
    pub fn storing(&self, key: &[u8], head: &Head) -> Option<Storing<'_>> {
        let table = self.table.read();
        (table.judge(key, &head.tags, head.epoch) == Verdict::Keep).then_some(Storing { table })
    }

    /// Sets a mark: from its return on, what it names is not found. `firmness`: purged, or stale from a moment on.
    ///
    /// # Errors
    /// [`NotKept`].
    pub fn set(&self, store: &store::Store, target: Target, firmness: Firmness) -> Result<Epoch, NotKept> {
        let bytes = store.note_bytes_max() as usize;
        self.change(store, |table| table.set(Mark { target, firmness }, bytes))
    }

    /// Everything whose fetch has begun is purged; all other marks are superfluous then.
    ///
    /// # Errors
    /// [`NotKept::Forgetful`].
    pub fn set_all(&self, store: &store::Store) -> Result<Epoch, NotKept> {
        self.change(store, |table| {
            table.set_all();
            Ok(())
        })
    }

    fn change(
        &self,
        store: &store::Store,
        change: impl FnOnce(&mut Table) -> Result<(), NotKept>,
    ) -> Result<Epoch, NotKept> {
        let _alone = self.setting.lock();
        let mut changed = self.table.read().clone();
        change(&mut changed)?;
        let epoch = changed.epoch();
        // First the note: what is stored in the new epoch must find it in its checkpoint.
        let kept = store.set_note(Bytes::from(changed.encode()));
        *self.table.write() = changed;
        self.epoch.store(epoch, Ordering::Release);
        kept.map(|()| epoch).map_err(NotKept::Forgetful)
    }

    /// Counts an object that was taken out of the store because a mark names it.
    pub fn count_purged(&self) {
        self.purged.fetch_add(1, Ordering::Relaxed);
    }

    /// Objects taken out of the store since start because a mark names them.
    #[must_use]
    pub fn purged(&self) -> u64 {
        self.purged.load(Ordering::Relaxed)
    }

    /// Marks that are kept.
    #[must_use]
    pub fn marks(&self) -> usize {
        self.table.read().len()
    }
}

#[cfg(test)]
mod tests;
