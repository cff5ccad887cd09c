//! Accepts connections on one listening socket of one worker.
//!
//! What must hold: accepting yields to established connections (at most [`ACCEPTS_A_TURN`] at once, docs/decisions/0001-runtime.md);
//! the [`Gate`] is looked after as long as connections wait or are dropped; a lack of descriptors pauses accepting and is
//! reported, it does not spin; it ends when the process drains.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::admission::gate::Gate;
use crate::admission::queue_delay::PERIOD;
use crate::connection;
use crate::metrics::ShedStage;
use crate::settings::{Listen, Settings, Shedding};
use crate::unread::Unread;
use crate::worker::{Shared, Worker};

/// Connections accepted before established ones get their turn.
pub const ACCEPTS_A_TURN: usize = 16;

/// Pause when the kernel has no descriptor or memory for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts accepting.
///
/// # Errors
/// When the runtime refuses the listener.
pub fn start(worker: &Rc<Worker>, listen: Listen, listener: TcpListener) -> io::Result<()> {
    let listener = sys::watched::watch(listener)?;
    tokio::task::spawn_local(accept_until_stopped(Rc::clone(worker), listen, listener));
    Ok(())
}

async fn accept_until_stopped(worker: Rc<Worker>, listen: Listen, listener: AsyncFd<TcpListener>) {
    let mut stopping = worker.shared.stopping.clone();
    tokio::select! {
        biased;
        _ = stopping.wait_for(|stop| *stop) => {}
        () = accept(Rc::clone(&worker), listen, &listener) => {}
    }
}

async fn accept(mut worker: Rc<Worker>, listen: Listen, listener: &AsyncFd<TcpListener>) {
    let front = worker.shared.front.as_ref();
    let mut gate = Gate::new(front.and_then(|front| front.seat(listen.address)));
    let near_limit = sys::limits::NearLimit::of_process();
    let mut unread = Unread::default();
    loop {
        unread.bound(listener.get_ref(), worker.timers.len(), worker.shared.settings.timeouts.client_send);
        let Ok(mut guard) = readable(listener, &gate).await else { return };
        worker = worker.up_to_date();
        let limit = connection_limit(&worker);
        for _ in 0..ACCEPTS_A_TURN {
            let Some(guard) = &mut guard else { break };
            match guard.try_io(|fd| sys::socket::accept(fd.get_ref())) {
                Err(_would_block) => break,
                Ok(Ok((stream, peer))) => {
                    let is_heir = gate.accepted();
                    if near_limit.is_reached_by(&stream) {
                        worker.descriptors_are_short();
                    }
                    begin(&worker, listen, limit, stream, peer, is_heir);
                }
                Ok(Err(error)) => {
                    if !is_about_one_connection(&error) {
                        if worker.descriptors_are_short() {
                            tracing::warn!(%error, address = %listen.address, "cannot accept; pausing, and ending idle connections");
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                    break;
                }
            }
        }
        look(&worker, &mut gate, listener.get_ref());
        tokio::task::yield_now().await;
    }
}

fn look(worker: &Worker, gate: &mut Gate, listener: &TcpListener) {
    let was_shedding = gate.is_shedding();
    let Shared { settings, machine, .. } = &*worker.shared;
    let dropped = gate.look(listener, settings.overload.shedding, machine.syn_share());
    worker.metrics.shed(ShedStage::Syn, dropped.into());
    worker.metrics.accept_delay(gate.delay());
    match (was_shedding, gate.is_shedding()) {
        (false, true) => worker.metrics.gate_shuts(),
        (true, false) => worker.metrics.gate_opens(),
        _ => {}
    }
}

/// Waits for a connection; while new ones are being dropped only for a moment, because nothing else would tell when to stop.
async fn readable<'l>(
    listener: &'l AsyncFd<TcpListener>,
    gate: &Gate,
) -> io::Result<Option<AsyncFdReadyGuard<'l, TcpListener>>> {
    if !gate.is_shedding() {
        return listener.readable().await.map(Some);
    }
    match tokio::time::timeout(PERIOD, listener.readable()).await {
        Ok(ready) => ready.map(Some),
        Err(_passed) => Ok(None),
    }
}

/// Client connections that there may be. Where descriptors are short, idle ones give way instead ([`crate::crowd`]).
fn connection_limit(worker: &Worker) -> u64 {
    let Settings { limits, overload, .. } = &worker.shared.settings;
    if overload.shedding == Shedding::On { limits.connections } else { u64::MAX }
}

/// Serves the connection, or closes it at once when its client has enough of those that there may be.
fn begin(
    worker: &Rc<Worker>,
    listen: Listen,
    limit: u64,
    stream: TcpStream,
    peer: SocketAddr,
    is_heir: bool,
) {
    let Some(presence) = worker.shared.clients.enter(peer.ip(), limit) else {
        return worker.metrics.shed(ShedStage::Accept, 1);
    };
    let client = connection::Client::new(worker, listen.mode, stream, peer, presence, is_heir);
    tokio::task::spawn_local(connection::serve(Rc::clone(worker), client));
}

/// Errors of `accept` that concern the connection that was to be accepted, not the listener.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
