//! What is counted, and how it is told: one block of counters per worker thread, summed when someone asks.
//!
//! What holds: counting costs a plain load and store in memory that no other thread writes. A [`WorkerMetrics`] is
//! the only writer of its block and cannot be shared between threads (it is not `Sync`), so no update is lost; a
//! scrape reads the blocks of all workers with relaxed loads and may see one request's counters half applied, which
//! the next scrape repairs. Counters of workers that ended stay in the sums.
//!
//! It refuses to know what a request is: results and routes arrive as enum values.

mod encode;
mod histogram;
mod worker;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};

use crate::disk::WarmUse;

pub use encode::{METRICS, MetricInfo, document};
pub use pump::Route;
pub use worker::{RequestResult, ShedStage, Totals, WorkerMetrics};

/// All the counters of a running proxy.
pub struct Metrics {
    /// Queue: what there is a fixed number of.
    blocks: Mutex<Vec<Arc<worker::Block>>>,
    store: RwLock<Option<Box<dyn Fn() -> StoreReading + Send + Sync>>>,
    machine: RwLock<Option<Box<dyn Fn() -> MachineReading + Send + Sync>>>,
    log_dropped: RwLock<Option<Box<dyn Fn() -> u64 + Send + Sync>>>,
    front: RwLock<Option<Box<dyn Fn() -> FrontReading + Send + Sync>>>,
    started: SystemTime,
}

/// The store's own figures at the moment of a scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreReading {
    /// Objects in the index.
    pub objects: u64,
    /// Whether objects from before the start are still to be brought into the index.
    pub recovering: bool,
    /// Bytes of their heads and bodies on the devices.
    pub bytes: u64,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Bytes of memory that the memory tier takes.
    pub memory_bytes: u64,
    /// What is read past the page cache, and kept.
    pub warm: WarmUse,
    /// Purge marks that are kept.
    pub purge_marks: u64,
    /// Objects taken out because a purge mark names them, since start.
    pub purged: u64,
    /// Heads or bodies that did not match their checksum since start.
    pub checksum_failures: u64,
    /// Bytes of keys, heads and bodies that were stored since start.
    pub admitted_bytes: u64,
    /// Bytes written to devices since start.
    pub written_bytes: u64,
    /// Objects that reclaim carried forward since start, and their bytes.
    pub carried: u64,
    /// Bytes of [`StoreReading::carried`].
    pub carried_bytes: u64,
    /// Objects that reclaim dropped since start.
    pub evicted: u64,
    /// How often something was not stored since start, by reason.
    pub declined: Vec<(String, u64)>,
    /// Checkpoints completed since start.
    pub checkpoints: u64,
    /// Bytes read by scrubbing since start.
    pub scrubbed_bytes: u64,
    /// Passes of scrubbing completed since start.
    pub scrub_passes: u64,
    /// Each device.
    pub devices: Vec<DeviceReading>,
}

/// The figures of the gate in front of the listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrontReading {
    /// Interfaces that it is attached to.
    pub interfaces: u64,
    /// New connections that it has dropped.
    pub dropped: u64,
}

/// What no worker counts alone, at the moment of a scrape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineReading {
    /// Requests under way.
    pub requests: u64,
    /// Share of the kernel in CPU time, in thousandths.
    pub kernel_cpu: u64,
    /// Share of the memory limit in use, in thousandths.
    pub memory: u64,
}

/// One device's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceReading {
    /// Its path, the value of the label `device`.
    pub device: String,
    /// Requests that failed, or had no answer, since start.
    pub read_errors: u64,
    /// Whether it is not used any more in this run.
    pub retired: bool,
    /// What went to it and came from it.
    pub traffic: crate::disk::Figures,
}

impl DeviceReading {
    /// Of a device that did not answer at the start: as good as retired.
    #[must_use]
    pub fn missing(device: String) -> Self {
        Self { device, read_errors: 0, retired: true, traffic: crate::disk::Figures::default() }
    }
}

impl Metrics {
    /// Nothing counted yet, no worker registered.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            blocks: Mutex::default(),
            store: RwLock::default(),
            machine: RwLock::default(),
            log_dropped: RwLock::default(),
            front: RwLock::default(),
            started: SystemTime::now(),
        })
    }

    /// The counters of one more worker thread.
    #[must_use]
    pub fn worker(&self) -> WorkerMetrics {
        let block = Arc::new(worker::Block::default());
        self.blocks.lock().push(Arc::clone(&block));
        WorkerMetrics::new(block)
    }

    /// Names whom to ask for the store's figures. Called at each scrape, on the scraping thread.
    pub fn read_store_with(&self, read: impl Fn() -> StoreReading + Send + Sync + 'static) {
        *self.store.write() = Some(Box::new(read));
    }

    /// Names whom to ask for the machine's figures.
    pub fn read_machine_with(&self, read: impl Fn() -> MachineReading + Send + Sync + 'static) {
        *self.machine.write() = Some(Box::new(read));
    }

    /// Names whom to ask how many access log lines were dropped.
    pub fn read_log_dropped_with(&self, read: impl Fn() -> u64 + Send + Sync + 'static) {
        *self.log_dropped.write() = Some(Box::new(read));
    }

    /// Names whom to ask for the figures of the gate in front.
    pub fn read_front_with(&self, read: impl Fn() -> FrontReading + Send + Sync + 'static) {
        *self.front.write() = Some(Box::new(read));
    }

    /// The sums over all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for block in self.blocks.lock().iter() {
            totals.add(block);
        }
        totals
    }

    /// The store's figures, all zero until [`Metrics::read_store_with`].
    #[must_use]
    pub fn store(&self) -> StoreReading {
        self.store.read().as_ref().map(|read| read()).unwrap_or_default()
    }

    fn machine(&self) -> MachineReading {
        self.machine.read().as_ref().map(|read| read()).unwrap_or_default()
    }

    /// When counting began.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// Everything in the OpenMetrics text format, `# EOF` included.
    ///
    /// # Errors
    /// None in practice: writing to a `String` does not fail.
    pub fn encode(self: &Arc<Self>) -> Result<String, fmt::Error> {
        encode::encode(self)
    }

    fn log_dropped(&self) -> u64 {
        self.log_dropped.read().as_ref().map_or(0, |read| read())
    }

    fn front(&self) -> FrontReading {
        self.front.read().as_ref().map(|read| read()).unwrap_or_default()
    }

    fn started_seconds(&self) -> u64 {
        self.started.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("totals", &self.totals()).finish_non_exhaustive()
    }
}
