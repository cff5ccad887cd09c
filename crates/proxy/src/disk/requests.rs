//! Carries out what the store asks for: log and checkpoint writes, its own reads, syncs.
//!
//! What must hold: every request is answered, and what the store asks for then is carried out too.

use std::io;
use std::sync::Arc;

use store::{Io, IoDone, IoError, IoResult, Outbox};
use sys::operation::Operation;

use super::Disk;

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

    /// Whether no request of the store is being carried out.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.carrying.get() == 0
    }

    async fn carry_out_one(&self, request: Io) {
        let id = request.id();
        let result = self.io(request).await;
        let mut next = Outbox::new();
        self.inner.disks.store.complete(id, result, &mut next);
        self.carry_out(next);
    }

    async fn io(&self, request: Io) -> IoResult {
        let devices = &self.inner.disks.devices;
        let device = |index: store::DeviceIndex| devices.get(usize::from(index.0)).ok_or(IoError::Failed(6));
        match request {
            Io::Write { device: index, offset, data, .. } => {
                let file = Arc::clone(device(index)?.writer());
                let len = data.len();
                let bytes = data.bytes(0, len).unwrap_or_default();
                let done = self.inner.queue.perform(Operation::Write { file, offset, bytes }).await;
                done.result.map_err(io_error).map(|_| IoDone::Written)
            }
            Io::Read { device: index, offset, len, .. } => {
                let file = Arc::clone(device(index)?.writer());
                let bytes = self.read_aligned(file, offset, len as usize).await.map_err(io_error)?;
                if bytes.len() < len as usize {
                    return Err(IoError::Short(bytes.len() as u32));
                }
                Ok(IoDone::Read(bytes))
            }
            Io::Sync { device: index, .. } => {
                let file = Arc::clone(device(index)?.writer());
                let done = self.inner.queue.perform(Operation::Sync { file }).await;
                done.result.map_err(io_error).map(|_| IoDone::Synced)
            }
        }
    }
}

fn io_error(error: io::Error) -> IoError {
    IoError::Failed(error.raw_os_error().unwrap_or(5))
}
