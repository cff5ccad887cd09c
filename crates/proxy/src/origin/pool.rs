//! Connections to origins that one thread keeps for reuse.
//!
//! What must hold: a connection in the pool has nothing to say; one on which bytes or an end have come meanwhile is
//! dropped when it is met. The newest is used first, so that the others can grow old and go. Bounded for each origin.

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
use super::{Endpoint, OriginError};
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
}

struct Idle {
    socket: Socket,
    address: SocketAddr,
    since: Instant,
}

/// The pool of one thread.
pub struct Pool {
    idle: RefCell<HashMap<Rc<Endpoint>, VecDeque<Idle>>>,
    resolver: Resolver,
    bounds: Cell<Bounds>,
}

/// How much a pool keeps, and how long it tries.
#[derive(Clone, Copy)]
struct Bounds {
    keep: usize,
    keep_for: Duration,
    connect: Duration,
}

impl Bounds {
    fn of(settings: &Settings) -> Self {
        Self {
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
        Self { idle: RefCell::default(), resolver: Resolver::default(), bounds }
    }

    /// Goes by these settings from now on.
    pub fn follow(&self, settings: &Settings) {
        self.bounds.set(Bounds::of(settings));
    }

    /// A connection to `endpoint`: an idle one, or else a new one.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn connection(
        &self,
        endpoint: &Rc<Endpoint>,
        watch: &Watch,
    ) -> Result<Connection, OriginError> {
        while let Some(Idle { socket, address, .. }) = self.newest_idle(endpoint) {
            if is_quiet(&socket).await {
                return Ok(Connection { socket, endpoint: Rc::clone(endpoint), address, reused: true });
            }
        }
        self.new_connection(endpoint, watch).await
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
        let attempt = watch.within(self.bounds.get().connect, self.open(endpoint));
        let (socket, address) = attempt.await.map_err(|_elapsed| OriginError::ConnectTimeout)??;
        Ok(Connection { socket, endpoint: Rc::clone(endpoint), address, reused: false })
    }

    /// Takes back a connection whose last response has ended where its framing said.
    pub fn give_back(&self, connection: Connection, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        let kept = idle.entry(connection.endpoint).or_default();
        let Bounds { keep, .. } = self.bounds.get();
        while kept.len() >= keep.max(1) {
            kept.pop_front();
        }
        if keep > 0 {
            kept.push_back(Idle { socket: connection.socket, address: connection.address, since: now });
        }
    }

    /// Drops the connections that have been idle for too long.
    pub fn sweep(&self, now: Instant) {
        let Bounds { keep_for, .. } = self.bounds.get();
        self.idle.borrow_mut().retain(|_, kept| {
            while kept.front().is_some_and(|idle| now.duration_since(idle.since) >= keep_for) {
                kept.pop_front();
            }
            !kept.is_empty()
        });
        self.resolver.sweep(now);
    }

    fn newest_idle(&self, endpoint: &Rc<Endpoint>) -> Option<Idle> {
        self.idle.borrow_mut().get_mut(endpoint)?.pop_back()
    }

    /// Tries the addresses in the order that the resolver prefers.
    async fn open(&self, endpoint: &Endpoint) -> Result<(Socket, SocketAddr), OriginError> {
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
