//! A page in one file: charts, what the model makes of them, tables.

use std::fmt::Write;

use super::passes::{Passes, middles};
use super::svg::escape;
use super::text::sentences;
use super::{chart, explain, markdown};
use crate::overload::Run;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}\
    svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:13px}\
    td,th{padding:3px 9px;text-align:right;border-bottom:1px solid #ddd}";

/// The page.
pub(super) fn page(runs: &[Run]) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Overload</title><style>{STYLE}</style></head><body>\n\
         <h1>More connections than can be served</h1>\n\
         <p>One new connection for each request, open loop: requests start as planned, whatever became of those before, and a \
         latency counts from the planned start. Solid: measured. Dashed: the model.</p>\n"
    );
    out += &chart::all(runs);
    let explained = explain(&middles(runs));
    let rates: Vec<String> = explained.iter().map(markdown::rates).collect();
    if !rates.is_empty() {
        let _ = writeln!(out, "<h2>The model</h2>\n{}", list(&rates));
    }
    let passes = Passes::of(runs);
    let summaries = markdown::summaries(&passes);
    let _ = writeln!(out, "<h2>Side by side</h2>\n{}", table(&markdown::SUMMARY, &summaries));
    for of_one in &passes {
        let run = of_one.middle();
        let title = format!("{}, within {} ms", run.title(), run.timeout_ms);
        let how = markdown::how(of_one).replace('`', "");
        let _ = writeln!(out, "<h2>{}</h2>\n<p>{}</p>", escape(&title), escape(&how));
        let cells: Vec<_> = run.cells.iter().map(markdown::cells).collect();
        out += &table(&markdown::COLUMNS, &cells);
        let _ = writeln!(out, "{}", list(&sentences(run)));
    }
    out + "</body></html>\n"
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escape(item))).collect();
    format!("<ul>{items}</ul>")
}

fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let row = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let columns: Vec<_> = columns.iter().map(|&column| column.to_owned()).collect();
    let head = row("th", &columns);
    let body: String = rows.iter().map(|cells| row("td", cells)).collect();
    format!("<table>\n{head}{body}</table>\n")
}
