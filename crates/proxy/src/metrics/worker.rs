//! The counters of one worker thread. The thread holds a [`WorkerMetrics`]; everyone else sees the block behind it
//! through [`Totals`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pump::Route;

use super::histogram;

/// How a request ended, in one word: the label `result`, and the first word of an access log line's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestResult {
    /// Answered from the cache, fresh.
    Hit,
    /// Fetched from an origin, cacheable as far as was known when it was asked.
    Miss,
    /// Answered from the cache after the origin said that it is still good (304).
    Revalidated,
    /// Answered from the cache although stale (RFC 5861, `max-stale`).
    Stale,
    /// Answered from another request's fetch while it was running.
    Collapsed,
    /// Passed to the origin without asking the cache.
    Pass,
    /// A tunnel: `CONNECT` or `Upgrade`.
    Tunnel,
    /// Answered by an error made here.
    Error,
    /// Refused to protect the others.
    Shed,
}

impl RequestResult {
    /// Every result, in the order of the counters.
    pub const ALL: [Self; 9] = [
        Self::Hit,
        Self::Miss,
        Self::Revalidated,
        Self::Stale,
        Self::Collapsed,
        Self::Pass,
        Self::Tunnel,
        Self::Error,
        Self::Shed,
    ];

    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Revalidated => "revalidated",
            Self::Stale => "stale",
            Self::Collapsed => "collapsed",
            Self::Pass => "pass",
            Self::Tunnel => "tunnel",
            Self::Error => "error",
            Self::Shed => "shed",
        }
    }
}

/// Where load was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShedStage {
    /// Before the handshake.
    Syn,
    /// At `accept`.
    Accept,
    /// With a request in hand.
    Request,
}

impl ShedStage {
    /// Every stage, in the order of the counters.
    pub const ALL: [Self; 3] = [Self::Syn, Self::Accept, Self::Request];

    /// The label value.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::Accept => "accept",
            Self::Request => "request",
        }
    }
}

const RESULTS: usize = RequestResult::ALL.len();
const ROUTES: usize = Route::ALL.len();
const STAGES: usize = ShedStage::ALL.len();

/// One worker's counters, on cache lines of their own (pairs of lines are fetched together, hence 128).
#[repr(align(128))]
#[derive(Debug, Default)]
pub(super) struct Block {
    requests: [Durations; RESULTS],
    body_bytes: [AtomicU64; ROUTES],
    shed: [AtomicU64; STAGES],
    shedding: AtomicU64,
    load: Load,
    origin_requests: AtomicU64,
    user_copied: AtomicU64,
    pool_hits: AtomicU64,
    pool_misses: AtomicU64,
    opened: AtomicU64,
    closed: AtomicU64,
}

/// How pressed the worker is; of several the worst counts.
#[derive(Debug, Default)]
struct Load {
    /// In thousandths.
    level: AtomicU64,
    loop_nanos: AtomicU64,
    accept_nanos: AtomicU64,
    disk_nanos: AtomicU64,
}

#[derive(Debug, Default)]
struct Durations {
    buckets: [AtomicU64; histogram::BUCKETS],
    nanos: AtomicU64,
}

/// The hand that counts: one per worker thread. It may move to its thread, but two threads cannot share it.
#[derive(Debug)]
pub struct WorkerMetrics {
    block: Arc<Block>,
    one_thread: PhantomData<Cell<()>>,
}

impl WorkerMetrics {
    pub(super) fn new(block: Arc<Block>) -> Self {
        Self { block, one_thread: PhantomData }
    }

    /// A request ended after `nanos` nanoseconds.
    #[inline]
    pub fn request(&self, result: RequestResult, nanos: u64) {
        let durations = &self.block.requests[result as usize];
        add(&durations.buckets[histogram::bucket(nanos)], 1);
        add(&durations.nanos, nanos);
    }

    /// A request went out to an origin.
    #[inline]
    pub fn origin_request(&self) {
        add(&self.block.origin_requests, 1);
    }

    /// Response body bytes went to a client by this route.
    #[inline]
    pub fn body_bytes(&self, route: Route, bytes: u64) {
        add(&self.block.body_bytes[route as usize], bytes);
    }

    /// Body bytes, of either direction, were received into user memory.
    #[inline]
    pub fn user_copied(&self, bytes: u64) {
        add(&self.block.user_copied, bytes);
    }

    /// Something was refused to protect the rest.
    #[inline]
    pub fn shed(&self, stage: ShedStage, count: u64) {
        add(&self.block.shed[stage as usize], count);
    }

    /// A listener's gate begins to refuse connections.
    pub fn gate_shuts(&self) {
        add(&self.block.shedding, 1);
    }

    /// It refuses none any more. Follows a [`Self::gate_shuts`].
    pub fn gate_opens(&self) {
        add(&self.block.shedding, 1_u64.wrapping_neg());
    }

    /// The level at which requests are refused now, and how long what is ready waits for the thread and for a device.
    pub fn load(&self, level: f64, of_loop: Duration, of_disk: Duration) {
        let load = &self.block.load;
        load.level.store((level * 1000.0).ceil() as u64, Relaxed);
        load.loop_nanos.store(nanos(of_loop), Relaxed);
        load.disk_nanos.store(nanos(of_disk), Relaxed);
    }

    /// How long connections wait for `accept` now.
    pub fn accept_delay(&self, delay: Duration) {
        self.block.load.accept_nanos.store(nanos(delay), Relaxed);
    }

    /// Buffers were asked for: `hits` times a pool had one, `misses` times it had to be allocated.
    #[inline]
    pub fn buffers(&self, hits: u64, misses: u64) {
        add(&self.block.pool_hits, hits);
        add(&self.block.pool_misses, misses);
    }

    /// A client connection was accepted.
    #[inline]
    pub fn connection_opened(&self) {
        add(&self.block.opened, 1);
    }

    /// A client connection ended.
    #[inline]
    pub fn connection_closed(&self) {
        add(&self.block.closed, 1);
    }

    /// Open client connections of this worker.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.block.connections()
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds without a locked instruction: this thread is the only writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Block {
    fn connections(&self) -> u64 {
        let closed = self.closed.load(Relaxed);
        self.opened.load(Relaxed).saturating_sub(closed)
    }
}

/// The sums over all workers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub(super) durations: [DurationTotals; RESULTS],
    /// Response body bytes sent, in the order of [`Route::ALL`].
    pub body_bytes: [u64; ROUTES],
    /// What was refused, in the order of [`ShedStage::ALL`].
    pub shed: [u64; STAGES],
    /// Gates that are refusing connections now.
    pub shedding: u64,
    /// The highest level at which a worker refuses requests now, in thousandths.
    pub level: u64,
    /// The longest delay at a worker now, in nanoseconds: of what is ready.
    pub loop_nanos: u64,
    /// The same of connections that wait for `accept`.
    pub accept_nanos: u64,
    /// The same of reads that wait for their turn at a device.
    pub disk_nanos: u64,
    /// Requests sent to origins.
    pub origin_requests: u64,
    /// Body bytes received into user memory.
    pub user_copied: u64,
    /// Buffers that came from a pool.
    pub pool_hits: u64,
    /// Buffers that had to be allocated.
    pub pool_misses: u64,
    /// Client connections open now.
    pub connections: u64,
    /// Client connections accepted since start.
    pub accepted: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DurationTotals {
    pub(super) buckets: [u64; histogram::BUCKETS],
    pub(super) nanos: u64,
}

impl DurationTotals {
    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Totals {
    /// Whether anything is refused to protect the rest.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.shedding > 0 || self.level > 0
    }

    /// Requests that ended with `result`.
    #[must_use]
    pub fn requests(&self, result: RequestResult) -> u64 {
        self.durations[result as usize].count()
    }

    pub(super) fn add(&mut self, block: &Block) {
        for (sum, one) in self.durations.iter_mut().zip(&block.requests) {
            sum_into(&mut sum.buckets, &one.buckets);
            sum.nanos += one.nanos.load(Relaxed);
        }
        sum_into(&mut self.body_bytes, &block.body_bytes);
        sum_into(&mut self.shed, &block.shed);
        self.shedding += block.shedding.load(Relaxed);
        let load = &block.load;
        self.level = self.level.max(load.level.load(Relaxed));
        self.loop_nanos = self.loop_nanos.max(load.loop_nanos.load(Relaxed));
        self.accept_nanos = self.accept_nanos.max(load.accept_nanos.load(Relaxed));
        self.disk_nanos = self.disk_nanos.max(load.disk_nanos.load(Relaxed));
        self.origin_requests += block.origin_requests.load(Relaxed);
        self.user_copied += block.user_copied.load(Relaxed);
        self.pool_hits += block.pool_hits.load(Relaxed);
        self.pool_misses += block.pool_misses.load(Relaxed);
        self.connections += block.connections();
        self.accepted += block.opened.load(Relaxed);
    }
}

fn sum_into(sums: &mut [u64], counters: &[AtomicU64]) {
    for (sum, counter) in sums.iter_mut().zip(counters) {
        *sum += counter.load(Relaxed);
    }
}
