//! Looking into devices without opening the store: the reading side of `store::inspect`.
//!
//! What must hold: nothing is written and nothing is locked, so a store may be looked at while it is in use (then the
//! last checkpoint is seen, and what is used again meanwhile is passed over). All devices are opened before anything is
//! told; a device that fails later is told as damage.

use std::path::{Path, PathBuf};

use serde::Serialize;
use store::inspect::{self, Newest, Segment, SegmentState, Verdict};
use store::{Body, DeviceId, SuperblockError};
use sys::device::{Device, OpenError};

use super::open::holds;

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Contents tables: how many objects there are.
    Contents,
    /// Every record too: the objects by name.
    Records,
    /// Every body too.
    Bodies,
}

/// What a device holds. The names are a promise to scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspected {
    /// As it was named.
    pub path: PathBuf,
    /// Its identity.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
    /// Objects that a lookup would find here, among the devices looked at.
    pub objects: u64,
    /// Bytes of records and bodies in its log, replaced ones included.
    pub bytes: u64,
    /// Its segments by state; damaged ones are in none.
    pub segments: Segments,
    /// Superblocks, contents tables, records and bodies that are not as they were written.
    pub errors: u64,
}

/// Segments by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Segments {
    /// Ready to be written.
    pub free: u64,
    /// Being written at the last checkpoint.
    pub open: u64,
    /// Full.
    pub sealed: u64,
}

/// An object as it was found.
#[derive(Debug)]
pub struct Object<'a> {
    /// Its device.
    pub device: &'a Path,
    /// The segment of its record.
    pub segment: u32,
    /// The whole cache key; empty where the record cannot be read.
    pub key: &'a [u8],
    /// Bytes of its body.
    pub bytes: u64,
    /// What reading it showed.
    pub verdict: Verdict,
}

/// What is told while devices are read.
#[derive(Debug)]
pub enum Told<'a> {
    /// One object; at [`Depth::Contents`] there are none.
    Object(Object<'a>),
    /// How many bytes of how many are dealt with.
    Progress {
        /// So many.
        done: u64,
        /// Of so many.
        total: u64,
    },
}

/// Why a device cannot be looked into.
#[derive(Debug, thiserror::Error)]
pub enum InspectFailed {
    /// It could not be opened.
    #[error("{path}: {source}", path = .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// It holds something else, or nothing.
    #[error("{path} is not a tidegate store: it holds {what}", path = .path.display())]
    NotAStore {
        /// Which.
        path: PathBuf,
        /// What.
        what: &'static str,
    },
    /// It was a store, and cannot be read as one.
    #[error("{path}: {why}", path = .path.display())]
    Superblock {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: SuperblockError,
    },
    /// Two paths lead to it.
    #[error("{path} was named twice (device {id})", path = .path.display())]
    Twice {
        /// The second path.
        path: PathBuf,
        /// Which device.
        id: DeviceId,
    },
}

/// Reads the devices at `paths`. Name all devices of a store together: large bodies lie on several of them.
///
/// # Errors
/// [`InspectFailed`], before anything is told.
pub fn inspect(
    paths: &[PathBuf],
    depth: Depth,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Vec<Inspected>, InspectFailed> {
    let mut look = Look::open(paths, depth)?;
    look.merge();
    let total = look.stores.iter().map(|store| store.superblock.geometry.used_bytes()).sum();
    let mut done = 0;
    for on in 0..look.stores.len() {
        let segment_bytes = look.stores[on].superblock.geometry.segment_bytes();
        for segment in look.stores[on].segments.clone() {
            look.segment(on, &segment, tell);
            done += u64::from(segment_bytes);
            tell(Told::Progress { done, total });
        }
    }
    Ok(look.found)
}

/// Devices with what is known of them, in the order in which they were named.
struct Look {
    depth: Depth,
    devices: Vec<Device>,
    stores: Vec<inspect::Device>,
    newest: Newest,
    found: Vec<Inspected>,
}

impl Look {
    fn open(paths: &[PathBuf], depth: Depth) -> Result<Self, InspectFailed> {
        let (mut devices, mut stores, mut found) = (Vec::new(), Vec::<inspect::Device>::new(), Vec::new());
        for path in paths {
            let (device, store) = open_one(path)?;
            let id = store.superblock.device_id;
            if stores.iter().any(|other| other.superblock.device_id == id) {
                return Err(InspectFailed::Twice { path: path.clone(), id });
            }
            found.push(first_sight(path, &device, &store));
            devices.push(device);
            stores.push(store);
        }
        Ok(Self { depth, devices, stores, newest: Newest::default(), found })
    }

    /// Finds out which records count.
    fn merge(&mut self) {
        for ((device, store), found) in self.devices.iter().zip(&self.stores).zip(&mut self.found) {
            found.errors += store.merge(&mut self.newest, &mut |at, len| read(device, at, len));
        }
    }

    /// Goes through the objects whose records are in a segment.
    fn segment(&mut self, on: usize, segment: &Segment, tell: &mut dyn FnMut(Told<'_>)) {
        let entries = self.stores[on].entries(segment, &mut |at, len| read(&self.devices[on], at, len));
        for entry in entries.iter().filter(|entry| self.newest.counts(entry)) {
            let mut object = Object {
                device: &self.found[on].path,
                segment: segment.number,
                key: &[],
                bytes: 0,
                verdict: Verdict::Intact,
            };
            let mut key = Vec::new();
            if self.depth > Depth::Contents {
                object.verdict = self.record(on, segment, entry, &mut key, &mut object.bytes);
                if object.verdict.is_damage() && self.moved_on(on, segment) {
                    return;
                }
                tell(Told::Object(Object { key: &key, ..object }));
            }
        }
    }
}
