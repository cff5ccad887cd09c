//! The store's hands: carries out the requests of the machine in `store` on real devices, and reads for the network.
//!
//! Each worker has a queue of its own, an io_uring where the kernel gives one and a few threads otherwise; the store's
//! housekeeping has a thread with a queue of its own. What must hold: no call here waits for a disk on a network
//! thread; a place is read only under its lease; an operation's buffer lives until the kernel is done with it, also
//! when nobody waits any more.

pub mod inspect;
pub mod keep;
pub mod open;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::HashMap;
use store::{Crc32c, Io, IoDone, IoError, IoResult, Outbox, Place, Store};
use sys::aligned::AlignedBuffer;
use sys::budget::BufferBudget;
use sys::device::Device;
use sys::operation::Operation;
use sys::pool::Pool;
use sys::queue::{Completion, NotQueued, Queue, Token, Unqueued};
use sys::uring::Ring;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};

use crate::settings::StoreIo;

/// Operations under way in one queue.
const DEPTH: u32 = 256;

/// Threads of the queue where io_uring is refused.
const POOL_THREADS: usize = 4;

/// Step in which a body is read for its checksum.
const VERIFY_STEP_BYTES: usize = 256 * 1024;

/// The devices and the machine that decides about them. Shared by all threads.
pub struct Disks {
    /// The machine.
    pub store: Arc<Store>,
    /// In the order in which the store knows them.
    pub devices: Vec<Device>,
    /// Memory for bodies on their way to a device.
    pub budget: BufferBudget,
    /// How much that is.
    pub buffer_bytes: u64,
    /// How bodies are read.
    pub io: StoreIo,
    /// Whether io_uring may be used.
    pub uring: bool,
    /// Bytes that the segments of all devices hold.
    pub capacity_bytes: u64,
}

/// One thread's way to the devices.
#[derive(Clone)]
pub struct Disk {
    inner: Rc<Inner>,
}

struct Inner {
    disks: Arc<Disks>,
    queue: RefCell<Box<dyn Queue>>,
    waiting: RefCell<HashMap<Token, oneshot::Sender<Completion>>>,
    room: Notify,
    /// Requests of the store that this thread is carrying out.
    carrying: Cell<usize>,
}

/// Why bytes could not be read.
#[derive(Debug)]
pub enum ReadFailed {
    /// The life of that segment is over, or its device is gone: a miss.
    Gone,
    /// The device failed.
    Device(io::Error),
    /// The bytes are not those that were written.
    Checksum,
}

impl Disks {
    fn device(&self, place: &Place) -> Option<&Device> {
        self.devices.get(usize::from(place.device.0))
    }

    fn offset(&self, place: &Place) -> Option<u64> {
        self.store.device_offset(place)
    }

    /// Whether a body on its way to a device finds a buffer now. Where the devices are behind, it does not.
    #[must_use]
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let taken = self.budget.usage().taken_bytes as u64;
        taken + bytes <= self.buffer_bytes
    }

    /// An empty queue: a ring, or threads where the kernel refuses it.
    ///
    /// # Errors
    /// When neither can be had.
    pub fn queue(&self) -> io::Result<Box<dyn Queue>> {
        queue(self.uring)
    }
}

fn queue(uring: bool) -> io::Result<Box<dyn Queue>> {
    if uring && let Ok(ring) = Ring::new(DEPTH) {
        return Ok(Box::new(ring));
    }
    Ok(Box::new(Pool::new(DEPTH, POOL_THREADS)?))
}

impl Disk {
    /// A way to the devices for this thread. Must be called inside its runtime.
    ///
    /// # Errors
    /// When no queue can be had, or the runtime refuses it.
    pub fn new(disks: Arc<Disks>) -> io::Result<Self> {
        let queue = disks.queue()?;
        let ready = sys::watched::watch(queue.as_fd().try_clone_to_owned()?)?;
        let inner = Rc::new(Inner {
            disks,
            queue: RefCell::new(queue),
            waiting: RefCell::default(),
            room: Notify::new(),
            carrying: Cell::new(0),
        });
        tokio::task::spawn_local(reap(Rc::downgrade(&inner), ready));
        Ok(Self { inner })
    }

    /// The devices.
    #[must_use]
    pub fn disks(&self) -> &Arc<Disks> {
        &self.inner.disks
    }

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
                let done = self.perform(Operation::Write { file, offset, bytes }).await;
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
                let done = self.perform(Operation::Sync { file }).await;
                done.result.map_err(io_error).map(|_| IoDone::Synced)
            }
        }
    }

    /// Reads `len` bytes from `offset`, fewer only at the end of the device. Offset and length in whole blocks.
    async fn read_aligned(&self, file: Arc<std::fs::File>, offset: u64, len: usize) -> io::Result<Bytes> {
        let (into, reader) = AlignedBuffer::new(len)?.split();
        let done = self.perform(Operation::Read { file, offset, len, into }).await;
        let count = done.result?;
        drop(done.operation);
        let settled = reader.settled(0..count).ok_or_else(|| io::Error::other("buffer not settled"))?;
        Ok(Bytes::from_owner(settled))
    }

    /// Reads the bytes of a place under its lease.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn read(&self, lease: &store::Lease) -> Result<Bytes, ReadFailed> {
        let disks = &self.inner.disks;
        let place = lease.place();
        let device = disks.device(place).ok_or(ReadFailed::Gone)?;
        let offset = disks.offset(place).ok_or(ReadFailed::Gone)?;
        let wanted = place.len as usize;
        if disks.io == StoreIo::PageCache {
            let mut bytes = vec![0; wanted];
            if matches!(device.read_nowait(offset, &mut bytes), Ok(n) if n == wanted) {
                return Ok(Bytes::from(bytes));
            }
        }
        let file = match disks.io {
            StoreIo::PageCache => device.buffered(),
            StoreIo::Direct => device.writer(),
        };
        let block = sys::aligned::BLOCK_BYTES as u64;
        let from = offset / block * block;
        let until = (offset + place.len as u64).next_multiple_of(block);
        let read = self.read_aligned(Arc::clone(file), from, (until - from) as usize).await;
        let bytes = read.map_err(|error| self.failed(place, error))?;
        let start = (offset - from) as usize;
        if bytes.len() < start + wanted {
            return Err(self.failed(place, io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(bytes.slice(start..start + wanted))
    }

    /// Whether `sendfile` of this part of a place would not wait for the disk.
    #[must_use]
    pub fn is_resident(&self, place: &Place) -> bool {
        let disks = &self.inner.disks;
        match (disks.device(place), disks.offset(place)) {
            (Some(device), Some(offset)) => device.resident(offset, u64::from(place.len)),
            _ => false,
        }
    }

    /// Brings the bytes of a place into the page cache.
    ///
    /// # Errors
    /// [`ReadFailed`].
    pub async fn load(&self, lease: &store::Lease) -> Result<(), ReadFailed> {
        let place = lease.place();
        let disks = &self.inner.disks;
        let device = disks.device(place).ok_or(ReadFailed::Gone)?;
        let offset = disks.offset(place).ok_or(ReadFailed::Gone)?;
        let operation =
            Operation::Load { file: Arc::clone(device.buffered()), offset, len: place.len as usize };
        self.perform(operation).await.result.map(|_| ()).map_err(|error| self.failed(place, error))
    }

    /// Reads the bytes of a place through the page cache on a helper thread, so that they are resident afterwards, and
    /// compares their checksum.
    ///
    /// # Errors
    /// [`ReadFailed`], [`ReadFailed::Checksum`] among them.
    pub async fn verify(&self, lease: &store::Lease, crc: u32) -> Result<(), ReadFailed> {
        let place = *lease.place();
        let disks = Arc::clone(&self.inner.disks);
        let lease = lease.clone();
        let check = tokio::task::spawn_blocking(move || {
            let sum = checksum(&disks, lease.place());
            drop(lease);
            sum
        });
        match check.await {
            Ok(Ok(sum)) if sum == crc => Ok(()),
            Ok(Ok(_)) => Err(ReadFailed::Checksum),
            Ok(Err(error)) => Err(self.failed(&place, error)),
            Err(join) => Err(self.failed(&place, io::Error::other(join))),
        }
    }

    /// Writes an extent's bytes, padded to whole blocks, to its place.
    ///
    /// # Errors
    /// The device's.
    pub async fn write(&self, place: &Place, bytes: Bytes) -> io::Result<()> {
        let disks = &self.inner.disks;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let file = Arc::clone(disks.device(place).ok_or_else(gone)?.writer());
        let offset = disks.offset(place).ok_or_else(gone)?;
        self.perform(Operation::Write { file, offset, bytes }).await.result.map(|_| ())
    }

    /// The descriptor that `sendfile` reads from, and where on it a place begins.
    #[must_use]
    pub fn source(&self, place: &Place) -> Option<(Arc<std::fs::File>, u64)> {
        let disks = &self.inner.disks;
        Some((Arc::clone(disks.device(place)?.buffered()), disks.offset(place)?))
    }

    /// Tells the store of a failed read.
    fn failed(&self, place: &Place, error: io::Error) -> ReadFailed {
        tracing::warn!(device = place.device.0, segment = place.segment, %error, "read failed");
        self.inner.disks.store.note_io_error(place.device);
        ReadFailed::Device(error)
    }

    /// Runs one operation. A caller that goes away leaves it running; its buffer stays until it is over.
    async fn perform(&self, operation: Operation) -> Finished {
        let inner = &self.inner;
        let (done, wait) = oneshot::channel();
        let token = match self.push(operation).await {
            Ok(token) => token,
            Err((operation, result)) => return Finished { operation, result },
        };
        inner.waiting.borrow_mut().insert(token, done);
        let mut forgotten = Abandon { inner, token, armed: true };
        if let Err(error) = inner.queue.borrow_mut().submit() {
            tracing::error!(%error, "the disk queue takes nothing; it is tried again with the next request");
        }
        let completion = wait.await;
        forgotten.armed = false;
        match completion {
            Ok(Completion { operation, result, .. }) => Finished { operation, result },
            // The sender lives in `waiting` until the completion; it is dropped early only with the queue itself.
            Err(_) => std::future::pending().await,
        }
    }

    /// Waits for room in the queue; an operation that it never takes comes back.
    async fn push(&self, mut operation: Operation) -> Result<Token, (Operation, io::Result<usize>)> {
        loop {
            let room = self.inner.room.notified();
            let pushed = self.inner.queue.borrow_mut().push(operation);
            match pushed {
                Ok(token) => return Ok(token),
                Err(NotQueued { operation: back, why: Unqueued::Full }) => operation = back,
                Err(NotQueued { operation, why }) => {
                    let result = Err(io::Error::new(io::ErrorKind::InvalidInput, why));
                    return Err((operation, result));
                }
            }
            room.await;
        }
    }
}

/// An operation that is over, with its buffer.
struct Finished {
    operation: Operation,
    result: io::Result<usize>,
}

/// Gives an operation up when its caller goes away.
struct Abandon<'a> {
    inner: &'a Inner,
    token: Token,
    armed: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.inner.waiting.borrow_mut().remove(&self.token);
            self.inner.queue.borrow_mut().abandon(self.token);
        }
    }
}

/// Hands completions to those who wait, for as long as anybody may.
async fn reap(inner: std::rc::Weak<Inner>, ready: AsyncFd<std::os::fd::OwnedFd>) {
    loop {
        let Ok(mut guard) = ready.readable().await else { return };
        guard.clear_ready();
        let Some(inner) = inner.upgrade() else { return };
        let mut completions = Vec::new();
        let reaped = inner.queue.borrow_mut().reap(&mut |completion| completions.push(completion));
        if let Err(error) = reaped {
            tracing::error!(%error, "disk completions cannot be read");
        }
        for completion in completions {
            if let Some(done) = inner.waiting.borrow_mut().remove(&completion.token) {
                // A caller that left at this very moment loses nothing: its buffer ends with the completion.
                let _ = done.send(completion);
            }
        }
        inner.room.notify_waiters();
    }
}

fn checksum(disks: &Disks, place: &Place) -> io::Result<u32> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let device = disks.device(place).ok_or_else(gone)?;
    let mut at = disks.offset(place).ok_or_else(gone)?;
    let end = at + u64::from(place.len);
    let mut buffer = vec![0; VERIFY_STEP_BYTES.min(place.len as usize)];
    let mut crc = Crc32c::new();
    while at < end {
        let step = buffer.len().min((end - at) as usize);
        device.read_at(at, &mut buffer[..step])?;
        crc.update(&buffer[..step]);
        at += step as u64;
    }
    Ok(crc.value())
}

fn io_error(error: io::Error) -> IoError {
    IoError::Failed(error.raw_os_error().unwrap_or(5))
}
