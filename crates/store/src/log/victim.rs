//! What of a segment that is taken back was used, and is carried forward as far as its share goes.
//!
//! A record that is here is carried by its log. A *body* of which a part is here (extents, or the inline body of an
//! older record that a refreshed one refers to) is another matter: its record may be on another device and has to be
//! read first, to see whether the part still belongs to it. That is work for the whole store (`store/bodies.rs`).

use crate::disk::segment::{Entry, EntryKind};
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use crate::policy::{self, Hot};
use std::collections::HashMap;

/// What happens to what a segment lists.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// Records to be carried, with what the index says of them.
    pub(super) records: Vec<(Entry, Location)>,
    /// Objects whose bodies have a part here that may be carried, and so many bytes of each.
    pub(super) bodies: Vec<(Fingerprint, u32)>,
    /// Records that leave.
    pub(super) doomed: Vec<(Entry, Location)>,
}

/// The terms under which something is carried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) segment_bytes: u32,
    pub(super) percent: u32,
    /// Free segments, and how many there should be.
    pub(super) free: (usize, usize),
}

enum Candidate {
    Record(Entry, Location),
    Body(Fingerprint, Hot),
}

/// Decides on the entries of the segment that the index calls `number`.
pub(super) fn decide(
    entries: &[Entry],
    number: u32,
    terms: Terms,
    now: impl Fn(Fingerprint) -> Option<Location>,
) -> Fate {
    let (mut fate, mut candidates, mut bodies) = (Fate::default(), Vec::new(), HashMap::new());
    for entry in entries {
        let Some(now) = now(entry.fingerprint) else { continue };
        let is_here = matches!(entry.kind, EntryKind::Record { elsewhere }
            if now.same_place(Location::new(number, entry.offset, entry.len, false, elsewhere)));
        match entry.kind {
            EntryKind::Record { .. } if is_here && now.hits() > 0 => {
                candidates.push(Candidate::Record(*entry, now))
            }
            EntryKind::Record { .. } if is_here => fate.doomed.push((*entry, now)),
            EntryKind::Record { .. } | EntryKind::Extent if now.elsewhere() && now.hits() > 0 => {
                let body = bodies.entry(entry.fingerprint).or_insert((now.hits(), 0_u32));
                body.1 = body.1.saturating_add(entry.len);
            }
            _ => {}
        }
    }
    candidates.extend(
        bodies
            .into_iter()
            .map(|(of, (uses, bytes))| Candidate::Body(of, Hot { uses, bytes, divisible: true })),
    );
    let (carried, left) = select(candidates, terms);
    for (candidate, granted) in carried {
        match candidate {
            Candidate::Record(entry, now) => fate.records.push((entry, now)),
            Candidate::Body(of, _) => fate.bodies.push((of, granted)),
        }
    }
    fate.doomed.extend(left.into_iter().filter_map(|candidate| match candidate {
        Candidate::Record(entry, now) => Some((entry, now)),
        Candidate::Body(..) => None,
    }));
    fate.bodies.sort_unstable();
    fate
}

fn select(candidates: Vec<Candidate>, terms: Terms) -> (Vec<(Candidate, u32)>, Vec<Candidate>) {
    let hot = |candidate: &Candidate| match candidate {
        Candidate::Record(entry, now) => Hot { uses: now.hits(), bytes: entry.len, divisible: false },
        Candidate::Body(_, hot) => *hot,
    };
    policy::select(candidates, terms.segment_bytes, terms.percent, terms.free, hot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Lsn;

    const HERE: u32 = 7;

    fn object(number: u32) -> Fingerprint {
        Fingerprint::from_parts(1, number)
    }

    fn entry(number: u32, kind: EntryKind) -> Entry {
        Entry { kind, fingerprint: object(number), lsn: Lsn(1), offset: 4096 * number, len: 640 }
    }

    fn record(number: u32) -> Entry {
        entry(number, EntryKind::Record { elsewhere: false })
    }

    fn fate(entries: &[Entry], now: &[(u32, Location)]) -> Fate {
        let terms = Terms { segment_bytes: 1 << 16, percent: 50, free: (2, 2) };
        let now = |of| now.iter().find(|(number, _)| object(*number) == of).map(|(_, now)| *now);
        decide(entries, HERE, terms, now)
    }

    #[test]
    fn each_kind_of_entry_has_its_fate() {
        let here = |number: u32| Location::new(HERE, 4096 * number, 640, true, false);
        let large = |uses: u32| Location::new(3, 64, 640, true, true).with_hits(uses);
        let rows = [
            (record(1), Some(here(1).with_hits(1)), "carried"),
            (record(1), Some(here(1)), "doomed"),
            (record(1), Some(Location::new(3, 64, 640, true, false).with_hits(3)), "nothing"),
            (record(1), Some(large(1)), "body"),
            (record(1), None, "nothing"),
            (entry(1, EntryKind::Extent), Some(large(2)), "body"),
            (entry(1, EntryKind::Extent), Some(large(0)), "nothing"),
            (entry(1, EntryKind::Extent), Some(here(1).with_hits(3)), "nothing"),
            (entry(1, EntryKind::Tombstone), Some(large(2)), "nothing"),
        ];
        for (entry, now, expected) in rows {
            let now: Vec<_> = now.into_iter().map(|now| (1, now)).collect();
            let fate = fate(&[entry], &now);
            let got = match (fate.records.len(), fate.bodies.len(), fate.doomed.len()) {
                (1, 0, 0) => "carried",
                (0, 1, 0) => "body",
                (0, 0, 1) => "doomed",
                (0, 0, 0) => "nothing",
                other => panic!("{other:?}"),
            };
            assert_eq!(got, expected, "{entry:?} {now:?}");
        }
    }

    #[test]
    fn the_parts_of_a_body_are_one_candidate() {
        let parts = [1, 1, 1].map(|number| entry(number, EntryKind::Extent));
        let now = Location::new(3, 64, 640, true, true).with_hits(1);
        assert_eq!(fate(&parts, &[(1, now)]).bodies, [(object(1), 3 * 640)]);
    }
}
