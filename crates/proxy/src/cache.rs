//! What is stored, wherever it is: the memory tier in front of the store.
//!
//! What must hold: an object is found only under its whole key, never by its hash alone; what was removed is found
//! nowhere; what the store gives is checked before it is used, and what fails the check is a miss.

use std::sync::Arc;

use bytes::Bytes;
use semantics::{Policy, UnixSeconds};
use store::{At, Damaged, ExtentRef, KeyHash, Outbox, Place, Record, Store, Table};

use crate::disk::{Disk, ReadFailed};
use crate::memory::MemoryTier;
use crate::object::{self, Body, Content, Decoded, DeviceBody, Object};
use crate::purge::{Epoch, Purges, Seen, Verdict};

/// Bodies up to this size are sent from user memory, larger ones by `sendfile` from the page cache
/// (docs/decisions/0003-body-routes.md).
pub const CROSSOVER_BYTES: u64 = 16 * 1024;

/// Memory tier and store.
pub struct Cache {
    /// Objects ready to be sent.
    pub memory: MemoryTier,
    /// The index and the log.
    pub store: Arc<Store>,
    /// What may not be found any more.
    pub purges: Purges,
    seed: u64,
}

impl Cache {
    /// A cache over `store` with a memory tier of `memory_bytes`, without what `purges` names.
    #[must_use]
    pub fn new(store: Arc<Store>, memory_bytes: u64, purges: Purges) -> Self {
        let seed = store.hash_seed();
        Self { memory: MemoryTier::new(memory_bytes), store, purges, seed }
    }

    /// The hash of a key.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(xxhash_rust::xxh3::xxh3_128_with_seed(key, self.seed))
    }

    /// The object under `key`, from memory or from the store.
    pub async fn find(&self, disk: &Disk, hash: KeyHash, key: &[u8], policy: &Policy) -> Option<Arc<Object>> {
        if let Some(object) = self.find_in_memory(hash, key) {
            return Some(object);
        }
        let found = self.store.lookup(hash)?;
        match self.read(disk, hash, key, &found, policy).await {
            Ok(object) => {
                let object = Arc::new(object?);
                self.take_up(hash, object, &found.place)
            }
            Err(ReadFailed::Gone | ReadFailed::Device(_) | ReadFailed::Unanswered | ReadFailed::NoBuffer) => {
                None
            }
            Err(ReadFailed::Checksum) => {
                self.bad(disk, hash, &found.place);
                None
            }
        }
    }

    /// The object under `key` from memory alone. The store is told of such uses, lest it take an object that is served
    /// from memory for one that nobody wants.
    #[must_use]
    pub fn find_in_memory(&self, hash: KeyHash, key: &[u8]) -> Option<Arc<Object>> {
        let (object, to_be_noted) = self.memory.get(hash, key)?;
        if to_be_noted {
            self.store.note_use(hash);
        }
        let epoch = self.purges.now();
        match self.purges.check(&object) {
            Verdict::Keep => Some(object),
            Verdict::Stale(at) => Some(self.stale_from(hash, &object, at, epoch)),
            Verdict::Purged => {
                self.memory.remove(hash);
                None
            }
        }
    }

    /// Takes an object that was read from `place` into memory, as far as the purge marks leave it.
    fn take_up(&self, hash: KeyHash, object: Arc<Object>, place: &Place) -> Option<Arc<Object>> {
        let epoch = self.purges.now();
        let object = match self.purges.check(&object) {
            Verdict::Keep => {
                self.memory.put(hash, Arc::clone(&object));
                object
            }
            Verdict::Stale(at) => self.stale_from(hash, &object, at, epoch),
            Verdict::Purged => {
                self.purges.count_purged();
                self.store.forget(hash, place);
                return None;
            }
        };
        // Removed while it was read: who removes looks into the store first, then into memory.
        if !self.store.is_at(hash, place) {
            self.memory.remove(hash);
        }
        Some(object)
    }

    /// The object as it is from a soft purge on, in memory in its place. The marks of `epoch` were all considered.
    fn stale_from(&self, hash: KeyHash, object: &Object, at: UnixSeconds, epoch: Epoch) -> Arc<Object> {
        let content = match &object.content {
            Content::Response(head, body) => Content::Response(Arc::new(head.stale_from(at)), body.again()),
            Content::Variants(variants) => Content::Variants(variants.clone()),
        };
        let (key, place) = (object.key.clone(), object.place);
        let stale = Arc::new(Object { key, content, place, seen: Seen::at(epoch) });
        self.memory.put(hash, Arc::clone(&stale));
        stale
    }

    /// Whether the store's index knows `hash`, without asking a device.
    #[must_use]
    pub fn may_have(&self, hash: KeyHash) -> bool {
        self.store.contains(hash)
    }

    /// Whether a device would have to be read for what is under `hash`.
    #[must_use]
    pub fn is_on_a_device(&self, hash: KeyHash) -> bool {
        self.store.lookup(hash).is_some_and(|found| matches!(found.at, At::Device(_)))
    }

    /// The record at `place` or its body is damaged: it leaves the cache.
    pub fn bad(&self, disk: &Disk, hash: KeyHash, place: &Place) {
        let mut out = Outbox::new();
        self.store.note_bad(hash, place, &mut out);
        self.memory.remove(hash);
        disk.carry_out(out);
    }

    /// The object can no longer be given whole, nor completed: it leaves the cache.
    pub fn forget(&self, hash: KeyHash, place: &Place) {
        self.store.forget(hash, place);
        self.memory.remove(hash);
    }

    /// Takes the object out, memory and store; says whether there was one.
    pub fn remove(&self, hash: KeyHash, out: &mut Outbox) -> bool {
        let in_store = self.store.remove(hash, out);
        // Afterwards: see `take_up`.
        let in_memory = self.memory.remove(hash);
        in_memory || in_store
    }

    async fn read(
        &self,
        disk: &Disk,
        hash: KeyHash,
        key: &[u8],
        found: &store::Found,
        policy: &Policy,
    ) -> Result<Option<Object>, ReadFailed> {
        let bytes = disk.bytes(&found.at, found.again).await?;
        let bad = || {
            disk.disks().tell_bad(&found.place, Damaged::Record);
            ReadFailed::Checksum
        };
        let record = self.store.record(&found.place, &bytes).map_err(|_corrupt| bad())?;
        if !record.is_intact() {
            return Err(bad());
        }
        if record.key != key {
            return Ok(None);
        }
        let (content, epoch) = match object::decode(record.head, policy) {
            None => return Ok(None),
            Some(Decoded::Variants(variants)) => (Content::Variants(variants), 0),
            Some(Decoded::Response(head)) => {
                let body = self.body(disk, &record, found).await?;
                let epoch = head.epoch;
                (Content::Response(Arc::new(head), body), epoch)
            }
        };
        let object = Object { key: key.into(), content, place: Some(found.place), seen: Seen::at(epoch) };
        if !found.verified && object.is_all_in_memory() {
            self.store.note_verified(hash, &found.place);
        }
        Ok(Some(object))
    }

    /// The body of an intact record: small ones come into memory, wherever they are.
    async fn body(&self, disk: &Disk, record: &Record<'_>, found: &store::Found) -> Result<Body, ReadFailed> {
        let store::Found { verified, again, .. } = *found;
        match record.body() {
            store::Body::Inline(inline) => Ok(Body::Memory(inline.bytes.into())),
            store::Body::Extents(extents) => {
                let table = Table::of(extents.iter());
                let is_whole = table.stored_bytes() == table.length();
                if is_whole && table.length() <= CROSSOVER_BYTES {
                    return self.small_body(disk, &table, again).await;
                }
                Ok(Body::Device(DeviceBody::new(&table, verified, again)))
            }
        }
    }

    async fn small_body(&self, disk: &Disk, table: &Table, again: bool) -> Result<Body, ReadFailed> {
        let mut bytes = Vec::with_capacity(table.length() as usize);
        for piece in table.pieces() {
            bytes.extend_from_slice(&self.extent(disk, &piece.extent, again).await?);
        }
        Ok(Body::Memory(bytes.into()))
    }

    /// The checked bytes of one extent.
    async fn extent(&self, disk: &Disk, extent: &ExtentRef, again: bool) -> Result<Bytes, ReadFailed> {
        let place = self.store.extent_place(extent).ok_or(ReadFailed::Gone)?;
        let at = self.store.at(&place).ok_or(ReadFailed::Gone)?;
        let bytes = disk.bytes(&at, again).await?;
        if store::crc32c(&bytes) == extent.crc {
            return Ok(bytes);
        }
        disk.disks().tell_bad(&place, Damaged::Body);
        Err(ReadFailed::Checksum)
    }
}

impl Object {
    fn is_all_in_memory(&self) -> bool {
        !matches!(&self.content, Content::Response(_, Body::Device(_)))
    }
}
