//! Planned requests in the order of their start, and the clocks that run over them.
//!
//! All limits of time are the same for all requests, so a clock is a place in that order: whatever is before it has passed.

use crate::outcome::{Fate, Outcome};
use crate::plan::Start;

/// What was planned so far.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    pub(crate) all: Vec<Outcome>,
    /// Where the connection of each is; nowhere if it was not started.
    places: Vec<Option<u32>>,
}

impl Flights {
    /// Adds a request at the moment `now_ns` of the plan; without a place it is not started. It is late until something else
    /// happens.
    pub(crate) fn add(&mut self, start: &Start, now_ns: u64, place: Option<usize>) {
        let fate = if place.is_some() { Fate::Late } else { Fate::NotStarted };
        let Start { at_ns: planned_ns, source, .. } = *start;
        let behind_ns = now_ns.saturating_sub(planned_ns);
        self.all.push(Outcome { planned_ns, behind_ns, latency_ns: 0, source, established: false, fate });
        self.places.push(place.map(|place| place as u32));
    }
}

/// Reaches each request when it has a certain age.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    next: usize,
    age_ns: u64,
}

impl Clock {
    pub(crate) fn new(age_ns: u64) -> Self {
        Self { next: 0, age_ns }
    }

    /// When it reaches the next.
    pub(crate) fn next_ns(&self, flights: &Flights) -> Option<u64> {
        flights.all.get(self.next).map(|outcome| outcome.planned_ns + self.age_ns)
    }

    /// The next request that was started and has reached the age: its number and its place.
    pub(crate) fn due(&mut self, flights: &Flights, now_ns: u64) -> Option<(usize, usize)> {
        while self.next_ns(flights)? <= now_ns {
            let flight = self.next;
            self.next += 1;
            if let Some(place) = flights.places[flight] {
                return Some((flight, place as usize));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_reaches_what_was_started_once_and_in_order() {
        let mut flights = Flights::default();
        for (n, place) in [Some(5), None, Some(7)].into_iter().enumerate() {
            flights.add(&Start { at_ns: n as u64 * 10, expires_ns: 0, source: 0 }, 15, place);
        }
        assert_eq!(flights.all.iter().map(|outcome| outcome.behind_ns).collect::<Vec<_>>(), [15, 5, 0]);
        let mut clock = Clock::new(100);
        assert_eq!((clock.due(&flights, 99), clock.next_ns(&flights)), (None, Some(100)));
        assert_eq!((clock.due(&flights, 115), clock.due(&flights, 115)), (Some((0, 5)), None));
        assert_eq!((clock.due(&flights, 1000), clock.due(&flights, 1000)), (Some((2, 7)), None));
        assert_eq!(clock.next_ns(&flights), None);
        assert_eq!(flights.all.iter().filter(|outcome| outcome.fate == Fate::NotStarted).count(), 1);
    }
}
