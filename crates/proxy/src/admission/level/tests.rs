use super::*;

const TICK: Duration = Duration::from_millis(10);

/// The level after each of these pressures has lasted for so many ticks.
fn after(stretches: &[(u32, f64)]) -> f64 {
    let mut level = Level::up_to(Level::ALL);
    let mut now = Duration::ZERO;
    let mut last = 0.0;
    for &(ticks, pressure) in stretches {
        for _ in 0..ticks {
            now += TICK;
            last = level.decide(now, pressure);
        }
    }
    last
}

#[test]
fn costs_are_refused_from_the_dearest_on() {
    let table = [
        // level, new connections, misses, disk hits
        (0.0, [0.0, 0.0, 0.0]),
        (0.5, [0.5, 0.0, 0.0]),
        (1.0, [1.0, 0.0, 0.0]),
        (1.25, [1.0, 0.25, 0.0]),
        (2.75, [1.0, 1.0, 0.75]),
        (3.0, [1.0, 1.0, 1.0]),
        (9.0, [1.0, 1.0, 1.0]),
    ];
    for (level, shares) in table {
        let refused = [Cost::NewConnection, Cost::Miss, Cost::DiskHit].map(|cost| cost.refused(level));
        assert_eq!(refused, shares, "at {level}");
    }
}

#[test]
fn what_does_not_last_refuses_nothing() {
    let table: [(&str, &[(u32, f64)]); 5] = [
        ("never pressed", &[(1000, 0.9)]),
        ("exactly at the target", &[(1000, 1.0)]),
        ("a burst of 90 ms", &[(100, 0.0), (9, 5.0)]),
        ("a burst, and its end", &[(9, 5.0), (1, 0.5), (9, 5.0)]),
        ("one very late reading", &[(10, 0.0), (1, 1e9), (1, 0.1)]),
    ];
    for (what, stretches) in table {
        assert_eq!(after(stretches), 0.0, "{what}");
    }
}

#[test]
fn what_lasts_refuses_more_and_more_up_to_everything() {
    let one = after(&[(30, 2.0)]);
    let two = after(&[(60, 2.0)]);
    assert!(0.3 < one && one < two, "{one} {two}");
    assert_eq!(after(&[(1000, 1.5)]), Level::ALL);
    assert_eq!(after(&[(1000, 1e12)]), Level::ALL);
    let mut bounded = Level::up_to(1.0);
    let levels = (1..1000).map(|n| bounded.decide(TICK * n, 3.0));
    assert_eq!(levels.fold(0.0, f64::max), 1.0);
}

#[test]
fn the_level_ends_within_a_second_of_the_pressure_and_not_before_it_is_worked_off() {
    assert!(after(&[(1000, 5.0), (20, 0.0)]) > 0.5);
    assert_eq!(after(&[(1000, 5.0), (100, 0.0)]), 0.0);
    // It has ended: the next pressure must last again.
    assert_eq!(after(&[(1000, 5.0), (100, 0.0), (9, 5.0)]), 0.0);
}

#[test]
fn no_reading_takes_it_out_of_its_bounds() {
    let mut level = Level::up_to(Level::ALL);
    let readings = [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0, f64::NEG_INFINITY, 7.0];
    for n in 0..10_000_u32 {
        // The clock may even stand, or go back.
        let now = Duration::from_millis(u64::from(n * 7919 % 5000));
        let is = level.decide(now, readings[n as usize % readings.len()]);
        assert!((0.0..=Level::ALL).contains(&is), "{is}");
    }
}

/// One thread that serves requests in the order in which they come, in time slots of a millisecond.
struct Server {
    /// Work that waits, in microseconds.
    backlog: f64,
    level: Level,
    is: f64,
}

/// What came of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    hits: f64,
    misses: f64,
    delay_ms_max: f64,
}

impl Server {
    const HIT_US: f64 = 8.0;
    const MISS_US: f64 = 60.0;
    const REFUSAL_US: f64 = 12.0;

    /// Offers so many hits and misses a second, and says what was served of them. The level is looked at every 10 ms, or when
    /// the queue lets it, as in the program.
    fn second(&mut self, from: Duration, hits: f64, misses: f64) -> Second {
        let mut came = Second::default();
        let mut tick_due = 0.0;
        for ms in 0..1000_u32 {
            let refused = Cost::Miss.refused(self.is).max(0.5 * Cost::NewConnection.refused(self.is));
            let (admitted, shed) = (misses * (1.0 - refused) / 1000.0, misses * refused / 1000.0);
            let work = hits / 1000.0 * Self::HIT_US + admitted * Self::MISS_US + shed * Self::REFUSAL_US;
            self.backlog = (self.backlog + work - 1000.0).max(0.0);
            came.hits += hits / 1000.0;
            came.misses += admitted;
            let delay_ms = self.backlog / 1000.0;
            came.delay_ms_max = came.delay_ms_max.max(delay_ms);
            if f64::from(ms) >= tick_due {
                self.is = self.level.decide(from + Duration::from_millis(u64::from(ms)), delay_ms / 10.0);
                tick_due = f64::from(ms) + 10.0 + delay_ms;
            }
        }
        came
    }
}

#[test]
fn a_simulated_server_serves_all_hits_and_as_many_misses_as_fit() {
    let mut server = Server { backlog: 0.0, level: Level::up_to(Level::ALL), is: 0.0 };
    // Half of the thread for hits, misses four times what the other half can serve.
    let (hits, misses) = (0.5e6 / Server::HIT_US, 4.0 * 0.5e6 / Server::MISS_US);
    let seconds: Vec<_> = (0..20).map(|n| server.second(Duration::from_secs(n), hits, misses)).collect();
    let room =
        (1e6 - hits * Server::HIT_US - misses * Server::REFUSAL_US) / (Server::MISS_US - Server::REFUSAL_US);
    for second in &seconds[5..] {
        assert!(second.delay_ms_max < 40.0, "{second:?} of {seconds:?}");
        assert!(second.misses > 0.75 * room, "{second:?}, room for {room}");
    }
    // The flood ends: nothing is refused any more after a second.
    server.second(Duration::from_secs(20), hits, 1000.0);
    let calm = server.second(Duration::from_secs(21), hits, 1000.0);
    assert!(server.is == 0.0 && calm.misses > 999.0, "{calm:?}");
}

#[test]
fn without_the_controller_the_simulated_server_drowns() {
    let mut server = Server { backlog: 0.0, level: Level::up_to(0.0), is: 0.0 };
    let (hits, misses) = (0.5e6 / Server::HIT_US, 4.0 * 0.5e6 / Server::MISS_US);
    let came = server.second(Duration::ZERO, hits, misses);
    assert!(came.delay_ms_max > 500.0, "{came:?}");
}
