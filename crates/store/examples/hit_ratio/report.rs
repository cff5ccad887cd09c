//! The result as a document with tables, and as a picture.

use super::cell::{Cell, Measure, Ratio};
use super::opponents::OPPONENTS;
use std::fmt::Write;

/// The whole document.
pub(crate) fn document(cells: &[Cell], objects: u32) -> String {
    let mut text = String::from(INTRODUCTION);
    let _ = writeln!(text, "Catalogue of {objects} objects, {} requests a mix.\n", objects * 10);
    summary(&mut text, cells);
    for measure in Measure::BOTH {
        table(&mut text, cells, measure);
    }
    writes(&mut text, cells);
    text
}

const INTRODUCTION: &str = "# Hit ratio

```
cargo run --release -p store --example hit_ratio -- bench/results
```
writes this file and `hit-ratio.svg`. Nothing here depends on the machine: traces come from seeds, the store is the real one
(index, log, reclaim, checkpoints, admission) over a device in memory that answers at once, without a memory tier in front.

- Percent of requests (or bytes) that were hits, without the first quarter of each trace, which fills the caches.
- The cache is 1, 10 and 30 % of the footprint (all bytes that are ever asked for) as a *device*. Everybody else gets as
  many bytes as the store holds of objects on that device when it is full (tables, padding and the free reserve weigh
  heavier on devices this small than on real ones), and no overhead of any kind.
- `bound`: no policy that knows the future has more (PFOO-L; for equal sizes it is Belady's optimum from above).
- S3-FIFO, SIEVE and W-TinyLFU as their authors describe them, by bytes; the sketch of W-TinyLFU counts exactly.

![hit ratios](hit-ratio.svg)

";

fn summary(text: &mut String, cells: &[Cell]) {
    let _ = writeln!(text, "## Against the aims\n");
    for measure in Measure::BOTH {
        let worst = cells.iter().max_by(|a, b| a.behind(measure).total_cmp(&b.behind(measure)));
        let Some(worst) = worst else { continue };
        let _ = writeln!(
            text,
            "- By {}: at most {:.1} points behind the best online policy (worst: {}, {} %).",
            measure.word(),
            worst.behind(measure),
            worst.mix,
            worst.share
        );
        let missed: Vec<String> = cells
            .iter()
            .filter(|cell| cell.ahead_of_lru(measure) <= 0.0)
            .map(|cell| format!("{} {} % ({:.1})", cell.mix, cell.share, cell.ahead_of_lru(measure)))
            .collect();
        match missed.as_slice() {
            [] => _ = writeln!(text, "  Ahead of LRU everywhere."),
            missed => _ = writeln!(text, "  Ahead of LRU but for: {}.", missed.join(", ")),
        }
    }
}

fn table(text: &mut String, cells: &[Cell], measure: Measure) {
    let names: Vec<&str> = OPPONENTS.iter().map(|(name, _)| *name).collect();
    let _ = writeln!(text, "\n## By {}\n", measure.word());
    let _ = writeln!(
        text,
        "| mix | cache | {} | bound | all stored | **store** | behind best |",
        names.join(" | ")
    );
    let _ = writeln!(text, "|---|---|{}---|---|---|---|", "---|".repeat(names.len()));
    let shown = |ratio: Ratio| match measure {
        Measure::Objects => format!("{:.1}", ratio.objects),
        Measure::Bytes => format!("{:.1}", ratio.bytes),
    };
    for cell in cells {
        let opponents: Vec<String> = cell.opponents.iter().map(|ratio| shown(*ratio)).collect();
        let _ = writeln!(
            text,
            "| {} | {} % | {} | {} | {} | **{}** | {:+.1} |",
            cell.mix,
            cell.share,
            opponents.join(" | "),
            shown(cell.most),
            shown(cell.all.ratio),
            shown(cell.frequency.ratio),
            cell.behind(measure)
        );
    }
}

fn writes(text: &mut String, cells: &[Cell]) {
    let _ = writeln!(
        text,
        "\n## Writes\n\nAmplification is bytes written for each byte that was stored; the other column, for each byte that was \
         asked for: what wears the device. Checkpoints and tables are in both.\n"
    );
    let _ = writeln!(
        text,
        "| mix | cache | holds, MiB | all: amplification | written | store: amplification | written |"
    );
    let _ = writeln!(text, "|---|---|---|---|---|---|---|");
    for Cell { mix, share, bytes, all, frequency, .. } in cells {
        let _ = writeln!(
            text,
            "| {mix} | {share} % | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} |",
            *bytes as f64 / f64::from(1 << 20),
            all.amplification,
            all.written,
            frequency.amplification,
            frequency.written
        );
    }
}

const ROW: usize = 14;
/// Rows of one mix, with a gap behind them.
const MIX_ROWS: usize = 3;
const LEFT: usize = 190;
const WIDTH: usize = 560;
const COLOURS: [&str; 5] = ["#999999", "#cccccc", "#e69f00", "#56b4e9", "#cc79a7"];

/// A dot for each policy, a row for each cell, by objects.
pub(crate) fn picture(cells: &[Cell]) -> String {
    let height = cells.len() * ROW + cells.len() / MIX_ROWS * 6 + 50;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 30
    );
    legend(&mut svg);
    for (row, cell) in cells.iter().enumerate() {
        let y = 45 + row * ROW + row / MIX_ROWS * 6;
        draw_row(&mut svg, cell, y);
    }
    svg + "</svg>\n"
}

fn legend(svg: &mut String) {
    let names = OPPONENTS.iter().map(|(name, _)| *name).zip(COLOURS);
    let names = names.chain([("store", "#d00000"), ("bound", "#000000")]);
    for (at, (name, colour)) in names.enumerate() {
        let x = LEFT + at * 78;
        let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"16\" r=\"4\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"20\">{name}</text>", x + 8);
    }
    for percent in (0..=100).step_by(20) {
        let x = at(f64::from(percent));
        let _ = writeln!(
            svg,
            "<text x=\"{x:.0}\" y=\"36\" fill=\"#666\" text-anchor=\"middle\">{percent} %</text>"
        );
    }
}

fn at(percent: f64) -> f64 {
    LEFT as f64 + percent * WIDTH as f64 / 100.0
}

fn draw_row(svg: &mut String, cell: &Cell, y: usize) {
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}, {} %</text>",
        LEFT - 10,
        y + 3,
        cell.mix,
        cell.share
    );
    let (from, to) = (LEFT, LEFT + WIDTH);
    let _ = writeln!(svg, "<path d=\"M{from} {y}H{to}\" stroke=\"#eee\"/>");
    let mut dot = |ratio: Ratio, radius: u32, colour: &str| {
        let x = at(ratio.objects);
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>");
    };
    dot(cell.most, 2, "#000000");
    cell.opponents.iter().zip(COLOURS).for_each(|(ratio, colour)| dot(*ratio, 4, colour));
    dot(cell.frequency.ratio, 4, "#d00000");
}
