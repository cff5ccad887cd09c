//! Looking into devices without opening the store: the reading side of `store::inspect`.
//!
//! What must hold: nothing is written and nothing is locked, so a store may be looked at while it is in use (then the
//! last checkpoint is seen, and what is used again meanwhile is passed over). All devices are opened before anything is
//! told; a device that fails later is told as damage.

use std::path::{Path, PathBuf};

use serde::Serialize;
use store::disk::segment::Entry;
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
    /// Its segments by state.
    pub segments: Segments,
    /// Superblocks, contents tables, records and bodies that are not as they were written.
    pub errors: u64,
    /// Whether a process has it open as a store: then this is what its last checkpoint says.
    #[serde(skip)]
    pub in_use: bool,
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
    /// Where the record begins on the device, in bytes; of an object whose body is damaged, where the damaged piece
    /// begins, on [`Object::offset_on`].
    pub offset: u64,
    /// The device that the offset counts on: large bodies lie on several.
    pub offset_on: &'a Path,
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
    let (mut found, mut done) = (std::mem::take(&mut look.found), 0);
    for (on, store) in look.stores.iter().enumerate() {
        for segment in &store.segments {
            let (objects, errors) = look.segment(on, segment, tell);
            found[on].objects += objects;
            found[on].errors += errors;
            done += u64::from(store.superblock.geometry.segment_bytes());
            tell(Told::Progress { done, total });
        }
    }
    Ok(found)
}

/// The devices, each at the same place in every list.
struct Look<'p> {
    paths: &'p [PathBuf],
    depth: Depth,
    devices: Vec<Device>,
    stores: Vec<inspect::Device>,
    newest: Newest,
    found: Vec<Inspected>,
}

impl<'p> Look<'p> {
    fn open(paths: &'p [PathBuf], depth: Depth) -> Result<Self, InspectFailed> {
        let (mut devices, mut stores) = (Vec::new(), Vec::<inspect::Device>::new());
        for path in paths {
            let (device, store) = open_one(path)?;
            let id = store.superblock.device_id;
            if stores.iter().any(|other| other.superblock.device_id == id) {
                return Err(InspectFailed::Twice { path: path.clone(), id });
            }
            devices.push(device);
            stores.push(store);
        }
        inspect::agree(&mut stores);
        let shown = paths.iter().zip(&devices).zip(&stores);
        let found = shown.map(|((path, device), store)| first_sight(path, device, store)).collect();
        Ok(Self { paths, depth, devices, stores, newest: Newest::default(), found })
    }

    /// Finds out which records count.
    fn merge(&mut self) {
        for ((device, store), found) in self.devices.iter().zip(&self.stores).zip(&mut self.found) {
            found.errors += store.merge(&mut self.newest, &mut |at, len| read(device, at, len));
        }
    }

    /// Goes through the objects whose records are in a segment; returns how many there are and how many are damaged.
    fn segment(&self, on: usize, segment: &Segment, tell: &mut dyn FnMut(Told<'_>)) -> (u64, u64) {
        let entries = self.stores[on].entries(segment, &mut |at, len| read(&self.devices[on], at, len));
        let counting = entries.iter().filter(|entry| self.newest.counts(entry));
        if self.depth == Depth::Contents {
            return (counting.count() as u64, 0);
        }
        let (mut objects, mut errors) = (0, 0);
        for entry in counting {
            let Some(Reading { key, bytes, verdict, place }) = self.object(on, segment, entry) else {
                continue;
            };
            objects += 1;
            errors += u64::from(verdict.is_damage());
            let (device, segment) = (self.paths[on].as_path(), segment.number);
            let (offset_on, offset) = (self.paths[place.0].as_path(), place.1);
            tell(Told::Object(Object { device, segment, offset, offset_on, key: &key, bytes, verdict }));
        }
        (objects, errors)
    }

    /// Reads an object as deep as is wanted; `None` where its segment was used again meanwhile.
    fn object(&self, on: usize, segment: &Segment, entry: &Entry) -> Option<Reading> {
        let mut read_here = |at, len| read(&self.devices[on], at, len);
        let record = (on, self.stores[on].offset(segment, entry));
        let (mut key, mut bytes, mut extents) = (Vec::new(), 0, Vec::new());
        let verdict = self.stores[on].verify(segment, entry, &mut read_here, |record| {
            key = record.key.to_vec();
            bytes = record.body_len();
            if let Body::Extents(table) = record.body() {
                extents.extend(table.iter());
            }
        });
        if verdict.is_damage() {
            let stays = !self.stores[on].moved_on(segment, &mut read_here);
            return stays.then_some(Reading { key, bytes, verdict, place: record });
        }
        let mut read_of = |on: usize, at, len| read(&self.devices[on], at, len);
        let wanted = if self.depth == Depth::Bodies { extents } else { Vec::new() };
        let bad = inspect::verify_extents(&self.stores, wanted, &mut read_of);
        let verdict = bad.map_or(verdict, |bad| bad.verdict);
        let place = bad.and_then(|bad| bad.place).unwrap_or(record);
        Some(Reading { key, bytes, verdict, place })
    }
}

/// What was read of an object.
struct Reading {
    key: Vec<u8>,
    bytes: u64,
    verdict: Verdict,
    /// Which device, and where on it: the record, or what is damaged of its body.
    place: (usize, u64),
}

fn open_one(path: &Path) -> Result<(Device, inspect::Device), InspectFailed> {
    let path = path.to_path_buf();
    let opened = Device::open_read_only(&path);
    let device = opened.map_err(|source| InspectFailed::Open { path: path.clone(), source })?;
    match inspect::open(device.size_bytes(), &mut |at, len| read(&device, at, len)) {
        Ok(store) => Ok((device, store)),
        Err(SuperblockError::NotOurs) => match holds(&device) {
            Ok(what) => Err(InspectFailed::NotAStore { path, what: what.unwrap_or("nothing") }),
            Err(error) => Err(InspectFailed::Open { path, source: error.into() }),
        },
        Err(why) => Err(InspectFailed::Superblock { path, why }),
    }
}

/// What a device says before its contents are read.
fn first_sight(path: &Path, device: &Device, store: &inspect::Device) -> Inspected {
    let mut segments = Segments::default();
    for segment in &store.segments {
        match segment.state {
            SegmentState::Free => segments.free += 1,
            SegmentState::Open => segments.open += 1,
            SegmentState::Sealed(_) => segments.sealed += 1,
        }
    }
    Inspected {
        path: path.to_path_buf(),
        id: store.superblock.device_id.to_string(),
        size: device.size_bytes(),
        objects: 0,
        bytes: store.segments.iter().map(|segment| store.data_bytes(segment)).sum(),
        segments,
        in_use: device.is_in_use(),
        errors: store.bad_superblocks(&mut |at, len| read(device, at, len)),
    }
}

fn read(device: &Device, at: u64, len: u32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    device.read_at(at, &mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
#[path = "inspect/tests.rs"]
mod tests;
