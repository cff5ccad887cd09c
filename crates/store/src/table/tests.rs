use super::*;
use proptest::prelude::*;

/// A piece that can be told from others by `name`.
fn piece(start: u64, len: u32, name: u32) -> Piece {
    let extent = ExtentRef { device: 7, segment: 1, sequence: 9, offset: name * 4096, len, crc: name };
    Piece { start, extent }
}

/// The twin: for each byte of the body the name of the piece that it is in.
struct Twin(Vec<Option<u32>>);

impl Twin {
    fn of(table: &Table) -> Self {
        let mut bytes = vec![None; table.length() as usize];
        for piece in table.pieces() {
            for byte in &mut bytes[piece.start as usize..piece.end() as usize] {
                assert_eq!(byte.replace(piece.extent.crc), None, "pieces overlap");
            }
        }
        Self(bytes)
    }

    /// Takes the piece unless a part of another one would be left over, or one of this `round` is in its way.
    fn add(&mut self, piece: &Piece, round: &mut Vec<u32>) {
        let range = piece.start as usize..piece.end() as usize;
        let Some(under) = self.0.get(range.clone()) else { return };
        let met: std::collections::BTreeSet<u32> = under.iter().flatten().copied().collect();
        let all_of = |name: &u32| {
            let count = |bytes: &[Option<u32>]| bytes.iter().filter(|byte| **byte == Some(*name)).count();
            count(&self.0) == count(under)
        };
        if met.iter().all(|name| all_of(name) && !round.contains(name)) {
            self.0[range].fill(Some(piece.extent.crc));
            round.push(piece.extent.crc);
        }
    }
}

proptest! {
    #[test]
    fn adding_agrees_with_a_byte_map(
        rounds in prop::collection::vec(prop::collection::vec((0..120u64, 1..40u32), 1..6), 1..12),
    ) {
        let mut table = Table::hole(100);
        let mut twin = Twin(vec![None; 100]);
        let mut name = 0;
        for round in rounds {
            let mut new: Vec<Piece> = Vec::new();
            for (start, len) in round {
                name += 1;
                new.push(piece(start, len, name));
            }
            let before = Twin::of(&table);
            let was = table.clone();
            let taken = table.add(new.clone());
            new.sort_by_key(|piece| piece.start);
            let mut done = Vec::new();
            new.iter().for_each(|piece| twin.add(piece, &mut done));
            prop_assert_eq!(&Twin::of(&table).0, &twin.0);
            prop_assert_eq!(taken, was != table);
            let lost = before.0.iter().zip(&twin.0).any(|(before, now)| before.is_some() && now.is_none());
            prop_assert!(!lost, "a stored byte became a hole");
            prop_assert_eq!(Table::of(table.extents()), table.clone());
            let sum: u64 = table.extents().iter().map(|extent| u64::from(extent.len)).sum();
            prop_assert_eq!(sum, 100);
        }
    }
}

#[test]
fn a_hole_of_many_gib_takes_several_entries() {
    let length = 10 << 30;
    let mut table = Table::hole(length);
    assert_eq!(table.extents().len(), 3);
    assert!(table.add(vec![piece(5 << 30, 1 << 20, 1)]));
    let extents = table.extents();
    assert_eq!(extents.len(), 2 + 1 + 2);
    assert_eq!(Table::of(extents), table);
    assert_eq!((table.length(), table.stored_bytes()), (length, 1 << 20));
}

#[test]
fn the_same_piece_again_is_nothing_new() {
    let mut table = Table::hole(100);
    assert!(table.add(vec![piece(10, 10, 1)]));
    assert!(!table.add(vec![piece(10, 10, 1)]));
    assert!(table.add(vec![piece(10, 10, 2)]), "the same bytes at a new place");
    assert!(!table.add(vec![piece(15, 10, 3)]), "it would cut another");
    assert!(!table.add(vec![piece(95, 10, 4), piece(u64::MAX, 1, 5)]), "it reaches outside");
}

#[test]
fn what_is_gone_becomes_a_hole() {
    let mut table = Table::of([piece(0, 10, 1).extent, piece(0, 20, 2).extent, piece(0, 5, 3).extent]);
    table.retain(|extent| extent.crc != 2);
    assert_eq!(table.extents(), [piece(0, 10, 1).extent, ExtentRef::hole(20), piece(30, 5, 3).extent]);
    assert_eq!(table.length(), 35);
}
