//! The gate in front of the gates: one XDP program on the interfaces that bring new connections, for all workers.
//!
//! A worker's [`Gate`](super::gate::Gate) takes a [`Seat`] here for its listener. What all seats of a listener want
//! dropped (the least of their shares) is dropped by the program, fair by source ([`super::fair_level`]), before a packet
//! buffer is spent on it; what a gate wants beyond that, and what comes by other interfaces, its own filter drops. So
//! each gate gets its share exactly, however unlike the workers are.
//!
//! What must hold: the program lets everything in while nothing is shed; it guards addresses of this machine only, so that
//! what is forwarded or bridged to others passes; it is never the reason that the server does not start. Where it cannot
//! be had (no privilege, no driver for it, somebody else's program) that is said once, and the filter does all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sys::interfaces::interfaces;
use sys::xdp::{Refused, SynGate, Tally};

use super::fair_level::FairLevel;
use super::queue_delay::PERIOD;
use crate::settings::XdpUse;

pub use report::Report;

mod places;
mod report;

/// How often the addresses of the machine are looked up again; one that is new is not guarded until then.
const REFRESH: Duration = Duration::from_secs(5);

/// See the module.
pub struct FrontGate {
    state: Mutex<State>,
    /// The numbers of the interfaces that the program is attached to.
    covered: Vec<u32>,
    listeners: Vec<SocketAddr>,
}

struct State {
    gate: SynGate,
    desks: Vec<Desk>,
    refreshed: Instant,
    /// The kernel has refused an order, which it never should: no more are given.
    broken: bool,
}

/// What the gates of one listener want, and what is done about it.
#[derive(Default)]
struct Desk {
    seats: Vec<Wanted>,
    taken: usize,
    level: FairLevel,
    /// The share that the program drops now.
    share: f64,
    decided: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
enum Wanted {
    /// Its gate has not asked yet.
    #[default]
    Nothing,
    Share(f64),
    /// Its worker has ended, and holds the others back no more.
    Gone,
}

impl FrontGate {
    /// The gate in front of these listeners, each of which has one gate for each of so many workers; and what is to be
    /// said about it.
    pub fn open(wish: &XdpUse, listeners: Vec<SocketAddr>, workers: usize) -> (Option<Arc<Self>>, Report) {
        let machine = match interfaces() {
            Ok(machine) => machine,
            Err(error) => return (None, Report::Refused(error.into())),
        };
        let (places, mut refused) = match wish {
            XdpUse::Off => return (None, Report::Off),
            XdpUse::Auto => (places::worth_it(&machine, &listeners), Vec::new()),
            XdpUse::On(names) => places::named(&machine, names),
        };
        if places.is_empty() && refused.is_empty() {
            return (None, Report::Nowhere);
        }
        let mut gate = match load(&places::targets(&machine, &listeners)) {
            Ok(gate) => gate,
            Err(why) => return (None, Report::Refused(why)),
        };
        let (mut attached, mut covered) = (Vec::new(), Vec::new());
        for place in places {
            match gate.attach(place) {
                Ok(()) => {
                    attached.push(place.name.clone());
                    covered.push(place.index);
                }
                Err(why) => refused.push((place.name.clone(), why)),
            }
        }
        let front = (!covered.is_empty()).then(|| Arc::new(Self::new(gate, covered, listeners, workers)));
        (front, Report::Tried { attached, refused })
    }

    fn new(gate: SynGate, covered: Vec<u32>, listeners: Vec<SocketAddr>, workers: usize) -> Self {
        let desk = |_: &SocketAddr| Desk { seats: vec![Wanted::Nothing; workers], ..Desk::default() };
        let desks = listeners.iter().map(desk).collect();
        let state = State { gate, desks, refreshed: Instant::now(), broken: false };
        Self { state: Mutex::new(state), covered, listeners }
    }

    /// A seat for one worker's gate on this listener; none where more are asked for than there are workers.
    #[must_use]
    pub fn seat(self: &Arc<Self>, listener: SocketAddr) -> Option<Seat> {
        let desk = self.listeners.iter().position(|address| *address == listener)?;
        let mut state = self.state.lock();
        let number = state.desks[desk].taken;
        state.desks[desk].taken += 1;
        let is_there = number < state.desks[desk].seats.len();
        drop(state);
        is_there.then(|| Seat { front: Arc::clone(self), desk, number })
    }

    /// How many interfaces the program is attached to.
    #[must_use]
    pub fn interfaces(&self) -> u64 {
        self.covered.len() as u64
    }

    /// New connections that the program has dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let state = self.state.lock();
        let tally = |desk| state.gate.tally(desk).unwrap_or_default().dropped;
        (0..state.desks.len()).map(tally).sum()
    }

    /// Guards the addresses that the machine has by now, if it is time to look. Costs as much as listing them.
    pub fn refresh(&self) {
        let is_fixed = self.listeners.iter().all(|listener| !listener.ip().is_unspecified());
        if is_fixed || self.state.lock().refreshed.elapsed() < REFRESH {
            return;
        }
        let looked = interfaces().map_err(Into::into);
        let mut state = self.state.lock();
        state.refreshed = Instant::now();
        let guarded =
            looked.and_then(|machine| state.gate.guard(&places::targets(&machine, &self.listeners)));
        if let Err(error) = guarded {
            tracing::warn!(%error, "the XDP program does not know all addresses of this machine");
        }
    }
}

/// The program, guarding these targets, and attached nowhere yet.
fn load(targets: &[(SocketAddr, usize)]) -> Result<SynGate, Refused> {
    let mut gate = SynGate::load()?;
    gate.guard(targets)?;
    Ok(gate)
}

impl State {
    fn want(&mut self, desk: usize, number: usize, wanted: Wanted, now: Instant) -> f64 {
        let at = &mut self.desks[desk];
        at.seats[number] = wanted;
        let share = at.least();
        let begins_or_ends = (share > 0.0) != (at.share > 0.0);
        let is_due = at.decided.is_none_or(|decided| now.saturating_duration_since(decided) >= PERIOD);
        if !self.broken && (begins_or_ends || share > 0.0 && is_due) {
            self.order(desk, share, now);
        }
        self.desks[desk].share
    }

    fn order(&mut self, desk: usize, share: f64, now: Instant) {
        let at = &mut self.desks[desk];
        (at.share, at.decided) = (share, Some(now));
        let tally: Result<Tally, _> = self.gate.tally(desk);
        if let Err(error) = tally.and_then(|tally| self.gate.rule(desk, at.level.decide(share, tally, now))) {
            tracing::error!(%error, "the XDP program takes no orders: it is not used any more");
            (at.share, self.broken) = (0.0, true);
        }
    }
}

impl Desk {
    /// What all seats want.
    fn least(&self) -> f64 {
        let share = |wanted: &Wanted| match wanted {
            Wanted::Nothing => Some(0.0),
            Wanted::Share(share) => Some(*share),
            Wanted::Gone => None,
        };
        self.seats.iter().filter_map(share).reduce(f64::min).unwrap_or(0.0)
    }
}

/// One gate's place at the gate in front. Given back on drop.
pub struct Seat {
    front: Arc<FrontGate>,
    desk: usize,
    number: usize,
}

impl Seat {
    /// Says which share this gate wants dropped, and learns which share is dropped in front of it from now on: never more.
    pub fn want(&self, share: f64, now: Instant) -> f64 {
        self.front.state.lock().want(self.desk, self.number, Wanted::Share(share), now).min(share)
    }

    /// The numbers of the interfaces that are covered.
    #[must_use]
    pub fn covered(&self) -> &[u32] {
        &self.front.covered
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.front.state.lock().want(self.desk, self.number, Wanted::Gone, Instant::now());
    }
}

/// What a filter behind the gate has still to drop of what came through it, so that both together drop `wanted`.
#[must_use]
pub fn rest(wanted: f64, in_front: f64) -> f64 {
    if in_front >= 1.0 {
        return wanted;
    }
    (1.0 - (1.0 - wanted) / (1.0 - in_front)).max(0.0)
}

#[cfg(test)]
impl FrontGate {
    /// The listener of [`Self::attached_nowhere`].
    pub(super) const LISTENER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 80);

    /// One that takes orders from one worker and sees no frame; none where the kernel lets nobody load a program.
    pub(super) fn attached_nowhere() -> Option<Arc<Self>> {
        let gate = load(&[(Self::LISTENER, 0)]).ok()?;
        Some(Arc::new(Self::new(gate, Vec::new(), vec![Self::LISTENER], 1)))
    }

    /// What it drops for its first listener.
    pub(super) fn share(&self) -> f64 {
        self.state.lock().desks[0].share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_together_drop_what_is_wanted() {
        for (wanted, in_front, rest_is) in [
            (0.0, 0.0, 0.0),
            (0.5, 0.0, 0.5),
            (0.5, 0.5, 0.0),
            (0.75, 0.5, 0.5),
            (0.5, 0.6, 0.0),
            (0.98, 0.98, 0.0),
            (0.5, 1.0, 0.5),
        ] {
            let rest = rest(wanted, in_front);
            assert!((rest - rest_is).abs() < 1e-9, "{wanted} {in_front}: {rest}");
        }
    }

    #[test]
    fn the_least_of_all_shares_is_what_all_want() {
        use Wanted::{Gone, Nothing, Share};
        let cases: [(&[Wanted], f64); 6] = [
            (&[Share(0.5), Share(0.25)], 0.25),
            (&[Share(0.5), Nothing], 0.0),
            (&[Share(0.5), Gone], 0.5),
            (&[Gone, Gone], 0.0),
            (&[], 0.0),
            (&[Share(0.5), Share(0.0)], 0.0),
        ];
        for (number, (seats, least)) in cases.into_iter().enumerate() {
            assert_eq!(Desk { seats: seats.to_vec(), ..Desk::default() }.least(), least, "{number}");
        }
    }
}
