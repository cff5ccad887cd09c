#![allow(clippy::unwrap_used)]
use super::fit::{Series, Shedding, fit};
use super::*;

/// μ1 = 100 000, μ2 = 25 000: the capacity is 20 000, the slope past it −0.25.
const SERVER: Server = Server {
    receive_per_s: 100_000.0,
    serve_per_s: 25_000.0,
    queues: Queues { receive: 1000.0, serve: 4096.0 },
};

fn near(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected.abs().max(1e-12), "{found}, not {expected}");
}

#[test]
fn losses_are_those_of_the_formula() {
    // By hand: 0.5²·0.5/(1 − 0.5³) = 0.125/0.875; 2²·(−1)/(1 − 2³) = 4/7; ρ = 1 gives 1/(l + 1).
    for (rho, length, expected) in [
        (0.5, 2.0, 1.0 / 7.0),
        (2.0, 2.0, 4.0 / 7.0),
        (1.0, 9.0, 0.1),
        (0.9, 10.0, 0.9_f64.powi(10) * 0.1 / (1.0 - 0.9_f64.powi(11))),
        (3.0, 1.0, 0.75),
    ] {
        near(loss(rho, length), expected, 1e-12);
    }
}

#[test]
fn losses_have_their_limits() {
    assert_eq!(loss(0.0, 100.0), 0.0);
    assert_eq!(loss(f64::INFINITY, 100.0), 1.0);
    // A long queue loses exactly what is too much, and does not overflow.
    near(loss(4.0, 4096.0), 0.75, 1e-12);
    assert_eq!(loss(0.5, 4096.0), 0.0);
    // Continuous where the formula is 0/0.
    for rho in [1.0 - 1e-7, 1.0 + 1e-7, 1.0 - 1e-14, 1.0 + 1e-14] {
        near(loss(rho, 1000.0), 1.0 / 1001.0, 1e-3);
    }
    for rho in [0.2, 0.99, 1.0, 1.01, 7.0] {
        near(finds_fewer(50.0, rho, 50.0), 1.0 - loss(rho, 50.0), 1e-9);
    }
}

#[test]
fn the_line_past_the_peak_is_the_sources() {
    near(SERVER.capacity(), 20_000.0, 1e-12);
    for (offered, expected) in [
        (0.0, 0.0),
        (10_000.0, 10_000.0),
        // (1 − λ/μ1)·μ2
        (40_000.0, 15_000.0),
        (80_000.0, 5_000.0),
    ] {
        assert!(
            (SERVER.throughput(offered) - expected).abs() < 1.0,
            "{offered}: {}",
            SERVER.throughput(offered)
        );
    }
    let slope = (SERVER.throughput(80_000.0) - SERVER.throughput(40_000.0)) / 40_000.0;
    near(slope, -SERVER.serve_per_s / SERVER.receive_per_s, 1e-3);
    // Everything goes into receiving, and stage 1 loses what it cannot take.
    assert!(SERVER.throughput(1e9) < 30.0, "{}", SERVER.throughput(1e9));
    near(SERVER.received(1e9), 100_000.0, 1e-3);
}

#[test]
fn a_deadline_shorter_than_the_queue_takes_all() {
    // The queue of 4096 takes 0.2 s and more past the peak: nothing for those who wait 100 ms, all for those who wait 1 s.
    assert_eq!(SERVER.good_within(10_000.0, 0.1).round(), 10_000.0);
    assert!(SERVER.good_within(30_000.0, 0.1) < 1.0);
    near(SERVER.good_within(30_000.0, 1.0), SERVER.throughput(30_000.0), 1e-9);
    // A queue that fits into the deadline loses nothing to it: 0.1 s × 15 000/s are 1500 turns.
    let short = Server { queues: Queues { serve: 1000.0, ..SERVER.queues }, ..SERVER };
    near(short.good_within(40_000.0, 0.1), 15_000.0, 1e-3);
    assert_eq!(SERVER.good_within(1e12, 0.1), 0.0);
}

#[test]
fn shedding_costs_what_drops_cost() {
    // (1 − 80/400)/(1/20 − 1/400) = 0.8/0.0475 thousand.
    near(SERVER.with_shedding(80_000.0, 400_000.0), 16_842.105, 1e-6);
    near(SERVER.with_shedding(20_000.0, 400_000.0), 20_000.0, 1e-12);
    assert_eq!(SERVER.with_shedding(500_000.0, 400_000.0), 0.0);
    assert_eq!(SERVER.with_drops_elsewhere(80_000.0), 20_000.0);
    assert_eq!(SERVER.with_drops_elsewhere(7.0), 7.0);
    for offered in [25_000.0, 50_000.0, 90_000.0] {
        assert!(SERVER.with_shedding(offered, 400_000.0) > SERVER.throughput(offered));
    }
}

fn series(shedding: Shedding, deadline_s: f64, good: impl Fn(f64) -> f64) -> Series {
    let points = [10e3, 15e3, 20e3, 30e3, 40e3, 60e3, 80e3].map(|offered| (offered, good(offered))).to_vec();
    Series { shedding, deadline_s, queues: SERVER.queues, points }
}

#[test]
fn a_fit_finds_the_rates_that_made_the_points() {
    let off = series(Shedding::None, 1.0, |offered| SERVER.good_within(offered, 1.0));
    let on = series(Shedding::Syn, 0.1, |offered| SERVER.with_shedding(offered, 300_000.0));
    let fitted = fit(&[off, on]).unwrap();
    let server = fitted.server.unwrap();
    near(fitted.capacity, 20_000.0, 0.01);
    near(server.receive_per_s, 100_000.0, 0.02);
    near(server.serve_per_s, 25_000.0, 0.02);
    near(fitted.drop_per_s.unwrap(), 300_000.0, 0.02);
    assert!(fitted.error < 0.005, "{}", fitted.error);
    assert!(fitted.tells_receiving());
}

#[test]
fn a_slope_that_drowns_in_noise_is_not_told() {
    // Receiving takes a hundredth of a request, the points are off by ±5 %.
    let server = Server { receive_per_s: 2_000_000.0, serve_per_s: 20_200.0, ..SERVER };
    let noisy =
        |offered: f64, good: f64| good * if ((offered / 5e3) as u32).is_multiple_of(2) { 1.05 } else { 0.95 };
    let off = series(Shedding::None, 1.0, |offered| noisy(offered, server.good_within(offered, 1.0)));
    assert!(!fit(&[off]).unwrap().tells_receiving());
}

#[test]
fn a_fit_bears_noise_and_says_how_much_is_left() {
    // ±3 %, alternating.
    let noisy =
        |offered: f64, good: f64| good * if ((offered / 5e3) as u32).is_multiple_of(2) { 1.03 } else { 0.97 };
    let off = series(Shedding::None, 1.0, |offered| noisy(offered, SERVER.good_within(offered, 1.0)));
    let fitted = fit(&[off]).unwrap();
    near(fitted.capacity, 20_000.0, 0.05);
    near(fitted.server.unwrap().receive_per_s, 100_000.0, 0.15);
    assert!((0.002..0.04).contains(&fitted.error), "{}", fitted.error);
}

#[test]
fn a_fit_says_no_more_than_its_points_can_tell() {
    let on = series(Shedding::Syn, 0.1, |offered| SERVER.with_shedding(offered, 300_000.0));
    let fitted = fit(std::slice::from_ref(&on)).unwrap();
    assert!(fitted.server.is_none());
    near(fitted.drop_per_s.unwrap(), 300_000.0, 0.02);
    let flat = series(Shedding::Elsewhere, 0.1, |offered| SERVER.with_drops_elsewhere(offered));
    let fitted = fit(&[flat]).unwrap();
    assert!(fitted.server.is_none() && fitted.drop_per_s.is_none());
    near(fitted.capacity, 20_000.0, 0.01);
    // Where a deadline took all, receiving cannot be told from serving.
    let collapsed = series(Shedding::None, 0.1, |offered| SERVER.good_within(offered, 0.1));
    let fitted = fit(&[collapsed]).unwrap();
    assert!(fitted.server.is_none());
    // Between the last rate that was served and the first that was not.
    assert!((15_000.0..=20_500.0).contains(&fitted.capacity), "{}", fitted.capacity);
    // Nothing past the peak, nothing at all.
    let below = Series { points: vec![(1e3, 1e3), (2e3, 2e3)], ..on.clone() };
    for series in [&[][..], &[below], &[Series { points: vec![(1e3, 0.0)], ..on.clone() }]] {
        assert_eq!(fit(series), None);
    }
}
