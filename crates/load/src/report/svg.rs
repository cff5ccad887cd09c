//! A chart of lines and points as SVG, by its coordinates. Knows scales and colours, not what is drawn.

use std::fmt::Write;

/// A chart's size, in user units.
pub(super) const WIDTH: f64 = 860.0;
pub(super) const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Told apart also by who sees few colours; series take them in turn.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"];

/// How values of an axis are laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From 0 to this.
    Linear(f64),
    /// Between these, by powers of ten.
    Log(f64, f64),
}

impl Scale {
    /// From 0 at the beginning of the axis to 1 at its end.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(max) => value / max,
            Self::Log(min, max) => (value.max(min) / min).ln() / (max / min).ln(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(max) => {
                let step = round_up(max / 6.0);
                (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= max * 1.001).collect()
            }
            Self::Log(min, max) => {
                let next = |tick: &f64| Some(tick * 10.0).filter(|tick| *tick <= max * 1.001);
                std::iter::successors(Some(min), next).collect()
            }
        }
    }
}

/// The next 1, 2 or 5 times a power of ten.
pub(super) fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|round| *round >= value * 0.999)
        .unwrap_or(value)
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Points, joined.
    Measured,
    /// A dashed line.
    Model,
    /// A dotted line with small points.
    Dotted,
}

/// Values under one name.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) stroke: Stroke,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: (&'static str, Scale),
    pub(super) y: (&'static str, Scale),
    pub(super) series: Vec<Series>,
}

impl Chart {
    /// How high it is: the legend has a line for each series.
    pub(super) fn height(&self) -> f64 {
        HEIGHT + 18.0 * self.series.len() as f64
    }

    /// As a group of elements whose upper left corner is at `top`.
    pub(super) fn group(&self, top: f64) -> String {
        let mut out = format!("<g transform=\"translate(0 {top:.0})\">\n");
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"22\" class=\"title\">{}</text>", escape(&self.title));
        self.axes(&mut out);
        for (n, series) in self.series.iter().enumerate() {
            self.draw(&mut out, series);
            legend(&mut out, series, HEIGHT + 12.0 + 18.0 * n as f64);
        }
        out + "</g>\n"
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let (wide, high) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        (LEFT + wide * self.x.1.share(x), HEIGHT - BOTTOM - high * self.y.1.share(y))
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.x.1.ticks() {
            let (x, _) = self.at((tick, 0.0));
            let _ = writeln!(out, "<path class=\"grid\" d=\"M{x:.1} {TOP}V{bottom}\"/>");
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.0}\" class=\"x\">{}</text>",
                bottom + 18.0,
                short(tick)
            );
        }
        for tick in self.y.1.ticks() {
            let (_, y) = self.at((0.0, tick));
            let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>");
            let _ = writeln!(
                out,
                "<text x=\"{:.0}\" y=\"{:.1}\" class=\"y\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                short(tick)
            );
        }
        let middle = f64::midpoint(LEFT, right);
        let _ = writeln!(
            out,
            "<text x=\"{middle:.0}\" y=\"{:.0}\" class=\"x\">{}</text>",
            bottom + 38.0,
            self.x.0
        );
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{:.0}\" class=\"unit\">{}</text>", TOP - 5.0, self.y.0);
    }

    fn draw(&self, out: &mut String, series: &Series) {
        let colour = COLOURS[series.colour % COLOURS.len()];
        let places: Vec<_> = series.points.iter().map(|point| self.at(*point)).collect();
        let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if !line.is_empty() {
            let dashes = series.stroke.dashes();
            let _ =
                writeln!(out, "<path class=\"line\" stroke=\"{colour}\"{dashes} d=\"M{}\"/>", line.join("L"));
        }
        if series.stroke != Stroke::Model {
            for (x, y) in places {
                let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
        }
    }
}

impl Stroke {
    fn dashes(self) -> &'static str {
        match self {
            Self::Measured => "",
            Self::Model => " stroke-dasharray=\"7 5\"",
            Self::Dotted => " stroke-dasharray=\"1.5 4\"",
        }
    }
}

fn legend(out: &mut String, series: &Series, y: f64) {
    let colour = COLOURS[series.colour % COLOURS.len()];
    let (dashes, name) = (series.stroke.dashes(), escape(&series.name));
    let _ =
        writeln!(out, "<path class=\"line\" stroke=\"{colour}\"{dashes} d=\"M{LEFT} {:.0}h30\"/>", y - 4.0);
    let _ = writeln!(out, "<text x=\"{:.0}\" y=\"{y:.0}\">{name}</text>", LEFT + 38.0);
}

/// Charts under each other as one image.
pub(super) fn image(charts: &[Chart]) -> String {
    let height: f64 = charts.iter().map(|chart| chart.height() + 20.0).sum();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\">\n\
         <style>text{{font:12px sans-serif;fill:#333}}.title{{font-size:15px;font-weight:bold}}.x{{text-anchor:middle}}\
         .y{{text-anchor:end}}.unit{{fill:#777}}.grid{{stroke:#ddd}}.line{{fill:none;stroke-width:2}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut top = 0.0;
    for chart in charts {
        out += &chart.group(top);
        top += chart.height() + 20.0;
    }
    out + "</svg>\n"
}

/// A number in few signs: 80k.
fn short(value: f64) -> String {
    if value >= 1000.0 && (value / 100.0).fract() == 0.0 {
        format!("{}k", value / 1000.0)
    } else {
        format!("{value}")
    }
}

/// Text that means itself in XML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_have_round_ticks_and_no_value_leaves_them() {
        assert_eq!(Scale::Linear(80e3).ticks(), [0.0, 20e3, 40e3, 60e3, 80e3]);
        assert_eq!(Scale::Log(0.1, 1000.0).ticks().len(), 5);
        for scale in [Scale::Linear(10.0), Scale::Log(1.0, 10.0), Scale::Linear(0.0)] {
            for value in [-1.0, 0.0, 5.0, 1e9, f64::INFINITY, f64::NAN] {
                assert!((0.0..=1.0).contains(&scale.share(value)), "{scale:?} {value}");
            }
        }
        assert_eq!([0.0, 0.3, 1.0, 7.0, 13_334.0].map(round_up), [1.0, 0.5, 1.0, 10.0, 20_000.0]);
        assert_eq!([0.0, 0.1, 999.0, 20_000.0, 12_500.0].map(short), ["0", "0.1", "999", "20k", "12.5k"]);
    }
}
