//! The body of a fill as its followers see it: pieces that are in memory first and on a device then.
//!
//! What must hold: a follower is shown the bytes at its offset, or that there are none yet, never others; pieces leave
//! from the front only, and only once the store has given up on the body and every follower has passed them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use semantics::ranges::{ByteRange, RangeAnswer, select};
use slab::Slab;
use store::Lease;
use sys::aligned::Reader;

use super::Promised;

/// Bytes that a fill may be short of an offset for it to be worth waiting for: below, waiting is quicker than asking anew.
pub const NEAR_BYTES: u64 = 4 << 20;

/// A body on its way, or a part of one. All offsets count from the start of the whole body.
pub(super) struct Stream {
    pub(super) promised: Arc<Promised>,
    /// Its first byte.
    pub(super) start: u64,
    /// Behind its last one, where the framing told or the end has come.
    pub(super) end: Option<u64>,
    /// Queue: pieces of a body that is being received.
    pub(super) pieces: VecDeque<Piece>,
    /// Offsets that the followers have reached.
    /// Queue: requests that wait for another's fetch.
    pub(super) followers: Slab<u64>,
    /// Whether every piece stays readable: in memory, then on a device. Not so once the store has given up.
    pub(super) kept: bool,
}

/// A stretch of the body: first in memory, then on a device.
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) place: PieceAt,
}

/// Where a piece is.
pub(super) enum PieceAt {
    Memory(Reader),
    Device(Lease),
    /// Nowhere any more: its device does not give these so many bytes.
    Lost(u32),
}

/// What is there at a follower's offset.
pub enum At {
    /// Bytes in memory: this range of the reader's filled part.
    Memory(Reader, Range<usize>),
    /// Bytes on a device: this range of the leased place.
    Device(Lease, Range<u32>),
    /// Bytes that cannot be had here, up to this offset.
    Lost(u64),
    /// Nothing yet.
    NotYet,
    /// The body ends here.
    End,
    /// The body will not be completed.
    Broken(&'static str),
}

impl Piece {
    /// Behind its last byte that is there.
    fn end(&self) -> u64 {
        self.start
            + match &self.place {
                PieceAt::Memory(reader) => reader.filled().len() as u64,
                PieceAt::Device(lease) => u64::from(lease.place().len),
                PieceAt::Lost(len) => u64::from(*len),
            }
    }
}

impl Stream {
    /// Whether its byte at `offset` can still be had.
    pub(super) fn has(&self, offset: u64) -> bool {
        let first = self.pieces.front().map_or(self.start, |piece| piece.start);
        let of = self.piece_of(offset).and_then(|i| self.pieces.get(i));
        let is_lost = of.is_some_and(|of| matches!(of.place, PieceAt::Lost(_)) && offset < of.end());
        first <= offset && self.end.is_none_or(|end| offset < end || self.start == end) && !is_lost
    }

    /// The piece on a device that has the byte at `offset` cannot be read.
    pub(super) fn lose(&mut self, offset: u64) {
        let Some(i) = self.piece_of(offset) else { return };
        if let PieceAt::Device(lease) = &self.pieces[i].place {
            self.pieces[i].place = PieceAt::Lost(lease.place().len);
        }
    }

    /// The last piece that begins at `offset` or before it.
    fn piece_of(&self, offset: u64) -> Option<usize> {
        self.pieces.partition_point(|piece| piece.start <= offset).checked_sub(1)
    }

    /// Whether all of the body comes, and its first byte can still be had.
    pub(super) fn is_whole(&self) -> bool {
        let length = self.promised.head.stored.content_length;
        self.start == 0 && self.has(0) && self.end.is_none_or(|end| length.is_none_or(|length| end == length))
    }

    /// Whether what this `Range` means is among what comes, and soon.
    pub(super) fn brings(&self, range: &[u8]) -> bool {
        let Some(length) = self.promised.head.stored.content_length else { return false };
        let RangeAnswer::Parts(parts) = select(range, length) else { return false };
        let comes = |part: &ByteRange| self.has(part.start) && self.end.is_none_or(|end| part.end <= end);
        parts.iter().all(|part| comes(part) && self.is_near(part.start))
    }

    /// Whether the byte at `offset` is there, or soon will be.
    pub(super) fn is_near(&self, offset: u64) -> bool {
        let reached = self.pieces.back().map_or(self.start, Piece::end);
        offset <= reached.saturating_add(NEAR_BYTES)
    }

    pub(super) fn at(&self, offset: u64) -> At {
        if self.end.is_some_and(|end| end <= offset) {
            return At::End;
        }
        let Some(piece) = self.piece_of(offset).and_then(|i| self.pieces.get(i)) else {
            return if self.pieces.is_empty() { At::NotYet } else { At::Broken("follower-too-slow") };
        };
        let within = offset - piece.start;
        match &piece.place {
            PieceAt::Memory(reader) => {
                let filled = reader.filled().len();
                match usize::try_from(within) {
                    Ok(from) if from < filled => At::Memory(reader.clone(), from..filled),
                    _ => At::NotYet,
                }
            }
            PieceAt::Device(lease) => match u32::try_from(within) {
                Ok(from) if from < lease.place().len => At::Device(lease.clone(), from..lease.place().len),
                _ => At::NotYet,
            },
            PieceAt::Lost(_) if offset < piece.end() => At::Lost(piece.end()),
            PieceAt::Lost(_) => At::NotYet,
        }
    }

    /// Drops the pieces that every follower has behind it.
    pub(super) fn drop_passed(&mut self) {
        let slowest = self.followers.iter().map(|(_, offset)| *offset).min().unwrap_or(u64::MAX);
        while self.pieces.get(1).is_some_and(|next| next.start <= slowest) {
            self.pieces.pop_front();
        }
    }
}
