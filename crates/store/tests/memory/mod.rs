//! Devices in memory, and a store over them whose requests are carried out at once.
#![allow(dead_code, reason = "each test uses its share")]

use store::format::{FormatOptions, format};
use store::*;

/// The bytes of each device, in the order in which the store knows them.
pub(crate) type Disks = Vec<Vec<u8>>;

/// What a device of so many bytes is formatted with.
pub(crate) fn options(id: u128, device_bytes: u64, segment_bytes: u32) -> FormatOptions {
    FormatOptions {
        device_bytes,
        geometry: Geometry::new(device_bytes, segment_bytes).unwrap(),
        device_id: DeviceId(id),
        store_id: 1,
        hash_seed: 2,
        now: 0,
    }
}

/// A device that was just formatted.
pub(crate) fn formatted(options: &FormatOptions) -> Vec<u8> {
    let mut disk = vec![0; options.device_bytes as usize];
    for (offset, data) in format(options) {
        disk[offset as usize..][..data.len() as usize].copy_from_slice(data.as_ref());
    }
    disk
}

/// Carries out one request.
pub(crate) fn perform(disks: &mut [Vec<u8>], io: &Io) -> IoResult {
    let disk = &mut disks[usize::from(io.id().device().0)];
    Ok(match io {
        Io::Write { offset, data, .. } => {
            disk[*offset as usize..][..data.len() as usize].copy_from_slice(data.as_ref());
            IoDone::Written
        }
        Io::Read { offset, len, .. } => {
            IoDone::Read(disk[*offset as usize..][..*len as usize].to_vec().into())
        }
        Io::Sync { .. } => IoDone::Synced,
    })
}

/// Carries out requests, and what comes of them.
pub(crate) fn settle(store: &Store, disks: &mut [Vec<u8>], mut out: Outbox) {
    while let Some(io) = out.pop() {
        store.complete(io.id(), perform(disks, &io), &mut out);
    }
}

/// Opens the store that is on the devices, and merges all of it.
pub(crate) fn open(disks: &mut [Vec<u8>], config: Config) -> Store {
    let sizes: Vec<_> = disks.iter().map(|disk| DeviceToOpen { bytes: disk.len() as u64 }).collect();
    let mut recovery = Recovery::new(&sizes, config).unwrap();
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while let Some(io) = out.pop() {
        recovery.complete(io.id(), perform(disks, &io), &mut out);
    }
    let store = recovery.into_store().unwrap().0;
    while store.recovering().is_some() {
        store.tick(0, &mut out);
        settle(&store, disks, std::mem::take(&mut out));
    }
    store
}

/// The bytes of a place.
pub(crate) fn bytes_at(store: &Store, disks: &[Vec<u8>], at: &At) -> Vec<u8> {
    match at {
        At::Buffered(bytes) => bytes.to_vec(),
        At::Device(lease) => {
            let offset = store.device_offset(lease.place()).unwrap() as usize;
            disks[usize::from(lease.place().device.0)][offset..][..lease.place().len as usize].to_vec()
        }
    }
}
