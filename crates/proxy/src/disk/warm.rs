//! Stored bytes in memory of our own: read past the page cache, shared by all who want them now, and kept for later where
//! `store.io` is `direct`.
//!
//! One arena bounds all of it: what is being read, what clients are being sent, what is kept. What must hold: bytes are
//! kept under their whole place, which names one life of a segment, so that they are found only by who holds a lease on
//! that life; only bytes known to be good are kept or handed on; one place is read once, however many ask for it at a
//! time; a reader that goes away hands its work to those who wait. Refuses to know devices and how they are read.

use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::Mutex;
use store::Place;
use sys::aligned::{AlignedBuffer, round_up_to_block};
use sys::arena::Arena;
use tokio::sync::watch;

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::ReadFailed;
use crate::memory::s3fifo::S3Fifo;

/// What a shard holds at least: enough for the largest bytes to be a small part of it.
const SHARD_BYTES: u64 = 64 << 20;

/// More shards make the rounds of [`Warm::sweep`] long and contention no rarer.
const SHARDS_MAX: u64 = 64;

/// How much may be given up for one buffer: the gaps may lie apart.
const GIVEN_UP_FOR_ONE: usize = 8;

/// See the module. Shared by all threads.
pub struct Warm {
    arena: Arena,
    shards: Box<[Mutex<Shard>]>,
    /// The shard whose turn it is to give something up, or to be swept.
    turn: AtomicUsize,
    found: AtomicU64,
    shared: AtomicU64,
    read: AtomicU64,
}

struct Shard {
    kept: S3Fifo<Kept>,
    /// Queue: reads of one device.
    under_way: HashMap<Place, watch::Receiver<Progress>>,
}

struct Kept {
    place: Place,
    bytes: Bytes,
}

/// How far a read is that others may be waiting for.
#[derive(Clone)]
enum Progress {
    UnderWay,
    Done(Bytes),
    Failed(Failure),
}

/// A [`ReadFailed`] that can be told to many.
#[derive(Clone, Copy)]
enum Failure {
    Gone,
    Unanswered,
    Checksum,
    NoBuffer,
    Device(io::ErrorKind),
}

/// What asking for a place came to.
pub(super) enum Asked<'w> {
    /// Its bytes are here.
    Here(Bytes),
    /// Somebody reads them.
    UnderWay(Waiting),
    /// Nobody does: whoever gets this has to.
    Read(Reading<'w>),
}

/// The place of one who waits for what another reads.
pub(super) struct Waiting(watch::Receiver<Progress>);

/// The duty to read a place, given back on drop.
pub(super) struct Reading<'w> {
    warm: &'w Warm,
    place: Place,
    tell: watch::Sender<Progress>,
}

/// A view of the warm set at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmUse {
    /// Bytes of buffers in use, kept or on their way.
    pub bytes: u64,
    /// Places whose bytes were there when asked for.
    pub found: u64,
    /// Places that somebody else was reading.
    pub shared: u64,
    /// Places that had to be read.
    pub read: u64,
}

impl Warm {
    /// At most `bytes` of memory, none of it taken before it is needed. `keep`: bytes stay for the next who ask.
    ///
    /// # Errors
    /// When there is no address space for it.
    pub fn new(bytes: u64, keep: bool) -> io::Result<Self> {
        let arena = Arena::new(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let shards = (bytes / SHARD_BYTES).clamp(1, SHARDS_MAX);
        let room = if keep { bytes / shards } else { 0 };
        let shard = || Mutex::new(Shard { kept: S3Fifo::new(room), under_way: HashMap::new() });
        Ok(Self {
            arena,
            shards: (0..shards).map(|_| shard()).collect(),
            turn: AtomicUsize::new(0),
            found: AtomicU64::new(0),
            shared: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }

    /// The memory below, for rings to register.
    #[must_use]
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The bytes of a place, if they are kept. Counts as a use.
    #[must_use]
    pub fn find(&self, place: &Place) -> Option<Bytes> {
        let bytes = self.shard(place).lock().find(place)?;
        self.found.fetch_add(1, Relaxed);
        Some(bytes)
    }

    /// Asks for the bytes of a place on which the caller holds a lease.
    pub(super) fn ask(&self, place: &Place) -> Asked<'_> {
        let mut shard = self.shard(place).lock();
        if let Some(bytes) = shard.find(place) {
            self.found.fetch_add(1, Relaxed);
            return Asked::Here(bytes);
        }
        if let Some(progress) = shard.under_way.get(place) {
            self.shared.fetch_add(1, Relaxed);
            return Asked::UnderWay(Waiting(progress.clone()));
        }
        // Queue: requests that wait for another's read.
        let (tell, progress) = watch::channel(Progress::UnderWay);
        shard.under_way.insert(*place, progress);
        self.read.fetch_add(1, Relaxed);
        Asked::Read(Reading { warm: self, place: *place, tell })
    }

    /// A buffer of `len` bytes; what is kept gives way. Nothing where the rest is in use, or too finely cut.
    pub(super) fn buffer(&self, len: usize) -> Option<AlignedBuffer> {
        let mut given_up = 0;
        loop {
            match self.arena.try_take(len) {
                Ok(buffer) => return Some(buffer),
                Err(_) if given_up > GIVEN_UP_FOR_ONE * len => return None,
                Err(_) => given_up += self.give_up_one()?,
            }
        }
    }

    /// Lets go of what is kept of lives that are over, in one shard: called in turn it comes round to all.
    pub fn sweep(&self, is_alive: impl Fn(&Place) -> bool) {
        let shard = &self.shards[self.turn.fetch_add(1, Relaxed) % self.shards.len()];
        shard.lock().kept.retain(|kept| is_alive(&kept.place));
    }

    /// What is in use and what was asked.
    #[must_use]
    pub fn usage(&self) -> WarmUse {
        WarmUse {
            bytes: self.arena.taken_bytes() as u64,
            found: self.found.load(Relaxed),
            shared: self.shared.load(Relaxed),
            read: self.read.load(Relaxed),
        }
    }

    /// Drops the next in turn and says how many bytes that was; nothing where nothing is kept.
    fn give_up_one(&self) -> Option<usize> {
        let first = self.turn.fetch_add(1, Relaxed);
        let shards = (0..self.shards.len()).map(|i| &self.shards[(first + i) % self.shards.len()]);
        shards.into_iter().find_map(|shard| {
            let given_up = shard.lock().kept.evict();
            given_up.map(|kept| kept.bytes.len())
        })
    }

    fn shard(&self, place: &Place) -> &Mutex<Shard> {
        &self.shards[(hash(place) >> 96) as usize % self.shards.len()]
    }
}

impl Shard {
    fn find(&mut self, place: &Place) -> Option<Bytes> {
        self.kept.get(hash(place)).filter(|kept| kept.place == *place).map(|kept| kept.bytes.clone())
    }
}

impl Waiting {
    /// What the other one read; nothing where it went away before, and then one has to ask again.
    pub(super) async fn outcome(mut self) -> Option<Result<Bytes, ReadFailed>> {
        let over = self.0.wait_for(|progress| !matches!(progress, Progress::UnderWay)).await.ok()?;
        match &*over {
            Progress::UnderWay => None,
            Progress::Done(bytes) => Some(Ok(bytes.clone())),
            Progress::Failed(failure) => Some(Err((*failure).into())),
        }
    }
}

impl Reading<'_> {
    /// Tells those who wait, and keeps what is good. Where it is nothing, the failure is theirs too.
    pub(super) fn done(self, outcome: Result<Bytes, ReadFailed>) -> Result<Bytes, ReadFailed> {
        let progress = match &outcome {
            Ok(bytes) => {
                self.keep(bytes);
                Progress::Done(bytes.clone())
            }
            Err(failed) => Progress::Failed(failed.into()),
        };
        self.tell.send_replace(progress);
        outcome
    }

    fn keep(&self, bytes: &Bytes) {
        let weight = u32::try_from(round_up_to_block(bytes.len())).unwrap_or(u32::MAX);
        let kept = Kept { place: self.place, bytes: bytes.clone() };
        self.warm.shard(&self.place).lock().kept.put(hash(&self.place), kept, weight);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.warm.shard(&self.place).lock().under_way.remove(&self.place);
    }
}

impl From<&ReadFailed> for Failure {
    fn from(failed: &ReadFailed) -> Self {
        match failed {
            ReadFailed::Gone => Self::Gone,
            ReadFailed::Unanswered => Self::Unanswered,
            ReadFailed::Checksum => Self::Checksum,
            ReadFailed::NoBuffer => Self::NoBuffer,
            ReadFailed::Device(error) => Self::Device(error.kind()),
        }
    }
}

impl From<Failure> for ReadFailed {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Gone => Self::Gone,
            Failure::Unanswered => Self::Unanswered,
            Failure::Checksum => Self::Checksum,
            Failure::NoBuffer => Self::NoBuffer,
            Failure::Device(kind) => Self::Device(kind.into()),
        }
    }
}

/// Well mixed, and not relied upon: places are compared.
fn hash(place: &Place) -> u128 {
    let mut bytes = [0; 24];
    bytes[..2].copy_from_slice(&place.device.0.to_le_bytes());
    bytes[2..6].copy_from_slice(&place.segment.to_le_bytes());
    bytes[6..14].copy_from_slice(&place.sequence.to_le_bytes());
    bytes[14..18].copy_from_slice(&place.offset.to_le_bytes());
    bytes[18..22].copy_from_slice(&place.len.to_le_bytes());
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

#[cfg(test)]
mod tests;
