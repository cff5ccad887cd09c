//! Writes of bodies to the places that the store reserved for them.

use bytes::Bytes;
use store::Place;

use super::Disk;
use super::queue::Unserved;

impl Disk {
    /// Writes an extent's bytes, padded to whole blocks, to its place.
    ///
    /// # Errors
    /// [`Unserved`].
    pub async fn write(&self, place: &Place, bytes: Bytes) -> Result<(), Unserved> {
        let store = &self.inner.disks.store;
        let offset = store.device_offset(place).ok_or(Unserved::Retired)?;
        let lease = store.lease(place).ok_or(Unserved::Retired)?;
        self.inner.queue.write(place.device, offset, bytes, Some(lease)).await.map(|_| ())
    }
}
