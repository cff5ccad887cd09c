//! Makes a store of very many small objects on files, quickly: the store's own machine, driven by plain writes.
//!
//! ```text
//! fill_store OBJECTS FILE...        objects http://store.test/0 and up, 100 bytes each, fresh for a year
//! ```
//! For measuring starts (`bench/restart`). The objects are those that the proxy would have stored, so it serves them.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use proxy::cache::Cache;
use proxy::object::Head;
use proxy::purge::Purges;
use semantics::{Times, UnixSeconds};
use store::format::{FormatOptions, format};
use store::{
    Config, Declined, DeviceId, DeviceToOpen, Geometry, Io, IoDone, IoId, IoResult, Outbox, Recovery, Store,
};
use sys::device::Device;

const BODY: [u8; 100] = [b'x'; 100];
/// Bytes on a device that an object takes at most, its two entries and free space for the log included.
const ROOM_BYTES: u64 = 640;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let objects: u64 = arguments.next().and_then(|text| text.parse().ok()).expect("how many objects");
    let paths: Vec<String> = arguments.collect();
    assert!(!paths.is_empty(), "which files");
    let started = Instant::now();
    let size = (objects * ROOM_BYTES / paths.len() as u64).max(64 << 20).next_multiple_of(16 << 20);
    let devices: Vec<Device> =
        paths.iter().zip(1..).map(|(path, id)| new_device(Path::new(path), size, id)).collect();
    let store = std::sync::Arc::new(open(&devices));
    fill(&store, &devices, objects);
    stop(&store, &devices);
    println!("{} objects in {:.1} s", store.stats().objects, started.elapsed().as_secs_f64());
}

fn new_device(path: &Path, size: u64, id: u128) -> Device {
    let _ = std::fs::remove_file(path);
    sys::device::create_preallocated(path, size).expect("a file");
    let device = Device::open(path, true).expect("a device");
    let options = FormatOptions {
        device_bytes: size,
        geometry: Geometry::for_size(size).expect("a size for a store"),
        device_id: DeviceId(id << 64 | id),
        store_id: 1,
        hash_seed: 2,
        now: 0,
    };
    for (offset, blocks) in format(&options) {
        device.write_at(offset, blocks.as_ref()).expect("a write");
    }
    device
}

fn open(devices: &[Device]) -> Store {
    let sizes: Vec<_> = devices.iter().map(|device| DeviceToOpen { bytes: device.size_bytes() }).collect();
    let mut recovery = Recovery::new(&sizes, Config::default()).expect("devices");
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while let Some(io) = out.pop() {
        let (id, result) = perform(devices, io);
        recovery.complete(id, result, &mut out);
    }
    recovery.into_store().expect("a store").0
}

fn perform(devices: &[Device], io: Io) -> (IoId, IoResult) {
    let id = io.id();
    let device = &devices[usize::from(id.device().0)];
    let done = match io {
        Io::Write { offset, data, .. } => device.write_at(offset, data.as_ref()).map(|()| IoDone::Written),
        Io::Sync { .. } => device.sync().map(|()| IoDone::Synced),
        Io::Read { offset, len, .. } => {
            let mut bytes = vec![0; len as usize];
            device.read_at(offset, &mut bytes).map(|()| IoDone::Read(bytes.into()))
        }
    };
    (id, Ok(done.expect("a device that works")))
}

fn settle(store: &Store, devices: &[Device], mut out: Outbox) {
    while let Some(io) = out.pop() {
        let (id, result) = perform(devices, io);
        store.complete(id, result, &mut out);
    }
}

fn fill(store: &std::sync::Arc<Store>, devices: &[Device], objects: u64) {
    let cache = Cache::new(std::sync::Arc::clone(store), 0, Purges::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let text =
        format!("HTTP/1.1 200 OK\r\nCache-Control: max-age=31536000\r\nContent-Length: {}\r\n", BODY.len());
    let times = Times { requested_at: UnixSeconds(now), received_at: UnixSeconds(now) };
    let head = Head::from_text(text.as_bytes(), times, &semantics::Policy::default()).expect("a head");
    let head = proxy::object::encode_response(&head, text.as_bytes(), 0);
    let mut key = Vec::new();
    for number in 0..objects {
        key.clear();
        semantics::key::write_key(&mut key, "http", "store.test", &format!("/{number}"));
        let mut out = Outbox::new();
        match store.put_inline(cache.hash(&key), &key, &head, &BODY, &mut out) {
            Ok(_) => {}
            Err(Declined::NoSpace) => panic!("the files are too small"),
            Err(why) => panic!("{why}"),
        }
        if number % 65_536 == 0 {
            store.tick(number / 64, &mut out);
        }
        settle(store, devices, out);
    }
}

fn stop(store: &Store, devices: &[Device]) {
    let mut out = Outbox::new();
    store.shutdown(&mut out);
    settle(store, devices, out);
    let mut now = 1 << 40;
    while !store.idle() {
        let mut out = Outbox::new();
        store.tick(now, &mut out);
        settle(store, devices, out);
        now += 1000;
    }
}
