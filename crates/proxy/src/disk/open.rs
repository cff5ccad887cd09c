//! From paths to an open store: creating, formatting, opening and recovering devices, before any network thread runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use store::foreign::DETECT_BYTES;
use store::format::{FormatOptions, format};
use store::{Admission, Config, DeviceId, Geometry, ScrubConfig};
use sys::budget::BufferBudget;
use sys::device::{Device, Direct, OpenError, create_preallocated};

use super::start::Shelf;
use super::{Disks, Traffic, Warm};
use crate::settings::{StoreAdmission, StoreIo, StoreSettings};

/// Memory for what passes through where the kernel keeps what is warm.
const PASSING_BYTES: u64 = 64 << 20;

/// How much of it is taken from the system before it is needed.
const PASSING_AT_ONCE_BYTES: u64 = 8 << 20;

/// Why the store cannot be used. The messages say what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenFailed {
    /// The file could not be made.
    #[error("{path}: cannot create the store file: {source}", path = .path.display())]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        source: sys::device::CreateError,
    },
    /// The device could not be opened.
    #[error("{path}: {source}", path = .path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// It failed while it was read or written.
    #[error("{path}: {source}", path = .path.display())]
    Device {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds something else.
    #[error("{path} holds {what}; nothing was changed. If its contents may be lost: tidegate format --force {path}", path = .path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What.
        what: &'static str,
    },
    /// It is empty and was not made by us.
    #[error("{path} is not a tidegate store yet; make it one with: tidegate format {path}", path = .path.display())]
    NotFormatted {
        /// Which.
        path: PathBuf,
    },
    /// It is of no size for a store.
    #[error("{path}: {source}", path = .path.display())]
    Size {
        /// Which.
        path: PathBuf,
        /// Why.
        source: store::geometry::GeometryError,
    },
    /// None of the devices answered in time.
    #[error("{paths} did not answer within store.device_timeout")]
    Unanswered {
        /// Which.
        paths: String,
    },
    /// The devices do not make up a store.
    #[error("{0}")]
    Store(String),
    /// No way to the disks.
    #[error("disk queue: {0}")]
    Queue(io::Error),
    /// No address space for what is read.
    #[error("store.warm: {0}")]
    Memory(io::Error),
}

/// What a freshly opened store has to tell.
pub struct Opened {
    /// The store.
    pub disks: Disks,
    /// What recovery found.
    pub report: store::Report,
}

/// Opens the store of the settings; files with a size are created and formatted at first use.
///
/// # Errors
/// [`OpenFailed`].
pub fn open(settings: &StoreSettings, uring: bool) -> Result<Opened, OpenFailed> {
    let identity = Identity::new()?;
    for spec in &settings.devices {
        if let Some(size) = spec.size
            && !spec.path.exists()
        {
            create(&spec.path, size)?;
            format_device(&spec.path, false, identity)?;
        }
    }
    let paths = settings.devices.iter().map(|spec| spec.path.clone()).collect();
    let shelf = Shelf::open(paths, settings.device_timeout, open_one)?;
    recover(settings, shelf, uring)
}

/// Opens a device, which must be a store. Waits for the disk.
fn open_one(path: &Path) -> Result<Device, OpenFailed> {
    let opened = open_patiently(path);
    let device = opened.map_err(|source| OpenFailed::Open { path: path.to_path_buf(), source })?;
    require_store(&device, path)?;
    Ok(device)
}

/// How long the process before us may take to let go of a device. One that was killed holds it until the kernel has
/// ended the last of its requests, and whoever restarts it does not wait for that.
pub(super) const HANDOVER: Duration = Duration::from_secs(5);

/// Opens a device, and waits for a moment for another process to let it go.
fn open_patiently(path: &Path) -> Result<Device, OpenError> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        match Device::open(path, true) {
            Err(OpenError::InUse) if begun.elapsed() < HANDOVER => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!(path = %path.display(), "in use by another process; waiting for it to end");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

/// Makes a device or file a store.
///
/// # Errors
/// [`OpenFailed::Foreign`] when it holds data and `force` is not given, and the others.
pub fn format_device(path: &Path, force: bool, identity: Identity) -> Result<Formatted, OpenFailed> {
    let path = path.to_path_buf();
    let opened = Device::open(&path, true);
    let device = opened.map_err(|source| OpenFailed::Open { path: path.clone(), source })?;
    let failed = |source| OpenFailed::Device { path: path.clone(), source };
    if !force && let Some(what) = holds(&device).map_err(failed)? {
        return Err(OpenFailed::Foreign { path, what });
    }
    let bytes = device.size_bytes();
    let divided = Geometry::for_size(bytes);
    let geometry = divided.map_err(|source| OpenFailed::Size { path: path.clone(), source })?;
    let options = FormatOptions {
        device_bytes: bytes,
        geometry,
        device_id: DeviceId(random().map_err(OpenFailed::Queue)?),
        store_id: identity.store,
        hash_seed: identity.seed,
        now: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    };
    for (offset, blocks) in format(&options) {
        device.write_at(offset, blocks.as_ref()).map_err(failed)?;
    }
    device.sync().map_err(failed)?;
    Ok(Formatted { path, bytes, geometry, id: options.device_id })
}

/// A device that has become a store.
pub struct Formatted {
    /// Which.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How it is divided.
    pub geometry: Geometry,
    /// Its identity.
    pub id: DeviceId,
}

/// What devices that are formatted together share.
#[derive(Clone, Copy)]
pub struct Identity {
    store: u128,
    seed: u64,
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn new() -> Result<Self, OpenFailed> {
        let store = random().map_err(OpenFailed::Queue)?;
        let seed = random().map_err(OpenFailed::Queue)? as u64;
        Ok(Self { store, seed })
    }
}

/// What a device holds, told from its front; `None` where that is all zero.
pub(super) fn holds(device: &Device) -> io::Result<Option<&'static str>> {
    let mut front = vec![0; DETECT_BYTES.min(usize::try_from(device.size_bytes()).unwrap_or(DETECT_BYTES))];
    device.read_at(0, &mut front)?;
    Ok(store::foreign::detect(&front))
}

fn require_store(device: &Device, path: &Path) -> Result<(), OpenFailed> {
    let path = path.to_path_buf();
    match holds(device) {
        Err(source) => Err(OpenFailed::Device { path, source }),
        Ok(Some(store::foreign::STORE)) => Ok(()),
        Ok(Some(what)) => Err(OpenFailed::Foreign { path, what }),
        Ok(None) => Err(OpenFailed::NotFormatted { path }),
    }
}

fn create(path: &Path, size: u64) -> Result<(), OpenFailed> {
    let path = path.to_path_buf();
    if let Some(parent) = path.parent()
        && let Err(source) = std::fs::create_dir_all(parent)
    {
        return Err(OpenFailed::Device { path, source });
    }
    create_preallocated(&path, size).map_err(|source| OpenFailed::Create { path, source })
}

fn recover(settings: &StoreSettings, mut shelf: Shelf, uring: bool) -> Result<Opened, OpenFailed> {
    let admission = match settings.admission {
        StoreAdmission::Frequency => Admission::Frequency,
        StoreAdmission::All => Admission::All,
    };
    let checkpoint_every = settings.checkpoint.as_millis() as u64;
    let scrub = ScrubConfig { bytes_per_second: settings.scrub.unwrap_or(0), ..ScrubConfig::default() };
    let config = Config { checkpoint_every, admission, scrub, ..Config::default() };
    let buffers = usize::try_from(settings.buffers).unwrap_or(usize::MAX);
    let (store, report) = shelf.recover(&config, uring)?;
    let Shelf { devices, paths, missing, .. } = shelf;
    let io = safe_reads(settings.io, &devices, &paths);
    let (warm, at_once) = match io {
        StoreIo::Direct => (Warm::new(settings.warm, true), settings.warm),
        StoreIo::PageCache => (Warm::new(settings.warm.min(PASSING_BYTES), false), PASSING_AT_ONCE_BYTES),
    };
    let warm = warm.map_err(OpenFailed::Memory)?;
    populate(&warm, at_once);
    let capacity =
        |d: &store::DeviceStats| u64::from(d.geometry.segments()) * u64::from(d.geometry.segment_bytes());
    let disks = Disks {
        capacity_bytes: store.stats().devices.iter().map(capacity).sum(),
        store: Arc::new(store),
        traffic: devices.iter().map(|_| Traffic::default()).collect(),
        devices,
        paths,
        missing,
        bounds: settings.bounds(),
        budget: BufferBudget::new(buffers, buffers / 2),
        buffer_bytes: buffers as u64,
        warm,
        io,
        uring,
    };
    Ok(Opened { disks, report })
}

/// Takes memory from the system on a thread of its own, so that no network thread has to wait for large pages. Without that
/// thread it comes as it is used.
fn populate(warm: &Warm, bytes: u64) {
    let arena = warm.arena().clone();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let _ = std::thread::Builder::new().name("memory".into()).spawn(move || arena.populate(bytes));
}

/// Where a filesystem refuses O_DIRECT the log goes through the page cache, and a page lent by `sendfile` would change
/// under a slow client when its segment is used again: there, bodies are read into memory of our own.
fn safe_reads(asked: StoreIo, devices: &[Device], paths: &[PathBuf]) -> StoreIo {
    let refusing = devices.iter().zip(paths).find(|(device, _)| device.direct() != Direct::Used);
    if let (StoreIo::PageCache, Some((_, path))) = (asked, refusing) {
        tracing::warn!(
            path = %path.display(),
            "the filesystem refuses O_DIRECT: bodies are read into memory instead of lent by sendfile"
        );
        return StoreIo::Direct;
    }
    asked
}

fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}
