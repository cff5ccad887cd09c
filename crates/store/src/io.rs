//! What the machine wants from a device, and what it hears back.
//!
//! The machine never waits: a method pushes [`Io`] into an [`Outbox`], the driver performs them in any order
//! and reports each once with [`crate::Store::complete`] (or [`crate::Recovery::complete`]).

use crate::block::Blocks;
use crate::types::DeviceIndex;
use bytes::Bytes;

/// Names one request until its completion. Unique in one store's (or recovery's) lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IoId(u64);

impl IoId {
    const COUNT_BITS: u32 = 48;

    pub(crate) fn new(device: DeviceIndex, count: u64) -> Self {
        Self((u64::from(device.0) << Self::COUNT_BITS) | (count & ((1 << Self::COUNT_BITS) - 1)))
    }

    /// The device that the request is for.
    pub fn device(self) -> DeviceIndex {
        DeviceIndex((self.0 >> Self::COUNT_BITS) as u16)
    }

    /// The request as a number, for a ring's user data.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Back from [`IoId::number`].
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

/// A request to a device. Offsets are in bytes from the start of the device; offsets and lengths are
/// multiples of 4096 and buffers are aligned, as direct I/O wants them.
#[derive(Debug, Clone)]
pub enum Io {
    /// Write all of `data` at `offset`.
    Write {
        /// To be given back at completion.
        id: IoId,
        /// Where to.
        device: DeviceIndex,
        /// First byte on the device.
        offset: u64,
        /// The bytes; frozen.
        data: Blocks,
    },
    /// Read `len` bytes at `offset`.
    Read {
        /// To be given back at completion.
        id: IoId,
        /// Where from.
        device: DeviceIndex,
        /// First byte on the device.
        offset: u64,
        /// Bytes wanted, all of them.
        len: u32,
    },
    /// Make every completed write of this device durable (`fdatasync`).
    Sync {
        /// To be given back at completion.
        id: IoId,
        /// Which device.
        device: DeviceIndex,
    },
}

impl Io {
    /// The name of the request.
    pub fn id(&self) -> IoId {
        match self {
            Self::Write { id, .. } | Self::Read { id, .. } | Self::Sync { id, .. } => *id,
        }
    }
}

/// Requests for the driver, in the order in which they were made (which binds nobody).
pub type Outbox = Vec<Io>;

/// A request that was carried out in full.
#[derive(Debug, Clone)]
pub enum IoDone {
    /// All bytes were written.
    Written,
    /// All bytes, exactly as many as were wanted.
    Read(Bytes),
    /// Completed writes are durable.
    Synced,
}

/// A request that was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The device refused; the operating system's error number.
    #[error("i/o error {0}")]
    Failed(i32),
    /// Fewer bytes than asked for were moved.
    #[error("short transfer of {0} bytes")]
    Short(u32),
    /// Other bytes are there than were written: the write went elsewhere or was lost.
    #[error("what was written is not there")]
    NotThere,
    /// The completion does not fit the request (a driver's mistake, treated as a failure).
    #[error("completion of another kind")]
    Mismatch,
}

/// The outcome of a request.
pub type IoResult = Result<IoDone, IoError>;
