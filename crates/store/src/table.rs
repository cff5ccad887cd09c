//! The body of an object as pieces and holes: what is stored of it, and how more is added.
//!
//! Pure values. What must hold: pieces lie within the body, in order, and do not overlap; adding pieces never makes a
//! stored byte a hole. A piece has one checksum for all of it, so it is taken or left whole, never cut.

use crate::disk::extent::{EXTENT_BYTES, ExtentRef};
use crate::disk::record::RECORD_BYTES_MAX;

/// Entries of a table, holes included. Leaves 128 KiB of a record for key and head.
pub const EXTENTS_MAX: usize = (RECORD_BYTES_MAX as usize - (128 << 10)) / EXTENT_BYTES;

/// A stored piece of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte, counted from the start of the body.
    pub start: u64,
    /// Where it is.
    pub extent: ExtentRef,
}

impl Piece {
    /// The byte behind its last one.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.extent.len))
    }

    fn is_within(&self, other: &Self) -> bool {
        other.start <= self.start && self.end() <= other.end()
    }
}

/// The pieces of a body; what they leave out are holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    length: u64,
    pieces: Vec<Piece>,
}

impl Table {
    /// A body of `length` bytes of which nothing is stored.
    pub fn hole(length: u64) -> Self {
        Self { length, pieces: Vec::new() }
    }

    /// The table that a record has.
    pub fn of(extents: impl IntoIterator<Item = ExtentRef>) -> Self {
        let mut table = Self::hole(0);
        for extent in extents {
            let start = table.length;
            table.length = start.saturating_add(u64::from(extent.len));
            if !extent.is_hole() {
                table.pieces.push(Piece { start, extent });
            }
        }
        table
    }

    /// Bytes of the body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// What is stored, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Bytes that are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.extent.len)).sum()
    }

    /// Makes holes of the pieces that `keep` does not hold for.
    pub fn retain(&mut self, keep: impl Fn(&ExtentRef) -> bool) {
        self.pieces.retain(|piece| keep(&piece.extent));
    }

    /// Adds pieces; says whether any was taken. Each takes the place of holes and of pieces that lie wholly within it; one
    /// that would cut another, or reaches outside of the body, is left out.
    pub fn add(&mut self, mut new: Vec<Piece>) -> bool {
        new.retain(|piece| piece.extent.len > 0 && !piece.extent.is_hole() && piece.end() <= self.length);
        new.sort_by_key(|piece| piece.start);
        let old = std::mem::take(&mut self.pieces);
        let mut rest = &old[..];
        let mut taken = false;
        for piece in new {
            let before = rest.partition_point(|old| old.end() <= piece.start);
            self.pieces.extend_from_slice(&rest[..before]);
            rest = &rest[before..];
            let met = rest.partition_point(|old| old.start < piece.end());
            let is_free = self.pieces.last().is_none_or(|last| last.end() <= piece.start);
            if is_free && rest[..met].iter().all(|old| old.is_within(&piece)) {
                taken |= rest[..met] != [piece];
                rest = &rest[met..];
                self.pieces.push(piece);
            }
        }
        self.pieces.extend_from_slice(rest);
        taken
    }

    /// The table as a record has it.
    pub fn extents(&self) -> Vec<ExtentRef> {
        let mut extents = Vec::with_capacity(2 * self.pieces.len() + 1);
        let mut at = 0;
        for piece in &self.pieces {
            push_hole(&mut extents, piece.start - at);
            extents.push(piece.extent);
            at = piece.end();
        }
        push_hole(&mut extents, self.length - at);
        extents
    }
}

/// An entry says at most 4 GiB.
fn push_hole(extents: &mut Vec<ExtentRef>, mut bytes: u64) {
    while bytes > 0 {
        let len = u32::try_from(bytes).unwrap_or(u32::MAX);
        extents.push(ExtentRef::hole(len));
        bytes -= u64::from(len);
    }
}

#[cfg(test)]
#[path = "table/tests.rs"]
mod tests;
