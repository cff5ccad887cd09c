//! The requests that are replayed: who is asked for, and how large everybody is.
//!
//! Each mix is a table row: a law of popularity, what disturbs it, and a law of sizes. The same seed gives the
//! same trace everywhere.

use super::chance::{Chance, Zipf};

/// Requests by object number, and each object's size in bytes.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Whose turn it is.
    pub(crate) requests: Vec<u32>,
    /// By object number.
    pub(crate) sizes: Vec<u32>,
}

impl Trace {
    /// Bytes of all objects that are asked for at least once.
    pub(crate) fn footprint(&self) -> u64 {
        let mut seen = vec![false; self.sizes.len()];
        self.requests.iter().for_each(|&of| seen[of as usize] = true);
        let seen = seen.iter().zip(&self.sizes).filter(|(seen, _)| **seen);
        seen.map(|(_, &size)| u64::from(size)).sum()
    }
}

/// What disturbs the law of popularity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbed {
    /// Nothing.
    Not,
    /// So many percent of the requests are for objects that nobody asks for again.
    OneHitWonders(u32),
    /// Now and then a walk over so many objects per thousand, in order, between the other requests.
    Scans(u32),
    /// The ranks move on: the whole order is new after the trace.
    Drift,
    /// The ranks are dealt anew so many times.
    Flash(u32),
}

/// How sizes are distributed. Popularity does not depend on size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// All the same.
    Equal,
    /// Log-normal: median 2700 bytes, standard deviation of the logarithm 1.
    LogNormal,
    /// Like the web's: log-normal bodies, one in fourteen with a Pareto tail (exponent 1.2) up to 1 MiB.
    Web,
}

/// A mix of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    /// What the tables call it.
    pub(crate) name: &'static str,
    /// Zipf's exponent.
    pub(crate) alpha: f64,
    /// What else happens.
    pub(crate) disturbed: Disturbed,
    /// How large objects are.
    pub(crate) sizes: Sizes,
}

const fn mix(name: &'static str, alpha: f64, disturbed: Disturbed, sizes: Sizes) -> Mix {
    Mix { name, alpha, disturbed, sizes }
}

/// Every mix.
pub(crate) const MIXES: &[Mix] = &[
    mix("zipf 0.7", 0.7, Disturbed::Not, Sizes::Equal),
    mix("zipf 0.9", 0.9, Disturbed::Not, Sizes::Equal),
    mix("zipf 1.1", 1.1, Disturbed::Not, Sizes::Equal),
    mix("30 % one-hit wonders", 0.9, Disturbed::OneHitWonders(30), Sizes::Equal),
    mix("50 % one-hit wonders", 0.9, Disturbed::OneHitWonders(50), Sizes::Equal),
    mix("70 % one-hit wonders", 0.9, Disturbed::OneHitWonders(70), Sizes::Equal),
    mix("scans", 0.9, Disturbed::Scans(200), Sizes::Equal),
    mix("drift", 0.9, Disturbed::Drift, Sizes::Equal),
    mix("flash", 0.9, Disturbed::Flash(8), Sizes::Equal),
    mix("log-normal sizes", 0.9, Disturbed::Not, Sizes::LogNormal),
    mix("web", 0.8, Disturbed::OneHitWonders(30), Sizes::Web),
    mix("web, drift", 0.9, Disturbed::Drift, Sizes::Web),
];

impl Mix {
    /// A trace over about `objects` objects, ten requests for each.
    pub(crate) fn trace(&self, objects: u32, seed: u64) -> Trace {
        let mut chance = Chance::new(seed);
        let mut requests = Requests::new(self, objects, &mut chance);
        let requests: Vec<u32> = (0..objects * 10).map(|at| requests.next(at, &mut chance)).collect();
        let count = requests.iter().max().map_or(0, |most| most + 1);
        let sizes = (0..count).map(|_| self.sizes.draw(&mut chance)).collect();
        Trace { requests, sizes }
    }
}

impl Sizes {
    fn draw(self, chance: &mut Chance) -> u32 {
        let log_normal =
            |chance: &mut Chance, median: f64, sigma: f64| median * (sigma * chance.normal()).exp();
        let size = match self {
            Self::Equal => 4096.0,
            Self::LogNormal => log_normal(chance, 2700.0, 1.0),
            Self::Web if chance.below(14) == 0 => 24_000.0 * chance.share().powf(-1.0 / 1.2),
            Self::Web => log_normal(chance, 2700.0, 1.3),
        };
        (size.clamp(128.0, 1_048_576.0) as u32).next_multiple_of(64)
    }
}

/// Draws one request after the other.
struct Requests {
    zipf: Zipf,
    disturbed: Disturbed,
    objects: u32,
    total: u32,
    /// Which object has a rank.
    ranked: Vec<u32>,
    /// Number of the next object that was never asked for.
    fresh: u32,
    /// What a scan under way still walks over.
    scan: std::ops::Range<u32>,
}

impl Requests {
    fn new(mix: &Mix, objects: u32, chance: &mut Chance) -> Self {
        let zipf = Zipf::new(objects, mix.alpha);
        let mut ranked: Vec<u32> = (0..objects).collect();
        shuffle(&mut ranked, chance);
        let total = objects * 10;
        Self { zipf, disturbed: mix.disturbed, objects, total, ranked, fresh: objects, scan: 0..0 }
    }

    fn next(&mut self, at: u32, chance: &mut Chance) -> u32 {
        match self.disturbed {
            Disturbed::OneHitWonders(percent) if chance.below(100) < percent => return self.never_seen(),
            Disturbed::Scans(per_mille) => {
                if let Some(of) = self.scanned(at, per_mille, chance) {
                    return of;
                }
            }
            Disturbed::Drift => self.drift(at, chance),
            Disturbed::Flash(times) if at.is_multiple_of(self.total / times) => {
                shuffle(&mut self.ranked, chance);
            }
            _ => {}
        }
        self.ranked[self.zipf.draw(chance) as usize]
    }

    fn never_seen(&mut self) -> u32 {
        self.fresh += 1;
        self.fresh - 1
    }

    /// Ten scans in a trace; while one is under way it takes every other request.
    fn scanned(&mut self, at: u32, per_mille: u32, chance: &mut Chance) -> Option<u32> {
        if at.is_multiple_of(self.total / 10) {
            let len = (u64::from(self.objects) * u64::from(per_mille) / 1000) as u32;
            let from = self.objects + chance.below(self.objects);
            self.scan = from..from + len;
        }
        if chance.below(2) == 0 { self.scan.next() } else { None }
    }

    /// Swaps a rank with one nearby or far, often enough that each moves about once in a trace.
    fn drift(&mut self, at: u32, chance: &mut Chance) {
        if at.is_multiple_of(10) {
            let (one, other) = (chance.below(self.objects), chance.below(self.objects));
            self.ranked.swap(one as usize, other as usize);
        }
    }
}

fn shuffle(of: &mut [u32], chance: &mut Chance) {
    for at in (1..of.len()).rev() {
        of.swap(at, chance.below(at as u32 + 1) as usize);
    }
}
