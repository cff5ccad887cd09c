//! The table of fills in progress: the first request for an object, or for bytes of it, fetches them, later ones find its
//! fill here.
//!
//! Shared by all worker threads, in shards with a lock each. What must hold: an entry is there for as long as its fill's
//! owner is, and not longer; bounded by the number of requests in flight.
//!
//! Resources whose last response could not be shared are remembered for a while, so that their requests do not wait
//! for one another only to be sent on one by one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use smallvec::SmallVec;
use store::KeyHash;

use crate::fill::{Asked, Fill, Owner};
use crate::memory::s3fifo::Identity;

const SHARDS: usize = 64;

/// How long a resource counts as not shareable after a response that was not.
const UNSHAREABLE_FOR_SECONDS: u64 = 60;

/// Resources remembered as not shareable; a newer one takes the slot of an older one.
const UNSHAREABLE: usize = 16 * 1024;

/// Mostly one fill for an object; several where clients want different parts.
/// Queue: fetches under way.
type Shard = Mutex<HashMap<u128, SmallVec<[Arc<Fill>; 1]>, Identity>>;

/// The table.
pub struct Collapse {
    shards: Box<[Shard]>,
    /// Each slot: 40 bits of a key's hash, 24 bits of the time in seconds until which it counts.
    unshareable: Box<[AtomicU64]>,
}

/// What a request finds.
pub enum Role {
    /// Nobody fetches this yet: you do. The ticket takes the fill out of the table when its owner is done.
    Leader(Ticket),
    /// Somebody does.
    Follower(Arc<Fill>),
}

/// A fill's owner together with its entry in the table.
pub struct Ticket {
    table: Arc<Collapse>,
    owner: Option<Owner>,
}

impl Collapse {
    /// An empty table.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let unshareable = (0..UNSHAREABLE).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), unshareable })
    }

    /// Joins a fill under `hash` that may serve who asks for `asked`, or starts one.
    #[must_use]
    pub fn enter(self: &Arc<Self>, hash: KeyHash, primary: KeyHash, asked: &Asked) -> Role {
        let mut shard = self.shard(hash).lock();
        let fills = shard.entry(hash.0).or_default();
        if let Some(fill) = fills.iter().find(|fill| fill.may_serve(asked)) {
            return Role::Follower(Arc::clone(fill));
        }
        let owner = Fill::start(hash, primary, asked.clone());
        fills.push(Arc::clone(owner.fill()));
        Role::Leader(Ticket { table: Arc::clone(self), owner: Some(owner) })
    }

    /// Starts a fill beside those that are there and turned out not to serve.
    #[must_use]
    pub fn lead(self: &Arc<Self>, hash: KeyHash, primary: KeyHash, asked: Asked) -> Ticket {
        let owner = Fill::start(hash, primary, asked);
        self.shard(hash).lock().entry(hash.0).or_default().push(Arc::clone(owner.fill()));
        Ticket { table: Arc::clone(self), owner: Some(owner) }
    }

    /// Whether a fill under `hash` is in progress.
    #[must_use]
    pub fn is_filling(&self, hash: KeyHash) -> bool {
        self.shard(hash).lock().contains_key(&hash.0)
    }

    /// A purge of `primary`: no fill of it, nor of a variant of it, is kept or joined from now on.
    pub fn forget(&self, primary: KeyHash) {
        for shard in &self.shards {
            shard.lock().retain(|_, fills| {
                fills.retain(|fill| {
                    let named = fill.primary == primary;
                    if named {
                        fill.forget();
                    }
                    !named
                });
                !fills.is_empty()
            });
        }
    }

    /// No request joins this fill from now on; those who stream along go on.
    pub fn part(&self, from: &Arc<Fill>) {
        let mut shard = self.shard(from.hash).lock();
        let Some(fills) = shard.get_mut(&from.hash.0) else { return };
        fills.retain(|fill| !Arc::ptr_eq(fill, from));
        if fills.is_empty() {
            shard.remove(&from.hash.0);
        }
    }

    /// A purge of everything: [`Self::forget`] of all fills.
    pub fn forget_all(&self) {
        self.shards.iter().for_each(|shard| {
            shard.lock().drain().for_each(|(_, fills)| fills.iter().for_each(|fill| fill.forget()))
        });
    }

    /// Notes that the resource's last response could not be shared.
    pub fn note_unshareable(&self, hash: KeyHash, now: u64) {
        let until = (now + UNSHAREABLE_FOR_SECONDS) & 0xff_ffff;
        self.unshareable_slot(hash).store(tag(hash) | until, Ordering::Relaxed);
    }

    /// Whether the resource's last response could not be shared, a short while ago.
    #[must_use]
    pub fn is_unshareable(&self, hash: KeyHash, now: u64) -> bool {
        let slot = self.unshareable_slot(hash).load(Ordering::Relaxed);
        let left = (slot & 0xff_ffff).wrapping_sub(now) & 0xff_ffff;
        slot & !0xff_ffff == tag(hash) && left <= UNSHAREABLE_FOR_SECONDS
    }

    fn shard(&self, hash: KeyHash) -> &Shard {
        &self.shards[(hash.0 >> 96) as usize % SHARDS]
    }

    fn unshareable_slot(&self, hash: KeyHash) -> &AtomicU64 {
        &self.unshareable[(hash.0 >> 64) as usize % UNSHAREABLE]
    }
}

fn tag(hash: KeyHash) -> u64 {
    (hash.0 as u64) & !0xff_ffff
}

impl Ticket {
    /// The owner, for as long as the fill is neither done nor given up.
    #[must_use]
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Whether anybody has joined the fill (beside its owner, only the table holds it otherwise).
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| Arc::strong_count(owner.fill()) > 2)
    }

    /// Ends the fill: its entry leaves the table, then `end` tells those who wait.
    pub fn end(mut self, end: impl FnOnce(Owner)) {
        self.leave_table();
        if let Some(owner) = self.owner.take() {
            end(owner);
        }
    }

    /// Takes the entry out, if a purge did not before.
    fn leave_table(&self) {
        if let Some(owner) = &self.owner {
            self.table.part(owner.fill());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave_table();
    }
}
