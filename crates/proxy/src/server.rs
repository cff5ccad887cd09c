//! The whole proxy: from settings to a running process and back to nothing.
//!
//! What must hold: nothing is served before the store is open; a stop lets requests in flight finish, then flushes and
//! checkpoints the store; what cannot be started is reported before anything else has been changed.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use store::Outbox;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::access_log::AccessLog;
use crate::admin::{
    AdminState, DeviceStatus, ListenerStatus, OverloadStatus, RecoveryStatus, RequestCounts, Status,
    StoreStatus,
};
use crate::admission::clients::Clients;
use crate::admission::machine::{self, Machine};
use crate::admission::xdp::{FrontGate, Report};
use crate::cache::Cache;
use crate::collapse::Collapse;
use crate::disk::Traffic;
use crate::disk::keep::{self, Keeper};
use crate::disk::open::{OpenFailed, open};
use crate::invalidate;
use crate::metrics::{DeviceReading, FrontReading, MachineReading, Metrics, StoreReading};
use crate::purge::{Purges, Unreadable};
use crate::reload::{Reload, Reread};
use crate::settings::{Listen, Settings};
use crate::site::Sites;
use crate::worker::{self, Shared};

/// What a proxy that serves has to tell.
#[derive(Debug)]
pub struct Started {
    /// Where it listens, with the real ports.
    pub listen: Vec<Listen>,
    /// Where the admin interface listens.
    pub admin: Option<SocketAddr>,
    /// Segments of the store with objects from before.
    pub segments: u64,
    /// Whether disks are driven by io_uring.
    pub uring: bool,
    /// What drops new connections under overload.
    pub front: Report,
}

/// Why the proxy could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The store could not be opened.
    #[error(transparent)]
    Store(#[from] OpenFailed),
    /// The access log could not be opened.
    #[error("cannot open the access log: {0}")]
    Log(io::Error),
    /// The operating system gave no thread, runtime or signal.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// A worker ended by itself.
    #[error("a worker thread ended unexpectedly; see the log above")]
    Worker,
}

/// Serves until SIGTERM or SIGINT, then drains. `started` is called once requests are served; SIGHUP asks `reread` for
/// new settings.
///
/// # Errors
/// [`RunError`].
pub fn run(
    settings: Settings,
    reread: &Reread<'_>,
    started: impl FnOnce(&Settings, &Started),
) -> Result<(), RunError> {
    let mut signals = Signals::listen()?;
    // Refused where a container fixes the limit; then the one at hand is what there is.
    let _ = sys::limits::raise_nofile();
    let machine = sys::probe::Machine::probe();
    let log = AccessLog::open(&settings.log).map_err(RunError::Log)?;
    let listeners = bind_all(&settings)?;
    let admin = bind_admin(&settings)?;
    let uring = machine.io_uring.is_ok();
    let opened = open(&settings.store, uring)?;
    let report = opened.report.clone();
    let disks = Arc::new(opened.disks);
    let keeper = keep::start(Arc::clone(&disks))?;
    let (front, report_of_front) = front_gate(&settings, &listeners);
    // Queue: what there is a fixed number of.
    let (stop, stopping) = watch::channel(false);
    let told = Started {
        listen: listeners.first().into_iter().flatten().map(|(listen, _)| *listen).collect(),
        admin: admin.as_ref().and_then(|l| l.local_addr().ok()),
        segments: report.segments,
        uring,
        front: report_of_front,
    };
    tracing::info!(segments = report.segments, void_devices = report.void_devices, "store open");
    let purges = read_purges(&disks.store, &keeper);
    let cache = Arc::new(Cache::new(Arc::clone(&disks.store), settings.memory.size, purges));
    keeper.mind(Arc::clone(&cache));
    let metrics = Metrics::new();
    let shared = Arc::new(Shared {
        wire_limits: worker::wire_limits(&settings),
        policy: semantics::Policy::default(),
        sites: Sites::new(settings.sites.clone()),
        cache,
        collapse: Collapse::new(),
        clients: Clients::new(),
        machine: Arc::new(Machine::default()),
        disks,
        front,
        metrics: Arc::clone(&metrics),
        pseudonym: pseudonym(),
        stopping,
        settings,
    });
    observe(&shared, &log);
    let failed = Arc::new(AtomicBool::new(false));
    let (reload, generations) = Reload::new(Arc::clone(&shared), reread);
    machine::start(generations.clone())?;
    let workers = start_workers(&generations, listeners, &log, &failed)?;
    let admin = match admin {
        Some(listener) => Some(crate::admin::serve(listener, admin_state(&shared, &keeper, &told))?),
        None => None,
    };
    started(&shared.settings, &told);
    signals.wait_for_stop(&shared, &log, &failed, &reload);
    // Nobody listens only when every worker has ended already.
    let _ = stop.send(true);
    let panicked = workers.into_iter().any(|w| w.join().is_err());
    drop(admin);
    keeper.stop();
    tracing::info!("stopped");
    log.close(Duration::from_secs(2));
    if panicked || failed.load(Ordering::Relaxed) { Err(RunError::Worker) } else { Ok(()) }
}

/// The purge marks that the store was given to keep. Where they cannot be read, what is stored may be purged.
fn read_purges(store: &store::Store, keeper: &Keeper) -> Purges {
    Purges::read(&store.note()).unwrap_or_else(|Unreadable| {
        tracing::error!("the purge marks in the store are of another release: everything stored is given up");
        let mut out = Outbox::new();
        store.clear(&mut out);
        keeper.errands().carry_out(out);
        Purges::default()
    })
}

fn bind_admin(settings: &Settings) -> Result<Option<TcpListener>, RunError> {
    let bind = |address| TcpListener::bind(address).map_err(|source| RunError::Listen { address, source });
    settings.admin.map(bind).transpose()
}

type Listeners = Vec<(Listen, TcpListener)>;

/// A socket of its own on every address for each worker: the kernel spreads the connections.
fn bind_all(settings: &Settings) -> Result<Vec<Listeners>, RunError> {
    let mut listens = settings.listen.clone();
    let mut all = Vec::with_capacity(settings.workers);
    for _ in 0..settings.workers {
        let mut of_worker = Vec::with_capacity(listens.len());
        for listen in &mut listens {
            let address = listen.address;
            let opened = sys::socket::listen(address, settings.limits.backlog, true);
            let listener = opened.map_err(|source| RunError::Listen { address, source })?;
            // Port 0 is chosen by the first worker's socket.
            listen.address = listener.local_addr()?;
            of_worker.push((*listen, listener));
        }
        all.push(of_worker);
    }
    Ok(all)
}

/// The gate in front of the listeners that the workers will have, if it can be had.
fn front_gate(settings: &Settings, listeners: &[Listeners]) -> (Option<Arc<FrontGate>>, Report) {
    let addresses = listeners.iter().take(1).flatten().map(|(listen, _)| listen.address).collect();
    let (front, report) = FrontGate::open(&settings.overload.xdp, addresses, listeners.len());
    if report.falls_short() {
        tracing::warn!("new connections are shed {report}");
    }
    (front, report)
}

fn start_workers(
    generations: &watch::Receiver<Arc<Shared>>,
    listeners: Vec<Listeners>,
    log: &AccessLog,
    failed: &Arc<AtomicBool>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |(i, listeners): (usize, Listeners)| {
        let (generations, failed) = (generations.clone(), Arc::clone(failed));
        let (metrics, log) = (generations.borrow().metrics.worker(), log.worker());
        std::thread::Builder::new().name(format!("worker-{i}")).spawn(move || {
            let alarm = Alarm(&failed);
            match worker::run(generations, listeners, metrics, log) {
                Ok(()) => std::mem::forget(alarm),
                Err(error) => tracing::error!(%error, "worker cannot go on"),
            }
        })
    };
    listeners.into_iter().enumerate().map(start).collect()
}

/// Raised by a worker that ends in any way but the ordered one.
struct Alarm<'a>(&'a AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How often the main thread looks whether a worker has failed.
const LOOK: Duration = Duration::from_millis(200);

/// The signals that we know, listened to from before anything is served.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let hangup = signal(SignalKind::hangup())?;
        drop(entered);
        Ok(Self { runtime, terminate, interrupt, hangup })
    }

    fn wait_for_stop(&mut self, shared: &Shared, log: &AccessLog, failed: &AtomicBool, reload: &Reload<'_>) {
        let Self { runtime, terminate, interrupt, hangup } = self;
        runtime.block_on(async {
            let mut look = tokio::time::interval(LOOK);
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hangup.recv() => {
                        log.reopen();
                        reload.run();
                    }
                    _ = look.tick() => {
                        if failed.load(Ordering::Relaxed) {
                            break;
                        }
                        shared.front.iter().for_each(|front| front.refresh());
                    }
                }
            }
        });
        tracing::info!("stopping: requests in flight may finish");
    }
}

/// Our name in `Via`: unlike that of any other instance, so that a chain of proxies is not taken for a loop.
fn pseudonym() -> String {
    use std::hash::{BuildHasher, Hasher};
    format!("tidegate-{:08x}", std::hash::RandomState::new().build_hasher().finish() as u32)
}

/// Lets metrics ask the store and the log.
fn observe(shared: &Arc<Shared>, log: &AccessLog) {
    let paths = names(&shared.disks.paths);
    let of_store = Arc::clone(shared);
    shared.metrics.read_store_with(move || {
        let stats = of_store.cache.store.stats();
        let device = |((path, d), traffic): ((&String, &store::DeviceStats), &Traffic)| DeviceReading {
            device: path.clone(),
            read_errors: d.errors,
            retired: d.retired,
            traffic: traffic.figures(),
        };
        StoreReading {
            objects: stats.objects,
            recovering: of_store.cache.store.recovering().is_some(),
            bytes: stats.bytes,
            index_bytes: stats.index_bytes,
            memory_bytes: of_store.cache.memory.bytes(),
            warm: of_store.disks.warm.usage(),
            purge_marks: of_store.cache.purges.marks() as u64,
            purged: of_store.cache.purges.purged(),
            checksum_failures: stats.bad,
            admitted_bytes: stats.admitted_bytes,
            written_bytes: stats.written_bytes,
            carried: stats.carried,
            carried_bytes: stats.carried_bytes,
            evicted: stats.evicted,
            declined: stats.declined().map(|(why, times)| (why.word().to_owned(), times)).collect(),
            checkpoints: stats.checkpoints,
            scrubbed_bytes: stats.scrubbed_bytes,
            scrub_passes: stats.scrub_passes,
            devices: paths
                .iter()
                .zip(&stats.devices)
                .zip(&of_store.disks.traffic)
                .map(device)
                .chain(names(&of_store.disks.missing).into_iter().map(DeviceReading::missing))
                .collect(),
        }
    });
    let (clients, machine) = (Arc::clone(&shared.clients), Arc::clone(&shared.machine));
    let thousandths = |share: f64| (share * 1000.0).round() as u64;
    shared.metrics.read_machine_with(move || MachineReading {
        requests: clients.requests(),
        kernel_cpu: thousandths(machine.kernel_share()),
        memory: thousandths(machine.memory_share()),
    });
    shared.metrics.read_log_dropped_with(log.dropped_reader());
    if let Some(front) = &shared.front {
        let front = Arc::clone(front);
        shared.metrics.read_front_with(move || FrontReading {
            interfaces: front.interfaces(),
            dropped: front.dropped(),
        });
    }
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn admin_state(shared: &Arc<Shared>, keeper: &Keeper, told: &Started) -> Arc<AdminState> {
    let stopping = shared.stopping.clone();
    let ready = move || if *stopping.borrow() { Err("draining") } else { Ok(()) };
    let (for_status, listen) = (Arc::clone(shared), told.listen.clone());
    let (for_purge, errands) = (Arc::clone(shared), keeper.errands());
    Arc::new(AdminState {
        ready: Box::new(ready),
        metrics: Arc::clone(&shared.metrics),
        status: Box::new(move || status(&for_status, &listen)),
        purge: Box::new(move |asked| {
            let mut out = Outbox::new();
            let purged = invalidate::purge(&for_purge, &asked, &mut out);
            errands.carry_out(out);
            let shared = Arc::clone(&for_purge);
            Box::pin(async move { invalidate::until_durable(&shared, &asked, purged?).await })
        }),
    })
}

fn status(shared: &Shared, listen: &[Listen]) -> Status {
    let totals = shared.metrics.totals();
    let stats = shared.cache.store.stats();
    let recovered = shared.cache.store.recovered();
    let paths = names(&shared.disks.paths);
    let device = |(path, d): (String, &store::DeviceStats)| DeviceStatus {
        path,
        id: d.id.to_string(),
        size_bytes: d.geometry.used_bytes(),
        segments_free: d.segments.free.into(),
        segments_open: d.segments.open.into(),
        segments_sealed: d.segments.sealed.into(),
        segments_reclaiming: d.segments.reclaiming.into(),
        errors: d.errors,
        retired: d.retired,
    };
    // As good as retired: see `Disks::missing`.
    let missing = names(&shared.disks.missing);
    let missing =
        missing.into_iter().map(|path| DeviceStatus { path, retired: true, ..DeviceStatus::default() });
    let listener = |l: &Listen| ListenerStatus { address: l.address.to_string(), mode: l.mode.word() };
    Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: shared.metrics.started().elapsed().map_or(0, |d| d.as_secs()),
        state: if *shared.stopping.borrow() { "draining" } else { "ready" },
        workers: shared.settings.workers,
        connections: totals.connections,
        listeners: listen.iter().map(listener).collect(),
        requests: RequestCounts::of(&totals),
        overload: OverloadStatus::of(&totals),
        origin_requests: totals.origin_requests,
        store: StoreStatus {
            objects: stats.objects,
            bytes: stats.bytes,
            index_bytes: stats.index_bytes,
            admitted_bytes: stats.admitted_bytes,
            written_bytes: stats.written_bytes,
            carried_bytes: stats.carried_bytes,
            evicted: stats.evicted,
            declined: stats.declined().map(|(why, times)| (why.word(), times)).collect(),
            recovery: RecoveryStatus {
                complete: shared.cache.store.recovering().is_none(),
                segments: recovered.segments,
                segments_merged: recovered.merged,
                segments_lost: recovered.lost,
            },
            devices: paths.into_iter().zip(&stats.devices).map(device).chain(missing).collect(),
        },
        memory_bytes: shared.cache.memory.bytes(),
        memory_limit_bytes: shared.settings.memory.size,
    }
}
