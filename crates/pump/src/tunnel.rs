//! Two ends joined for as long as they talk: `CONNECT` and `Upgrade`, spliced both ways with half-close.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use sys::pipe::{Pipe, PipePool};

use crate::splice::{drain, take};
use crate::{Patience, Socket, Timers, Turn, Watch, Why, copy, memory};

/// Bytes that a tunnel carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// From `left` to `right`.
    pub rightward: u64,
    /// From `right` to `left`.
    pub leftward: u64,
}

/// Joins `left` and `right` until both directions have ended, one of them fails, or both are silent for `idle`.
///
/// The end of one direction is passed on (half-close); the other goes on.
pub async fn join(
    left: &Socket,
    right: &Socket,
    pipes: &PipePool,
    timers: &Rc<Timers>,
    idle: Duration,
) -> Carried {
    let steps = Cell::new(0);
    let way = |from, to| Way { from, to, watch: timers.watch(), idle, steps: &steps };
    let (rightward, leftward) = (way(left, right), way(right, left));
    let (rightward, leftward) = tokio::join!(rightward.run(pipes), leftward.run(pipes));
    Carried { rightward, leftward }
}

/// One direction.
struct Way<'a> {
    from: &'a Socket,
    to: &'a Socket,
    watch: Watch,
    idle: Duration,
    /// Moves made by both directions: silence is that of the tunnel, not of one side that only listens.
    steps: &'a Cell<u64>,
}

impl Way<'_> {
    async fn run(self, pipes: &PipePool) -> u64 {
        let mut carried = 0;
        let outcome = match pipes.take() {
            Ok(mut pipe) => self.by_pipe(&mut pipe, &mut carried).await,
            Err(_) => self.by_copy(&mut carried).await,
        };
        // A refused shutdown means that the peer is gone already; its direction ends by itself.
        let _ = self.to.shutdown_write();
        if outcome.is_err() {
            self.from.shutdown_both();
            self.to.shutdown_both();
        }
        carried
    }

    /// With each step anew: a tunnel may be as slow as its ends like.
    fn patience(&self) -> Patience {
        Patience::idle(self.idle)
    }

    async fn by_pipe(&self, pipe: &mut Pipe, carried: &mut u64) -> Result<(), Why> {
        let mut turn = Turn::default();
        loop {
            let before = self.steps.get();
            match take(self.from, pipe, u64::MAX, &self.watch, &self.patience()).await {
                Ok(_) => {}
                Err(Why::Ended) => return Ok(()),
                Err(Why::Stalled) if self.steps.get() != before => continue,
                Err(why) => return Err(why),
            }
            let moved = drain(pipe, self.to, false, &self.watch, &self.patience()).await;
            let moved = moved.map_err(|s| s.why)?;
            *carried += moved;
            self.steps.set(self.steps.get() + 1);
            turn.moved(moved).await;
        }
    }

    /// Where no pipe is to be had.
    async fn by_copy(&self, carried: &mut u64) -> Result<(), Why> {
        let (mut buffer, mut turn) = (vec![0; 16 * 1024], Turn::default());
        loop {
            let before = self.steps.get();
            let n = match copy::receive(self.from, &mut buffer, &self.watch, &self.patience()).await {
                Ok(n) => n,
                Err(Why::Ended) => return Ok(()),
                Err(Why::Stalled) if self.steps.get() != before => continue,
                Err(why) => return Err(why),
            };
            let sent = memory::send(self.to, &buffer[..n], false, &self.watch, &self.patience()).await;
            sent.map_err(|s| s.why)?;
            *carried += n as u64;
            self.steps.set(self.steps.get() + 1);
            turn.moved(n as u64).await;
        }
    }
}
