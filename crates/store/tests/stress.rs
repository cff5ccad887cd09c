//! Many threads on one store for two seconds, over devices in memory.
//!
//! Every key is written by one thread, so the order of its versions is known without asking the store. Everybody
//! reads every key. Checked: each byte is the one that its version wants; no version older than the last one
//! that was complete before the lookup began; bytes under a lease stay as they are; everything comes to an end.
//! Afterwards the store is stopped and opened again: the newest versions, or nothing.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};
use store::format::{FormatOptions, format};
use store::*;

const KEYS: u64 = 600;
const WORKERS: u64 = 4;
const DEVICE_BYTES: u64 = 24 * (128 << 10);
const EXTENT_BYTES: usize = 16 << 10;

/// A device: blocks behind locks of their own, so that requests overlap as on a real one.
struct Memory(Vec<parking_lot::RwLock<[u8; 4096]>>);

impl Memory {
    fn new() -> Self {
        Self((0..DEVICE_BYTES / 4096).map(|_| parking_lot::RwLock::new([0; 4096])).collect())
    }

    fn write(&self, offset: u64, data: &[u8]) {
        for (block, bytes) in self.0[(offset / 4096) as usize..].iter().zip(data.chunks(4096)) {
            block.write()[..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn read(&self, offset: u64, len: u32) -> Vec<u8> {
        let skip = (offset % 4096) as usize;
        let blocks = (skip + len as usize).div_ceil(4096);
        let from = (offset / 4096) as usize;
        let bytes: Vec<u8> = self.0[from..from + blocks].iter().flat_map(|block| *block.read()).collect();
        bytes[skip..skip + len as usize].to_vec()
    }

    fn perform(&self, io: Io) -> (IoId, IoResult) {
        let id = io.id();
        let done = match io {
            Io::Read { offset, len, .. } => IoDone::Read(self.read(offset, len).into()),
            Io::Write { offset, data, .. } => {
                self.write(offset, data.as_ref());
                IoDone::Written
            }
            Io::Sync { .. } => IoDone::Synced,
        };
        (id, Ok(done))
    }
}

/// What is known of a key: no lookup may show less than `complete` or more than `begun`.
#[derive(Default)]
struct Known {
    begun: AtomicU64,
    complete: AtomicU64,
}

struct World {
    store: Store,
    devices: Arc<[Memory]>,
    known: Vec<Known>,
    queue: Sender<Io>,
    stop: AtomicBool,
    hits: AtomicU64,
    held: AtomicU64,
}

fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

fn hash(key: u64) -> KeyHash {
    KeyHash(u128::from(mix(key + 1)) | u128::from(mix(key + 1000)) << 64)
}

fn body(key: u64, version: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| mix((key << 40) ^ (version << 20) ^ (at / 8)) as u8 ^ at as u8).collect()
}

/// Small and inline, or large and in extents.
fn body_len(version: u64) -> usize {
    if version.is_multiple_of(5) {
        5000 + (mix(version) % 40_000) as usize
    } else {
        (mix(version) % 2048) as usize
    }
}

fn config() -> Config {
    Config {
        inline_bytes_max: 4096,
        gather_bytes: 32 << 10,
        extent_bytes_max: EXTENT_BYTES as u32,
        checkpoint_every: 20,
        in_flight_bytes_max: 1 << 20,
        ..Config::default()
    }
}

fn open(devices: &[Memory]) -> Store {
    let to_open = vec![DeviceToOpen { bytes: DEVICE_BYTES }; devices.len()];
    let mut recovery = Recovery::new(&to_open, config()).unwrap();
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while !recovery.is_finished() {
        for io in std::mem::take(&mut out) {
            let (id, result) = devices[usize::from(io.id().device().0)].perform(io);
            recovery.complete(id, result, &mut out);
        }
    }
    let store = recovery.into_store().unwrap().0;
    while store.recovering().is_some() {
        store.tick(0, &mut out);
        while let Some(io) = out.pop() {
            let (id, result) = devices[usize::from(io.id().device().0)].perform(io);
            store.complete(id, result, &mut out);
        }
    }
    store
}

fn formatted(number: u64) -> Memory {
    let device = Memory::new();
    let writes = format(&FormatOptions {
        device_bytes: DEVICE_BYTES,
        geometry: Geometry::new(DEVICE_BYTES, 128 << 10).unwrap(),
        device_id: DeviceId(u128::from(mix(number))),
        store_id: 1,
        hash_seed: 2,
        now: 0,
    });
    writes.iter().for_each(|(offset, data)| device.write(*offset, data.as_ref()));
    device
}

impl World {
    fn hand_out(&self, out: Outbox) {
        out.into_iter().for_each(|io| self.queue.send(io).unwrap());
    }

    /// Calls the store and hands out what it asks for.
    fn with<T>(&self, act: impl FnOnce(&Store, &mut Outbox) -> T) -> T {
        let mut out = Outbox::new();
        let result = act(&self.store, &mut out);
        self.hand_out(out);
        result
    }

    fn device(&self, place: &Place) -> &Memory {
        &self.devices[usize::from(place.device.0)]
    }

    fn read(&self, at: &At) -> Vec<u8> {
        match at {
            At::Buffered(bytes) => bytes.to_vec(),
            At::Device(lease) => self.read_place(lease.place()),
        }
    }

    fn read_place(&self, place: &Place) -> Vec<u8> {
        self.device(place).read(self.store.device_offset(place).unwrap(), place.len)
    }

    // --- writing: only the thread that owns the key ---

    fn put(&self, key: u64) {
        let version = self.known[key as usize].begun.fetch_add(1, SeqCst) + 1;
        let body = body(key, version, body_len(version));
        let head = format!("{version} {version}");
        let put = if version.is_multiple_of(5) {
            self.put_large(key, &head, &body)
        } else {
            self.with(|store, out| {
                store.put_inline(hash(key), &key.to_le_bytes(), head.as_bytes(), &body, out)
            })
        };
        self.finish(key, version, put);
    }

    fn put_large(&self, key: u64, head: &str, body: &[u8]) -> Result<Place, Declined> {
        let mut written = Vec::new();
        for piece in body.chunks(EXTENT_BYTES) {
            let reservation =
                self.with(|store, out| store.reserve_extent(hash(key), piece.len() as u32, out))?;
            let place = *reservation.place();
            let offset = self.store.device_offset(&place).unwrap();
            self.device(&place).write(offset, BlockBuf::copy_of(piece).as_ref());
            written.push(reservation.written(crc32c(piece)));
        }
        self.with(|store, out| {
            store.put_extents(hash(key), &key.to_le_bytes(), head.as_bytes(), &written, out)
        })
    }

    /// Declined: the version is not there, the one before still is.
    fn finish(&self, key: u64, version: u64, put: Result<Place, Declined>) {
        match put {
            Ok(_) => self.known[key as usize].complete.store(version, SeqCst),
            Err(Declined::NoSpace | Declined::WritesBehind | Declined::BodyGone | Declined::Superseded) => {
                std::thread::yield_now()
            }
            Err(why) => panic!("{why}"),
        }
    }

    fn remove(&self, key: u64) {
        let version = self.known[key as usize].begun.fetch_add(1, SeqCst) + 1;
        self.with(|store, out| store.remove(hash(key), out));
        self.known[key as usize].complete.store(version, SeqCst);
        assert!(self.store.lookup(hash(key)).is_none(), "key {key} is there after its removal");
    }

    fn refresh(&self, key: u64) {
        let Some(found) = self.store.lookup(hash(key)) else { return };
        let bytes = self.read(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        let (_, old_body) = versions(record.head);
        let version = self.known[key as usize].begun.fetch_add(1, SeqCst) + 1;
        let head = format!("{version} {old_body}");
        let put = self.with(|store, out| {
            store.refresh(hash(key), &found.place, &record, head.as_bytes(), found.verified, out)
        });
        self.finish(key, version, put);
    }

    // --- reading: everybody ---

    /// Looks an object up and checks every byte; gives the lease of the record.
    fn look_up(&self, key: u64) -> Option<(Lease, Vec<u8>)> {
        let known = &self.known[key as usize];
        let complete = known.complete.load(SeqCst);
        let found = self.store.lookup(hash(key))?;
        let bytes = self.read(&found.at);
        let record = self.store.record(&found.place, &bytes).unwrap();
        assert_eq!(record.key, key.to_le_bytes());
        let (version, of_body) = versions(record.head);
        let begun = known.begun.load(SeqCst);
        assert!((complete..=begun).contains(&version), "key {key}: {version} of {complete}..={begun}");
        self.check_body(key, &found, &record, of_body)?;
        self.hits.fetch_add(1, SeqCst);
        let At::Device(lease) = found.at else { return None };
        Some((lease, bytes))
    }

    fn check_body(&self, key: u64, found: &Found, record: &Record<'_>, version: u64) -> Option<()> {
        let seen = match record.body() {
            Body::Inline(inline) => inline.bytes.to_vec(),
            Body::Extents(table) => {
                let places = table.iter().map(|extent| self.store.extent_place(&extent));
                let held: Option<Vec<At>> = places.map(|place| self.store.at(&place?)).collect();
                let Some(held) = held else {
                    self.store.forget(hash(key), &found.place);
                    return None;
                };
                held.iter().flat_map(|at| self.read(at)).collect()
            }
        };
        assert!(seen == body(key, version, body_len(version)), "key {key}: body of version {version}");
        Some(())
    }

    fn work(&self, worker: u64) {
        let mut held: Vec<(Lease, Vec<u8>)> = Vec::new();
        let mut n = worker << 48;
        while !self.stop.load(SeqCst) {
            n += 1;
            let chance = mix(n);
            let key = (chance >> 32) % KEYS;
            let own = key / WORKERS * WORKERS + worker;
            match chance % 100 {
                0..25 => self.put(own),
                25..30 => self.refresh(own),
                30..34 => self.remove(own),
                34..94 => held.extend(self.look_up(key).filter(|_| chance % 100 < 40)),
                94 => _ = self.store.stats(),
                95 => _ = self.store.blocked(),
                _ => std::thread::yield_now(),
            }
            if held.len() > 4 || held.first().is_some_and(|(lease, _)| lease.recalled()) {
                let (lease, bytes) = held.remove(0);
                assert!(self.read_place(lease.place()) == bytes, "leased bytes changed");
                self.held.fetch_add(1, SeqCst);
            }
        }
    }

    fn device_thread(&self, queue: &Receiver<Io>, others: &Sender<Io>) {
        while let Ok(io) = queue.recv_timeout(Duration::from_millis(200)) {
            let device = usize::from(io.id().device().0);
            let (id, result) = self.devices[device].perform(io);
            let mut out = Outbox::new();
            self.store.complete(id, result, &mut out);
            out.into_iter().for_each(|io| others.send(io).unwrap());
        }
    }

    fn tick_until(&self, done: impl Fn() -> bool, started: Instant) {
        while !done() {
            self.with(|store, out| store.tick(started.elapsed().as_millis() as u64, out));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Of head and body.
fn versions(head: &[u8]) -> (u64, u64) {
    let (head, body) = std::str::from_utf8(head).unwrap().split_once(' ').unwrap();
    (head.parse().unwrap(), body.parse().unwrap())
}

/// Spreads requests over the device threads, so that they complete in any order.
fn spread(from: &Receiver<Io>, to: &[Sender<Io>]) {
    let mut n = 0;
    while let Ok(io) = from.recv_timeout(Duration::from_millis(200)) {
        n += 1;
        to[(mix(n) % to.len() as u64) as usize].send(io).unwrap();
    }
}

fn stress(devices: Arc<[Memory]>) -> World {
    let (queue, requests) = mpsc::channel();
    let world = World {
        store: open(&devices),
        devices,
        known: (0..KEYS).map(|_| Known::default()).collect(),
        queue: queue.clone(),
        stop: AtomicBool::new(false),
        hits: AtomicU64::new(0),
        held: AtomicU64::new(0),
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let lanes = [mpsc::channel(), mpsc::channel()];
        let (to, lanes): (Vec<Sender<Io>>, Vec<Receiver<Io>>) = lanes.into_iter().unzip();
        scope.spawn(move || spread(&requests, &to));
        for lane in lanes {
            let (world, queue) = (&world, queue.clone());
            scope.spawn(move || world.device_thread(&lane, &queue));
        }
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                scope.spawn({
                    let world = &world;
                    move || world.work(worker)
                })
            })
            .collect();
        world.tick_until(|| started.elapsed() > Duration::from_secs(2), started);
        world.stop.store(true, SeqCst);
        world.tick_until(|| workers.iter().all(|worker| worker.is_finished()), started);
        world.with(Store::shutdown);
        world.tick_until(|| world.store.idle(), started);
    });
    world
}

fn run() {
    let world = stress(Arc::new([formatted(1), formatted(2)]));
    let stats = world.store.stats();
    let (hits, held) = (world.hits.load(SeqCst), world.held.load(SeqCst));
    println!(
        "{hits} hits, {held} leases, {} checkpoints, {} evicted, {} carried",
        stats.checkpoints, stats.evicted, stats.carried
    );
    assert!(hits > 1000 && held > 10 && stats.checkpoints > 10 && stats.evicted > 100, "{stats:?}");
    assert_eq!((stats.bad, stats.in_flight_bytes), (0, 0));
    let world = World { store: open(&world.devices), ..world };
    let found = (0..KEYS).filter(|&key| world.look_up(key).is_some()).count();
    assert_eq!(found as u64, world.store.stats().objects);
    assert!(found > 10, "{found}");
}

#[test]
fn threads_see_whole_and_current_objects_and_come_to_an_end() {
    let (done, end) = mpsc::channel();
    let test = std::thread::spawn(move || {
        run();
        done.send(()).unwrap();
    });
    match end.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("some thread waits for ever"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => test.join().unwrap(),
    }
}
