//! What no policy can beat: an upper bound on hits for one who knows the future.
//!
//! PFOO-L (Berger, Beckmann and Harchol-Balter 2018). To hit an object again it has to stay from one request to the
//! next and takes its size times that long of the cache's space-time. Taking the cheapest intervals until
//! capacity times length is used up gives at least as many hits as any policy has, because it asks for the
//! capacity on average only and not at every moment. It holds for any sizes; for equal ones it is close to
//! Belady's optimum from above.

use super::mixes::Trace;

/// The most hits, and the most bytes hit, that a cache of `bytes` can have from request `from` on.
pub(crate) fn most(trace: &Trace, bytes: u64, from: usize) -> (u64, u64) {
    let intervals = intervals(trace, from);
    let budget = bytes as f64 * (trace.requests.len() - from) as f64;
    let by_objects = take(intervals.clone(), budget, |of| of.len as f64 * f64::from(of.size));
    let by_bytes = take(intervals, budget, |of| of.len as f64);
    (by_objects.0, by_bytes.1)
}

/// From one request for an object to the next, which lies at or behind `from`.
#[derive(Debug, Clone, Copy)]
struct Interval {
    /// Requests between, as far as they lie behind `from`.
    len: u32,
    size: u32,
}

fn intervals(trace: &Trace, from: usize) -> Vec<Interval> {
    let mut last = vec![usize::MAX; trace.sizes.len()];
    let mut intervals = Vec::new();
    for (at, &of) in trace.requests.iter().enumerate() {
        let before = std::mem::replace(&mut last[of as usize], at);
        if at >= from && before != usize::MAX {
            let len = (at - before.max(from)) as u32;
            intervals.push(Interval { len, size: trace.sizes[of as usize] });
        }
    }
    intervals
}

/// Takes the cheapest by `price` while the space-time lasts: how many, and their bytes.
fn take(mut intervals: Vec<Interval>, budget: f64, price: impl Fn(&Interval) -> f64) -> (u64, u64) {
    intervals.sort_by(|a, b| price(a).total_cmp(&price(b)));
    let mut left = budget;
    let affordable = intervals.iter().take_while(|of| {
        left -= of.len as f64 * f64::from(of.size);
        left >= 0.0
    });
    affordable.fold((0, 0), |(hits, bytes), of| (hits + 1, bytes + u64::from(of.size)))
}
