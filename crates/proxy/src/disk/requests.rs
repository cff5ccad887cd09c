//! Carries out what the store asks for: log and checkpoint writes, its own reads, syncs.
//!
//! What must hold: every request is answered, and what the store asks for then is carried out too.

use store::{Io, IoDone, IoError, IoResult, Outbox};

use super::queue::{Patience, Unserved, errno};
use super::{Disk, Inner};

/// `ENXIO`: no such device.
const ENXIO: i32 = 6;

impl Disk {
    /// Carries out what the store asks for, and what it asks for then, without waiting. The thread must not end
    /// before [`Self::is_idle`]: the store waits for every answer.
    pub fn carry_out(&self, requests: Outbox) {
        for request in requests {
            let disk = self.clone();
            disk.inner.carrying.set(disk.inner.carrying.get() + 1);
            tokio::task::spawn_local(async move {
                disk.carry_out_one(request).await;
                disk.inner.carrying.set(disk.inner.carrying.get() - 1);
            });
        }
    }

    /// Whether no request of the store is being carried out, and every device that is still used has answered what this
    /// thread asked.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.carrying.get() == 0 && self.inner.queue.is_idle()
    }

    async fn carry_out_one(&self, request: Io) {
        let id = request.id();
        let result = self.io(request).await;
        let mut next = Outbox::new();
        self.inner.disks.store.complete(id, result, &mut next);
        self.carry_out(next);
    }

    async fn io(&self, request: Io) -> IoResult {
        let Inner { disks, queue, .. } = &*self.inner;
        match request {
            Io::Write { device, offset, data, .. } => {
                let bytes = data.bytes(0, data.len()).unwrap_or_default();
                queue.write(device, offset, bytes, None).await.map_err(io_error).map(|_| IoDone::Written)
            }
            Io::Read { device, offset, len, .. } => {
                let file = disks.devices.get(usize::from(device.0)).ok_or(IoError::Failed(ENXIO))?.writer();
                let bytes = self.read_aligned(device, file, offset, len as usize, Patience::Store).await;
                let bytes = bytes.map_err(io_error)?;
                if bytes.len() < len as usize {
                    return Err(IoError::Short(bytes.len() as u32));
                }
                Ok(IoDone::Read(bytes))
            }
            Io::Sync { device, .. } => queue.sync(device).await.map_err(io_error).map(|_| IoDone::Synced),
        }
    }
}

fn io_error(error: Unserved) -> IoError {
    IoError::Failed(match error {
        Unserved::Error(error) => errno(&error),
        Unserved::Unanswered | Unserved::Retired => ENXIO,
    })
}
