//! A bound on the memory in aligned buffers, and their reuse.
//!
//! What must hold: buffers in use and buffers kept for reuse together never pass the limit; a buffer counts as in use
//! until its last reader is gone, wherever that is. Buffers of one size come back without new page faults (a fresh
//! MiB costs 256 of them). Refuses to know what a refusal means: the caller declines the work, it does not wait.
//!
//! A reused buffer holds old bytes behind its watermark; only its writer can see them, and what is written to a disk
//! is zeroed first (see [`crate::aligned`]).

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::aligned::{AlignedBuffer, Memory, round_up_to_block};

/// A shared budget of bytes for [`AlignedBuffer`]s. Clones share it.
#[derive(Clone, Debug)]
pub struct BufferBudget {
    pool: Arc<Pool>,
}

/// Why no buffer is given.
#[derive(Debug, thiserror::Error)]
pub enum NoBuffer {
    /// The limit is reached; others will come back.
    #[error("buffers-exhausted")]
    Exhausted,
    /// A length of 0, or more than the budget holds in all: waiting does not help.
    #[error("buffer-size")]
    Size,
    /// The kernel gave no memory.
    #[error("buffer-refused: {0}")]
    Refused(#[source] io::Error),
}

/// A view of a budget at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Bytes in buffers that somebody holds.
    pub taken_bytes: usize,
    /// Bytes in buffers that wait for reuse.
    pub idle_bytes: usize,
    /// Buffers given that were used before.
    pub hits: u64,
    /// Buffers given that had to be mapped.
    pub misses: u64,
    /// Requests declined.
    pub refusals: u64,
}

impl BufferBudget {
    /// At most `limit_bytes` in all, of which at most `keep_bytes` wait for reuse.
    pub fn new(limit_bytes: usize, keep_bytes: usize) -> Self {
        let keep_bytes = keep_bytes.min(limit_bytes);
        Self { pool: Arc::new(Pool { limit_bytes, keep_bytes, state: Mutex::default() }) }
    }

    /// A buffer of `len` bytes rounded up to whole blocks. Never waits.
    pub fn try_take(&self, len: usize) -> Result<AlignedBuffer, NoBuffer> {
        let len = len.checked_next_multiple_of(round_up_to_block(1)).ok_or(NoBuffer::Size)?;
        let memory = match self.pool.reserve(len)? {
            Reserved::Kept(memory) => memory,
            Reserved::Room => Memory::map(len).map_err(|error| self.pool.withdraw(len, error))?,
        };
        Ok(AlignedBuffer::over(memory, Some(self.pool.clone())))
    }

    /// What is in use and how often buffers were reused.
    pub fn usage(&self) -> BudgetUse {
        self.pool.state().usage
    }
}

/// Where a buffer's memory goes when its last handle is dropped.
pub(crate) trait Home: Debug + Send + Sync {
    fn give_back(&self, memory: Memory);
}

#[derive(Debug)]
struct Pool {
    limit_bytes: usize,
    keep_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Memory>,
    usage: BudgetUse,
}

enum Reserved {
    Kept(Memory),
    Room,
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `len` as taken and says where it comes from; unmaps idle buffers of other sizes where they are in the way.
    fn reserve(&self, len: usize) -> Result<Reserved, NoBuffer> {
        let mut evicted = Vec::new(); // unmapped after the lock is gone
        let mut state = self.state();
        if len == 0 || len > self.limit_bytes {
            state.usage.refusals += 1;
            return Err(NoBuffer::Size);
        }
        if let Some(memory) = state.take_idle(|memory| memory.len() == len) {
            state.usage.taken_bytes += len;
            state.usage.hits += 1;
            return Ok(Reserved::Kept(memory));
        }
        if state.usage.taken_bytes + len > self.limit_bytes {
            state.usage.refusals += 1;
            return Err(NoBuffer::Exhausted);
        }
        while state.usage.taken_bytes + state.usage.idle_bytes + len > self.limit_bytes {
            evicted.extend(state.take_idle(|_| true));
        }
        state.usage.taken_bytes += len;
        state.usage.misses += 1;
        drop(state);
        Ok(Reserved::Room)
    }

    fn withdraw(&self, len: usize, error: io::Error) -> NoBuffer {
        let mut state = self.state();
        state.usage.taken_bytes -= len;
        state.usage.misses -= 1;
        state.usage.refusals += 1;
        NoBuffer::Refused(error)
    }
}

impl Home for Pool {
    fn give_back(&self, memory: Memory) {
        let mut state = self.state();
        state.usage.taken_bytes -= memory.len();
        if state.usage.idle_bytes + memory.len() <= self.keep_bytes {
            state.usage.idle_bytes += memory.len();
            state.idle.push(memory);
        } else {
            drop(state);
            drop(memory); // unmapped outside of the lock
        }
    }
}

impl State {
    fn take_idle(&mut self, wanted: impl Fn(&Memory) -> bool) -> Option<Memory> {
        // The one given back last is the most likely to be in the processor's own memory.
        let found = self.idle.iter().rposition(wanted)?;
        let memory = self.idle.remove(found);
        self.usage.idle_bytes -= memory.len();
        Some(memory)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MIB: usize = 1 << 20;

    fn taken(budget: &BufferBudget) -> (usize, usize) {
        (budget.usage().taken_bytes, budget.usage().idle_bytes)
    }

    #[test]
    fn the_limit_holds_until_the_last_reader_is_gone() {
        let budget = BufferBudget::new(2 * MIB, 0);
        let _one = budget.try_take(MIB).unwrap();
        let (writer, reader) = budget.try_take(MIB).unwrap().split();
        assert!(matches!(budget.try_take(1), Err(NoBuffer::Exhausted)));
        drop(writer);
        let settled = reader.settled(0..0).unwrap();
        drop(reader);
        assert!(matches!(budget.try_take(1), Err(NoBuffer::Exhausted)));
        drop(settled);
        assert_eq!(taken(&budget), (MIB, 0));
        assert!(budget.try_take(1).is_ok());
        assert_eq!(budget.usage().refusals, 2);
    }

    #[test]
    fn a_buffer_of_the_same_size_is_reused() {
        let budget = BufferBudget::new(4 * MIB, 4 * MIB);
        drop(budget.try_take(MIB - 1).unwrap());
        assert_eq!(taken(&budget), (0, MIB));
        let again = budget.try_take(MIB).unwrap();
        assert_eq!(again.capacity(), MIB);
        assert_eq!(taken(&budget), (MIB, 0));
        assert_eq!((budget.usage().hits, budget.usage().misses), (1, 1));
    }

    #[test]
    fn what_waits_gives_way_to_what_is_wanted() {
        let budget = BufferBudget::new(2 * MIB, 2 * MIB);
        let pair = (budget.try_take(MIB).unwrap(), budget.try_take(MIB).unwrap());
        drop(pair);
        assert_eq!(taken(&budget), (0, 2 * MIB));
        let large = budget.try_take(2 * MIB).unwrap();
        assert_eq!((large.capacity(), taken(&budget)), (2 * MIB, (2 * MIB, 0)));
    }

    #[test]
    fn no_more_is_kept_than_agreed() {
        let budget = BufferBudget::new(4 * MIB, MIB);
        let three: Vec<_> = (0..3).map(|_| budget.try_take(MIB).unwrap()).collect();
        drop(three);
        assert_eq!(taken(&budget), (0, MIB));
    }

    #[test]
    fn sizes_that_can_never_be_given_say_so() {
        let budget = BufferBudget::new(MIB, 0);
        for len in [0, MIB + 1, usize::MAX] {
            assert!(matches!(budget.try_take(len), Err(NoBuffer::Size)), "{len}");
        }
    }

    #[test]
    fn old_bytes_are_not_padding() {
        let budget = BufferBudget::new(MIB, MIB);
        let (mut writer, _) = budget.try_take(8192).unwrap().split();
        writer.put(&[0xff; 8192]);
        drop((writer, budget.try_take(1)));
        let (mut writer, reader) = budget.try_take(8192).unwrap().split();
        writer.put(b"new");
        writer.finish();
        assert_eq!(budget.usage().hits, 1);
        assert!(reader.padded().unwrap()[3..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn threads_share_one_limit() {
        let budget = BufferBudget::new(8 * MIB, 2 * MIB);
        std::thread::scope(|scope| {
            for size in 1..5 {
                let budget = budget.clone();
                scope.spawn(move || {
                    for round in 0..300 {
                        let held = budget.try_take((size * MIB) >> (round % 4));
                        let now = budget.usage();
                        assert!(now.taken_bytes + now.idle_bytes <= 8 * MIB);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.usage().taken_bytes, 0);
    }
}
