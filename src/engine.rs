//! The seam between the program and the parts of the library that are still being fitted: what the commands ask for,
//! in the shape in which they ask. A function here that answers [`NOT_FITTED`] has no library call behind it yet.

use std::path::{Path, PathBuf};

use proxy::settings::{Listen, Settings};

const NOT_FITTED: &str = "this part of the library is not fitted yet";

/// What a proxy that serves has to tell.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) listen: Vec<Listen>,
    pub(crate) admin: Option<std::net::SocketAddr>,
    pub(crate) objects: u64,
}

/// Serves until told to stop; calls `started` once it does.
pub(crate) fn serve(_settings: Settings, _started: impl FnOnce(&Settings, &Started)) -> Result<(), String> {
    Err(NOT_FITTED.into())
}

/// A device that became part of a store.
pub(crate) struct Formatted {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) segments: u32,
    pub(crate) segment_bytes: u32,
    pub(crate) id: String,
}

/// Makes devices one store.
pub(crate) fn format(_devices: &[PathBuf], _force: bool) -> Result<Vec<Formatted>, String> {
    Err(NOT_FITTED.into())
}

/// What a device holds.
#[derive(serde::Serialize)]
pub(crate) struct Inspected {
    pub(crate) path: PathBuf,
    pub(crate) id: String,
    pub(crate) size: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) segments: Segments,
    pub(crate) errors: u64,
}

/// Segments by state.
#[derive(serde::Serialize)]
pub(crate) struct Segments {
    pub(crate) free: u64,
    pub(crate) open: u64,
    pub(crate) sealed: u64,
}

/// How far an inspection has come.
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// One object of a listing.
pub(crate) struct Object {
    pub(crate) key: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) segment: u32,
    pub(crate) error: Option<String>,
}

/// Reads a device through; `object` is called for each object, `progress` now and then.
pub(crate) fn inspect(
    _device: &Path,
    _verify: bool,
    _object: &mut dyn FnMut(Object),
    _progress: &mut dyn FnMut(Progress),
) -> Result<Inspected, String> {
    Err(NOT_FITTED.into())
}
