//! The controller against a simulated queue: arrivals at one rate, a server at another, a bounded queue between.
use super::*;

/// A server that empties a queue, and what came of it.
struct World {
    capacity: f64,
    limit: f64,
    now: f64,
    depth: f64,
    accepted: f64,
    controller: QueueDelay,
    share: f64,
}

#[derive(Debug, Default)]
struct Seen {
    served: f64,
    dropped: f64,
    overflowed: f64,
    delay_max: f64,
}

impl World {
    fn new(capacity: f64) -> Self {
        let (limit, now) = (4096.0, 10.0);
        Self {
            capacity,
            limit,
            now,
            depth: 0.0,
            accepted: 0.0,
            controller: QueueDelay::default(),
            share: 0.0,
        }
    }

    /// `arrivals` a second for `seconds`.
    fn run(&mut self, arrivals: f64, seconds: f64) -> Seen {
        let step = PERIOD.as_secs_f64();
        let mut seen = Seen::default();
        for _ in 0..(seconds / step) as usize {
            let come = arrivals * step;
            let pass = come * (1.0 - self.share);
            let room = (self.limit - self.depth).max(0.0);
            let served = (self.depth + pass.min(room)).min(self.capacity * step);
            seen.dropped += come - pass;
            seen.overflowed += (pass - room).max(0.0);
            self.depth += pass.min(room) - served;
            self.accepted += served;
            seen.served += served;
            self.now += step;
            seen.delay_max = seen.delay_max.max(self.depth / self.capacity);
            self.read();
        }
        seen
    }

    fn read(&mut self) {
        let now = Duration::from_secs_f64(self.now);
        let (depth, accepted) = (self.depth as u32, self.accepted as u64);
        self.share = self.controller.decide(Reading { now, depth, accepted });
    }
}

#[test]
fn nothing_is_dropped_below_capacity() {
    for load in [0.0, 0.1, 0.5, 0.9, 0.99] {
        let mut world = World::new(20_000.0);
        let seen = world.run(load * 20_000.0, 3.0);
        assert_eq!(seen.dropped, 0.0, "at {load} of capacity");
    }
}

#[test]
fn an_overload_keeps_the_server_busy_and_the_queue_short() {
    for capacity in [2_000.0, 20_000.0, 100_000.0] {
        for load in [1.1, 1.5, 3.0, 10.0] {
            let mut world = World::new(capacity);
            world.run(load * capacity, 1.0);
            let seen = world.run(load * capacity, 3.0);
            assert!(seen.served >= 0.97 * 3.0 * capacity, "{load} of {capacity}: {seen:?}");
            assert!(seen.delay_max <= 0.025, "{load} of {capacity}: {seen:?}");
            assert_eq!(seen.overflowed, 0.0, "{load} of {capacity}: {seen:?}");
        }
    }
}

#[test]
fn the_end_of_an_overload_ends_the_drops() {
    let mut world = World::new(20_000.0);
    world.run(100_000.0, 3.0);
    world.run(10_000.0, 0.2);
    let seen = world.run(10_000.0, 1.0);
    assert_eq!(seen.dropped, 0.0, "{seen:?}");
}

#[test]
fn a_burst_on_an_idle_server_is_taken_whole() {
    let mut world = World::new(20_000.0);
    world.run(100.0, 1.0);
    // 4000 connections within 4 ms, and 5000 within 60.
    for (rate, seconds) in [(1_000_000.0, 0.004), (5000.0 / 0.060, 0.060)] {
        let burst = world.run(rate, seconds);
        assert_eq!(burst.dropped + burst.overflowed, 0.0, "{burst:?}");
        let after = world.run(100.0, 2.0);
        assert_eq!(after.dropped, 0.0, "{after:?}");
    }
    world.run(100.0, 0.5);
    assert_eq!(world.run(100.0, 1.0).dropped, 0.0, "and it is over when the queue is");
}

#[test]
fn a_server_that_slows_down_sheds_more() {
    let mut world = World::new(20_000.0);
    world.run(18_000.0, 1.0);
    world.capacity = 5_000.0;
    world.run(18_000.0, 1.0);
    let seen = world.run(18_000.0, 2.0);
    assert!(seen.served >= 0.97 * 2.0 * 5_000.0 && seen.delay_max <= 0.025, "{seen:?}");
}

#[test]
fn a_late_reading_does_not_overshoot() {
    let mut world = World::new(20_000.0);
    world.run(40_000.0, 1.0);
    let before = world.share;
    world.now += 5.0;
    world.read();
    assert!((world.share - before).abs() < 0.3, "{before} to {}", world.share);
}
