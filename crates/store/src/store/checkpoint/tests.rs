//! How long everybody waits for a checkpoint: the time for which all logs are locked while it is cut. A measurement, run by
//! hand (`bench/results/checkpoint.md`); what it asserts is that every log had a segment to copy from.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::format::{FormatOptions, format};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const KEY: &[u8] = b"http://store.test/12345678";
const HEAD: [u8; 100] = [b'h'; 100];
const BODY: [u8; 100] = [b'b'; 100];
/// Bytes on a device that an object takes at most, its two entries included.
const ROOM_BYTES: u64 = 512;
const ROUNDS: usize = 200;
/// Objects stored between two checkpoints: no divisor of what a segment holds, so that it is met full and empty.
const BETWEEN: u64 = 7919;

/// Devices that keep what is written while a store is opened, and take the rest for written.
#[derive(Default)]
struct Devices(BTreeMap<(u16, u64), Vec<u8>>);

impl Devices {
    fn perform(&mut self, io: Io) -> (IoId, IoResult) {
        let id = io.id();
        let done = match io {
            Io::Read { offset, len, .. } => IoDone::Read(self.read(id.device().0, offset, len).into()),
            Io::Write { offset, data, .. } => {
                self.0.insert((id.device().0, offset), data.as_ref().to_vec());
                IoDone::Written
            }
            Io::Sync { .. } => IoDone::Synced,
        };
        (id, Ok(done))
    }

    fn read(&self, device: u16, offset: u64, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        for ((_, at), data) in self.0.iter().filter(|((of, _), _)| *of == device) {
            let (from, until) = (*at.max(&offset), (at + data.len() as u64).min(offset + u64::from(len)));
            if from < until {
                let within = |start: u64| (from - start) as usize..(until - start) as usize;
                bytes[within(offset)].copy_from_slice(&data[within(*at)]);
            }
        }
        bytes
    }
}

fn open(objects: u64, count: u16) -> Store {
    let size = (objects * ROOM_BYTES * 2 / u64::from(count) + (2 << 30)).next_multiple_of(16 << 20);
    let mut devices = Devices::default();
    for device in 0..count {
        let id = u128::from(device) + 1;
        let options = FormatOptions {
            device_bytes: size,
            geometry: Geometry::for_size(size).unwrap(),
            device_id: DeviceId(id << 64 | id),
            store_id: 1,
            hash_seed: 2,
            now: 0,
        };
        for (offset, blocks) in format(&options) {
            devices.0.insert((device, offset), blocks.as_ref().to_vec());
        }
    }
    let sizes = vec![DeviceToOpen { bytes: size }; usize::from(count)];
    let mut recovery = Recovery::new(&sizes, Config::default()).unwrap();
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while let Some(io) = out.pop() {
        let (id, result) = devices.perform(io);
        recovery.complete(id, result, &mut out);
    }
    recovery.into_store().unwrap().0
}

fn settle(store: &Store, mut out: Outbox) {
    while let Some(io) = out.pop() {
        let done = if matches!(io, Io::Sync { .. }) { IoDone::Synced } else { IoDone::Written };
        store.complete(io.id(), Ok(done), &mut out);
    }
}

fn put(store: &Store, number: u64) {
    let mix = |n: u64| (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let hash = KeyHash(u128::from(mix(mix(number + 1))) << 64 | u128::from(mix(mix(!number))));
    let mut out = Outbox::new();
    store.put_inline(hash, KEY, &HEAD, &BODY, &mut out).unwrap();
    settle(store, out);
}

/// For how long the locks were held, and how long what was cut took to be made ready for writing, without them.
fn cut(store: &Store) -> (Duration, Duration) {
    let (mut waiting, mut out) = (HashSet::new(), Outbox::new());
    let begun = Instant::now();
    let parts = store.shared.cut(&mut waiting, &mut out);
    let held = begun.elapsed();
    assert!(parts.iter().all(|(_, covered)| covered.open.is_some()), "there was little to cut");
    let begun = Instant::now();
    for (device, covered) in parts {
        drop(store.shared.contents(device, 1, covered, Bytes::new()).encode());
    }
    let made = begun.elapsed();
    settle(store, out);
    (held, made)
}

fn told(mut of: Vec<Duration>) -> String {
    of.sort_unstable();
    let at = |share: usize| of[(of.len() - 1) * share / 100].as_nanos() as f64 / 1000.0;
    format!("{:.0} / {:.0} / {:.0}", at(50), at(99), at(100))
}

fn measure(objects: u64, devices: u16) {
    let store = open(objects, devices);
    (0..objects).for_each(|number| put(&store, number));
    let (mut held, mut made) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        (0..BETWEEN).for_each(|n| put(&store, objects + round * BETWEEN + n));
        let (locks, encoding) = cut(&store);
        held.push(locks);
        made.push(encoding);
    }
    println!("| {objects} | {devices} | {} | {} |", told(held), told(made));
}

#[test]
#[ignore = "a measurement: takes a minute and a gigabyte"]
fn the_pause_of_a_checkpoint() {
    println!("| objects | devices | locked, µs: median / p99 / longest | made ready without locks, µs |");
    println!("|---|---|---|---|");
    for (objects, devices) in [(1_000_000, 1), (1_000_000, 4), (10_000_000, 1), (10_000_000, 4)] {
        measure(objects, devices);
    }
}
