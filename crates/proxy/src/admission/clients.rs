//! Who holds how much: connections and requests under way of each client, over all workers.
//!
//! A client is an IPv4 address or an IPv6 /64, which is what one household or host is given (RFC 6177). What must hold: what
//! a client takes it gives back on drop, so that the counts are those of what lives; an entry lives as long as a connection
//! of its client; a request touches counters only, never a lock.
//!
//! Two rules make it fair, both without a list of who is good:
//! - *Connections* have a limit, and of what is left of it each client may hold at most [`GREED`] times as much: a buffer
//!   with dynamic thresholds (Choudhury and Hahne 1998). A client alone gets nearly all of it; when many want more than
//!   there is, each gets the same; and there is always room for one who comes with little.
//! - *Requests* that are to be refused are taken from whoever has most under way ([`weight`]).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hashbrown::HashMap;
use parking_lot::Mutex;

/// A client holds at most so many times the connections that are still free.
pub const GREED: u64 = 8;

const SHARDS: usize = 64;

/// Queue: client connections.
type Shard = Mutex<HashMap<Prefix, Arc<Held>>>;

/// All clients.
pub struct Clients {
    shards: Box<[Shard]>,
    connections: AtomicU64,
    /// Requests under way.
    requests: AtomicU64,
    /// Clients that have any.
    asking: AtomicU64,
}

/// What one client holds.
#[derive(Default)]
struct Held {
    connections: AtomicU64,
    requests: AtomicU64,
}

/// What counts as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Prefix(u128);

impl Prefix {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(u32::from(address).into()),
            IpAddr::V6(address) => Self(u128::from(address) >> 64 << 64 | 1 << 32),
        }
    }

    fn shard(self) -> usize {
        // Addresses of one network differ in their last bits, /64s in those above.
        (self.0 ^ self.0 >> 8 ^ self.0 >> 64 ^ self.0 >> 72) as usize % SHARDS
    }
}

/// One connection of a client, counted for as long as this lives.
pub struct Presence {
    clients: Arc<Clients>,
    held: Arc<Held>,
    prefix: Prefix,
}

/// One request of a client, counted for as long as this lives.
pub struct Asking<'p>(&'p Presence);

/// Whether a client that holds `held` of `total` connections may have one more under `limit`.
#[must_use]
pub fn may_connect(held: u64, total: u64, limit: u64) -> bool {
    let free = limit.saturating_sub(total);
    free > 0 && held < free.saturating_mul(GREED)
}

/// How much of what is refused is this client's: its requests over what each client would have if all had the same, at
/// most 2. A client alone has 1: what has to be refused is refused it.
#[must_use]
pub fn weight(own: u64, total: u64, clients: u64) -> f64 {
    (own as f64 * clients as f64 / total.max(1) as f64).min(2.0)
}

impl Clients {
    /// Nobody is here.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Self { shards, connections: 0.into(), requests: 0.into(), asking: 0.into() })
    }

    /// A connection from `address`, if there may be one more under `limit`.
    #[must_use]
    pub fn enter(self: &Arc<Self>, address: IpAddr, limit: u64) -> Option<Presence> {
        let prefix = Prefix::of(address);
        let mut shard = self.shards[prefix.shard()].lock();
        let held = shard.get(&prefix).map_or(0, |held| held.connections.load(Relaxed));
        if !may_connect(held, self.connections.load(Relaxed), limit) {
            return None;
        }
        let held = Arc::clone(shard.entry(prefix).or_default());
        held.connections.fetch_add(1, Relaxed);
        self.connections.fetch_add(1, Relaxed);
        Some(Presence { clients: Arc::clone(self), held, prefix })
    }

    /// Requests under way.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }
}

impl Presence {
    /// A request of this client begins.
    #[must_use]
    pub fn asks(&self) -> Asking<'_> {
        self.clients.requests.fetch_add(1, Relaxed);
        if self.held.requests.fetch_add(1, Relaxed) == 0 {
            self.clients.asking.fetch_add(1, Relaxed);
        }
        Asking(self)
    }

    /// See [`weight`].
    #[must_use]
    pub fn weight(&self) -> f64 {
        let Clients { requests, asking, .. } = &*self.clients;
        weight(self.held.requests.load(Relaxed), requests.load(Relaxed), asking.load(Relaxed))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut shard = self.clients.shards[self.prefix.shard()].lock();
        if self.held.connections.fetch_sub(1, Relaxed) == 1 {
            shard.remove(&self.prefix);
        }
        self.clients.connections.fetch_sub(1, Relaxed);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Presence { clients, held, .. } = self.0;
        if held.requests.fetch_sub(1, Relaxed) == 1 {
            clients.asking.fetch_sub(1, Relaxed);
        }
        clients.requests.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests;
