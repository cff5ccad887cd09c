//! One worker thread: what it owns, and its life from start to drained.
//!
//! A worker is an operating-system thread with its own runtime, listeners, origin connections, pipes, buffers and ring.
//! What workers share ([`Shared`]) is either unchanging or locked in small shards. New settings make a new [`Shared`]
//! over the same cache; a request keeps the one that it began with. What must hold: nothing on a worker ever waits for
//! a disk.

use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pump::{Patience, Timers};
use sys::pipe::PipePool;
use tokio::sync::watch;

use crate::access_log::WorkerLog;
use crate::admission::clients::Clients;
use crate::admission::loop_delay;
use crate::admission::machine::Machine;
use crate::admission::refusals::Refusals;
use crate::admission::requests::Admission;
use crate::admission::turns::Turns;
use crate::admission::xdp::FrontGate;
use crate::buffers::{Buffers, Size};
use crate::cache::Cache;
use crate::collapse::Collapse;
use crate::crowd::Crowd;
use crate::disk::{Disk, Disks};
use crate::metrics::{Metrics, WorkerMetrics};
use crate::origin::pool::Pool;
use crate::outbound::Means;
use crate::settings::{Listen, Settings};
use crate::site::Sites;

/// Pipes of one worker: as many bodies may be spliced at once; more take the copy route.
const PIPES: usize = 256;

/// What all workers share, under one generation of settings.
#[derive(Clone)]
pub struct Shared {
    /// The settings, as checked.
    pub settings: Settings,
    /// Limits on message heads, in the parser's terms.
    pub wire_limits: wire::Limits,
    /// What the caching rules leave to the operator.
    pub policy: semantics::Policy,
    /// Which origins answer for which hosts.
    pub sites: Sites,
    /// Memory tier and store.
    pub cache: Arc<Cache>,
    /// Fills in progress.
    pub collapse: Arc<Collapse>,
    /// Who is connected.
    pub clients: Arc<Clients>,
    /// The machine's signs of overload.
    pub machine: Arc<Machine>,
    /// The devices.
    pub disks: Arc<Disks>,
    /// The gate in front of all listeners, where there is one.
    pub front: Option<Arc<FrontGate>>,
    /// Counters of all workers.
    pub metrics: Arc<Metrics>,
    /// Our name in `Via`, different for every running instance, so that a loop is told from a chain.
    pub pseudonym: String,
    /// Turns true once, when the process is to drain and end.
    pub stopping: watch::Receiver<bool>,
}

impl Shared {
    /// The same under other settings.
    #[must_use]
    pub fn under(&self, settings: Settings) -> Self {
        let (wire_limits, sites) = (wire_limits(&settings), Sites::new(settings.sites.clone()));
        Self { settings, wire_limits, sites, ..self.clone() }
    }
}

/// Limits on message heads, in the parser's terms.
#[must_use]
pub fn wire_limits(settings: &Settings) -> wire::Limits {
    wire::Limits {
        head_bytes: settings.limits.head_bytes,
        fields: settings.limits.fields,
        target_bytes: settings.limits.target_bytes,
        ..wire::Limits::default()
    }
}

/// A worker under one generation of settings.
pub struct Worker {
    /// What all workers share.
    pub shared: Arc<Shared>,
    own: Rc<Own>,
}

impl Deref for Worker {
    type Target = Own;

    fn deref(&self) -> &Own {
        &self.own
    }
}

/// One worker's own, whatever the settings.
pub struct Own {
    /// What new requests are served under.
    latest: RefCell<Arc<Shared>>,
    /// Deadlines of its waits.
    pub timers: Rc<Timers>,
    /// Receive buffers.
    pub buffers: Rc<Buffers>,
    /// Whether idle connections have to give way.
    pub crowd: Crowd,
    /// Pipes for splicing.
    pub pipes: PipePool,
    /// Connections to origins.
    pub origins: Pool,
    /// The ring, or the thread pool in its place.
    pub disk: Disk,
    /// Which requests are refused at its load.
    pub admission: Admission,
    /// How fast it refuses them.
    pub refusals: Refusals,
    /// Who asks origins next.
    pub turns: Turns,
    /// Its counters.
    pub metrics: WorkerMetrics,
    /// Its end of the access log.
    pub log: RefCell<WorkerLog>,
    /// Scratch space for a response head that is sent before anything else is awaited.
    /// Queue: what there is a fixed number of.
    pub scratch: RefCell<Vec<u8>>,
    /// Set while draining: connections end after their response.
    pub draining: Cell<bool>,
    /// Exchanges and fills under way.
    pub busy: Cell<usize>,
}

impl Worker {
    /// The worker under the latest settings: this one, if they have not changed.
    #[must_use]
    pub fn up_to_date(self: Rc<Self>) -> Rc<Self> {
        let latest = self.latest.borrow();
        if Arc::ptr_eq(&latest, &self.shared) {
            drop(latest);
            return self;
        }
        Rc::new(Self { shared: Arc::clone(&latest), own: Rc::clone(&self.own) })
    }

    /// Seconds since 1970 by the wall clock, as the caching rules count.
    #[must_use]
    pub fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    /// The same in milliseconds.
    #[must_use]
    pub fn now_millis(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
    }

    /// A number that nobody can foresee from outside.
    #[must_use]
    pub fn random(&self) -> u64 {
        random()
    }

    /// What writing a response needs.
    #[must_use]
    pub fn response_means(&self) -> Means<'_> {
        Means { metrics: &self.metrics, pipes: &self.pipes, is_response: true }
    }

    /// What writing a request needs.
    #[must_use]
    pub fn request_means(&self) -> Means<'_> {
        Means { is_response: false, ..self.response_means() }
    }

    /// The patience with a client that is sent a message.
    #[must_use]
    pub fn to_client(&self) -> Patience {
        Patience::new(self.shared.settings.timeouts.client_send, self.least_rate())
    }

    /// The patience with a client that sends a body.
    #[must_use]
    pub fn from_client(&self) -> Patience {
        Patience::new(self.shared.settings.timeouts.client_body, self.least_rate())
    }

    /// The patience with an origin inside a body, in either direction.
    #[must_use]
    pub fn with_origin(&self) -> Patience {
        Patience::idle(self.shared.settings.timeouts.origin_body)
    }

    fn least_rate(&self) -> Option<NonZeroU64> {
        self.shared.settings.limits.client_rate.and_then(NonZeroU64::new)
    }

    /// Descriptors are short: idle connections may have to go. False when that was said a moment ago.
    pub fn descriptors_are_short(&self) -> bool {
        let counts = self.crowd.sign(self.timers.now());
        if counts {
            self.timers.wake_all();
        }
        counts
    }

    /// Counts a piece of work that draining waits for, until the guard is dropped.
    #[must_use]
    pub fn occupied(self: &Rc<Self>) -> Occupied {
        self.busy.set(self.busy.get() + 1);
        Occupied(Rc::clone(self))
    }
}

fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// A piece of work under way. See [`Worker::occupied`].
pub struct Occupied(Rc<Worker>);

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

/// Runs a worker until the process is told to stop and its work is done, or the drain limit has passed.
///
/// # Errors
/// When the runtime cannot be built or a listener cannot be registered with it.
pub fn run(
    mut generations: watch::Receiver<Arc<Shared>>,
    listeners: Vec<(Listen, TcpListener)>,
    metrics: WorkerMetrics,
    log: WorkerLog,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(8)
        .build_local(tokio::runtime::LocalOptions::default())?;
    let outcome = runtime.block_on(async move {
        let shared = Arc::clone(&generations.borrow_and_update());
        let own = Own {
            latest: RefCell::new(Arc::clone(&shared)),
            timers: Timers::new(),
            buffers: Buffers::new(grown_max(&shared.settings)),
            crowd: Crowd::default(),
            pipes: PipePool::new(PIPES),
            origins: Pool::new(&shared.settings),
            disk: Disk::new(Arc::clone(&shared.disks))?,
            admission: Admission::new(random()),
            refusals: Refusals::default(),
            turns: Turns::default(),
            metrics,
            log: RefCell::new(log),
            scratch: RefCell::default(),
            draining: Cell::new(false),
            busy: Cell::new(0),
        };
        let worker = Rc::new(Worker { shared, own: Rc::new(own) });
        for (listen, listener) in listeners {
            crate::listener::start(&worker, listen, listener)?;
        }
        tokio::task::spawn_local(keep_time(Rc::clone(&worker)));
        tokio::task::spawn_local(loop_delay::watch(Rc::clone(&worker)));
        let turns = Rc::clone(&worker);
        tokio::task::spawn_local(async move { turns.turns.keep().await });
        tokio::task::spawn_local(follow(Rc::clone(&worker.own), generations));
        drained(worker).await;
        Ok(())
    });
    // A helper thread may wait for a device that never answers.
    runtime.shutdown_background();
    outcome
}

/// Takes over new settings as they come.
async fn follow(own: Rc<Own>, mut generations: watch::Receiver<Arc<Shared>>) {
    while generations.changed().await.is_ok() {
        let latest = Arc::clone(&generations.borrow_and_update());
        own.origins.follow(&latest.settings);
        own.buffers.set_grown_max(grown_max(&latest.settings));
        own.latest.replace(latest);
    }
}

/// One worker's share of the memory for long heads; never less than one of them takes.
fn grown_max(settings: &Settings) -> usize {
    let share = settings.limits.head_memory / settings.workers.max(1) as u64;
    let one = settings.limits.head_bytes + Size::Large.bytes();
    usize::try_from(share).unwrap_or(usize::MAX).max(one)
}

/// Buffers that were not needed for so many ticks go, half of them at a time.
const TRIM_EVERY_TICKS: u32 = 10;

/// Moves the timers on and lets old things go.
async fn keep_time(worker: Rc<Worker>) {
    let mut tick = tokio::time::interval(pump::patience::TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut ticks = 0_u32;
    loop {
        tick.tick().await;
        worker.timers.sweep();
        worker.origins.sweep(Instant::now());
        let (hits, misses) = worker.buffers.drain_counts();
        worker.metrics.buffers(hits, misses);
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(TRIM_EVERY_TICKS) {
            worker.buffers.trim();
        }
    }
}

/// Waits for the stop, lets idle connections go, and then for the work under way.
async fn drained(worker: Rc<Worker>) {
    let mut stopping = worker.shared.stopping.clone();
    // The sender lives as long as the process; its end means the same as its word.
    let _ = stopping.wait_for(|stop| *stop).await;
    let worker = worker.up_to_date();
    worker.draining.set(true);
    let deadline = Instant::now() + worker.shared.settings.timeouts.drain;
    while worker.busy.get() > 0 && Instant::now() < deadline {
        worker.timers.wake_all();
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    if worker.busy.get() > 0 {
        tracing::warn!(unfinished = worker.busy.get(), "the drain limit passed; requests in flight are cut");
    }
    // What the store has asked of this thread's queue is nobody else's to answer.
    while !worker.disk.is_idle() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
