//! From devices to an open [`Store`].
//!
//! A machine like the store: [`Recovery::start`] and [`Recovery::complete`] push requests into an outbox
//! until [`Recovery::is_finished`]; then [`Recovery::into_store`].
//!
//! ```text
//! Superblocks → Copies (where the first was bad) → CheckpointHeaders → Checkpoints → Frames (first and
//!   last block of every segment) → Contents (newest first, all devices merged by lsn) → Closing (what was open is sealed, what is
//!   torn is voided) → Sync → Checkpoint → CheckpointSync → Finished
//! ```
//! The checkpoint at the end makes what was decided here final before anybody relies on it: a crash of the new
//! run meets the same decisions, whatever has become of what led to them (a contents table that was lost and
//! whose segment was used again since; a checkpoint of which only one copy had been written).
//!
//! Newest first means that the first entry seen of an object decides, whatever follows. What is read is
//! contents tables, never objects.

mod device;
mod merge;

use crate::disk::checkpoint::{MEMBERS_MAX, Member};
use crate::disk::segment::EntryKind;
use crate::geometry::{Area, SEGMENTS_MAX};
use crate::index::Index;
use crate::log::{Common, DeviceInfo, Log};
use crate::store::{Checkpointer, Device, Identity};
use crate::*;
use bytes::Bytes;
use device::DeviceRecovery;
use merge::Merge;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

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

/// The steps; all devices take each together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Superblocks,
    Copies,
    CheckpointHeaders,
    Checkpoints,
    Frames,
    Contents,
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
    /// The caller's note of the newest checkpoint.
    note: Bytes,
    merge: Option<Merge>,
    report: Report,
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
        let (identity, merge, failed) = (None, None, None);
        Ok(Self {
            config,
            step: Step::Superblocks,
            devices,
            identity,
            note: Bytes::new(),
            merge,
            report: Report::default(),
            failed,
        })
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
            if self.step == Step::Contents {
                self.merge_what_is_there();
            }
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
                self.identity = Some(self.identify_store()?);
                self.each(|device| device.queue_frames());
                Step::Frames
            }
            Step::Frames => {
                self.each(|device| device.sort_segments());
                let devices = self.devices.iter();
                let owed = devices.map(|device| (device.base, device.owed())).collect();
                self.merge = Some(Merge::new(owed, self.last_lsn()));
                Step::Contents
            }
            Step::Contents => {
                if let Some(merge) = &mut self.merge {
                    merge.limit_owed(&mut self.devices);
                }
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
        let (Some(identity), Some(merge)) = (&self.identity, &self.merge) else { return };
        let number = self.number();
        let note = &self.note;
        self.devices.iter_mut().for_each(|device| device.queue_checkpoint(identity, number, merge, note));
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

    /// Which store and run this is, and whose contents count: those of the members that took part in every
    /// run since they joined.
    fn identify_store(&mut self) -> Result<Identity, OpenError> {
        let checkpoints = self.devices.iter().filter_map(|device| Some((device, device.checkpoint()?)));
        let newest = checkpoints.max_by_key(|(_, checkpoint)| (checkpoint.generation, checkpoint.number));
        let Some((_, newest)) = newest else { return Ok(self.first_identity()) };
        let (store_id, hash_seed, last) = (newest.store_id, newest.hash_seed, newest.generation);
        let known = newest.members.clone();
        self.note = newest.note.clone();
        let generation = last + 1;
        let mut members = Vec::new();
        for device in &mut self.devices {
            let checkpoint = device.checkpoint();
            if checkpoint.is_some_and(|checkpoint| checkpoint.store_id != store_id) {
                return Err(OpenError::OtherStore(device.index));
            }
            let own = checkpoint.map_or(0, |checkpoint| checkpoint.generation);
            let joined = known.iter().find(|member| member.device == device.id()).map(|member| member.joined);
            let joined = joined.filter(|&joined| own >= joined && own > 0).unwrap_or(generation);
            if joined == generation {
                device.void = true;
                self.report.void_devices += 1;
            }
            members.push(Member { device: device.id(), joined });
        }
        Ok(Identity { store_id, hash_seed, generation, members })
    }

    /// Nobody has a checkpoint: a first run.
    fn first_identity(&mut self) -> Identity {
        self.each(|device| device.void = true);
        self.report.void_devices = self.devices.len() as u64;
        let superblocks = self.devices.iter().filter_map(|device| device.superblock);
        let first = superblocks.min_by_key(|superblock| superblock.device_id);
        let (store_id, hash_seed) = first.map_or((0, 0), |first| (first.store_id, first.hash_seed));
        let members = self.devices.iter().map(|device| Member { device: device.id(), joined: 1 }).collect();
        Identity { store_id, hash_seed, generation: 1, members }
    }

    fn merge_what_is_there(&mut self) {
        if let Some(merge) = &mut self.merge {
            merge.run(&mut self.devices);
        }
    }

    /// The open store, or why not.
    pub fn into_store(mut self) -> Result<(Store, Report), OpenError> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        let (Step::Finished, Some(identity), Some(merge)) =
            (self.step, self.identity.take(), self.merge.take())
        else {
            return Err(OpenError::NotFinished);
        };
        for device in &self.devices {
            device.add_to(&mut self.report);
        }
        self.report.objects = merge.index.size().0;
        let number = self.number();
        let common = Common::new(self.config, merge.index, merge.last_lsn);
        let areas: Vec<Area> = self.devices.iter().map(|device| device.next_area().other()).collect();
        let mut opened = Vec::new();
        for (device, superseded) in self.devices.into_iter().zip(merge.superseded) {
            let opened_device = device.open(&common).ok_or(OpenError::NotFinished)?;
            // Nothing is open yet, so these wait for the first segment; no request is made.
            superseded.into_iter().for_each(|of| opened_device.log.lock().owe_tombstone(of));
            opened.push(opened_device);
        }
        Ok((Store::new(common, identity, opened, Checkpointer::new(number, areas), self.note), self.report))
    }

    /// Number of the checkpoint that recovery takes.
    fn number(&self) -> u64 {
        let numbers = self.devices.iter().filter_map(|device| Some(device.checkpoint()?.number));
        numbers.max().unwrap_or(0) + 1
    }

    fn last_lsn(&self) -> Lsn {
        let checkpoints = self.devices.iter().filter_map(|device| device.checkpoint());
        checkpoints.map(|checkpoint| Lsn(checkpoint.last_lsn)).fold(Lsn(0), Lsn::max)
    }
}
