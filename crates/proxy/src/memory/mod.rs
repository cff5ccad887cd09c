//! The memory tier: objects whose head, and body where it is small, rest in user memory ready to be sent.
//!
//! Shared by all worker threads, in shards with a lock each; a lookup holds one for the time of a hash probe and a
//! reference count. What must hold: the tier's bytes, counted with their overhead, stay within the setting. Bodies
//! above the crossover are not here: their entry is the head alone, and the kernel's page cache keeps the pages.

pub mod s3fifo;

use std::sync::Arc;

use parking_lot::Mutex;
use store::KeyHash;

use crate::object::Object;
use s3fifo::S3Fifo;

/// What an entry costs beyond its own allocations: map slot, queue entry, reference counts, allocator rounding.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// Few enough that each shard sees a fair sample of the traffic, many enough that threads rarely meet.
const SHARDS: usize = 32;

/// Of so many hits the store hears of one.
const HITS_A_NOTE: u32 = 8;

/// The tier. See the module's comment.
pub struct MemoryTier {
    shards: Box<[Mutex<Shard>]>,
}

struct Shard {
    objects: S3Fifo<Arc<Object>>,
    hits: u32,
}

impl MemoryTier {
    /// A tier of at most `capacity` bytes.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        let objects = || S3Fifo::new(capacity / SHARDS as u64);
        let shard = || Mutex::new(Shard { objects: objects(), hits: 0 });
        Self { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// The object under `hash` with that `key`, and whether the store should be told: of each few hits it hears of one,
    /// which is enough to know what is in use, and costs the others nothing.
    #[must_use]
    pub fn get(&self, hash: KeyHash, key: &[u8]) -> Option<(Arc<Object>, bool)> {
        let mut shard = self.shard(hash).lock();
        let object = shard.objects.get(hash.0).filter(|object| *object.key == *key).map(Arc::clone)?;
        shard.hits = shard.hits.wrapping_add(1);
        Some((object, shard.hits.is_multiple_of(HITS_A_NOTE)))
    }

    /// Puts `object` in.
    pub fn put(&self, hash: KeyHash, object: Arc<Object>) {
        let weight = u32::try_from(object.memory_bytes() + ENTRY_OVERHEAD_BYTES).unwrap_or(u32::MAX);
        self.shard(hash).lock().objects.put(hash.0, object, weight);
    }

    /// Takes the object under `hash` out.
    pub fn remove(&self, hash: KeyHash) -> bool {
        self.shard(hash).lock().objects.remove(hash.0).is_some()
    }

    /// Takes everything out.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.lock().objects.clear());
    }

    /// Bytes held, with overhead.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().objects.bytes()).sum()
    }

    /// Objects held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().objects.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, hash: KeyHash) -> &Mutex<Shard> {
        // The map inside takes the low bits; these are the high ones.
        &self.shards[(hash.0 >> 96) as usize % SHARDS]
    }
}
