//! How long one side of a move is waited for, over the whole of a body.
//!
//! A limit on idle time alone lets a peer that moves a byte a minute hold its connection, and all that hangs on it, for
//! ever. So patience is a stock: full at the beginning (the idle limit), used up by waiting, and earned back by bytes, at
//! the least rate that is put up with. What must hold: a side that moves nothing is waited for as long as the idle limit;
//! one that moves `n` bytes in all, for at most that and `n` over the rate.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::time::Duration;

use crate::patience::TICK;
use crate::{Elapsed, Socket, Watch, Why};

/// The patience with one side of one message.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    rate: Option<NonZeroU64>,
    left: Cell<Duration>,
}

impl Patience {
    /// With a side that may be idle for `limit`, and has to move `rate` bytes a second when it uses that up.
    #[must_use]
    pub fn new(limit: Duration, rate: Option<NonZeroU64>) -> Self {
        Self { limit, rate, left: Cell::new(limit) }
    }

    /// With a side that only has to go on: any byte earns all of it back.
    #[must_use]
    pub fn idle(limit: Duration) -> Self {
        Self::new(limit, None)
    }

    /// How long the next wait may be.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.left.get()
    }

    /// It was waited for so long.
    pub fn waited(&self, time: Duration) {
        self.left.set(self.left.get().saturating_sub(time));
    }

    /// The side has moved so many bytes.
    pub fn moved(&self, bytes: u64) {
        let left = self.left.get();
        if bytes == 0 || left == self.limit {
            return;
        }
        self.left.set(self.limit.min(left.saturating_add(self.earned_by(bytes))));
    }

    fn earned_by(&self, bytes: u64) -> Duration {
        match self.rate {
            None => self.limit,
            Some(rate) => {
                let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }
}

impl Watch {
    /// Awaits `work` for as long as there is patience; the wait uses it up.
    ///
    /// # Errors
    /// [`Elapsed`] when there is none left; `work` is dropped then.
    pub async fn patiently<F: Future>(&self, patience: &Patience, work: F) -> Result<F::Output, Elapsed> {
        let since = self.now();
        let outcome = self.within(patience.left(), work).await;
        let ticks = u32::try_from(self.now() - since).unwrap_or(u32::MAX);
        if ticks > 0 {
            patience.waited(TICK * ticks);
        }
        outcome
    }
}

/// A socket that takes bytes again so soon counts neither for nor against its peer: it is read from.
const PROMPT: Duration = TICK;

/// Waits until `to` takes bytes, after a send that would have blocked. What earns patience is what the peer has
/// acknowledged: a large send buffer turns writable again long after its peer has begun to take from it.
///
/// # Errors
/// [`Why::Stalled`] when patience has ended, or what the socket says.
pub async fn until_writable(to: &Socket, watch: &Watch, patience: &Patience) -> Result<(), Why> {
    if let Ok(done) = watch.within(PROMPT.min(patience.left()), to.writable()).await {
        return done.map_err(Why::Failed);
    }
    let mut queued = to.unacknowledged();
    loop {
        let outcome = watch.patiently(patience, to.writable()).await;
        let now = to.unacknowledged();
        patience.moved(queued.saturating_sub(now));
        queued = now;
        match outcome {
            Ok(done) => return done.map_err(Why::Failed),
            Err(Elapsed) if patience.left().is_zero() => return Err(Why::Stalled),
            Err(Elapsed) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Seconds waited and bytes moved, again and again: after how many rounds patience has ended, of at most 1000.
    fn rounds(patience: &Patience, seconds: u32, bytes: u64) -> usize {
        let mut round = 0;
        while round < 1000 && !patience.left().is_zero() {
            patience.waited(SECOND * seconds);
            if !patience.left().is_zero() {
                patience.moved(bytes);
            }
            round += 1;
        }
        round
    }

    #[test]
    fn a_trickle_has_an_end_and_the_least_rate_has_none() {
        let rate = NonZeroU64::new(500);
        let table = [
            // Nothing moves: the idle limit.
            (rate, 1, 0, 60),
            // A byte a second: hardly longer.
            (rate, 1, 1, 61),
            // Half the rate: twice as long.
            (rate, 1, 250, 119),
            // The rate, whether in small portions or in large ones.
            (rate, 1, 500, 1000),
            (rate, 50, 25_000, 1000),
            // A byte in every wait that is just short of the limit.
            (rate, 59, 1, 2),
            // Without a rate that goes on for ever, and only a wait of the whole limit ends it.
            (None, 59, 1, 1000),
            (None, 60, 1, 1),
        ];
        for (rate, seconds, bytes, expected) in table {
            let patience = Patience::new(SECOND * 60, rate);
            assert_eq!(rounds(&patience, seconds, bytes), expected, "{rate:?} {seconds} s {bytes} bytes");
        }
    }

    #[test]
    fn a_burst_earns_no_more_than_the_idle_limit() {
        let patience = Patience::new(SECOND * 60, NonZeroU64::new(500));
        patience.waited(SECOND);
        patience.moved(u64::MAX);
        assert_eq!(patience.left(), SECOND * 60);
    }
}
