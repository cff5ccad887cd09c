//! The naive twin: what each key may have been at the last start, what was stored under it since, and when.

use super::Sim;
use crate::testing;
use std::collections::HashMap;

/// What was stored: a head and a body, each with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) head: u64,
    pub(super) body: u64,
    pub(super) len: u32,
}

impl Version {
    pub(super) fn head_bytes(&self) -> Vec<u8> {
        format!("{} {} {}", self.head, self.body, self.len).into_bytes()
    }

    pub(super) fn body_bytes(&self) -> Vec<u8> {
        (0..u64::from(self.len)).map(|at| testing::mix(self.body << 20 | (at / 8)) as u8 ^ at as u8).collect()
    }

    /// The version that a head names.
    pub(super) fn of_head(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let numbers: Vec<u64> = text.split(' ').map_while(|number| number.parse().ok()).collect();
        let [head, body, len] = numbers[..] else { return None };
        Some(Self { head, body, len: u32::try_from(len).ok()? })
    }
}

/// A key since the last start.
#[derive(Debug, Clone)]
struct History {
    /// What it may have been then. Once one of these was seen, it is the only one.
    base: Vec<Option<Version>>,
    /// What it was made to be, with the moment of each.
    values: Vec<(u64, Option<Version>)>,
}

impl History {
    fn of(base: Vec<Option<Version>>) -> Self {
        Self { base, values: Vec::new() }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Twin(HashMap<u64, History>);

impl Twin {
    fn history(&mut self, key: u64) -> &mut History {
        self.0.entry(key).or_insert_with(|| History::of(vec![None]))
    }

    /// What the key may be found to hold now.
    pub(super) fn now(&self, key: u64) -> Vec<Option<Version>> {
        let Some(History { base, values }) = self.0.get(&key) else { return vec![None] };
        values.last().map_or_else(|| base.clone(), |(_, version)| vec![*version])
    }

    /// Whether nothing was done to it since the start.
    pub(super) fn is_untouched(&self, key: u64) -> bool {
        self.0.get(&key).is_none_or(|history| history.values.is_empty())
    }

    /// Values that a crash may bring back if everything up to `moment` is durable.
    pub(super) fn since(&self, key: u64, moment: u64) -> Vec<Option<Version>> {
        let Some(History { base, values }) = self.0.get(&key) else { return vec![None] };
        let covered = values.iter().rposition(|(at, _)| *at <= moment);
        let values = values[covered.unwrap_or(0)..].iter().map(|(_, version)| *version);
        if covered.is_some() { values.collect() } else { base.iter().copied().chain(values).collect() }
    }

    pub(super) fn note(&mut self, key: u64, moment: u64, version: Option<Version>) {
        self.history(key).values.push((moment, version));
    }

    /// A start after a crash; everything up to `moment` was durable.
    pub(super) fn start(&mut self, moment: u64) {
        let keys: Vec<u64> = self.0.keys().copied().collect();
        for key in keys {
            let base = self.since(key, moment);
            self.0.insert(key, History::of(base));
        }
    }

    /// The key holds this. (That it is not found proves nothing: damage may be for this run only.)
    pub(super) fn saw(&mut self, key: u64, version: Version) {
        if self.is_untouched(key) {
            self.history(key).base = vec![Some(version)];
        }
    }
}

impl Sim {
    /// Notes what the operation of this step did.
    pub(super) fn note(&mut self, key: u64, version: Option<Version>) {
        self.twin.note(key, self.step, version);
    }
}
