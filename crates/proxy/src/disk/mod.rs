//! The store's hands: carries out the requests of the machine in `store` on real devices, and reads for the network.
//!
//! Each worker has a queue of its own, an io_uring where the kernel gives one and a few threads otherwise; the store's
//! housekeeping has a thread with a queue of its own. What must hold: no call here waits for a disk on a network
//! thread; a place is read only under its lease; an operation's buffer lives until the kernel is done with it, also
//! when nobody waits any more.
//!
//! Here are the devices ([`Disks`]) and one thread's handle ([`Disk`]). How operations reach the devices: `queue`, with
//! `lane` (reads), `joiner` (writes) and `watch` (what is not answered); what they are for: `read`, `write`, `requests`.

mod backend;
pub mod inspect;
mod joiner;
pub mod keep;
mod lane;
pub mod open;
mod queue;
mod read;
mod requests;
mod start;
mod traffic;
mod warm;
mod watch;
mod write;

pub use backend::Bounds;
pub use queue::Unserved;
pub use read::{ReadFailed, checksum};
pub use traffic::{Figures, Traffic};
pub use warm::{Warm, WarmUse};

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use store::{Damaged, DeviceIndex, Place, Store};
use sys::budget::BufferBudget;
use sys::device::Device;

use crate::settings::StoreIo;
use queue::DiskQueue;

/// The devices and the machine that decides about them. Shared by all threads.
pub struct Disks {
    /// The machine.
    pub store: Arc<Store>,
    /// In the order in which the store knows them.
    pub devices: Vec<Device>,
    /// Where each of them is, for people.
    pub paths: Vec<PathBuf>,
    /// Where those are that did not answer at the start. The store does not know them.
    pub missing: Vec<PathBuf>,
    /// What is under way at each of them.
    pub traffic: Vec<Traffic>,
    /// What each of them may take.
    pub bounds: Bounds,
    /// Memory for bodies on their way to a device.
    pub budget: BufferBudget,
    /// How much that is.
    pub buffer_bytes: u64,
    /// Memory for bodies that are read, and those kept there.
    pub warm: Warm,
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
    queue: DiskQueue,
    /// Requests of the store that this thread is carrying out.
    carrying: Cell<usize>,
}

impl Disks {
    fn device(&self, place: &Place) -> Option<&Device> {
        self.devices.get(usize::from(place.device.0))
    }

    fn offset(&self, place: &Place) -> Option<u64> {
        self.store.device_offset(place)
    }

    /// Tells the operator where stored bytes are damaged, as whoever looks after the device needs it.
    pub fn tell_damage(&self, device: DeviceIndex, offset: u64, what: Damaged) {
        let path = self.paths.get(usize::from(device.0)).map(|path| path.display().to_string());
        let (device, what) = (path.unwrap_or_default(), what.word());
        tracing::warn!(device, offset, what, "stored bytes are damaged; nothing of them is served");
    }

    /// The same of a place that was read.
    pub fn tell_bad(&self, place: &Place, what: Damaged) {
        self.tell_damage(place.device, self.offset(place).unwrap_or_default(), what);
    }

    /// Whether a body on its way to a device finds a buffer now. Where the devices are behind, it does not.
    #[must_use]
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let taken = self.budget.usage().taken_bytes as u64;
        taken + bytes <= self.buffer_bytes
    }
}

impl Disk {
    /// A way to the devices for this thread. Must be called inside its runtime.
    ///
    /// # Errors
    /// When no queue can be had, or the runtime refuses it.
    pub fn new(disks: Arc<Disks>) -> io::Result<Self> {
        let queue = DiskQueue::new(Arc::clone(&disks))?;
        Ok(Self { inner: Rc::new(Inner { disks, queue, carrying: Cell::new(0) }) })
    }

    /// How long the read that has waited longest for its turn at a device has waited now.
    #[must_use]
    pub fn longest_wait(&self) -> Duration {
        self.inner.queue.longest_wait()
    }

    /// The devices.
    #[must_use]
    pub fn disks(&self) -> &Arc<Disks> {
        &self.inner.disks
    }
}
