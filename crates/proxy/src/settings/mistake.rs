//! A mistake in the configuration: where it is, what is wrong and what would be right.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::load::ConfigFile;

/// One mistake, complete enough to be mended without opening the manual.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// The setting, in dotted form; empty when the text is no setting at all.
    pub setting: String,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

/// Where a mistake stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "place", rename_all = "lowercase")]
pub enum Place {
    /// In the configuration file.
    File {
        /// The file as it was named.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// Characters that are wrong, at least 1.
        width: usize,
        /// The whole line, control characters replaced.
        text: String,
    },
    /// On the command line.
    Flag {
        /// The flag with its dashes.
        flag: String,
    },
    /// In what was assumed because nothing was given.
    Default,
}

/// Where a value came from, before it is known whether anybody has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Bytes(Range<usize>),
    Flag(String),
    Default,
}

/// A mistake before its place is worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) spot: Spot,
    pub(super) setting: String,
    pub(super) what: String,
    pub(super) right: String,
}

impl Wrong {
    pub(super) fn new(spot: &Spot, setting: &str, what: impl Into<String>, right: impl Into<String>) -> Self {
        Self { spot: spot.clone(), setting: setting.into(), what: what.into(), right: right.into() }
    }

    /// In the order of the file, then of the command line.
    pub(super) fn order(&self) -> (u8, usize) {
        match &self.spot {
            Spot::Bytes(range) => (0, range.start),
            Spot::Flag(_) => (1, 0),
            Spot::Default => (2, 0),
        }
    }

    pub(super) fn located(self, file: Option<&ConfigFile>) -> Mistake {
        let place = match (self.spot, file) {
            (Spot::Bytes(range), Some(file)) => locate(file, range),
            (Spot::Flag(flag), _) => Place::Flag { flag },
            _ => Place::Default,
        };
        Mistake { place, setting: self.setting, what: self.what, right: self.right }
    }
}

fn locate(file: &ConfigFile, range: Range<usize>) -> Place {
    let start = floor_char(&file.text, range.start);
    let end = floor_char(&file.text, range.end).max(start);
    let before = &file.text[..start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let text = file.text[line_start..].lines().next().unwrap_or("");
    let wrong = file.text[start..end].lines().next().unwrap_or("");
    Place::File {
        file: file.path.display().to_string(),
        line: before.matches('\n').count() + 1,
        column: file.text[line_start..start].chars().count() + 1,
        width: wrong.trim_end().chars().count().max(1),
        text: text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect(),
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0)
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { file, line, column, .. } => write!(f, "{file}:{line}:{column}: ")?,
            Place::Flag { flag } => write!(f, "{flag}: ")?,
            Place::Default => {}
        }
        match (&self.place, self.setting.as_str()) {
            (Place::Flag { .. }, _) | (_, "") => writeln!(f, "{}", self.what)?,
            (_, setting) => writeln!(f, "{setting}: {}", self.what)?,
        }
        if let Place::File { line, column, width, text, .. } = &self.place {
            quote(f, *line, *column, *width, text)?;
        }
        write!(f, "  = right: {}", self.right)
    }
}

/// The line with a row of carets below what is wrong. Tabs are repeated so that the carets stay in place.
fn quote(f: &mut fmt::Formatter<'_>, line: usize, column: usize, width: usize, text: &str) -> fmt::Result {
    let number = line.to_string();
    let gutter = " ".repeat(number.len());
    let indent: String = text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    writeln!(f, "  {number} | {text}")?;
    writeln!(f, "  {gutter} | {indent}{}", "^".repeat(width))
}
