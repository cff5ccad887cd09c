//! From devices to an open [`Store`], in two phases.
//!
//! The first is bounded by what checkpoints hold, whatever the size of the store. A machine like the store:
//! [`Recovery::start`] and [`Recovery::complete`] push requests into an outbox until [`Recovery::is_finished`]; then
//! [`Recovery::into_store`].
//!
//! ```text
//! Superblocks → Copies (where the first was bad) → CheckpointHeaders → Checkpoints (which one counts: `cut`) → Closing
//!   (what was open is sealed) → Sync → Checkpoint → CheckpointSync → Finished
//! ```
//! The checkpoint at its end makes what was decided final before anybody relies on it: a crash of the new run meets the
//! same decisions, whatever has become of what led to them (a checkpoint of which only one copy had been written).
//!
//! The second, in the open store, reads the contents tables and [`merge`]s them into the index. What is read is
//! contents tables, never objects.

mod cut;
mod device;
mod merge;
mod tables;

use crate::disk::checkpoint::{Checkpoint, MEMBERS_MAX};
use crate::geometry::{Area, SEGMENTS_MAX};
use crate::index::Index;
use crate::log::{Common, DeviceInfo, Log};
use crate::store::{Checkpointer, Device, Identity};
use crate::*;
use bytes::Bytes;
pub(crate) use cut::choose;
use device::DeviceRecovery;
pub use merge::Progress;
pub(crate) use merge::{Duty, Merge};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tables::Tables;

/// A device that is to be part of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceToOpen {
    /// Its size in bytes.
    pub bytes: u64,
}

/// What was found before the store opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Segments with contents, which are still to be merged into the index.
    pub segments: u64,
    /// Devices whose contents do not count: new ones, and those that missed a run of the store.
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

/// The steps; all devices take each together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Superblocks,
    Copies,
    CheckpointHeaders,
    Checkpoints,
    Closing,
    Sync,
    Checkpoint,
    CheckpointSync,
    Finished,
}

/// See the module.
#[derive(Debug)]
pub struct Recovery {
    config: Config,
    step: Step,
    devices: Vec<DeviceRecovery>,
    identity: Option<Identity>,
    failed: Option<OpenError>,
}

impl Recovery {
    /// Devices in any order; [`DeviceIndex`] counts them as given here.
    pub fn new(devices: &[DeviceToOpen], config: Config) -> Result<Self, OpenError> {
        match devices.len() {
            0 => return Err(OpenError::NoDevice),
            count if count > MEMBERS_MAX => return Err(OpenError::TooManyDevices),
            _ => {}
        }
        let depth = config.recovery_depth.max(1) as usize;
        let devices = devices.iter().zip(0..);
        let devices =
            devices.map(|(device, at)| DeviceRecovery::new(DeviceIndex(at), device.bytes, depth)).collect();
        Ok(Self { config, step: Step::Superblocks, devices, identity: None, failed: None })
    }

    /// Asks for the first reads.
    pub fn start(&mut self, out: &mut Outbox) {
        self.devices.iter_mut().for_each(DeviceRecovery::queue_first_superblock);
        self.proceed(out);
    }

    /// Takes the outcome of a request.
    pub fn complete(&mut self, id: IoId, result: IoResult, out: &mut Outbox) {
        if let Some(device) = self.devices.get_mut(id.device().at())
            && let Err(why) = device.complete(id, result)
        {
            self.fail(why);
        }
        self.proceed(out);
    }

    /// Whether [`Recovery::into_store`] has an answer.
    pub fn is_finished(&self) -> bool {
        self.step == Step::Finished
    }

    fn fail(&mut self, why: OpenError) {
        self.failed.get_or_insert(why);
        self.step = Step::Finished;
    }

    /// Goes from step to step as long as nothing has to be waited for.
    fn proceed(&mut self, out: &mut Outbox) {
        while self.step != Step::Finished {
            for device in &mut self.devices {
                device.issue(out);
            }
            if !self.devices.iter().all(DeviceRecovery::is_quiet) {
                return;
            }
            match self.next_step() {
                Ok(step) => self.step = step,
                Err(why) => self.fail(why),
            }
        }
    }

    fn next_step(&mut self) -> Result<Step, OpenError> {
        Ok(match self.step {
            Step::Superblocks => {
                self.devices.iter_mut().for_each(DeviceRecovery::queue_copies);
                Step::Copies
            }
            Step::Copies => {
                self.identify_devices()?;
                self.each(|device| device.queue_checkpoint_headers());
                Step::CheckpointHeaders
            }
            Step::CheckpointHeaders => {
                self.each(|device| device.queue_checkpoints());
                Step::Checkpoints
            }
            Step::Checkpoints => {
                self.choose_checkpoint()?;
                self.identity = Some(self.identify_store());
                self.each(|device| device.queue_closing());
                Step::Closing
            }
            Step::Closing => {
                self.each(|device| device.queue_sync());
                Step::Sync
            }
            Step::Sync => {
                self.queue_checkpoint();
                Step::Checkpoint
            }
            Step::Checkpoint => {
                self.each(|device| device.queue_sync());
                Step::CheckpointSync
            }
            Step::CheckpointSync | Step::Finished => Step::Finished,
        })
    }

    fn queue_checkpoint(&mut self) {
        let Some(identity) = &self.identity else { return };
        let (number, last_lsn, note) = (self.number(), self.last_lsn(), self.note());
        for device in &mut self.devices {
            device.queue_checkpoint(identity, number, last_lsn, &note);
        }
    }

    fn each(&mut self, act: impl FnMut(&mut DeviceRecovery)) {
        self.devices.iter_mut().for_each(act);
    }

    fn identify_devices(&mut self) -> Result<(), OpenError> {
        let mut base = 0_u32;
        for at in 0..self.devices.len() {
            let (before, rest) = self.devices.split_at_mut(at);
            let Some(device) = rest.first_mut() else { break };
            let geometry = device.identify()?;
            if let Some(twin) = before.iter().find(|twin| twin.id().short() == device.id().short()) {
                return Err(OpenError::SameDevice(twin.index, device.index));
            }
            device.base = base;
            base = base
                .checked_add(geometry.segments() + 1)
                .filter(|&all| all <= SEGMENTS_MAX)
                .ok_or(OpenError::TooManySegments)?;
        }
        Ok(())
    }

    /// Which checkpoint of the store counts. A device that has another one has no contents.
    fn choose_checkpoint(&mut self) -> Result<(), OpenError> {
        let found: Vec<Vec<_>> = self.devices.iter().map(|device| device.checkpoints().collect()).collect();
        let Some(chosen) = choose(&found) else { return Ok(()) };
        for (device, chosen) in self.devices.iter_mut().zip(chosen) {
            device.choose(chosen);
        }
        let store_id = self.newest().map(|checkpoint| checkpoint.store_id);
        let is_other = |device: &&DeviceRecovery| {
            device.checkpoints().next().is_some_and(|found| Some(found.store_id) != store_id)
        };
        self.devices.iter().find(is_other).map_or(Ok(()), |other| Err(OpenError::OtherStore(other.index)))
    }

    /// The checkpoint that counts, on one of the devices that have it.
    fn newest(&self) -> Option<&Checkpoint> {
        self.devices.iter().find_map(DeviceRecovery::checkpoint)
    }

    /// Which store this is, and which run of it; without a checkpoint the first one.
    fn identify_store(&self) -> Identity {
        let members = self.devices.iter().map(DeviceRecovery::id).collect();
        let generation = self.all().map(|checkpoint| checkpoint.generation).max().unwrap_or(0) + 1;
        let first = self.devices.iter().filter_map(|device| device.superblock);
        let first = first.min_by_key(|superblock| superblock.device_id);
        let known = self.newest().map(|checkpoint| (checkpoint.store_id, checkpoint.hash_seed));
        let known = known.or(first.map(|superblock| (superblock.store_id, superblock.hash_seed)));
        let (store_id, hash_seed) = known.unwrap_or_default();
        Identity { store_id, hash_seed, generation, members }
    }

    /// The open store, or why not.
    pub fn into_store(mut self) -> Result<(Store, Report), OpenError> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        let (Step::Finished, Some(identity)) = (self.step, self.identity.take()) else {
            return Err(OpenError::NotFinished);
        };
        let (number, last_lsn, note) = (self.number(), self.last_lsn(), self.note());
        let void_devices = self.devices.iter().filter(|device| device.checkpoint().is_none()).count() as u64;
        let common = Common::new(self.config, Index::merging(), last_lsn);
        let areas: Vec<Area> = self.devices.iter().map(|device| device.next_area().other()).collect();
        let opened = self.devices.into_iter().map(|device| device.open(&common));
        let opened: Vec<(Device, Tables)> = opened.collect::<Option<_>>().ok_or(OpenError::NotFinished)?;
        let (devices, tables) = opened.into_iter().unzip();
        let merge = Merge::new(tables);
        if merge.is_over() {
            common.index.end_merging();
        }
        let report = Report { segments: merge.progress().segments, void_devices };
        let checkpointer = Checkpointer::new(number, areas);
        Ok((Store::new(common, identity, devices, checkpointer, note, merge), report))
    }

    /// Number of the checkpoint that recovery takes.
    fn number(&self) -> u64 {
        self.all().map(|checkpoint| checkpoint.number).max().unwrap_or(0) + 1
    }

    /// The caller's note of the checkpoint that counts.
    fn note(&self) -> Bytes {
        self.newest().map_or_else(Bytes::new, |checkpoint| checkpoint.note.clone())
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(self.all().map(|checkpoint| checkpoint.last_lsn).max().unwrap_or(0))
    }

    /// All checkpoints that were found, whether they count or not.
    fn all(&self) -> impl Iterator<Item = &Checkpoint> {
        self.devices.iter().flat_map(DeviceRecovery::checkpoints)
    }
}
