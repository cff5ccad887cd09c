//! A disk or a preallocated file as one flat range of bytes.
//!
//! Owns two descriptors: one to write, by O_DIRECT where asked and possible, and a buffered one for `sendfile` and for
//! reads of resident pages. What must hold: no two processes have the same device open for writing; the size does not
//! change under us; a filesystem that refuses O_DIRECT is reported, not papered over. Refuses to know the layout.
//!
//! Calls named `read_at`, `write_at`, `sync`, `zero_range` block on the disk and belong on a thread that may; the
//! asynchronous way is [`crate::operation`]. Pages lent to sockets stay right under O_DIRECT writes and under
//! `zero_range` of whole segments only.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    Advice, AtFlags, FallocateFlags, FlockOperation, OFlags, SeekFrom, StatxFlags, fadvise, fallocate, flock,
    fstatfs, ioctl_blksszget, seek, statx,
};
use rustix::io::{Errno, retry_on_intr};

pub use create::{CreateError, create_preallocated};

mod create;
mod resident;

pub(crate) use resident::{all_present, cachestat_works};

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// How writes reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// By O_DIRECT: buffers, offsets and lengths must be multiples of the logical block.
    Used,
    /// Through resident pages, because O_DIRECT was not asked for.
    NotAsked,
    /// Through resident pages, because the filesystem refuses O_DIRECT, or takes it and does not mean it.
    Refused,
}

impl Direct {
    /// The word for logs and reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Used => "direct",
            Self::NotAsked => "buffered",
            Self::Refused => "direct-refused",
        }
    }
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process (or another handle of this one) has it, or it is mounted.
    #[error("in use by another process")]
    InUse,
    /// Neither a regular file nor a block device.
    #[error("neither a regular file nor a block device")]
    Kind,
    /// The system refused: not found, no permission, an I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// An open device. Sharing it between threads is safe; the kernel orders single calls only.
#[derive(Debug)]
pub struct Device {
    writer: Arc<File>,
    buffered: Arc<File>,
    kind: Kind,
    direct: Direct,
    size_bytes: u64,
    block_bytes: u32,
    counts_pages: bool,
}

impl Device {
    /// Opens for reading and writing, alone: by an exclusive lock, and for a block device by `O_EXCL`, which keeps
    /// mounts away too.
    ///
    /// With `direct`, writes go by O_DIRECT unless the filesystem refuses: see [`Device::direct`].
    pub fn open(path: impl AsRef<Path>, direct: bool) -> Result<Self, OpenError> {
        let path = path.as_ref();
        // Opened for writing, so that asking about resident pages is allowed (cachestat checks it).
        let buffered = OpenOptions::new().read(true).write(true).open(path).map_err(not_opened)?;
        let kind = kind_of(&buffered)?;
        let (writer, direct) = open_writer(path, kind, direct)?;
        match flock(&writer, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse),
            other => other.map_err(io::Error::from)?,
        }
        Self::over(Arc::new(writer), Arc::new(buffered), kind, direct)
    }

    /// Opens to look, without a lock: another process may be writing. Writes fail with `EBADF`.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let file = Arc::new(File::open(path)?);
        let kind = kind_of(&file)?;
        Self::over(Arc::clone(&file), file, kind, Direct::NotAsked)
    }

    fn over(writer: Arc<File>, buffered: Arc<File>, kind: Kind, direct: Direct) -> Result<Self, OpenError> {
        // Hits jump; what should come in is asked for by advise_willneed.
        fadvise(&buffered, 0, None, Advice::Random).map_err(io::Error::from)?;
        let size_bytes = seek(&buffered, SeekFrom::End(0)).map_err(io::Error::from)?;
        let block_bytes = logical_block(&writer, kind)?;
        let counts_pages = resident::counts_pages(&buffered)?;
        Ok(Self { writer, buffered, kind, direct, size_bytes, block_bytes, counts_pages })
    }

    /// Whether another handle has it by [`Device::open`], as far as the system tells. Takes no lock itself.
    pub fn is_in_use(&self) -> bool {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        self.buffered.metadata().is_ok_and(|file| is_locked(&locks, file.dev(), file.ino()))
    }

    /// What it is made of.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How writes reach it.
    pub fn direct(&self) -> Direct {
        self.direct
    }

    /// Its size when it was opened.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The unit of O_DIRECT offsets and lengths; 4096 where the system does not tell.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// The descriptor for writes (and O_DIRECT reads), to be named in operations.
    pub fn writer(&self) -> &Arc<File> {
        &self.writer
    }

    /// The buffered descriptor: for `sendfile`, `splice` and reads of resident pages.
    pub fn buffered(&self) -> &Arc<File> {
        &self.buffered
    }

    /// Reads all of `into` through resident pages, waiting for the disk. `UnexpectedEof` past the end.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.buffered.read_exact_at(into, offset)
    }

    /// Reads all of `into` by the writer's descriptor: past resident pages where that is O_DIRECT, and then `into`
    /// must be aligned.
    pub fn read_direct_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.writer.read_exact_at(into, offset)
    }

    /// Writes all of `bytes`, waiting for the disk. By O_DIRECT memory, offset and length must be aligned (`EINVAL`).
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all_at(bytes, offset)
    }

    /// Waits until all that was written would survive a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        self.writer.sync_data()
    }

    /// Makes a range read as zeroes and keeps its blocks. Whole segments only: see the head of this file.
    ///
    /// `Unsupported` on filesystems without it (tmpfs); a block device without write-zeroes really writes them.
    pub fn zero_range(&self, offset: u64, len: u64) -> io::Result<()> {
        zero_range(&self.writer, offset, len)
    }

    /// Asks for a range to be brought in; returns before it is there, but may wait for the disk's own queue.
    pub fn advise_willneed(&self, offset: u64, len: u64) -> io::Result<()> {
        advise(&self.buffered, offset, len, Advice::WillNeed)
    }

    /// Lets go of the resident pages of a range that are clean.
    pub fn advise_dontneed(&self, offset: u64, len: u64) -> io::Result<()> {
        advise(&self.buffered, offset, len, Advice::DontNeed)
    }
}

/// Whether `/proc/locks` (proc_locks(5)) has an exclusive `flock` of a file.
fn is_locked(locks: &str, device: u64, inode: u64) -> bool {
    let id = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.contains(&"FLOCK") && words.contains(&"WRITE") && words.contains(&id.as_str())
    })
}

pub(crate) fn advise(file: &File, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
    match NonZeroU64::new(len) {
        None => Ok(()), // the kernel would take 0 for "to the end"
        some => Ok(fadvise(file, offset, some, advice)?),
    }
}

pub(crate) fn zero_range(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    Ok(retry_on_intr(|| fallocate(file, mode, offset, len))?)
}

fn kind_of(file: &File) -> Result<Kind, OpenError> {
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(Kind::File),
        kind if kind.is_block_device() => Ok(Kind::Block),
        _ => Err(OpenError::Kind),
    }
}

fn open_writer(path: &Path, kind: Kind, direct: bool) -> Result<(File, Direct), OpenError> {
    let exclusive = if kind == Kind::Block { OFlags::EXCL } else { OFlags::empty() };
    let open = |flags: OFlags| {
        OpenOptions::new().read(true).write(true).custom_flags((flags | exclusive).bits() as i32).open(path)
    };
    let opened = match direct {
        false => open(OFlags::empty()).map(|file| (file, Direct::NotAsked)),
        // EINVAL is what open(2) names for "this filesystem has no O_DIRECT".
        true => match open(OFlags::DIRECT) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                open(OFlags::empty()).map(|file| (file, Direct::Refused))
            }
            Ok(file) if kind == Kind::File && !means_direct(&file).map_err(not_opened)? => {
                open(OFlags::empty()).map(|file| (file, Direct::Refused))
            }
            other => other.map(|file| (file, Direct::Used)),
        },
    };
    opened.map_err(not_opened)
}

/// Whether a device can be read past the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectReads {
    /// It can.
    Offered,
    /// Its filesystem refuses O_DIRECT, or takes it and does not mean it.
    Refused,
}

/// Looks whether O_DIRECT is to be had, without a lock and without reading.
///
/// # Errors
/// When the device cannot be opened.
pub fn direct_reads(path: &Path) -> io::Result<DirectReads> {
    let opened = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path);
    let file = match opened {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(DirectReads::Refused),
        opened => opened?,
    };
    let offered = !file.metadata()?.is_file() || means_direct(&file)?;
    Ok(if offered { DirectReads::Offered } else { DirectReads::Refused })
}

/// Whether O_DIRECT goes past the resident pages of this regular file. (A device's node lies on a tmpfs too.)
///
/// tmpfs takes it since Linux 6.6 and has nothing but such pages; other filesystems say by statx that this file is an
/// exception (data in the journal, inline, encrypted).
fn means_direct(file: &File) -> io::Result<bool> {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs (linux/magic.h)
    let kept_in_memory = IN_MEMORY.contains(&(fstatfs(file)?.f_type as u64));
    Ok(!kept_in_memory && direct_align(file)? != Some(0))
}

/// `EBUSY` is another exclusive opener, or a mount.
fn not_opened(error: io::Error) -> OpenError {
    if error.kind() == ErrorKind::ResourceBusy { OpenError::InUse } else { OpenError::Io(error) }
}

/// The logical block of a block device, or what the filesystem says of its O_DIRECT.
fn logical_block(file: &File, kind: Kind) -> io::Result<u32> {
    const UNKNOWN: u32 = crate::aligned::BLOCK_BYTES as u32;
    if kind == Kind::Block {
        return Ok(ioctl_blksszget(file)?);
    }
    Ok(direct_align(file)?.filter(|&align| align != 0).unwrap_or(UNKNOWN))
}

/// The unit of O_DIRECT offsets as the filesystem tells it (Linux 6.1 and later): 0 where this file has none.
fn direct_align(file: &File) -> io::Result<Option<u32>> {
    const DIO_ALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2000); // STATX_DIOALIGN
    let stat = statx(file, c"", AtFlags::EMPTY_PATH, DIO_ALIGN)?;
    Ok((stat.stx_mask & DIO_ALIGN.bits() != 0).then_some(stat.stx_dio_offset_align))
}

#[cfg(test)]
mod tests;
