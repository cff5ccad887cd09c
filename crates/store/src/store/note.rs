//! The note: bytes of the caller's that every checkpoint carries, for what must be known before anything stored is used.
//!
//! What must hold: after a start the note is never older than anything that is found in the index.

use super::Store;
use crate::disk::checkpoint::note_max;
use crate::*;
use bytes::Bytes;
use std::sync::atomic::Ordering::Relaxed;

impl Store {
    /// Keeps `note` for the next starts: every checkpoint from now on carries it, on every device, so it is found as
    /// soon as the store is open, and it is never older than anything that was stored after it was set.
    ///
    /// # Errors
    /// [`Declined::TooLarge`] beyond [`Store::note_bytes_max`], [`Declined::DeviceRetired`] where no device is left to
    /// keep it, [`Declined::Closed`] after the shutdown began.
    pub fn set_note(&self, note: Bytes) -> Result<(), Declined> {
        if note.len() as u64 > u64::from(self.note_bytes_max()) {
            return Err(Declined::TooLarge);
        }
        if self.shared.closed.load(Relaxed) {
            return Err(Declined::Closed);
        }
        if self.shared.devices.iter().all(|device| device.info.is_retired()) {
            return Err(Declined::DeviceRetired);
        }
        *self.shared.note.lock() = note;
        for device in &self.shared.devices {
            device.log.lock().dirty |= !device.info.is_retired();
        }
        Ok(())
    }

    /// What was noted last, in this run or an earlier one; empty where nothing was.
    pub fn note(&self) -> Bytes {
        self.shared.note.lock().clone()
    }

    /// Bytes of the longest note that every device can keep.
    pub fn note_bytes_max(&self) -> u32 {
        let devices = self.shared.devices.iter();
        devices.map(|device| note_max(device.info.geometry.checkpoint_bytes())).min().unwrap_or(0)
    }
}
