//! The seam between `tidegate inspect` and the store's own decoder: what the command asks for, in the shape in which it
//! asks. There is no library call behind [`inspect`] yet.

use std::path::{Path, PathBuf};

const NOT_FITTED: &str = "this part of the library is not fitted yet";

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
