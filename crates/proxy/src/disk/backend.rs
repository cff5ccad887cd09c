//! What carries operations to the kernel: one ring for all devices, or some threads for each where that is refused; and
//! how much of it a device may take.

use std::io;
use std::time::Duration;

use sys::arena::Arena;
use sys::pool::Pool;
use sys::queue::Queue;
use sys::uring::Ring;

use crate::settings::StoreSettings;

/// Threads of a device where io_uring is refused: of its own, so that one that does not answer holds only these.
const POOL_THREADS: usize = 4;

/// Syncs, and what else has no bound of its own, that one device may have under way besides.
const SPARE: usize = 16;

/// What a device may take, and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Reads that one thread keeps under way at one device; also the writes of all threads while nobody reads from it.
    pub depth: usize,
    /// What writes may take of the depth while somebody reads.
    pub write_share: f64,
    /// How long a client waits for an answer.
    pub read_timeout: Duration,
    /// How long a device may leave anything without an answer.
    pub device_timeout: Duration,
}

impl Bounds {
    /// Writes that may be under way at a device that so many reads are under way at.
    #[must_use]
    pub fn writes(&self, reads: usize) -> usize {
        if reads == 0 {
            return self.depth;
        }
        ((self.depth as f64 * self.write_share) as usize).max(1)
    }

    /// Operations of one device that a queue must have places for.
    fn places(&self) -> usize {
        2 * self.depth + SPARE
    }
}

/// One for all devices, or one for each.
pub(super) struct Backends(pub(super) Vec<Box<dyn Queue>>);

/// Operations that recovery has under way at most on a device.
const START_DEPTH: u32 = 256;

/// One for a device, while nothing else runs.
pub(super) fn for_start(uring: bool) -> io::Result<Box<dyn Queue>> {
    if uring && let Ok(ring) = Ring::new(START_DEPTH) {
        return Ok(Box::new(ring));
    }
    Ok(Box::new(Pool::new(START_DEPTH, POOL_THREADS)?))
}

/// Opens what there is for so many devices; a ring knows the memory that most reads go to.
pub(super) fn open(uring: bool, devices: usize, bounds: &Bounds, arena: &Arena) -> io::Result<Backends> {
    let places = |devices: usize| u32::try_from(devices * bounds.places()).unwrap_or(u32::MAX);
    if uring && let Ok(ring) = Ring::with_arena(places(devices), arena) {
        ring.allow_waiting(places(devices));
        return Ok(Backends(vec![Box::new(ring)]));
    }
    let pool = |_| Ok(Box::new(Pool::new(places(1), POOL_THREADS)?) as Box<dyn Queue>);
    Ok(Backends((0..devices).map(pool).collect::<io::Result<_>>()?))
}

impl StoreSettings {
    /// What a device may take under these settings.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            depth: self.queue_depth,
            write_share: self.write_share,
            read_timeout: self.read_timeout,
            device_timeout: self.device_timeout,
        }
    }
}
