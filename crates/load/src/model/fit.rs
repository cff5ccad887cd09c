//! Which rates explain what was measured: least squares over all series at once, by a grid and the simplex of Nelder and
//! Mead (*The Computer Journal* 7, 1965). Deterministic: the same points give the same rates.
//!
//! What is looked for is put in three numbers that any value is sensible for: the logarithm of the capacity, the share of
//! it that goes into receiving (as log-odds), and the logarithm of how many drops cost as much as one request. A series
//! tells only some of them, and [`Fitted`] says no more than its series could tell.

use serde::{Deserialize, Serialize};

use super::{Queues, Server, with_shedding};

/// What a server does with connections that are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shedding {
    /// It accepts all.
    None,
    /// It drops SYNs, and pays for that itself.
    Syn,
    /// Another processor drops them.
    Elsewhere,
}

/// One server at several rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it does when they are too many.
    pub shedding: Shedding,
    /// A reply that takes longer, in seconds, was not counted.
    pub deadline_s: f64,
    /// Room before the server, and in it.
    pub queues: Queues,
    /// Offered and good, both per second.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    fn peak(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Whether it was asked for so much that the rates show: only past the peak do they.
    fn reaches_past_the_peak(&self) -> bool {
        self.points.iter().any(|point| point.0 > 1.2 * self.peak())
    }

    /// Whether receiving and serving can be told apart: where the deadline has taken all, they cannot.
    fn shows_the_slope(&self) -> bool {
        let peak = self.peak();
        let is_on_it = |point: &&(f64, f64)| point.0 > 1.2 * peak && point.1 > SLOPE_MIN * peak;
        self.shedding == Shedding::None && self.points.iter().filter(is_on_it).count() >= 2
    }
}

/// Less of the peak than this is a collapse and no slope.
const SLOPE_MIN: f64 = 0.3;

/// What the series could tell of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitted {
    /// Requests a second at the peak.
    pub capacity: f64,
    /// μ1 and μ2, from series without shedding; with the queues of the first of them.
    pub server: Option<Server>,
    /// μd: SYNs a second that could be dropped if nothing else was done, from series with shedding at the SYN.
    pub drop_per_s: Option<f64>,
    /// Root of the mean square of the differences, as a share of the capacity.
    pub error: f64,
}

impl Fitted {
    /// Whether receiving takes more of the server's time than the points are off by.
    pub fn tells_receiving(&self) -> bool {
        self.server.is_some_and(|server| self.capacity / server.receive_per_s > self.error)
    }
}

/// The rates that fit best; nothing where no series goes past its peak.
pub fn fit(series: &[Series]) -> Option<Fitted> {
    let past: Vec<&Series> = series.iter().filter(|series| series.reaches_past_the_peak()).collect();
    let peak = past.iter().map(|series| series.peak()).fold(0.0, f64::max);
    if peak <= 0.0 {
        return None;
    }
    let slope = past.iter().find(|series| series.shows_the_slope());
    let drops = past.iter().any(|series| series.shedding == Shedding::Syn);
    let cost = |at: &Point| Guess::of(at, peak).error(&past) / peak;
    let best = least(&cost);
    let guess = Guess::of(&best, peak);
    Some(Fitted {
        capacity: guess.capacity,
        server: slope.map(|series| guess.server(series.queues)),
        drop_per_s: drops.then_some(guess.drop_per_s),
        error: cost(&best),
    })
}

/// Three free numbers, read as rates.
struct Guess {
    capacity: f64,
    /// The share of the capacity's time that goes into receiving.
    receiving: f64,
    drop_per_s: f64,
}

/// Shares of 1 in 3000 and of 49 in 50: beyond them nothing real is.
const LOG_ODDS: std::ops::RangeInclusive<f64> = -8.0..=4.0;

impl Guess {
    fn of(at: &Point, peak: f64) -> Self {
        let capacity = peak * at[0].exp();
        let receiving = 1.0 / (1.0 + (-at[1].clamp(*LOG_ODDS.start(), *LOG_ODDS.end())).exp());
        // A drop costs less than a request, or it would not be done.
        Self { capacity, receiving, drop_per_s: capacity * (1.0 + at[2].exp()) }
    }

    fn server(&self, queues: Queues) -> Server {
        let Self { capacity, receiving, .. } = *self;
        Server { receive_per_s: capacity / receiving, serve_per_s: capacity / (1.0 - receiving), queues }
    }

    fn predicts(&self, series: &Series, offered: f64) -> f64 {
        match series.shedding {
            Shedding::None => self.server(series.queues).good_within(offered, series.deadline_s),
            Shedding::Syn => with_shedding(self.capacity, offered, self.drop_per_s),
            Shedding::Elsewhere => offered.min(self.capacity),
        }
    }

    fn error(&self, series: &[&Series]) -> f64 {
        let differences: Vec<f64> = series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| self.predicts(series, point.0) - point.1))
            .collect();
        (differences.iter().map(|difference| difference * difference).sum::<f64>() / differences.len() as f64)
            .sqrt()
    }
}

type Point = [f64; 3];

/// Steps of the simplex; it has settled long before.
const STEPS: usize = 400;

/// Where `cost` is least: from the best of a coarse grid on, by the simplex, twice, because a simplex may collapse early.
fn least(cost: &impl Fn(&Point) -> f64) -> Point {
    let axis = |from: f64, to: f64| (0..8).map(move |step| from + (to - from) * f64::from(step) / 7.0);
    let grid = axis(-0.1, 0.3)
        .flat_map(|a| axis(-5.0, 1.0).map(move |b| (a, b)))
        .flat_map(|(a, b)| axis(-1.0, 5.0).map(move |c| [a, b, c]));
    let start = grid.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or_default();
    simplex(cost, simplex(cost, start))
}

fn simplex(cost: &impl Fn(&Point) -> f64, start: Point) -> Point {
    let mut corners = vec![(cost(&start), start)];
    for axis in 0..start.len() {
        let mut corner = start;
        corner[axis] += 0.2;
        corners.push((cost(&corner), corner));
    }
    for _ in 0..STEPS {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        step(cost, &mut corners);
    }
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    corners[0].1
}

/// Moves the worst corner of a sorted simplex: reflects it, further if that is good, back if it is not, and draws all
/// corners to the best where nothing helps.
fn step(cost: &impl Fn(&Point) -> f64, corners: &mut [(f64, Point)]) {
    let worst = corners.len() - 1;
    let centre = centre(&corners[..worst]);
    let at = |factor: f64| {
        let point = mix(&centre, &corners[worst].1, factor);
        (cost(&point), point)
    };
    let reflected = at(-1.0);
    let moved = if reflected.0 < corners[0].0 {
        Some([reflected, at(-2.0)]).map(|[near, far]| if far.0 < near.0 { far } else { near })
    } else if reflected.0 < corners[worst - 1].0 {
        Some(reflected)
    } else {
        let contracted = at(if reflected.0 < corners[worst].0 { -0.5 } else { 0.5 });
        (contracted.0 < corners[worst].0.min(reflected.0)).then_some(contracted)
    };
    match moved {
        Some(corner) => corners[worst] = corner,
        None => shrink(cost, corners),
    }
}

fn shrink(cost: &impl Fn(&Point) -> f64, corners: &mut [(f64, Point)]) {
    let best = corners[0].1;
    for corner in &mut corners[1..] {
        corner.1 = mix(&best, &corner.1, 0.5);
        corner.0 = cost(&corner.1);
    }
}

fn centre(corners: &[(f64, Point)]) -> Point {
    std::array::from_fn(|axis| {
        corners.iter().map(|corner| corner.1[axis]).sum::<f64>() / corners.len() as f64
    })
}

/// `from` and `factor` times the way from it to `to`.
fn mix(from: &Point, to: &Point, factor: f64) -> Point {
    std::array::from_fn(|axis| from[axis] + factor * (to[axis] - from[axis]))
}
