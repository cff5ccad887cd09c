//! The controller against a simulated server: one processor that first receives packets, in the order in which they came,
//! and with what is left accepts and serves (the two stages of docs/overload.md).
use std::collections::VecDeque;

use super::*;

/// What it costs to receive one packet, in seconds. All else that a connection takes is accepting and serving.
const RECEIVE_SYN: f64 = 7e-6;
const RECEIVE_REQUEST: f64 = 7e-6;
const DROP: f64 = 1.5e-6;
/// Connections that may wait for `accept`.
const BACKLOG: usize = 4096;
const STEP: f64 = 0.000_1;
const STEPS_A_PERIOD: usize = 20;

#[derive(Clone, Copy)]
enum Packet {
    Syn,
    Request,
}

/// A server, and what came of it.
struct World {
    /// Connections a second.
    capacity: f64,
    steps: usize,
    received: VecDeque<(Packet, f64)>,
    /// When those who wait for `accept` came.
    queue: VecDeque<f64>,
    arrivals: f64,
    draws: f64,
    /// On the connection that is being served, in seconds.
    worked: f64,
    accepted: u64,
    controller: QueueDelay,
    share: f64,
}

#[derive(Debug, Default)]
struct Seen {
    served: f64,
    dropped: f64,
    overflowed: f64,
    delays: Vec<f64>,
}

impl Seen {
    fn percentile(&mut self, share: f64) -> f64 {
        self.delays.sort_by(f64::total_cmp);
        self.delays[((self.delays.len() - 1) as f64 * share) as usize]
    }
}

impl World {
    fn new(capacity: f64) -> Self {
        Self {
            capacity,
            steps: 100_000,
            received: VecDeque::new(),
            queue: VecDeque::new(),
            arrivals: 0.0,
            draws: 0.0,
            worked: 0.0,
            accepted: 0,
            controller: QueueDelay::default(),
            share: 0.0,
        }
    }

    fn now(&self) -> f64 {
        self.steps as f64 * STEP
    }

    /// `arrivals` a second for `seconds`.
    fn run(&mut self, arrivals: f64, seconds: f64) -> Seen {
        let mut seen = Seen::default();
        for _ in 0..(seconds / STEP).round() as usize {
            self.arrive(arrivals);
            let left = self.receive(&mut seen);
            self.serve(left, &mut seen);
            self.steps += 1;
            if self.steps.is_multiple_of(STEPS_A_PERIOD) {
                self.read();
            }
        }
        seen
    }

    /// The processor is elsewhere.
    fn stall(&mut self, arrivals: f64, seconds: f64) {
        for _ in 0..(seconds / STEP).round() as usize {
            self.arrive(arrivals);
            self.steps += 1;
        }
    }

    fn arrive(&mut self, per_second: f64) {
        self.arrivals += per_second * STEP;
        let now = self.now();
        while self.arrivals >= 1.0 {
            self.arrivals -= 1.0;
            self.received.push_back((Packet::Syn, now));
        }
    }

    /// Interrupts go first; a tenth of the time is left to the process, whatever comes. Gives what is left.
    fn receive(&mut self, seen: &mut Seen) -> f64 {
        let mut left = STEP;
        while left > STEP / 10.0
            && let Some((packet, came)) = self.received.pop_front()
        {
            left -= match packet {
                Packet::Syn if self.is_dropped() => {
                    seen.dropped += 1.0;
                    DROP
                }
                Packet::Syn => {
                    self.received.push_back((Packet::Request, came));
                    RECEIVE_SYN
                }
                Packet::Request => {
                    let has_room = self.queue.len() < BACKLOG;
                    seen.overflowed += if has_room { 0.0 } else { 1.0 };
                    self.queue.extend(has_room.then_some(came));
                    RECEIVE_REQUEST
                }
            };
        }
        left
    }

    /// Every so many of them, evenly.
    fn is_dropped(&mut self) -> bool {
        self.draws += self.share;
        let drops = self.draws >= 1.0;
        self.draws -= if drops { 1.0 } else { 0.0 };
        drops
    }

    fn serve(&mut self, seconds: f64, seen: &mut Seen) {
        let takes = 1.0 / self.capacity - RECEIVE_SYN - RECEIVE_REQUEST;
        self.worked += seconds;
        while self.worked >= takes
            && let Some(came) = self.queue.pop_front()
        {
            self.worked -= takes;
            self.accepted += 1;
            seen.served += 1.0;
            seen.delays.push(self.now() - came);
        }
        if self.queue.is_empty() {
            self.worked = 0.0;
        }
    }

    fn read(&mut self) {
        let (now, depth) = (Duration::from_secs_f64(self.now()), self.queue.len() as u32);
        self.share = self.controller.decide(Reading { now, depth, accepted: self.accepted });
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

/// Connections that can be served while so many times the capacity are asked for: the rest are dropped, and that costs.
fn served_beside_drops(capacity: f64, load: f64) -> f64 {
    (1.0 - load * capacity * DROP) / (1.0 / capacity - DROP)
}

#[test]
fn an_overload_keeps_the_server_busy_and_the_queue_short() {
    for capacity in [2_000.0, 20_000.0, 40_000.0] {
        for load in [1.1, 1.5, 3.0, 10.0] {
            let mut world = World::new(capacity);
            world.run(load * capacity, 1.0);
            let mut seen = world.run(load * capacity, 3.0);
            let possible = 3.0 * served_beside_drops(capacity, load);
            assert!(seen.served >= 0.97 * possible, "{load} of {capacity}: {} of {possible}", seen.served);
            assert!(seen.percentile(0.99) <= 0.020, "{load} of {capacity}: {}", seen.percentile(0.99));
            assert_eq!(seen.overflowed, 0.0, "{load} of {capacity}");
        }
    }
}

#[test]
fn few_wait_long_where_a_flood_begins() {
    for load in [1.1, 1.3, 2.0, 4.0] {
        let mut world = World::new(20_000.0);
        world.run(40_000.0, 0.5);
        world.run(100.0, 1.0);
        let mut seen = world.run(load * 20_000.0, 2.0);
        assert!(seen.percentile(0.98) <= 0.025, "{load}: {}", seen.percentile(0.98));
        assert!(seen.percentile(1.0) <= 0.060, "{load}: {}", seen.percentile(1.0));
        let possible = 2.0 * served_beside_drops(20_000.0, load);
        assert!(seen.served >= 0.96 * possible, "{load}: {} of {possible}", seen.served);
    }
}

#[test]
fn the_end_of_an_overload_ends_the_drops() {
    let mut world = World::new(20_000.0);
    world.run(100_000.0, 3.0);
    world.run(10_000.0, 0.2);
    let seen = world.run(10_000.0, 1.0);
    assert_eq!(seen.dropped, 0.0);
}

#[test]
fn those_who_come_at_once_are_all_let_in() {
    let mut world = World::new(20_000.0);
    for connections in [1000.0, 4000.0] {
        world.run(100.0, 1.0);
        // Faster than anybody could receive them.
        let burst = world.run(connections / 0.002, 0.002);
        let after = world.run(0.0, 0.5);
        let served = burst.served + after.served;
        assert_eq!((served, burst.dropped + after.dropped), (connections, 0.0));
    }
    assert_eq!(world.run(10_000.0, 1.0).dropped, 0.0, "and it is over when the queue is");
}

#[test]
fn what_came_while_the_processor_was_elsewhere_is_worked_off() {
    for (load, seconds) in [(0.5, 0.025), (0.8, 0.025), (0.5, 0.040), (0.7, 0.030)] {
        let mut world = World::new(20_000.0);
        world.run(40_000.0, 0.5);
        world.run(load * 20_000.0, 1.0);
        for _ in 0..3 {
            world.stall(load * 20_000.0, seconds);
            let seen = world.run(load * 20_000.0, 1.0);
            assert_eq!(seen.dropped, 0.0, "{seconds} s at {load} of capacity");
        }
    }
}

#[test]
fn a_server_that_slows_down_sheds_more() {
    let mut world = World::new(20_000.0);
    world.run(18_000.0, 1.0);
    world.capacity = 5_000.0;
    world.run(18_000.0, 1.0);
    let mut seen = world.run(18_000.0, 2.0);
    let possible = 2.0 * served_beside_drops(5_000.0, 3.6);
    assert!(seen.served >= 0.97 * possible, "{} of {possible}", seen.served);
    assert!(seen.percentile(0.99) <= 0.025, "{}", seen.percentile(0.99));
}

#[test]
fn a_late_reading_does_not_overshoot() {
    let mut world = World::new(20_000.0);
    world.run(40_000.0, 1.0);
    let before = world.share;
    world.steps += 50_000;
    world.read();
    assert!((world.share - before).abs() < 0.3, "{before} to {}", world.share);
}
