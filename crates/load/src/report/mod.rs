//! Results for people and for machines: a table on a terminal, JSON, Markdown, a chart, and a page that has it all.
//!
//! What must hold: every number of a page is in the results; what the model says is drawn as a line and called that. Every
//! text is written whole, without a clock, a network or a file: the same results give the same bytes.

mod chart;
mod html;
mod markdown;
mod passes;
mod svg;
pub mod text;

use std::path::Path;

use crate::model::fit::{Fitted, fit};
use crate::overload::Run;

/// What a report is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A page with charts and tables, in one file.
    Html,
    /// The charts alone.
    Svg,
    /// Tables.
    Markdown,
}

impl Form {
    /// By the end of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" => Some(Self::Html),
            "svg" => Some(Self::Svg),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// The report of these runs; those of the same server, shedding and deadline are passes of one.
    pub fn of_runs(self, runs: &[Run]) -> String {
        match self {
            Self::Html => html::page(runs),
            Self::Svg => chart::all(runs),
            Self::Markdown => markdown::document(runs),
        }
    }
}

/// Runs as JSON.
///
/// # Errors
/// A number that JSON has no word for.
pub fn json(runs: &[Run]) -> serde_json::Result<String> {
    serde_json::to_string_pretty(runs).map(|text| text + "\n")
}

/// Runs from JSON.
///
/// # Errors
/// Where it is not what [`json`] writes.
pub fn from_json(text: &str) -> serde_json::Result<Vec<Run>> {
    serde_json::from_str(text)
}

/// What explains the runs of one server.
struct Explained<'a> {
    server: &'a str,
    fitted: Fitted,
}

/// For each server in turn, the rates that its runs tell.
fn explain<'a>(runs: &[&'a Run]) -> Vec<Explained<'a>> {
    let mut servers: Vec<&str> = Vec::new();
    for run in runs {
        if !servers.contains(&run.server.as_str()) {
            servers.push(&run.server);
        }
    }
    let of = |server| {
        let series: Vec<_> = runs.iter().filter(|run| run.server == server).map(|run| run.series()).collect();
        Some(Explained { server, fitted: fit(&series)? })
    };
    servers.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::fit::Shedding;
    use crate::outcome::Tally;
    use crate::overload::tests::run;
    use crate::overload::{Fairness, Recovery};

    /// Two runs of one server and everything that a run can have.
    fn runs() -> Vec<Run> {
        let off = run(Shedding::None, 1000, &[1000.0, 2000.0, 1877.0, 1751.0, 1627.0]);
        let mut on = run(Shedding::Syn, 100, &[1000.0, 1999.0, 1919.0, 1811.0, 1733.0]);
        on.recovery = Some(Recovery {
            flood_per_s: 5000.0,
            calm_per_s: 999.0,
            full_service_ms: Some(150),
            good_shares: vec![],
        });
        on.burst = Some(Tally { asked: 5003, good: 4999, ..Tally::default() });
        on.fairness = Some(Fairness {
            asked_per_s: 5000.0,
            flooder_share: 0.9,
            flooder: Tally { started: 4321, good: 1234, ..Tally::default() },
            others: Tally { started: 567, good: 456, ..Tally::default() },
            of_fair_share: 0.8123,
        });
        vec![off, on]
    }

    #[test]
    fn a_page_has_every_number() {
        let runs = runs();
        let explained = explain(&passes::middles(&runs));
        let fitted = explained[0].fitted;
        let rates = [fitted.capacity, fitted.server.unwrap().receive_per_s, fitted.drop_per_s.unwrap()];
        for form in [Form::Html, Form::Markdown] {
            let page = form.of_runs(&runs);
            for cell in runs.iter().flat_map(|run| &run.cells) {
                assert!(page.contains(&format!("{:.0}", cell.good_per_s)), "{}", cell.good_per_s);
            }
            for number in ["150 ms", "4999", "5003", "81.2", "1234", "4321", "456", "567", "86.7"] {
                assert!(page.contains(number), "{number} in {page}");
            }
            assert!(rates.iter().all(|rate| page.contains(&format!("{rate:.0}"))), "{rates:?} in {page}");
        }
    }

    #[test]
    fn charts_have_all_points_and_the_models_lines() {
        let image = Form::Svg.of_runs(&runs());
        // Of each run five cells, in one chart as good replies; their latency is 0, of which two lines are drawn.
        assert_eq!(image.matches("<circle").count(), 2 * (5 + 2 * 5), "{image}");
        assert_eq!(
            image.matches("stroke-dasharray=\"7 5\"").count(),
            2 * 2,
            "each of the two lines, and its legend"
        );
        assert!(image.contains("a &lt;server&gt;") && !image.contains("<server>") && !image.contains("NaN"));
        assert!(image.starts_with("<svg ") && image.trim_end().ends_with("</svg>"));
        assert_eq!(image.matches("<g ").count(), image.matches("</g>").count());
    }

    #[test]
    fn the_same_results_give_the_same_bytes_and_none_are_no_failure() {
        for form in [Form::Html, Form::Svg, Form::Markdown] {
            assert_eq!(form.of_runs(&runs()), form.of_runs(&runs()));
            let dead = run(Shedding::Syn, 100, &[0.0, 0.0]);
            for runs in [&[][..], &[dead]] {
                let page = form.of_runs(runs);
                assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
            }
        }
        let text = json(&runs()).unwrap();
        assert_eq!(from_json(&text).unwrap(), runs());
        assert!(from_json("[{}]").is_err());
    }

    #[test]
    fn the_name_of_a_file_says_what_it_is() {
        let form = |name: &str| Form::of(Path::new(name));
        assert_eq!(
            (form("a/b.html"), form("x.svg"), form("x.md")),
            (Some(Form::Html), Some(Form::Svg), Some(Form::Markdown))
        );
        assert_eq!((form("x"), form("x.pdf"), form(".md")), (None, None, None));
    }
}
