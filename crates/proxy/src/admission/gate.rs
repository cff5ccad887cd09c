//! The gate of one listener: reads its queue, asks [`QueueDelay`], and has the kernel drop what it says.
//!
//! What must hold: reading and deciding cost well under a microsecond and happen only while connections wait or are
//! dropped; an idle gate does nothing and the filter is off. What the gate in front ([`super::xdp`]) drops already, the
//! filter does not drop again. A kernel that refuses the filter leaves the server without it, and that is said once; a gate
//! in front goes on being told what to drop, and when to stop.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use sys::syn_filter::{self, DropShare, Thinned};
use sys::tcp;

use super::queue_delay::{PERIOD, QueueDelay, Reading, SHARE_MAX};
use super::standing::Standing;
use super::xdp::{self, Seat};
use crate::settings::Shedding;

/// When the gate in front drops all that it may for so long, and the queue is still too long, then what it does not read
/// (fragments, headers that are too many) fills it, and the filter drops it all again.
const BYPASSED: Duration = Duration::from_secs(1);

/// Putting a filter on costs 10 to 30 µs of a processor that has none to spare. A step that changes what passes by less than
/// this part of it waits until the last one is so old.
const SMALL_STEP: f64 = 1.0 / 16.0;
const SMALL_STEP_WAITS: Duration = Duration::from_millis(10);

/// See the module.
pub struct Gate {
    controller: QueueDelay,
    opened: Instant,
    looked: Instant,
    accepted: u64,
    /// Where there is a gate in front.
    seat: Option<Seat>,
    is_shedding: bool,
    /// Since when all is wanted dropped that may be.
    pinned: Standing,
    filter: Filter,
    /// When that was put on.
    applied: Instant,
    /// The filter is off, but connections that were born before and wait for `accept` have inherited it.
    heirs_wait: bool,
    drops: u32,
    /// Puts the filter on the listener.
    attach: Attach,
    /// The kernel takes no filter.
    refused: bool,
}

type Attach = fn(&TcpListener, DropShare, Thinned<'_>) -> io::Result<()>;

impl Gate {
    /// An open gate, behind another one where there is one.
    #[must_use]
    pub fn new(seat: Option<Seat>) -> Self {
        let now = Instant::now();
        Self {
            controller: QueueDelay::default(),
            opened: now,
            looked: now,
            accepted: 0,
            seat,
            is_shedding: false,
            pinned: Standing::default(),
            filter: Filter::OFF,
            applied: now,
            heirs_wait: false,
            drops: 0,
            attach: |listener, share, thinned| syn_filter::attach(listener, share, thinned),
            refused: false,
        }
    }

    /// A connection was accepted. Says whether it may have inherited the filter, and goes on running it for every packet until
    /// that is detached: not worth a system call if its first request is its last.
    pub fn accepted(&mut self) -> bool {
        self.accepted += 1;
        self.filter != Filter::OFF || self.heirs_wait
    }

    /// Time that a connection accepted now has waited, as far as is known.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::try_from_secs_f64(self.controller.delay_seconds()).unwrap_or_default()
    }

    /// Whether new connections are being dropped.
    #[must_use]
    pub fn is_shedding(&self) -> bool {
        self.is_shedding
    }

    /// Looks at the queue if it is time, and drops as much as follows from it, at least the share `floor`. Returns the
    /// connections dropped by the filter since the last look.
    pub fn look(&mut self, listener: &TcpListener, shedding: Shedding, floor: f64) -> u32 {
        let now = Instant::now();
        if !self.can_drop() || now.duration_since(self.looked) < PERIOD {
            return 0;
        }
        self.looked = now;
        let Ok(queue) = tcp::accept_queue(listener) else { return 0 };
        let reading =
            Reading { now: now.duration_since(self.opened), depth: queue.depth, accepted: self.accepted };
        let decided = self.controller.decide(reading).max(floor);
        let wanted = if shedding == Shedding::On { decided } else { 0.0 };
        let filter = self.behind_the_gate_in_front(wanted, now);
        let dropped = if self.filter == Filter::OFF { 0 } else { self.count_drops(listener) };
        if filter.is_due(self.filter, now.duration_since(self.applied)) && !self.refused {
            self.apply(listener, filter);
            self.applied = now;
        }
        self.is_shedding = wanted > 0.0 && self.can_drop();
        if queue.depth == 0 && self.filter == Filter::OFF {
            self.heirs_wait = false;
        }
        dropped
    }

    /// Whether there is anything that drops: the filter, or the gate in front.
    fn can_drop(&self) -> bool {
        !self.refused || self.seat.is_some()
    }

    /// What is left for the filter, when this share is wanted.
    fn behind_the_gate_in_front(&mut self, wanted: f64, now: Instant) -> Filter {
        let in_front = match &self.seat {
            Some(seat) if self.is_shedding || wanted > 0.0 => seat.want(wanted, now),
            _ => 0.0,
        };
        let pinned_for = self.pinned.note(wanted >= SHARE_MAX, now.duration_since(self.opened));
        let is_bypassed = pinned_for.is_some_and(|time| time > BYPASSED);
        let rest = if is_bypassed { wanted } else { xdp::rest(wanted, in_front) };
        // Some get through any filter: else nothing would tell that the overload has ended.
        let share = |share| DropShare::nearest(share).min(DropShare::MOST);
        Filter { share: share(wanted), of_thinned: share(rest) }
    }

    fn apply(&mut self, listener: &TcpListener, filter: Filter) {
        if self.filter == Filter::OFF {
            // What was dropped before, by a full queue, is not our doing.
            self.count_drops(listener);
        }
        let interfaces = self.seat.as_ref().map_or(&[][..], Seat::covered);
        let thinned = Thinned { interfaces, share: filter.of_thinned };
        let applied = match (self.attach)(listener, filter.share, thinned) {
            Ok(()) => filter,
            Err(error) => {
                tracing::warn!(%error, in_front = self.seat.is_some(), "the kernel refuses a packet filter: new connections are not shed before accept, but by XDP where that runs");
                self.refused = true;
                // It is not changed any more: the one that is there would stay for ever.
                let _ = syn_filter::detach(listener);
                Filter::OFF
            }
        };
        self.heirs_wait = self.filter != Filter::OFF && applied == Filter::OFF;
        self.filter = applied;
    }

    fn count_drops(&mut self, listener: &TcpListener) -> u32 {
        let Ok(drops) = tcp::listener_drops(listener) else { return 0 };
        let since = drops.wrapping_sub(self.drops);
        self.drops = drops;
        since
    }
}

/// What the filter drops: of what comes straight here, and of what the gate in front has let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    share: DropShare,
    of_thinned: DropShare,
}

impl Filter {
    const OFF: Self = Self { share: DropShare::NONE, of_thinned: DropShare::NONE };

    /// Whether this one is to take the place of `other`, which has been on for `age`. To end is never put off: nobody looks at a
    /// gate that wants nothing dropped.
    fn is_due(self, other: Self, age: Duration) -> bool {
        let is_small = |step: fn(Self) -> DropShare| {
            let (passing, before) = (1.0 - step(self).fraction(), 1.0 - step(other).fraction());
            (passing - before).abs() < SMALL_STEP * before
        };
        let waits = is_small(|filter| filter.share) && is_small(|filter| filter.of_thinned);
        self != other && (self == Self::OFF || !waits || age >= SMALL_STEP_WAITS)
    }
}

#[cfg(test)]
mod tests;
