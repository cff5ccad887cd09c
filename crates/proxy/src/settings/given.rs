//! A value as the operator wrote it, in the file or on the command line, before it is known what it should be.
//!
//! A word on the command line has no type: it is tried as whatever the setting wants. In the file types are strict,
//! so that `workers = "4"` is told and not guessed.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::mistake::{Spot, Wrong};

/// A value, where it stands, and how it reads there.
#[derive(Clone, Debug)]
pub(super) struct Given<'a> {
    pub(super) value: Value<'a>,
    pub(super) spot: Spot,
    /// As written, shortened.
    pub(super) shown: String,
}

#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// A command line word.
    Bare(&'a str),
    /// A quoted string.
    Text(&'a str),
    Integer(i64),
    Float(f64),
    Switch(bool),
    List(Vec<Given<'a>>),
    Table(&'a DeTable<'a>),
    /// A date, or a number that does not fit.
    Other,
}

/// What the operator wrote on a line is shown up to this many characters.
const SHOWN: usize = 60;

impl<'a> Given<'a> {
    pub(super) fn on_command_line(flag: &str, word: &'a str) -> Self {
        let shown = if word.is_empty() { "\"\"".into() } else { shorten(word) };
        Self { value: Value::Bare(word), spot: Spot::Flag(format!("--{flag}")), shown }
    }

    pub(super) fn in_file(file: &str, spanned: &'a Spanned<DeValue<'a>>) -> Self {
        let span = spanned.span();
        let shown = shorten(file.get(span.clone()).unwrap_or_default());
        let value = match spanned.get_ref() {
            DeValue::String(text) => Value::Text(text),
            DeValue::Integer(n) => {
                i64::from_str_radix(n.as_str(), n.radix()).map_or(Value::Other, Value::Integer)
            }
            DeValue::Float(x) => x.as_str().parse().map_or(Value::Other, Value::Float),
            DeValue::Boolean(on) => Value::Switch(*on),
            DeValue::Array(items) => Value::List(items.iter().map(|v| Self::in_file(file, v)).collect()),
            DeValue::Table(table) => Value::Table(table),
            DeValue::Datetime(_) => Value::Other,
        };
        Self { value, spot: Spot::Bytes(span), shown }
    }

    /// The text of a string, or of a command line word.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.value {
            Value::Bare(text) | Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub(super) fn count(&self) -> Option<u64> {
        match self.value {
            Value::Integer(n) => u64::try_from(n).ok(),
            Value::Bare(word) => word.parse().ok(),
            _ => None,
        }
    }

    /// The parts of a list; on the command line they are separated by commas.
    pub(super) fn list(&self) -> Option<Vec<Self>> {
        match &self.value {
            Value::List(items) => Some(items.clone()),
            Value::Bare(words) => Some(words.split(',').map(|word| self.part(word.trim())).collect()),
            _ => None,
        }
    }

    fn part(&self, word: &'a str) -> Self {
        Self { value: Value::Bare(word), spot: self.spot.clone(), shown: shorten(word) }
    }

    /// "`shown` is not `noun`".
    pub(super) fn is_not(&self, setting: &str, noun: &str, right: &str) -> Wrong {
        Wrong::new(&self.spot, setting, format!("{} is not {noun}", self.shown), right)
    }
}

fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
