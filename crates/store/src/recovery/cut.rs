//! Which checkpoint of the store counts: the newest one that every device has which it names.
//!
//! A checkpoint is taken over all devices together, and relied on only when it is complete on all of them. One that a
//! crash caught on its way is on some of them; the one before is still on all, in the other area. So either each
//! device goes to the newest, or each to the one before: what counts is always a state that the store as a whole was in.
//!
//! A device that has none of the two was away or is new (its contents do not count), or was damaged (then it does not
//! hold the others back). Pure.

use crate::disk::checkpoint::Checkpoint;

/// For each device the position of the checkpoint that counts among its own, or nothing where it has no contents that
/// count. Nothing at all where nobody has a checkpoint.
pub(crate) fn choose(devices: &[Vec<&Checkpoint>]) -> Option<Vec<Option<usize>>> {
    let mut candidates: Vec<&Checkpoint> = devices.iter().flatten().copied().collect();
    candidates.sort_by_key(|checkpoint| std::cmp::Reverse((checkpoint.generation, checkpoint.number)));
    let complete = candidates.iter().find(|candidate| is_complete(candidate, devices));
    let chosen = complete.or(candidates.first())?;
    Some(devices.iter().map(|own| own.iter().position(|checkpoint| checkpoint.is_with(chosen))).collect())
}

/// Whether every device that `candidate` names has it. Those that are not here, or are without any, are not asked.
fn is_complete(candidate: &Checkpoint, devices: &[Vec<&Checkpoint>]) -> bool {
    let mut known = devices.iter().filter_map(|own| Some((own.first()?.device, own)));
    known.all(|(id, own)| {
        !candidate.members.contains(&id) || own.iter().any(|checkpoint| checkpoint.is_with(candidate))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::checkpoint::Owed;
    use crate::types::DeviceId;

    fn checkpoint(device: u128, (generation, number): (u64, u64), members: &[u128]) -> Checkpoint {
        Checkpoint {
            device: DeviceId(device),
            store_id: 1,
            hash_seed: 2,
            number,
            generation,
            next_sequence: 1,
            sealed: Vec::new(),
            last_lsn: 0,
            members: members.iter().copied().map(DeviceId).collect(),
            owed: Owed::default(),
            open: None,
            note: bytes::Bytes::new(),
        }
    }

    /// A device: for each of its checkpoints generation and number, and the members.
    type Held<'a> = Vec<((u64, u64), &'a [u128])>;

    /// What happened, the devices, what counts on each.
    type Case<'a> = (&'a str, Vec<Held<'a>>, Vec<Option<u64>>);

    /// What counts, as numbers of checkpoints. Devices are numbered from 1.
    fn chosen(devices: &[Held<'_>]) -> Vec<Option<u64>> {
        let devices: Vec<Vec<Checkpoint>> = devices
            .iter()
            .zip(1..)
            .map(|(held, id)| held.iter().map(|&(name, members)| checkpoint(id, name, members)).collect())
            .collect();
        let lent: Vec<Vec<&Checkpoint>> = devices.iter().map(|own| own.iter().collect()).collect();
        let places = choose(&lent).unwrap_or_else(|| vec![None; devices.len()]);
        places.iter().zip(&devices).map(|(place, own)| place.map(|at| own[at].number)).collect()
    }

    #[test]
    fn the_newest_that_all_have_counts() {
        let (both, one, three): (&[u128], &[u128], &[u128]) = (&[1, 2], &[1], &[1, 2, 3]);
        let (old, new) = (((1, 7), both), ((1, 8), both));
        let cases: [Case<'_>; 10] = [
            ("nobody has one", vec![vec![], vec![]], vec![None, None]),
            ("complete", vec![vec![old, new], vec![new, old]], vec![Some(8), Some(8)]),
            ("caught on its way", vec![vec![old, new], vec![old]], vec![Some(7), Some(7)]),
            ("the first one ever, caught", vec![vec![((1, 1), both)], vec![]], vec![Some(1), None]),
            (
                "a new device, not reached",
                vec![vec![((1, 7), one), ((2, 8), both)], vec![]],
                vec![Some(8), None],
            ),
            ("one is away", vec![vec![old, new]], vec![Some(8)]),
            ("one was away", vec![vec![((2, 9), one), ((2, 10), one)], vec![old, new]], vec![Some(10), None]),
            (
                "it is back, caught at once",
                vec![vec![((3, 11), both), ((2, 10), one)], vec![old, new]],
                vec![Some(10), None],
            ),
            ("both went on alone", vec![vec![((2, 9), one)], vec![((2, 9), &[2])]], vec![Some(9), None]),
            (
                "one is far behind",
                vec![vec![((1, 9), three), ((1, 8), three)], vec![((1, 9), three)], vec![((1, 3), three)]],
                vec![Some(9), Some(9), None],
            ),
        ];
        for (what, devices, expected) in cases {
            assert_eq!(chosen(&devices), expected, "{what}");
        }
    }
}
