//! Where the peak is, roughly: the rate is doubled until replies are missing, and then halved in on. And which rates show
//! what happens around it and past it.

/// Where the search begins.
const FIRST_PER_S: f64 = 500.0;
/// Where it ends, whatever the server does.
const LAST_PER_S: f64 = 1e6;
/// A rate is held when so much of it is good.
const HELD: f64 = 0.9;
/// Steps between the last rate that was held and the first that was not.
const HALVINGS: usize = 4;

/// Multiples of the peak that are measured.
const AROUND: [f64; 8] = [0.4, 0.7, 0.9, 1.0, 1.15, 1.3, 2.0, 3.0];

/// The most good replies a second that were seen; `good_at` offers a rate for a moment.
pub(super) fn search<E>(mut good_at: impl FnMut(f64) -> Result<f64, E>) -> Result<f64, E> {
    let (mut held, mut lost, mut best) = (0.0, LAST_PER_S, 0.0_f64);
    let mut rate = FIRST_PER_S;
    let mut halvings = 0;
    while halvings < HALVINGS && rate < LAST_PER_S {
        let good = good_at(rate)?;
        best = best.max(good);
        if good >= HELD * rate {
            held = rate
        } else {
            lost = rate
        }
        if lost < LAST_PER_S {
            halvings += 1;
            rate = f64::midpoint(held, lost);
        } else {
            rate *= 2.0;
        }
    }
    Ok(best)
}

/// Rates around this peak, in numbers that can be read.
pub(super) fn around(peak_per_s: f64) -> Vec<f64> {
    let step = (10_f64.powf(peak_per_s.max(10.0).log10().floor()) / 20.0).max(1.0);
    AROUND.iter().map(|factor| (factor * peak_per_s / step).round().max(1.0) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(good_at: impl Fn(f64) -> f64) -> f64 {
        let Ok(peak) = search(|rate| Ok::<_, std::convert::Infallible>(good_at(rate)));
        peak
    }

    #[test]
    fn the_peak_is_found_whatever_comes_behind_it() {
        // Flat, a collapse, and never any end.
        assert_eq!(found(|rate| rate.min(18_000.0)), 18_000.0);
        let collapsed = found(|rate| if rate <= 18_000.0 { rate } else { 800.0 });
        assert!((16_000.0..=18_000.0).contains(&collapsed), "{collapsed}");
        assert!(found(|rate| rate) >= 500_000.0);
        assert_eq!(found(|_| 0.0), 0.0);
    }

    #[test]
    fn rates_are_round_and_ascending() {
        assert_eq!(
            around(18_123.0),
            [7000.0, 12_500.0, 16_500.0, 18_000.0, 21_000.0, 23_500.0, 36_000.0, 54_500.0]
        );
        assert!(around(0.0).iter().all(|rate| *rate >= 1.0));
    }
}
