//! Writes of bodies to the places that the store reserved for them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use store::Place;
use sys::operation::Operation;

use super::Disk;

impl Disk {
    /// Writes an extent's bytes, padded to whole blocks, to its place.
    ///
    /// # Errors
    /// The device's.
    pub async fn write(&self, place: &Place, bytes: Bytes) -> io::Result<()> {
        let disks = &self.inner.disks;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let file = Arc::clone(disks.device(place).ok_or_else(gone)?.writer());
        let offset = disks.offset(place).ok_or_else(gone)?;
        self.inner.queue.perform(Operation::Write { file, offset, bytes }).await.result.map(|_| ())
    }
}
