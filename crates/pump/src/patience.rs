//! Coarse deadlines for very many waits.
//!
//! Every connection waits with a limit, almost no wait reaches it. A timer wheel entry per wait would cost more than
//! the socket call it guards, so a wait only notes its deadline in a slot, and one sweep per tick looks at all slots.
//! A limit is kept to within one tick, never early. One [`Watch`] guards one wait at a time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use slab::Slab;

/// How often [`Timers::sweep`] must be called, and how late a deadline may be noticed.
pub const TICK: Duration = Duration::from_millis(1000 / TICKS_A_SECOND);

const TICKS_A_SECOND: u64 = 10;

/// The wait's limit passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit passed")
    }
}

/// All watches of one thread.
#[derive(Default)]
pub struct Timers {
    tick: Cell<u64>,
    /// Queue: waits with a limit.
    slots: RefCell<Slab<Rc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    /// Tick at which the wait is over; 0 while nothing waits.
    deadline: Cell<u64>,
    /// Queue: waits with a limit.
    waker: RefCell<Option<Waker>>,
}

impl Timers {
    /// An empty set, at tick 0.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Adds a watch; it leaves when dropped.
    #[must_use]
    pub fn watch(self: &Rc<Self>) -> Watch {
        let slot = Rc::<Slot>::default();
        let key = self.slots.borrow_mut().insert(Rc::clone(&slot));
        Watch { timers: Rc::clone(self), slot, key }
    }

    /// Moves time on by one [`TICK`] and wakes the waits that are over.
    pub fn sweep(&self) {
        let now = self.tick.get() + 1;
        self.tick.set(now);
        for (_, slot) in self.slots.borrow().iter() {
            let deadline = slot.deadline.get();
            if deadline != 0 && deadline <= now {
                slot.deadline.set(0);
                if let Some(waker) = slot.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
    }

    /// Wakes every wait, over or not, so that it looks around.
    pub fn wake_all(&self) {
        for (_, slot) in self.slots.borrow().iter() {
            if let Some(waker) = slot.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    }

    /// Ticks so far.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.tick.get()
    }

    /// How many watches there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn after(&self, limit: Duration) -> u64 {
        // In 64 bits, because this is asked for every wait. One more, because the present tick is already partly over.
        let whole = limit.as_secs().saturating_mul(TICKS_A_SECOND);
        let rest = u64::from(limit.subsec_millis()) * TICKS_A_SECOND;
        self.tick.get().saturating_add(whole).saturating_add(rest.div_ceil(1000) + 1)
    }
}

/// A place among the [`Timers`] for one wait at a time.
pub struct Watch {
    timers: Rc<Timers>,
    slot: Rc<Slot>,
    key: usize,
}

impl Watch {
    /// Ticks so far.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.timers.now()
    }

    /// Awaits `work`, at most for `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] when the limit passed first; `work` is dropped then.
    pub async fn within<F: Future>(&self, limit: Duration, work: F) -> Result<F::Output, Elapsed> {
        let mut work = pin!(work);
        let deadline = self.timers.after(limit);
        poll_fn(|cx| {
            if let Poll::Ready(value) = work.as_mut().poll(cx) {
                self.slot.deadline.set(0);
                return Poll::Ready(Ok(value));
            }
            if self.timers.tick.get() >= deadline {
                return Poll::Ready(Err(Elapsed));
            }
            self.slot.arm(deadline, cx.waker());
            Poll::Pending
        })
        .await
    }
}

impl Slot {
    fn arm(&self, deadline: u64, waker: &Waker) {
        self.deadline.set(deadline);
        let mut held = self.waker.borrow_mut();
        match &*held {
            Some(known) if known.will_wake(waker) => {}
            _ => *held = Some(waker.clone()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.timers.slots.borrow_mut().remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn on_runtime(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        tokio::task::LocalSet::new().block_on(&runtime.unwrap_or_else(|e| panic!("{e}")), work);
    }

    #[test]
    fn a_finished_wait_gives_its_value() {
        on_runtime(async {
            let watch = Timers::new().watch();
            assert_eq!(watch.within(TICK, async { 7 }).await, Ok(7));
        });
    }

    #[test]
    fn a_wait_ends_after_its_limit_and_not_before() {
        on_runtime(async {
            let timers = Timers::new();
            let watch = timers.watch();
            let wait = tokio::task::spawn_local(async move { watch.within(TICK * 3, pending::<()>()).await });
            for _ in 0..3 {
                tokio::task::yield_now().await;
                timers.sweep();
            }
            tokio::task::yield_now().await;
            assert!(!wait.is_finished(), "three ticks are not yet three whole ticks");
            timers.sweep();
            assert_eq!(wait.await.ok(), Some(Err(Elapsed)));
        });
    }

    #[test]
    fn a_dropped_watch_leaves() {
        let timers = Timers::new();
        let watch = timers.watch();
        assert_eq!(timers.len(), 1);
        drop(watch);
        assert!(timers.is_empty());
    }
}
