//! The gate of one listener: reads its queue, asks [`QueueDelay`], and has the kernel drop what it says.
//!
//! What must hold: reading and deciding cost well under a microsecond and happen only while connections wait or are
//! dropped; an idle gate does nothing and the filter is off. A kernel that refuses the filter leaves the server without
//! this stage, and that is said once.

use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use sys::syn_filter::{self, DropShare};
use sys::tcp;

use super::queue_delay::{PERIOD, QueueDelay, Reading};
use crate::settings::Shedding;

/// See the module.
#[derive(Debug)]
pub struct Gate {
    controller: QueueDelay,
    opened: Instant,
    looked: Instant,
    accepted: u64,
    share: DropShare,
    /// When the filter came off; connections that were born before may have inherited it.
    lifted: Option<Instant>,
    drops: u32,
    refused: bool,
}

impl Gate {
    /// An open gate.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            controller: QueueDelay::default(),
            opened: now,
            looked: now,
            accepted: 0,
            share: DropShare::NONE,
            lifted: None,
            drops: 0,
            refused: false,
        }
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, stream: &TcpStream) {
        self.accepted += 1;
        if self.share > DropShare::NONE || self.lifted.is_some() {
            // It would go on running the filter for every packet; that costs, but breaks nothing.
            let _ = syn_filter::detach(stream);
        }
    }

    /// Whether new connections are being dropped.
    #[must_use]
    pub fn is_shedding(&self) -> bool {
        self.share > DropShare::NONE
    }

    /// Looks at the queue if it is time, and does what follows. Returns the connections dropped since the last look.
    pub fn look(&mut self, listener: &TcpListener, shedding: Shedding) -> u32 {
        let now = Instant::now();
        if self.refused || now.duration_since(self.looked) < PERIOD {
            return 0;
        }
        self.looked = now;
        let Ok(queue) = tcp::accept_queue(listener) else { return 0 };
        let reading =
            Reading { now: now.duration_since(self.opened), depth: queue.depth, accepted: self.accepted };
        let wanted = DropShare::nearest(self.controller.decide(reading));
        let share = if shedding == Shedding::On { wanted } else { DropShare::NONE };
        let dropped = if self.is_shedding() { self.count_drops(listener) } else { 0 };
        if share != self.share {
            self.apply(listener, share, now);
        }
        if queue.depth == 0 && !self.is_shedding() {
            self.lifted = None;
        }
        dropped
    }

    fn apply(&mut self, listener: &TcpListener, share: DropShare, now: Instant) {
        if !self.is_shedding() {
            // What was dropped before, by a full queue, is not our doing.
            self.count_drops(listener);
        }
        match syn_filter::attach(listener, share) {
            Ok(()) => {
                self.lifted = self.is_shedding().then_some(now);
                self.share = share;
            }
            Err(error) => {
                tracing::warn!(%error, "the kernel refuses a packet filter: new connections are not shed before accept");
                self.refused = true;
            }
        }
    }

    fn count_drops(&mut self, listener: &TcpListener) -> u32 {
        let Ok(drops) = tcp::listener_drops(listener) else { return 0 };
        let since = drops.wrapping_sub(self.drops);
        self.drops = drops;
        since
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
