//! From devices to an open [`Store`].
//!
//! A machine like the store: [`Recovery::start`] and [`Recovery::complete`] push requests into an outbox
//! until [`Recovery::is_finished`]; then [`Recovery::into_store`].

use crate::*;

/// A device that is to be part of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceToOpen {
    /// Its size in bytes.
    pub bytes: u64,
}

/// What recovery found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Objects in the index.
    pub objects: u64,
    /// Contents tables that were read.
    pub segments_read: u64,
    /// Segments that were written to but neither sealed nor checkpointed; their contents are dropped.
    pub torn: u64,
    /// Segments whose contents table was damaged or unreadable; their contents are dropped.
    pub bad_contents: u64,
    /// Devices whose contents were dropped: new ones, and those that missed a run of the store.
    pub void_devices: u64,
}

/// Why a store cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No device was given.
    #[error("no device")]
    NoDevice,
    /// More devices than a store may have.
    #[error("too many devices")]
    TooManyDevices,
    /// A device is not a store, or not a good one.
    #[error("device {device}: {why}", device = .device.0)]
    Superblock {
        /// Which one.
        device: DeviceIndex,
        /// What is wrong.
        why: SuperblockError,
    },
    /// Two devices are the same one.
    #[error("device {} and device {} are the same", .0.0, .1.0)]
    SameDevice(DeviceIndex, DeviceIndex),
    /// A device has contents of another store.
    #[error("device {} belongs to another store", .0.0)]
    OtherStore(DeviceIndex),
    /// All segments together are more than the index can address.
    #[error("too many segments: format with larger ones")]
    TooManySegments,
    /// A device failed while it was read.
    #[error("device {device}: {error}", device = .device.0)]
    Device {
        /// Which one.
        device: DeviceIndex,
        /// How.
        error: IoError,
    },
    /// Recovery has not finished.
    #[error("recovery has not finished")]
    NotFinished,
}

/// See the module.
#[derive(Debug)]
pub struct Recovery {}

impl Recovery {
    /// Devices in any order; [`DeviceIndex`] counts them as given here.
    pub fn new(devices: &[DeviceToOpen], config: Config) -> Result<Self, OpenError> {
        todo!("{devices:?} {config:?}")
    }

    /// Asks for the first reads.
    pub fn start(&mut self, out: &mut Outbox) {
        todo!("{out:?}")
    }

    /// Takes the outcome of a request.
    pub fn complete(&mut self, id: IoId, result: IoResult, out: &mut Outbox) {
        todo!("{id:?} {result:?} {out:?}")
    }

    /// Whether [`Recovery::into_store`] has an answer.
    pub fn is_finished(&self) -> bool {
        todo!()
    }

    /// The open store, or why not.
    pub fn into_store(self) -> Result<(Store, Report), OpenError> {
        todo!()
    }
}
