//! Connections to origins: those that one thread has in use, and those that it keeps for reuse.
//!
//! What must hold: a connection in the pool has nothing to say; one on which bytes or an end have come meanwhile is
//! dropped when it is met. The newest is used first, so that the others can grow old and go. Bounded for each origin, those
//! in use by [`Slots`] and all together by a [`Room`], so that an origin which does not answer costs what it may have and no more.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use pump::{Socket, Watch};

use super::resolve::Resolver;
use super::slots::{Room, Slot, Slots};
use super::{Endpoint, OriginError};
use crate::admission::requests::Shed;
use crate::settings::Settings;

/// A connection to an origin.
pub struct Connection {
    /// The stream.
    pub socket: Socket,
    /// Whom it leads to.
    pub endpoint: Rc<Endpoint>,
    /// At which address.
    pub address: SocketAddr,
    /// Whether an earlier request was answered on it.
    pub reused: bool,
    /// Comes back when the connection ends or is given back.
    slot: Slot,
}

struct Idle {
    socket: Socket,
    address: SocketAddr,
    since: Instant,
}

/// What there is of one origin.
struct Kept {
    /// Queue: idle connections to one origin.
    idle: VecDeque<Idle>,
    slots: Rc<Slots>,
}

impl Kept {
    fn new(room: &Rc<Room>) -> Self {
        Self { idle: VecDeque::new(), slots: Slots::new(room) }
    }
}

/// What a worker's origins may have in use together: its part of a third of all descriptors. Each has a client's beside
/// it, and a third is left for those who want nothing of an origin.
fn in_all(workers: usize) -> usize {
    let descriptors = sys::limits::descriptors().soft.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 3).unwrap_or(usize::MAX) / workers.max(1)
}

/// The pool of one thread.
pub struct Pool {
    /// Queue: origins that are spoken to.
    kept: RefCell<HashMap<Rc<Endpoint>, Kept>>,
    room: Rc<Room>,
    resolver: Resolver,
    bounds: Cell<Bounds>,
}

/// How much a pool gives and keeps, and how long it tries.
#[derive(Clone, Copy)]
struct Bounds {
    in_use: usize,
    wait: Duration,
    keep: usize,
    keep_for: Duration,
    connect: Duration,
}

impl Bounds {
    fn of(settings: &Settings) -> Self {
        Self {
            in_use: settings.limits.origin_connections,
            wait: settings.timeouts.origin_wait,
            keep: settings.limits.connections_per_origin,
            keep_for: settings.timeouts.origin_keep_alive,
            connect: settings.timeouts.origin_connect,
        }
    }
}

impl Pool {
    /// A pool that keeps as many idle connections, and each for as long, as the settings say.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let bounds = Cell::new(Bounds::of(settings));
        let room = Room::new(in_all(settings.workers));
        Self { kept: RefCell::default(), room, resolver: Resolver::default(), bounds }
    }

    /// Goes by these settings from now on.
    pub fn follow(&self, settings: &Settings) {
        self.bounds.set(Bounds::of(settings));
    }

    /// A connection to `endpoint`: an idle one, or else a new one, if `may_open` allows it.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connection(
        &self,
        endpoint: &Rc<Endpoint>,
        watch: &Watch,
        may_open: impl FnOnce() -> Result<(), Shed>,
    ) -> Result<Connection, OriginError> {
        let slot = self.slot(endpoint, watch).await?;
        while let Some(Idle { socket, address, .. }) = self.newest_idle(endpoint) {
            if is_quiet(&socket).await {
                return Ok(Connection { socket, endpoint: Rc::clone(endpoint), address, reused: true, slot });
            }
        }
        may_open().map_err(OriginError::Shed)?;
        self.open(endpoint, watch, slot).await
    }

    /// A connection to `endpoint` that nobody used before.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn new_connection(
        &self,
        endpoint: &Rc<Endpoint>,
        watch: &Watch,
    ) -> Result<Connection, OriginError> {
        let slot = self.slot(endpoint, watch).await?;
        self.open(endpoint, watch, slot).await
    }

    /// Takes back a connection whose last response has ended where its framing said.
    pub fn give_back(&self, connection: Connection, now: Instant) {
        let Bounds { keep, .. } = self.bounds.get();
        let Connection { socket, endpoint, address, slot, .. } = connection;
        let mut kept = self.kept.borrow_mut();
        let idle = &mut kept.entry(endpoint).or_insert_with(|| Kept::new(&self.room)).idle;
        while idle.len() >= keep.max(1) {
            idle.pop_front();
        }
        if keep > 0 {
            idle.push_back(Idle { socket, address, since: now });
        }
        // Whoever waits for the slot finds the connection.
        drop(slot);
    }

    /// Drops the connections that have been idle for too long, and origins that nobody speaks to.
    pub fn sweep(&self, now: Instant) {
        let Bounds { keep_for, .. } = self.bounds.get();
        self.kept.borrow_mut().retain(|_, Kept { idle, slots }| {
            while idle.front().is_some_and(|idle| now.duration_since(idle.since) >= keep_for) {
                idle.pop_front();
            }
            !idle.is_empty() || !slots.is_idle()
        });
        self.resolver.sweep(now);
    }

    async fn slot(&self, endpoint: &Rc<Endpoint>, watch: &Watch) -> Result<Slot, OriginError> {
        let Bounds { in_use, wait, .. } = self.bounds.get();
        let slots = {
            let mut kept = self.kept.borrow_mut();
            let kept = kept.entry(Rc::clone(endpoint)).or_insert_with(|| Kept::new(&self.room));
            Rc::clone(&kept.slots)
        };
        slots.take(in_use, watch, wait).await.map_err(OriginError::Shed)
    }

    fn newest_idle(&self, endpoint: &Rc<Endpoint>) -> Option<Idle> {
        self.kept.borrow_mut().get_mut(endpoint)?.idle.pop_back()
    }

    async fn open(
        &self,
        endpoint: &Rc<Endpoint>,
        watch: &Watch,
        slot: Slot,
    ) -> Result<Connection, OriginError> {
        let attempt = watch.within(self.bounds.get().connect, self.reach(endpoint));
        let (socket, address) = attempt.await.map_err(|_elapsed| OriginError::ConnectTimeout)??;
        Ok(Connection { socket, endpoint: Rc::clone(endpoint), address, reused: false, slot })
    }

    /// Tries the addresses in the order that the resolver prefers.
    async fn reach(&self, endpoint: &Endpoint) -> Result<(Socket, SocketAddr), OriginError> {
        let mut last = None;
        for address in self.resolver.addresses(endpoint).await? {
            match connect(address).await {
                Ok(socket) => return Ok((socket, address)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or(OriginError::Unresolved, OriginError::Refused))
    }
}

async fn connect(address: SocketAddr) -> io::Result<Socket> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Socket::new(stream.into_std()?))
}

/// Whether nothing, not even an end, has come on an idle connection. No system call unless something was signalled.
async fn is_quiet(socket: &Socket) -> bool {
    poll_fn(|cx| Poll::Ready(socket.poll_readable(cx).is_pending())).await
}
