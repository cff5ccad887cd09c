//! Several runs of one thing: what a machine with other things to do gives in one of them proves nothing.
//!
//! A *pass* is one run; the passes of a server are its runs with the same way of shedding and the same deadline, in the
//! order in which they were made. What must hold: every figure of the summary is the middle one of all passes, with the
//! least and the most beside it; where servers are compared, passes of the same number are, which were made one after the
//! other; tables and charts show the whole pass whose peak is in the middle.

use crate::overload::Run;

/// At least one pass.
pub(super) struct Passes<'a> {
    /// The one that is shown.
    middle: &'a Run,
    all: Vec<&'a Run>,
}

impl<'a> Passes<'a> {
    /// Of all runs, ordered by who was first.
    pub(super) fn of(runs: &'a [Run]) -> Vec<Self> {
        let mut passes: Vec<Vec<&Run>> = Vec::new();
        for run in runs {
            match passes.iter_mut().find(|of| of[0].is_pass_of_the_same(run)) {
                Some(of) => of.push(run),
                None => passes.push(vec![run]),
            }
        }
        passes.into_iter().filter_map(Self::new).collect()
    }

    fn new(all: Vec<&'a Run>) -> Option<Self> {
        let mut by_peak = all.clone();
        by_peak.sort_by(|a, b| a.peak_per_s.total_cmp(&b.peak_per_s));
        Some(Self { middle: by_peak.get(by_peak.len() / 2)?, all })
    }

    /// The one whose peak is in the middle, the upper of two.
    pub(super) fn middle(&self) -> &'a Run {
        self.middle
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// A figure of all passes; nothing is known of those for which `of` says nothing.
    pub(super) fn spread(&self, of: impl Fn(&Run) -> Option<f64>) -> Spread {
        Spread::of(self.all.iter().filter_map(|run| of(run)))
    }

    /// A figure of each pass beside the pass of the same number of `others`.
    pub(super) fn beside(&self, others: &Self, of: impl Fn(&Run, &Run) -> Option<f64>) -> Spread {
        Spread::of(self.all.iter().zip(&others.all).filter_map(|(run, other)| of(run, other)))
    }
}

/// The runs that are shown, one for each thing that was measured.
pub(super) fn middles(runs: &[Run]) -> Vec<&Run> {
    Passes::of(runs).iter().map(Passes::middle).collect()
}

/// Values in order.
pub(super) struct Spread(Vec<f64>);

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The middle one, the upper of two; least and most behind it where they are not the same. `infinite` is said for what
    /// never ended.
    pub(super) fn text(&self, digits: usize, infinite: &str) -> String {
        let word = |value: &f64| match value.is_finite() {
            true => format!("{value:.digits$}"),
            false => infinite.to_owned(),
        };
        let (Some(least), Some(most)) = (self.0.first().map(word), self.0.last().map(word)) else {
            return "–".into();
        };
        let middle = word(&self.0[self.0.len() / 2]);
        if least == most { middle } else { format!("{middle} ({least} to {most})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fit::Shedding;
    use crate::overload::tests::run;

    #[test]
    fn figures_are_the_middle_ones_of_all_passes() {
        for (values, expected) in [
            (&[3.0, 1.0, 2.0][..], "2.0 (1.0 to 3.0)"),
            (&[1.0, 9.0], "9.0 (1.0 to 9.0)"),
            (&[1.01, 1.0, 1.02], "1.0"),
            (&[f64::INFINITY, 0.0, 0.0], "0.0 (0.0 to never)"),
            (&[f64::NAN], "–"),
            (&[], "–"),
        ] {
            assert_eq!(Spread::of(values.iter().copied()).text(1, "never"), expected, "{values:?}");
        }
    }

    #[test]
    fn passes_are_compared_with_those_made_beside_them() {
        // The machine was half as fast in the second pass: one is twice the other in each.
        let (one, other) = (Shedding::None, Shedding::Syn);
        let runs = [
            run(one, 100, &[1000.0]),
            run(other, 100, &[2000.0]),
            run(one, 100, &[500.0]),
            run(other, 100, &[1000.0]),
            run(one, 1000, &[7.0]),
        ];
        let passes = Passes::of(&runs);
        assert_eq!(passes.iter().map(Passes::count).collect::<Vec<_>>(), [2, 2, 1]);
        let ratio = passes[1].beside(&passes[0], |run, first| Some(run.peak_per_s / first.peak_per_s));
        assert_eq!(ratio.text(2, ""), "2.00");
        assert_eq!(passes[0].spread(|run| Some(run.peak_per_s)).text(0, ""), "1000 (500 to 1000)");
        assert_eq!(
            middles(&runs).iter().map(|run| run.peak_per_s).collect::<Vec<_>>(),
            [1000.0, 2000.0, 7.0]
        );
    }
}
