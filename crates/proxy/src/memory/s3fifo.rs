//! S3-FIFO by bytes: three queues and no list to reorder on a hit (Yang et al., SOSP 2023).
//!
//! New values enter a small queue (a tenth of the room). What is asked for again before it reaches that queue's end
//! moves to the main queue; what is not leaves, and only its hash stays for a while in the ghost queue. A value whose
//! hash is still there enters the main queue at once. The main queue gives a second round to what was asked for.
//!
//! What must hold: the weights of the live values never exceed the capacity; a removed value is gone at once, although
//! its place in a queue is cleared only when it comes to the queue's end.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// Hits that are remembered of a value; two bits in the paper.
const HITS_MAX: u8 = 3;

/// A bounded set of values by 128-bit hash, each with a weight in bytes. Not thread-safe: a shard of the memory tier, or of
/// the warm set of [`crate::disk`].
pub struct S3Fifo<V> {
    capacity: u64,
    small: Queue,
    main: Queue,
    ghost: Ghost,
    /// Queue: responses in memory, bodies in the warm set.
    places: HashMap<u128, Place<V>, Identity>,
    born: u64,
}

struct Place<V> {
    value: V,
    weight: u32,
    hits: u8,
    in_main: bool,
    /// Tells this value's queue entry from one of an earlier value under the same hash.
    born: u64,
}

#[derive(Default)]
struct Queue {
    /// Queue: responses in memory, bodies in the warm set.
    order: VecDeque<(u128, u64)>,
    bytes: u64,
}

/// Hashes of values that left the small queue unasked, oldest first.
#[derive(Default)]
struct Ghost {
    /// Queue: names of what left memory.
    order: VecDeque<u128>,
    /// Queue: names of what left memory.
    members: HashMap<u128, u32, Identity>,
}

/// The keys are hashes already.
#[derive(Clone, Copy, Default)]
pub struct Identity;

impl std::hash::BuildHasher for Identity {
    type Hasher = Low64;
    fn build_hasher(&self) -> Low64 {
        Low64(0)
    }
}

/// Takes the low half of a `u128` key as its hash.
pub struct Low64(u64);

impl std::hash::Hasher for Low64 {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u128` is ever called; any other key type still hashes, merely less well.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

impl<V> S3Fifo<V> {
    /// Room for `capacity` bytes of weight.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            small: Queue::default(),
            main: Queue::default(),
            ghost: Ghost::default(),
            places: HashMap::default(),
            born: 0,
        }
    }

    /// The value under `hash`, counted as asked for.
    pub fn get(&mut self, hash: u128) -> Option<&V> {
        let place = self.places.get_mut(&hash)?;
        place.hits = (place.hits + 1).min(HITS_MAX);
        Some(&place.value)
    }

    /// Puts a value of `weight` bytes, in place of any other under the hash. A value over a fourth of the capacity is
    /// not taken: it would push out too much for one.
    pub fn put(&mut self, hash: u128, value: V, weight: u32) {
        self.remove(hash);
        if u64::from(weight) > self.capacity / 4 {
            return;
        }
        let in_main = self.ghost.take(hash);
        self.make_room(u64::from(weight));
        self.born += 1;
        let born = self.born;
        self.queue(in_main).push(hash, born, weight);
        self.places.insert(hash, Place { value, weight, hits: 0, in_main, born });
    }

    /// Takes the value under `hash` out.
    pub fn remove(&mut self, hash: u128) -> Option<V> {
        let place = self.places.remove(&hash)?;
        self.queue(place.in_main).bytes -= u64::from(place.weight);
        self.tidy();
        Some(place.value)
    }

    /// Takes out the one that would have to make room next; nothing where there is none.
    pub fn evict(&mut self) -> Option<V> {
        while !self.is_empty() {
            if let Some(value) = self.step() {
                return Some(value);
            }
        }
        None
    }

    /// Takes out the values that `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(&V) -> bool) {
        let Self { places, small, main, .. } = self;
        places.retain(|_, place| {
            let kept = keep(&place.value);
            if !kept {
                let queue = if place.in_main { &mut *main } else { &mut *small };
                queue.bytes -= u64::from(place.weight);
            }
            kept
        });
        self.tidy();
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        *self = Self::new(self.capacity);
    }

    /// The weight of all values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn queue(&mut self, main: bool) -> &mut Queue {
        if main { &mut self.main } else { &mut self.small }
    }

    /// Clears the entries of removed values out of the queues once they outnumber the live ones, so that one value
    /// replaced over and over does not make them grow.
    fn tidy(&mut self) {
        let Self { small, main, places, .. } = self;
        for queue in [small, main] {
            if queue.order.len() > 2 * places.len() + 64 {
                queue.order.retain(|(hash, born)| places.get(hash).is_some_and(|p| p.born == *born));
            }
        }
    }

    fn make_room(&mut self, weight: u64) {
        while self.bytes() + weight > self.capacity {
            self.step();
        }
    }

    /// One step towards room: the oldest of a queue moves on, or goes.
    fn step(&mut self) -> Option<V> {
        if self.small.bytes > self.capacity / 10 || self.main.bytes == 0 {
            self.shrink_small()
        } else {
            self.shrink_main()
        }
    }

    /// Moves or drops the oldest of the small queue.
    fn shrink_small(&mut self) -> Option<V> {
        let (hash, born) = self.small.order.pop_front()?;
        let place = self.places.get_mut(&hash).filter(|p| p.born == born)?;
        let weight = place.weight;
        self.small.bytes -= u64::from(weight);
        if place.hits > 0 {
            (place.hits, place.in_main) = (0, true);
            self.main.push(hash, born, weight);
            return None;
        }
        let gone = self.places.remove(&hash);
        self.ghost.remember(hash, self.places.len());
        gone.map(|place| place.value)
    }

    /// Gives the oldest of the main queue another round, or drops it.
    fn shrink_main(&mut self) -> Option<V> {
        let (hash, born) = self.main.order.pop_front()?;
        let place = self.places.get_mut(&hash).filter(|p| p.born == born)?;
        if place.hits > 0 {
            place.hits -= 1;
            self.main.order.push_back((hash, born));
            return None;
        }
        self.main.bytes -= u64::from(place.weight);
        self.places.remove(&hash).map(|place| place.value)
    }
}

impl Queue {
    fn push(&mut self, hash: u128, born: u64, weight: u32) {
        self.order.push_back((hash, born));
        self.bytes += u64::from(weight);
    }
}

impl Ghost {
    /// Remembers `hash`, and no more hashes than there are live values (but a few always).
    fn remember(&mut self, hash: u128, live: usize) {
        self.order.push_back(hash);
        *self.members.entry(hash).or_insert(0) += 1;
        while self.order.len() > live.max(16) {
            let Some(oldest) = self.order.pop_front() else { return };
            self.forget(oldest);
        }
    }

    /// Whether `hash` was remembered; it is not any more.
    fn take(&mut self, hash: u128) -> bool {
        self.members.remove(&hash).is_some()
    }

    fn forget(&mut self, hash: u128) {
        if let Some(times) = self.members.get_mut(&hash) {
            *times -= 1;
            if *times == 0 {
                self.members.remove(&hash);
            }
        }
    }
}

#[cfg(test)]
mod tests;
