//! The request stage of one worker: which requests are refused at the level that its load has set.
//!
//! What must hold: below overload a request passes by looking at one number; what is refused is refused by name; nothing
//! waits here. What a request costs becomes known step by step, so it is asked for leave at each step: before a device is
//! read, before an origin is asked, before a connection is made for that.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::level::Cost;
use crate::connection::Client;
use crate::lookup;
use crate::object::{Body, Content};
use crate::request::Request;
use crate::worker::Worker;

/// While there is overload, a request that has waited for so long in queues of ours (for another's fetch, for a device, for
/// an origin connection) is refused instead of being worked on: its client has mostly given up.
pub const WAITED_MAX: Duration = Duration::from_secs(1);

/// Why a request was refused to protect the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// It costs what is refused at this level.
    Cost(Cost),
    /// It has waited longer than [`WAITED_MAX`].
    Waited,
    /// It is nobody's: work that can be done later.
    Background,
    /// Its origin has all the connections that it may have, and as many requests wait as may.
    OriginFull,
    /// None of these connections has become free in time.
    OriginBusy,
    /// All origins together have the connections that they may have.
    OriginsFull,
}

impl Shed {
    /// The word for the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cost(cost) => cost.word(),
            Self::Waited => "shed-waited",
            Self::Background => "shed-background",
            Self::OriginFull => "origin-full",
            Self::OriginBusy => "origin-busy",
            Self::OriginsFull => "origins-full",
        }
    }

    /// The one with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let others = [Self::Waited, Self::Background, Self::OriginFull, Self::OriginBusy, Self::OriginsFull];
        Cost::ALL.map(Self::Cost).into_iter().chain(others).find(|shed| shed.word() == word)
    }

    /// The `Proxy-Status` error type (RFC 9209 §2.3).
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        match self {
            Self::OriginFull | Self::OriginBusy | Self::OriginsFull => "connection_limit_reached",
            Self::Cost(_) | Self::Waited | Self::Background => "proxy_internal_response",
        }
    }
}

/// What a worker's requests are admitted by.
#[derive(Debug)]
pub struct Admission {
    /// By the load of the thread and of the machine.
    level: Cell<f64>,
    /// The share of disk hits that is refused because of the disks.
    disk: Cell<f64>,
    lots: Cell<u64>,
}

impl Admission {
    /// Everything is admitted. The seed decides the lots that are drawn.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { level: Cell::new(0.0), disk: Cell::new(0.0), lots: Cell::new(seed | 1) }
    }

    /// From now on requests are refused at `level`, and this share of disk hits.
    pub fn set(&self, level: f64, disk: f64) {
        self.level.set(level);
        self.disk.set(disk);
    }

    /// Whether anything is refused.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        self.level.get() > 0.0 || self.disk.get() > 0.0
    }

    /// The share of such requests that is refused now.
    #[must_use]
    pub fn refused(&self, cost: Cost) -> f64 {
        let of_disk = if cost == Cost::DiskHit { self.disk.get() } else { 0.0 };
        cost.refused(self.level.get()).max(of_disk)
    }

    /// Whether a request of this cost may go on, of a client with this weight, that has waited for so long.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, cost: Cost, weight: f64, waited: Duration) -> Result<(), Shed> {
        let share = self.refused(cost);
        match share {
            0.0 => Ok(()),
            _ if waited > WAITED_MAX => Err(Shed::Waited),
            // At a share of one everybody is refused, however little he has.
            _ if share >= 1.0 || self.lot() < share * weight => Err(Shed::Cost(cost)),
            _ => Ok(()),
        }
    }

    /// A number from 0 to 1.
    fn lot(&self) -> f64 {
        (self.draw() >> 3) as f64 / (1_u64 << 53) as f64
    }

    /// A number that looks like chance, cheaply (xorshift64*, Vigna 2016).
    pub fn draw(&self) -> u64 {
        let mut x = self.lots.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.lots.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
    }
}

/// Asks leave for a request; `client` is `None` for work that no client waits for.
///
/// # Errors
/// Why it is refused.
pub fn admit(worker: &Worker, client: Option<&Client>, cost: Cost, started: Instant) -> Result<(), Shed> {
    let admission = &worker.admission;
    if !admission.is_overloaded() {
        return Ok(());
    }
    let client = client.ok_or(Shed::Background)?;
    admission.admit(cost, client.presence.weight(), started.elapsed())
}

/// Whether a request that was given leave is still in time, when it has waited since then.
///
/// # Errors
/// That it is not.
pub fn in_time(worker: &Worker, since: Instant) -> Result<(), Shed> {
    let is_late = worker.admission.is_overloaded() && since.elapsed() > WAITED_MAX;
    if is_late { Err(Shed::Waited) } else { Ok(()) }
}

/// Asks leave to look for a stored response where that may take a read from a device.
///
/// # Errors
/// Why it is refused.
pub fn admit_lookup(worker: &Worker, client: &Client, request: &Request<'_>) -> Result<(), Shed> {
    if worker.admission.refused(Cost::DiskHit) == 0.0 {
        return Ok(());
    }
    let is_on_a_device = match lookup::find_in_memory(worker, request) {
        Some(object) => matches!(object.content, Content::Response(_, Body::Device(_))),
        None => worker.shared.cache.is_on_a_device(request.hash),
    };
    if is_on_a_device { admit(worker, Some(client), Cost::DiskHit, request.started) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::ZERO;

    fn refused(admission: &Admission, cost: Cost, weight: f64) -> f64 {
        let lots = 20_000;
        let refused = (0..lots).filter(|_| admission.admit(cost, weight, SOON).is_err()).count();
        refused as f64 / f64::from(lots)
    }

    #[test]
    fn shares_are_those_of_the_level_times_the_weight() {
        let table = [
            // level, disk, cost, weight, refused
            (0.0, 0.0, Cost::NewConnection, 2.0, 0.0),
            (0.3, 0.0, Cost::NewConnection, 1.0, 0.3),
            (0.3, 0.0, Cost::NewConnection, 0.1, 0.03),
            (0.3, 0.0, Cost::Miss, 2.0, 0.0),
            (1.6, 0.0, Cost::Miss, 2.0, 1.0),
            (1.6, 0.0, Cost::NewConnection, 0.01, 1.0),
            (2.5, 0.0, Cost::DiskHit, 0.5, 0.25),
            (0.0, 0.7, Cost::DiskHit, 1.0, 0.7),
            (0.0, 0.7, Cost::Miss, 1.0, 0.0),
        ];
        let admission = Admission::new(7);
        for (level, disk, cost, weight, expected) in table {
            admission.set(level, disk);
            let is = refused(&admission, cost, weight);
            assert!((is - expected).abs() < 0.02, "{cost:?} of {weight} at {level}: {is}, not {expected}");
        }
    }

    #[test]
    fn what_has_waited_too_long_is_refused_where_there_is_overload() {
        let admission = Admission::new(1);
        let late = WAITED_MAX + Duration::from_millis(1);
        assert_eq!(admission.admit(Cost::Miss, 1.0, late), Ok(()));
        admission.set(1.001, 0.0);
        assert_eq!(admission.admit(Cost::Miss, 0.0, late), Err(Shed::Waited));
        assert_eq!(admission.admit(Cost::Miss, 0.0, WAITED_MAX), Ok(()));
        assert_eq!(admission.admit(Cost::DiskHit, 1.0, late), Ok(()));
    }

    #[test]
    fn words_are_those_of_one_reason_each() {
        let all = Cost::ALL.map(Shed::Cost).into_iter().chain([
            Shed::Waited,
            Shed::Background,
            Shed::OriginFull,
            Shed::OriginBusy,
            Shed::OriginsFull,
        ]);
        for shed in all {
            assert_eq!(Shed::of_word(shed.word()), Some(shed));
        }
        assert_eq!(Shed::of_word("connection_refused"), None);
    }
}
