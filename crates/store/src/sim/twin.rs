//! The naive twin: what was stored under each key since the last start, and when.

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

/// All values of a key since the last start, with the moment of each. The first one was found at the start.
#[derive(Debug, Clone)]
struct History(Vec<(u64, Option<Version>)>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Twin(HashMap<u64, History>);

impl Twin {
    /// What the key holds now.
    pub(super) fn now(&self, key: u64) -> Option<Version> {
        self.0.get(&key).and_then(|history| history.0.last()).and_then(|(_, version)| *version)
    }

    /// Values that a crash may bring back if everything up to `moment` is durable.
    pub(super) fn since(&self, key: u64, moment: u64) -> Vec<Option<Version>> {
        let Some(History(values)) = self.0.get(&key) else { return vec![None] };
        let covered = values.iter().rposition(|(at, _)| *at <= moment).unwrap_or(0);
        values[covered..].iter().map(|(_, version)| *version).collect()
    }

    pub(super) fn note(&mut self, key: u64, moment: u64, version: Option<Version>) {
        self.0.entry(key).or_insert_with(|| History(vec![(0, None)])).0.push((moment, version));
    }

    /// What was found at a start, from which on everything counts anew.
    pub(super) fn found_at_start(&mut self, key: u64, found: Option<Version>) {
        self.0.insert(key, History(vec![(0, found)]));
    }
}

impl Sim {
    /// Notes what the operation of this step did.
    pub(super) fn note(&mut self, key: u64, version: Option<Version>) {
        self.twin.note(key, self.step, version);
    }
}
