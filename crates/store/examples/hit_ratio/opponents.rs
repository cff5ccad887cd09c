//! The policies that the store is compared with, each as its authors describe it, by bytes.
//!
//! They keep no log and waste nothing: an object takes its bytes and no more, and leaves alone.

use std::collections::VecDeque;

/// A cache of bytes by object number.
pub(crate) trait Cache {
    /// A request for an object of this size; says whether it was a hit. What was missing has been fetched.
    fn request(&mut self, of: u32, size: u32) -> bool;
}

/// Makes the caches to compare: name, and how to make one of so many bytes for so many objects.
pub(crate) type Make = fn(u64, usize) -> Box<dyn Cache>;

/// All opponents, the one to beat first.
pub(crate) const OPPONENTS: &[(&str, Make)] = &[
    ("LRU", |bytes, objects| Box::new(Lru::new(bytes, objects))),
    ("FIFO", |bytes, objects| Box::new(Fifo::new(bytes, objects))),
    ("S3-FIFO", |bytes, objects| Box::new(S3Fifo::new(bytes, objects))),
    ("SIEVE", |bytes, objects| Box::new(Sieve::new(bytes, objects))),
    ("W-TinyLFU", |bytes, objects| Box::new(WTinyLfu::new(bytes, objects))),
];

const NONE: u32 = u32::MAX;

/// A doubly linked list over object numbers, with the bytes of its members.
struct List {
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: u64,
}

impl List {
    fn new(objects: usize) -> Self {
        let links = vec![NONE; objects];
        Self { newer: links.clone(), older: links, newest: NONE, oldest: NONE, bytes: 0 }
    }

    fn push(&mut self, of: u32, size: u32) {
        (self.older[of as usize], self.newer[of as usize]) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = of,
            newest => self.newer[newest as usize] = of,
        }
        self.newest = of;
        self.bytes += u64::from(size);
    }

    fn remove(&mut self, of: u32, size: u32) {
        let (older, newer) = (self.older[of as usize], self.newer[of as usize]);
        match older {
            NONE => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
        self.bytes -= u64::from(size);
    }

    fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

/// Least recently used.
struct Lru {
    bytes: u64,
    count: u64,
    list: List,
    sizes: Vec<u32>,
}

impl Lru {
    fn new(bytes: u64, objects: usize) -> Self {
        Self { bytes, count: 0, list: List::new(objects), sizes: vec![0; objects] }
    }

    fn holds(&self, of: u32) -> bool {
        self.sizes[of as usize] > 0
    }

    fn touch(&mut self, of: u32) {
        let size = self.sizes[of as usize];
        self.list.remove(of, size);
        self.list.push(of, size);
    }

    fn take(&mut self, of: u32) -> u32 {
        let size = std::mem::take(&mut self.sizes[of as usize]);
        self.list.remove(of, size);
        self.count -= 1;
        size
    }

    fn put(&mut self, of: u32, size: u32) {
        self.sizes[of as usize] = size;
        self.list.push(of, size);
        self.count += 1;
    }

    fn is_over(&self) -> bool {
        self.list.bytes > self.bytes
    }
}

impl Cache for Lru {
    fn request(&mut self, of: u32, size: u32) -> bool {
        if self.holds(of) {
            self.touch(of);
            return true;
        }
        self.put(of, size);
        while let Some(oldest) = self.list.oldest().filter(|_| self.is_over()) {
            self.take(oldest);
        }
        false
    }
}

/// First in, first out.
struct Fifo(Lru);

impl Fifo {
    fn new(bytes: u64, objects: usize) -> Self {
        Self(Lru::new(bytes, objects))
    }
}

impl Cache for Fifo {
    fn request(&mut self, of: u32, size: u32) -> bool {
        self.0.holds(of) || self.0.request(of, size)
    }
}

/// S3-FIFO (Yang et al., SOSP 2023): a small queue of a tenth, a main queue with up to three more rounds, and a
/// ghost of as many objects as the main queue has.
struct S3Fifo {
    bytes: u64,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    small_bytes: u64,
    main_bytes: u64,
    sizes: Vec<u32>,
    uses: Vec<u8>,
    /// The moment at which an object entered the ghost, counted in entries.
    ghost: Vec<u64>,
    ghosts: u64,
}

impl S3Fifo {
    fn new(bytes: u64, objects: usize) -> Self {
        Self {
            bytes,
            small: VecDeque::new(),
            main: VecDeque::new(),
            small_bytes: 0,
            main_bytes: 0,
            sizes: vec![0; objects],
            uses: vec![0; objects],
            ghost: vec![0; objects],
            ghosts: 0,
        }
    }

    fn is_ghost(&self, of: u32) -> bool {
        let at = self.ghost[of as usize];
        at > 0 && self.ghosts - at < self.main.len() as u64
    }

    fn make_room(&mut self) {
        while self.small_bytes + self.main_bytes > self.bytes {
            if self.small_bytes > self.bytes / 10 || self.main.is_empty() {
                self.shrink_small();
            } else {
                self.shrink_main();
            }
        }
    }

    fn shrink_small(&mut self) {
        let Some(of) = self.small.pop_front() else { return };
        let size = self.sizes[of as usize];
        self.small_bytes -= u64::from(size);
        if self.uses[of as usize] > 0 {
            self.uses[of as usize] = 0;
            self.main.push_back(of);
            self.main_bytes += u64::from(size);
        } else {
            self.sizes[of as usize] = 0;
            self.ghosts += 1;
            self.ghost[of as usize] = self.ghosts;
        }
    }

    fn shrink_main(&mut self) {
        let Some(of) = self.main.pop_front() else { return };
        if self.uses[of as usize] > 0 {
            self.uses[of as usize] -= 1;
            self.main.push_back(of);
        } else {
            self.main_bytes -= u64::from(std::mem::take(&mut self.sizes[of as usize]));
        }
    }
}

impl Cache for S3Fifo {
    fn request(&mut self, of: u32, size: u32) -> bool {
        if self.sizes[of as usize] > 0 {
            self.uses[of as usize] = (self.uses[of as usize] + 1).min(3);
            return true;
        }
        let is_known = self.is_ghost(of);
        (self.sizes[of as usize], self.uses[of as usize], self.ghost[of as usize]) = (size, 0, 0);
        if is_known {
            self.main.push_back(of);
            self.main_bytes += u64::from(size);
        } else {
            self.small.push_back(of);
            self.small_bytes += u64::from(size);
        }
        self.make_room();
        false
    }
}

/// SIEVE (Zhang et al., NSDI 2024): one queue; a hand walks from old to new, spares what was used and evicts what
/// was not, without moving anything.
struct Sieve {
    queue: Lru,
    used: Vec<bool>,
    hand: u32,
}

impl Sieve {
    fn new(bytes: u64, objects: usize) -> Self {
        Self { queue: Lru::new(bytes, objects), used: vec![false; objects], hand: NONE }
    }

    fn evict(&mut self) {
        let list = &self.queue.list;
        let mut at = if self.hand == NONE { list.oldest } else { self.hand };
        while at != NONE && self.used[at as usize] {
            self.used[at as usize] = false;
            let newer = list.newer[at as usize];
            at = if newer == NONE { list.oldest } else { newer };
        }
        if at != NONE {
            self.hand = list.newer[at as usize];
            self.queue.take(at);
        }
    }
}

impl Cache for Sieve {
    fn request(&mut self, of: u32, size: u32) -> bool {
        if self.queue.holds(of) {
            self.used[of as usize] = true;
            return true;
        }
        while self.queue.list.bytes + u64::from(size) > self.queue.bytes && self.queue.list.oldest().is_some()
        {
            self.evict();
        }
        self.used[of as usize] = false;
        self.queue.put(of, size);
        false
    }
}

/// W-TinyLFU (Einziger, Friedman and Manes 2017): a window of one percent, a main part of four fifths protected
/// and one fifth on probation, and a frequency sketch that decides who may enter it. The sketch is exact here: a
/// counter up to 15 for each object, halved after ten times as many requests as there are objects in the cache.
struct WTinyLfu {
    window: Lru,
    probation: Lru,
    protected: Lru,
    counts: Vec<u8>,
    counted: u64,
}

impl WTinyLfu {
    fn new(bytes: u64, objects: usize) -> Self {
        let window = bytes / 100;
        let main = bytes - window;
        Self {
            window: Lru::new(window, objects),
            probation: Lru::new(main, objects),
            protected: Lru::new(main * 8 / 10, objects),
            counts: vec![0; objects],
            counted: 0,
        }
    }

    /// Counts a request, and forgets half of everything after enough of them.
    fn count(&mut self, of: u32) {
        self.counts[of as usize] = (self.counts[of as usize] + 1).min(15);
        self.counted += 1;
        let held = [&self.window, &self.probation, &self.protected].map(|part| part.count).iter().sum();
        if self.counted > 10 * u64::max(held, 100) {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.counted /= 2;
        }
    }

    fn is_full(&self) -> bool {
        self.probation.list.bytes + self.protected.list.bytes > self.probation.bytes
    }

    /// The window's oldest wants to enter the main part: whoever was asked for less often leaves.
    fn compete(&mut self, candidate: u32) {
        let size = self.window.take(candidate);
        self.probation.put(candidate, size);
        while self.is_full() {
            let victim = self.probation.list.oldest().or_else(|| self.protected.list.oldest());
            let Some(victim) = victim else { return };
            let worse = self.counts[candidate as usize] <= self.counts[victim as usize];
            if worse && self.probation.holds(candidate) && victim != candidate {
                self.probation.take(candidate);
            } else if self.probation.holds(victim) {
                self.probation.take(victim);
            } else {
                self.protected.take(victim);
            }
        }
    }

    fn promote(&mut self, of: u32) {
        let size = self.probation.take(of);
        self.protected.put(of, size);
        while let Some(oldest) = self.protected.list.oldest().filter(|_| self.protected.is_over()) {
            let size = self.protected.take(oldest);
            self.probation.put(oldest, size);
        }
    }
}

impl Cache for WTinyLfu {
    fn request(&mut self, of: u32, size: u32) -> bool {
        self.count(of);
        if self.window.holds(of) {
            self.window.touch(of);
        } else if self.protected.holds(of) {
            self.protected.touch(of);
        } else if self.probation.holds(of) {
            self.promote(of);
        } else {
            self.window.put(of, size);
            while let Some(oldest) = self.window.list.oldest().filter(|_| self.window.is_over()) {
                self.compete(oldest);
            }
            return false;
        }
        true
    }
}
