//! One cell of the table: every policy on one trace with as many bytes, and what is written down of it.

use super::mixes::Mix;
use super::opponents::{Cache, OPPONENTS};
use super::tidegate::Tidegate;
use super::{mixes::Trace, optimum};
use store::Admission;

const SEED: u64 = 7;

/// Hits in percent of what was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ratio {
    /// Of the requests.
    pub(crate) objects: f64,
    /// Of the bytes.
    pub(crate) bytes: f64,
}

impl Ratio {
    fn of(self, measure: Measure) -> f64 {
        match measure {
            Measure::Objects => self.objects,
            Measure::Bytes => self.bytes,
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Each request.
    Objects,
    /// Each byte.
    Bytes,
}

impl Measure {
    /// Both.
    pub(crate) const BOTH: [Self; 2] = [Self::Objects, Self::Bytes];

    /// The word for tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Bytes => "bytes",
        }
    }
}

/// All policies with one mix and one size of cache.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) mix: &'static str,
    pub(crate) share: u64,
    /// Bytes of objects that everybody may hold.
    pub(crate) bytes: u64,
    /// In the order of [`OPPONENTS`].
    pub(crate) opponents: Vec<Ratio>,
    /// Upper bound for anybody.
    pub(crate) most: Ratio,
    /// The store with `store.admission = "all"`, and as it is by default.
    pub(crate) all: Subject,
    pub(crate) frequency: Subject,
}

/// The store in a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) ratio: Ratio,
    /// Bytes written for each byte that was stored.
    pub(crate) amplification: f64,
    /// Bytes written for each byte that was asked for.
    pub(crate) written: f64,
}

impl Cell {
    /// Replays the mix over about so many objects, for caches of these percents of the footprint.
    pub(crate) fn measure(mix: &Mix, shares: &[u64], objects: u32) -> Vec<Self> {
        let trace = mix.trace(objects, SEED);
        shares.iter().map(|&share| Self::of(mix.name, &trace, share)).collect()
    }

    fn of(mix: &'static str, trace: &Trace, share: u64) -> Self {
        let device_bytes = trace.footprint() * share / 100;
        let bytes = Tidegate::holds(device_bytes, &trace.sizes);
        let opponent =
            |(_, make): &(&str, super::opponents::Make)| replay(&mut *make(bytes, trace.sizes.len()), trace);
        Self {
            mix,
            share,
            bytes,
            opponents: OPPONENTS.iter().map(opponent).collect(),
            most: most(trace, bytes),
            all: subject(trace, device_bytes, Admission::All),
            frequency: subject(trace, device_bytes, Admission::Frequency),
        }
    }

    /// Points by which the store is behind the best opponent; negative where it is ahead.
    pub(crate) fn behind(&self, measure: Measure) -> f64 {
        let best = self.opponents.iter().map(|ratio| ratio.of(measure)).fold(0.0, f64::max);
        best - self.frequency.ratio.of(measure)
    }

    /// Points by which the store is ahead of LRU.
    pub(crate) fn ahead_of_lru(&self, measure: Measure) -> f64 {
        self.frequency.ratio.of(measure) - self.opponents[0].of(measure)
    }
}

/// The first quarter fills the caches and is not counted.
fn counted_from(trace: &Trace) -> usize {
    trace.requests.len() / 4
}

fn replay(cache: &mut dyn Cache, trace: &Trace) -> Ratio {
    let (mut hits, mut hit_bytes, mut bytes) = (0_u64, 0, 0);
    let from = counted_from(trace);
    for (at, &of) in trace.requests.iter().enumerate() {
        let size = trace.sizes[of as usize];
        let hit = cache.request(of, size);
        if at >= from {
            bytes += u64::from(size);
            hits += u64::from(hit);
            hit_bytes += if hit { u64::from(size) } else { 0 };
        }
    }
    percent(hits, (trace.requests.len() - from) as u64, hit_bytes, bytes)
}

fn most(trace: &Trace, bytes: u64) -> Ratio {
    let from = counted_from(trace);
    let (hits, hit_bytes) = optimum::most(trace, bytes, from);
    let counted = &trace.requests[from..];
    percent(hits, counted.len() as u64, hit_bytes, bytes_of(trace, counted))
}

fn subject(trace: &Trace, device_bytes: u64, admission: Admission) -> Subject {
    let mut store = Tidegate::new(device_bytes, admission);
    let ratio = replay(&mut store, trace);
    let (amplification, written) = store.written();
    let written = written as f64 / bytes_of(trace, &trace.requests) as f64;
    Subject { ratio, amplification, written }
}

fn bytes_of(trace: &Trace, requests: &[u32]) -> u64 {
    requests.iter().map(|&of| u64::from(trace.sizes[of as usize])).sum()
}

fn percent(hits: u64, requests: u64, hit_bytes: u64, bytes: u64) -> Ratio {
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    Ratio { objects: share(hits, requests), bytes: share(hit_bytes, bytes) }
}
