//! Making the one large file that serves as a device.
//!
//! What must hold: either the file is there with every block reserved, so that later writes cannot meet a full disk,
//! or it is not there at all; an existing file is never touched.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::{Errno, retry_on_intr};

/// Why a file was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Something of that name is there.
    #[error("already exists")]
    Exists,
    /// The filesystem has no room.
    #[error("no space: {wanted_bytes} bytes wanted, {available_bytes} available")]
    NoSpace {
        /// The size asked for.
        wanted_bytes: u64,
        /// What the filesystem offered this user.
        available_bytes: u64,
    },
    /// The filesystem does not hold files of that size, or the process may not write one (`RLIMIT_FSIZE`).
    #[error("{wanted_bytes} bytes are more than one file may have here")]
    TooLarge {
        /// The size asked for.
        wanted_bytes: u64,
    },
    /// The filesystem cannot reserve blocks.
    #[error("this filesystem cannot preallocate")]
    Unsupported,
    /// The system refused: no such directory, no permission, an I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Makes a file of `size_bytes` with all blocks reserved, readable by its owner alone, and makes its size durable.
pub fn create_preallocated(path: impl AsRef<Path>, size_bytes: u64) -> Result<(), CreateError> {
    let path = path.as_ref();
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
    let file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CreateError::Exists,
        _ => CreateError::Io(error),
    })?;
    reserve(&file, size_bytes).inspect_err(|_| {
        // It was made by this call; a failure to remove it changes nothing about the error that counts.
        let _ = std::fs::remove_file(path);
    })
}

fn reserve(file: &File, size_bytes: u64) -> Result<(), CreateError> {
    let available_bytes =
        fstatvfs(file).map(|stat| stat.f_bavail * stat.f_frsize).map_err(io::Error::from)?;
    let no_space = CreateError::NoSpace { wanted_bytes: size_bytes, available_bytes };
    // Asked first: to fill a disk to the brim only to find it too small would disturb everybody on it.
    if size_bytes > available_bytes {
        return Err(no_space);
    }
    retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, size_bytes)).map_err(
        |errno| match errno {
            Errno::NOSPC | Errno::DQUOT => no_space,
            Errno::FBIG => CreateError::TooLarge { wanted_bytes: size_bytes },
            Errno::OPNOTSUPP => CreateError::Unsupported,
            other => CreateError::Io(other.into()),
        },
    )?;
    Ok(file.sync_all()?)
}
