//! How many connections to one origin a thread has in use, and who waits for one.
//!
//! What must hold: never more than the limit in use, never more than [`waiting_max`] waiting, nobody waits longer than the
//! time given; who came first is served first; a slot comes back on drop, and so does the place of one who leaves the queue.
//! All origins together have a [`Room`], so that many dead ones take neither every descriptor nor each other's part.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use pump::Watch;
use tokio::sync::Notify;

use crate::admission::clients;
use crate::admission::requests::Shed;

/// Requests that may wait for a connection of an origin that may have so many.
#[must_use]
pub(super) const fn waiting_max(limit: usize) -> usize {
    limit
}

/// What all origins of a thread may have in use together.
#[derive(Debug)]
pub(super) struct Room {
    /// Queue: connections in use to all origins.
    used: Cell<usize>,
    most: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Rc<Self> {
        Rc::new(Self { used: Cell::new(0), most })
    }

    /// Whether an origin that has so many may have one more: shared as connections are among clients.
    fn has_one_for(&self, held: usize) -> bool {
        clients::may_connect(held as u64, self.used.get() as u64, self.most as u64)
    }
}

/// The slots of one origin.
#[derive(Debug)]
pub(super) struct Slots {
    room: Rc<Room>,
    /// Queue: connections in use to one origin.
    used: Cell<usize>,
    waiting: Cell<usize>,
    /// Queue: requests that wait for one of them.
    freed: Notify,
}

/// The right to one connection.
#[derive(Debug)]
pub(super) struct Slot(Rc<Slots>);

impl Slots {
    /// Nobody has one yet.
    pub(super) fn new(room: &Rc<Room>) -> Rc<Self> {
        let (used, waiting, freed) = (Cell::new(0), Cell::new(0), Notify::new());
        Rc::new(Self { room: Rc::clone(room), used, waiting, freed })
    }

    /// Takes a slot, and waits for one if there is none, at most for `patience`.
    ///
    /// # Errors
    /// When as many wait already as may, none became free, or all origins together have what they may.
    pub(super) async fn take(
        self: &Rc<Self>,
        limit: usize,
        watch: &Watch,
        patience: Duration,
    ) -> Result<Slot, Shed> {
        if self.waiting.get() == 0 && self.used.get() < limit {
            // No slot of this origin would end that: there is nothing to wait for.
            return if self.has_room() { Ok(self.one()) } else { Err(Shed::OriginsFull) };
        }
        if self.waiting.get() >= waiting_max(limit) {
            return Err(Shed::OriginFull);
        }
        watch.within(patience, self.wait(limit)).await.map_err(|_elapsed| Shed::OriginBusy)
    }

    /// Whether nobody has or wants one.
    pub(super) fn is_idle(self: &Rc<Self>) -> bool {
        Rc::strong_count(self) == 1
    }

    async fn wait(self: &Rc<Self>, limit: usize) -> Slot {
        let _place = Place::of(self);
        loop {
            self.freed.notified().await;
            if self.used.get() < limit && self.has_room() {
                return self.one();
            }
        }
    }

    fn has_room(&self) -> bool {
        self.room.has_one_for(self.used.get())
    }

    fn one(self: &Rc<Self>) -> Slot {
        self.room.used.set(self.room.used.get() + 1);
        self.used.set(self.used.get() + 1);
        Slot(Rc::clone(self))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.used.set(self.0.used.get() - 1);
        self.0.room.used.set(self.0.room.used.get() - 1);
        if self.0.waiting.get() > 0 {
            self.0.freed.notify_one();
        }
    }
}

/// A place in the queue.
struct Place(Rc<Slots>);

impl Place {
    fn of(slots: &Rc<Slots>) -> Self {
        slots.waiting.set(slots.waiting.get() + 1);
        Self(Rc::clone(slots))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pump::Timers;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn run(test: impl AsyncFnOnce(Rc<Timers>, Rc<Slots>)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(test(Timers::new(), Slots::new(&Room::new(1000))));
    }

    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn a_slot_goes_to_who_waits_and_nobody_gets_in_front() {
        run(async |timers, slots| {
            let first = slots.take(1, &timers.watch(), LONG).await.unwrap();
            let waiting = {
                let (slots, watch) = (Rc::clone(&slots), timers.watch());
                tokio::task::spawn_local(async move { slots.take(1, &watch, LONG).await.unwrap() })
            };
            settle().await;
            assert_eq!(slots.take(1, &timers.watch(), LONG).await.unwrap_err(), Shed::OriginFull);
            drop(first);
            assert_eq!(slots.take(1, &timers.watch(), LONG).await.unwrap_err(), Shed::OriginFull);
            let second = waiting.await.unwrap();
            assert_eq!((slots.used.get(), slots.waiting.get()), (1, 0));
            drop(second);
            assert!(slots.is_idle());
        });
    }

    #[test]
    fn who_leaves_the_queue_passes_the_slot_on() {
        run(async |timers, slots| {
            let held =
                [slots.take(2, &timers.watch(), LONG).await, slots.take(2, &timers.watch(), LONG).await];
            let wait = |_| {
                let (slots, watch) = (Rc::clone(&slots), timers.watch());
                tokio::task::spawn_local(async move { slots.take(2, &watch, LONG).await })
            };
            let [leaves, stays] = [0, 1].map(wait);
            settle().await;
            assert_eq!(slots.waiting.get(), 2);
            drop(held.into_iter().next());
            // It has been told, but goes before it could take the slot.
            leaves.abort();
            let slot = stays.await.unwrap().unwrap();
            drop(slot);
            assert!(slots.is_idle() && slots.used.get() == 0 && slots.waiting.get() == 0);
        });
    }

    #[test]
    fn many_dead_origins_leave_room_for_others() {
        run(async |timers, _| {
            let room = Room::new(900);
            let watch = timers.watch();
            let (mut held, mut taken) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let slots = Slots::new(&room);
                let refused = loop {
                    match slots.take(1000, &watch, LONG).await {
                        Ok(slot) => held.push(slot),
                        Err(why) => break why,
                    }
                };
                taken.push((slots.used.get(), refused));
            }
            // Each at most eight times what is left.
            assert_eq!(taken, [800, 89, 10].map(|used| (used, Shed::OriginsFull)));
            drop(held);
            assert_eq!(room.used.get(), 0);
        });
    }

    #[test]
    fn nobody_waits_longer_than_he_would() {
        run(async |timers, slots| {
            let held = slots.take(1, &timers.watch(), LONG).await.unwrap();
            let watch = timers.watch();
            let mut waits = std::pin::pin!(slots.take(1, &watch, Duration::from_millis(100)));
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = &mut waits => break outcome,
                    () = tokio::time::sleep(Duration::from_millis(1)) => timers.sweep(),
                }
            };
            assert_eq!(outcome.unwrap_err(), Shed::OriginBusy);
            assert_eq!(slots.waiting.get(), 0);
            drop(held);
        });
    }

    #[test]
    fn many_in_any_order_keep_the_limit() {
        run(async |timers, slots| {
            let used_max = Rc::new(Cell::new(0));
            let mut tasks = Vec::new();
            for n in 0..40_usize {
                let (slots, watch, used_max) = (Rc::clone(&slots), timers.watch(), Rc::clone(&used_max));
                tasks.push(tokio::task::spawn_local(async move {
                    let slot = slots.take(20, &watch, LONG).await;
                    used_max.set(used_max.get().max(slots.used.get()));
                    for _ in 0..n % 7 {
                        tokio::task::yield_now().await;
                    }
                    drop(slot);
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!((used_max.get(), slots.used.get(), slots.waiting.get()), (20, 0, 0));
        });
    }
}
