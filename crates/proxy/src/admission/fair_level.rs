//! At which level the sources of new connections are cut, so that a wanted share of all is dropped. Pure: tallies and the
//! time in, a rule out.
//!
//! A share alone is fair to nobody: it takes from whoever asks once as much as from whoever asks a thousand times. A level
//! takes from those above it only (max-min fairness, by approximate fair dropping: Pan et al. 2003), but which level drops
//! a wanted share depends on the crowd: it is a thousand a window for one flooder, and below one for a thousand clients
//! that come once. So the level is the share that enters times a *scale*: the crowd that the average request comes in, which is
//! exact if all sources are alike and known at once, times a correction by what really entered, which is learned slowly.
//!
//! What must hold: a change of the share takes effect at once, with or without a scale; a wrong scale costs fairness for
//! some windows, never control: the share is closed-loop, by the delay of those who enter.

use std::time::{Duration, Instant};

use sys::xdp::{Rule, Tally};

/// Requests that an estimate is made from, and of those that entered, or were meant to, that a correction is made from: fewer
/// say little.
const ENOUGH: f64 = 100.0;
/// A correction is made this seldom: it takes a window until the program has seen what the last one did, and a flood that
/// comes in bursts enters with the beginning of each.
const SETTLED: Duration = Duration::from_millis(67);
/// A larger share says that the server stands still, not how large the crowd is: nothing is learned from it.
const SHARE_TRUSTED: f64 = 0.98;
/// The most that one correction changes.
const STEP_MAX: f64 = 4.0;
/// Where all sources ask once, the level is the share: less is never needed.
const SCALE_MIN: f64 = 1.0;
/// The crowd of the average request is at least the scale, but for chance and for sources that change their pace.
const CORRECTION_MAX: f64 = 4.0;
/// More than any source can ask within a window.
const SCALE_MAX: f64 = (1_u64 << 25) as f64;
/// A crowd that was seen less long ago is taken for the same.
const SAME_CROWD: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub(super) struct FairLevel {
    /// How often the source of the average request had asked: the scale, if all sources are alike.
    crowd: Option<f64>,
    /// What the scale is of that: less, where many that ask seldom are among few that ask often.
    correction: f64,
    corrected: Option<Instant>,
    /// In force since the last decision.
    share: f64,
    /// At the last decision.
    tally: Tally,
    /// Since the crowd was estimated.
    came: Came,
    /// Since the last correction.
    entered: Entered,
}

#[derive(Debug, Default)]
struct Came {
    seen: f64,
    crowd: f64,
}

#[derive(Debug, Default)]
struct Entered {
    entered: f64,
    meant_to: f64,
}

impl Default for FairLevel {
    fn default() -> Self {
        Self {
            crowd: None,
            correction: 1.0,
            corrected: None,
            share: 0.0,
            tally: Tally::default(),
            came: Came::default(),
            entered: Entered::default(),
        }
    }
}

impl FairLevel {
    /// The rule from now on, when this share of new connections, 0 to 1, is to be dropped, and so much has come so far.
    pub(super) fn decide(&mut self, share: f64, tally: Tally, now: Instant) -> Rule {
        let share = if share > 0.0 { share } else { 0.0 }; // what is not a number drops nothing
        if self.share > 0.0 {
            self.learn(tally, now);
        } else {
            self.begin(now);
        }
        (self.share, self.tally) = (share, tally);
        match self.crowd {
            _ if share == 0.0 => Rule::Open,
            None => Rule::Share(1.0 - share),
            Some(crowd) => Rule::Level((1.0 - share) * (crowd * self.correction).clamp(SCALE_MIN, SCALE_MAX)),
        }
    }

    /// What came while everything entered says nothing; nor does what came in an earlier flood.
    fn begin(&mut self, now: Instant) {
        let is_old = |at: Instant| now.saturating_duration_since(at) > SAME_CROWD;
        if self.corrected.is_none_or(is_old) {
            *self = Self { corrected: Some(now), ..Self::default() };
        }
        (self.came, self.entered) = (Came::default(), Entered::default());
    }

    fn learn(&mut self, tally: Tally, now: Instant) {
        let since = |now: u64, before: u64| now.wrapping_sub(before) as f64;
        let seen = since(tally.seen, self.tally.seen);
        self.came.seen += seen;
        self.came.crowd += since(tally.crowd, self.tally.crowd);
        if self.crowd.is_some() && self.share <= SHARE_TRUSTED {
            self.entered.entered += seen - since(tally.dropped, self.tally.dropped);
            self.entered.meant_to += seen * (1.0 - self.share);
        }
        if self.came.seen >= ENOUGH {
            self.crowd = Some(self.came.crowd / self.came.seen);
            self.came = Came::default();
        }
        self.correct(now);
    }

    fn correct(&mut self, now: Instant) {
        let Entered { entered, meant_to } = self.entered;
        let is_settled = |at: Instant| now.saturating_duration_since(at) >= SETTLED;
        if entered.max(meant_to) >= ENOUGH && self.corrected.is_none_or(is_settled) {
            let step = (meant_to / entered.max(1.0)).clamp(1.0 / STEP_MAX, STEP_MAX);
            self.correction = (self.correction * step).clamp(1.0 / SCALE_MAX, CORRECTION_MAX);
            self.corrected = Some(now);
            self.entered = Entered::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::xdp::WINDOW_SECONDS;

    /// The program's naive twin: sources with a steady rate each, in expectation, without chance.
    struct Crowd<'a> {
        level: FairLevel,
        rule: Rule,
        /// How many sources there are, how often each asks in a second, and what entered of one.
        sources: &'a [(f64, f64)],
        totals: [f64; 3],
        now: Instant,
    }

    impl Crowd<'_> {
        fn new(sources: &[(f64, f64)]) -> Crowd<'_> {
            Crowd {
                level: FairLevel::default(),
                rule: Rule::Open,
                sources,
                totals: [0.0; 3],
                now: Instant::now(),
            }
        }

        /// One period of 2 ms under the rule, and the next rule. Returns for each kind the share that entered.
        fn period(&mut self, share: f64) -> Vec<f64> {
            let entering: Vec<_> =
                self.sources.iter().map(|(_, rate)| entering(self.rule, rate * WINDOW_SECONDS)).collect();
            for ((sources, rate), entering) in self.sources.iter().zip(&entering) {
                let seen = sources * rate * 0.002;
                self.totals[0] += seen;
                self.totals[1] += seen * (rate * WINDOW_SECONDS).max(1.0);
                self.totals[2] += seen * (1.0 - entering);
            }
            let [seen, crowd, dropped] = self.totals.map(|total| total as u64);
            self.now += Duration::from_millis(2);
            self.rule = self.level.decide(share, Tally { seen, crowd, dropped }, self.now);
            entering
        }

        fn entered_of_all(&self, entering: &[f64]) -> f64 {
            let asked = |(sources, rate): &(f64, f64)| sources * rate;
            let entered: f64 = self.sources.iter().zip(entering).map(|(s, share)| asked(s) * share).sum();
            entered / self.sources.iter().map(asked).sum::<f64>()
        }
    }

    fn entering(rule: Rule, times: f64) -> f64 {
        match rule {
            Rule::Open => 1.0,
            Rule::Share(share) => share,
            Rule::Level(level) => (level / times.max(1.0)).min(1.0),
        }
    }

    #[test]
    fn any_crowd_is_cut_to_the_share_within_two_seconds() {
        let crowds: [&[(f64, f64)]; 6] = [
            &[(1.0, 80_000.0)],
            &[(6.0, 13_000.0)],
            &[(50_000.0, 1.0)],
            &[(1.0, 72_000.0), (1.0, 8_000.0)],
            &[(1.0, 40_000.0), (40_000.0, 1.0)],
            &[(3.0, 20_000.0), (100.0, 100.0), (9_000.0, 1.0)],
        ];
        for sources in crowds {
            for share in [0.02, 0.3, 0.6, 0.97] {
                let mut crowd = Crowd::new(sources);
                let last = (0..1000).map(|_| crowd.period(share)).last().unwrap_or_default();
                let entered = crowd.entered_of_all(&last);
                assert!((entered / (1.0 - share) - 1.0).abs() < 0.05, "{sources:?} {share}: {entered}");
            }
        }
    }

    #[test]
    fn one_source_with_nine_tenths_takes_nothing_from_another() {
        let mut crowd = Crowd::new(&[(1.0, 72_000.0), (1.0, 8_000.0)]);
        let mut last = Vec::new();
        for _ in 0..250 {
            last = crowd.period(0.6);
        }
        // 32 000 enter, so the fair share is 16 000: more than the small one asks for.
        assert!(last[1] > 0.999 && last[0] < 0.35, "{last:?}");
        // A share of 0.95 leaves 2 000 for each of them.
        for _ in 0..250 {
            last = crowd.period(0.95);
        }
        let (large, small) = (last[0] * 72_000.0, last[1] * 8_000.0);
        assert!((small / large - 1.0).abs() < 0.01, "{large} {small}");
    }

    #[test]
    fn a_change_takes_effect_at_once_and_a_crowd_is_remembered_for_a_while() {
        let mut crowd = Crowd::new(&[(6.0, 13_000.0)]);
        crowd.period(0.5);
        assert_eq!(crowd.rule, Rule::Share(0.5), "at first there is no scale");
        for _ in 0..20 {
            crowd.period(0.5);
        }
        let Rule::Level(level) = crowd.rule else { panic!("{:?}", crowd.rule) };
        crowd.period(0.75);
        let Rule::Level(halved) = crowd.rule else { panic!("{:?}", crowd.rule) };
        assert!((halved * 2.0 / level - 1.0).abs() < 0.05, "{level} {halved}");
        crowd.period(0.0);
        assert_eq!(crowd.rule, Rule::Open);
        crowd.now += SAME_CROWD / 2;
        crowd.period(0.25);
        let Rule::Level(again) = crowd.rule else { panic!("{:?}", crowd.rule) };
        assert!((again / 0.75 / (level / 0.5) - 1.0).abs() < 0.1, "{level} {again}");
        crowd.period(0.0);
        crowd.now += SAME_CROWD * 2;
        crowd.period(0.25);
        assert_eq!(crowd.rule, Rule::Share(0.75));
    }

    #[test]
    fn a_server_that_stands_still_teaches_nothing() {
        let mut crowd = Crowd::new(&[(1.0, 72_000.0), (1.0, 8_000.0)]);
        for _ in 0..250 {
            crowd.period(0.6);
        }
        crowd.period(0.998);
        let learned = crowd.level.correction;
        for _ in 0..100 {
            crowd.period(0.998);
        }
        assert_eq!(crowd.level.correction, learned);
    }

    #[test]
    fn silence_and_nonsense_change_nothing() {
        let (mut level, now) = (FairLevel::default(), Instant::now());
        let tally = Tally { seen: 10, crowd: 10, dropped: 0 };
        for tally in [tally, tally, Tally { seen: 10, crowd: 10, dropped: 10 }] {
            assert_eq!(level.decide(0.5, tally, now), Rule::Share(0.5), "{tally:?}");
        }
        for share in [f64::NAN, -1.0, 0.0] {
            assert_eq!(level.decide(share, tally, now), Rule::Open, "{share}");
        }
    }
}
