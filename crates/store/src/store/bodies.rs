//! Carrying bodies forward: what reclaim cannot do with one log, because record and pieces are on any device.
//!
//! ```text
//! next body of a segment → read its record → for each piece there: read → check → reserve → write
//!   → store the record with the pieces' new places, if the object is still at its place → next body
//! ```
//! One body at a time for each segment that is taken back, one piece in memory: bounded whatever the body. What goes
//! wrong on the way leaves the body as it was, and the pieces that stay behind become holes when the life ends.
//!
//! What is carried: a body all of whose stored pieces are in the segment, after one use, as records are. Of a longer
//! one the *first* piece takes two uses and leaves one, which takes the others along when their segments' turn comes
//! and does not last for another round. A small body that lies in an older record (its head was refreshed) comes
//! back into one record with its head.
//!
//! A carried piece goes to the device of its record: checkpoints are written device by device, and a crash between two
//! may find a record of the new one and pieces of the old one elsewhere.
//!
//! The list of moves is locked for a look only: no log is called meanwhile.

use super::{At, Device, Shared, Terms};
use crate::block::{BLOCK_BYTES, round_to_blocks};
use crate::disk::record::{BodyToWrite, RecordToWrite};
use crate::fingerprint::Fingerprint;
use crate::index::Location;
use crate::log::{self, Failure, Source};
use crate::policy::left_after_carry;
use crate::*;
use ::bytes::Bytes;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Where the record was replaced meanwhile, it is loaded again; so often at most.
const LOADS_MAX: u32 = 4;

/// A body on its way.
#[derive(Debug)]
pub(super) struct Move {
    /// The device whose segment is taken back.
    from: DeviceIndex,
    body: log::Body,
    /// Where the record is, and what the index said of it.
    place: Place,
    location: Location,
    /// The record's bytes, once they are known.
    record: Bytes,
    uses_left: u32,
    /// Pieces to be moved, last one first.
    todo: Vec<Piece>,
    /// Where pieces were, and what they are now.
    moved: Vec<(ExtentRef, Piece)>,
    /// Keeps what was read and written in its life until the record says so.
    held: Vec<Lease>,
    io: IoId,
    step: Step,
    /// How often the record was loaded: again where another device's part of the body was faster.
    loads: u32,
}

#[derive(Debug)]
enum Step {
    Record,
    Read(Piece),
    Write { old: ExtentRef, new: Piece, bytes: u64 },
}

impl Shared {
    /// Carries on where a log waits for its bodies to be carried.
    pub(super) fn carry_bodies(&self, device: &Device, out: &mut Outbox) {
        while !device.carrying.swap(true, SeqCst) {
            let body = device.log.lock().next_body(out);
            let begun = body.and_then(|body| self.begin_move(device, body, out));
            if let Some(begun) = begun {
                return self.moves.lock().push(begun);
            }
            device.carrying.store(false, SeqCst);
            if body.is_none() {
                return;
            }
        }
    }

    /// Whether a body waits for this request.
    pub(super) fn awaited_by_body(&self, id: IoId) -> bool {
        self.moves.lock().iter().any(|it| it.io == id)
    }

    /// Takes the outcome of a request that a body waits for.
    pub(super) fn move_complete(&self, id: IoId, result: &IoResult, out: &mut Outbox) {
        let Some(found) = self.take_move(|it| it.io == id) else { return };
        let Some(device) = self.device(found.from) else { return };
        if result.is_err()
            && let Some(failed) = self.device(id.device())
        {
            self.count_error(failed, Failure::Counted);
        }
        match self.go_on(found, result, out) {
            Some(next) => self.moves.lock().push(next),
            None => self.end_move(device, out),
        }
    }

    /// Gives up what waits for a device that may never answer.
    pub(super) fn abandon_moves(&self, out: &mut Outbox) {
        let lost = |it: &Move| self.device(it.io.device()).is_none_or(|device| device.info.is_retired());
        while let Some(abandoned) = self.take_move(lost) {
            self.written(&abandoned);
            if let Some(device) = self.device(abandoned.from) {
                self.end_move(device, out);
            }
        }
    }

    fn end_move(&self, device: &Device, out: &mut Outbox) {
        device.carrying.store(false, SeqCst);
        self.carry_bodies(device, out);
    }

    fn take_move(&self, which: impl Fn(&Move) -> bool) -> Option<Move> {
        let mut moves = self.moves.lock();
        let at = moves.iter().position(which)?;
        Some(moves.swap_remove(at))
    }

    fn begin_move(&self, device: &Device, body: log::Body, out: &mut Outbox) -> Option<Move> {
        if self.closed.load(Relaxed) {
            return None;
        }
        let location = self.common.index.get(body.of).filter(|now| now.hits() > 0)?;
        let (_, place) = self.place_of(location)?;
        let begun = Move {
            from: device.info.index,
            body,
            place,
            location,
            record: Bytes::new(),
            uses_left: 0,
            todo: Vec::new(),
            moved: Vec::new(),
            held: Vec::new(),
            io: IoId::from_number(0),
            step: Step::Record,
            loads: 0,
        };
        self.load_record(begun, out)
    }

    /// Gets the record as it is now.
    fn load_record(&self, mut it: Move, out: &mut Outbox) -> Option<Move> {
        it.loads += 1;
        it.location = self.common.index.get(it.body.of).filter(|now| now.elsewhere())?;
        let (home, place) = self.place_of(it.location).filter(|_| it.loads <= LOADS_MAX)?;
        it.place = place;
        match self.at(home.info.lives.lease(place)?)? {
            At::Buffered(bytes) => self.plan(it, bytes, out),
            At::Device(lease) => {
                it.held.push(lease);
                it.io = read(home, &place, out);
                it.step = Step::Record;
                Some(it)
            }
        }
    }

    fn go_on(&self, it: Move, result: &IoResult, out: &mut Outbox) -> Option<Move> {
        self.written(&it);
        match (&it.step, result) {
            (Step::Record, Ok(IoDone::Read(bytes))) => {
                let bytes = cut(bytes, &it.place)?;
                self.plan(it, bytes, out)
            }
            (Step::Read(piece), Ok(IoDone::Read(bytes))) => {
                let piece = *piece;
                let bytes = self.place_here(&it, &piece).and_then(|place| cut(bytes, &place));
                match bytes.filter(|bytes| crc32c(bytes) == piece.extent.crc) {
                    Some(bytes) => self.write_piece(it, piece, &bytes, out),
                    None => self.next_piece(it, out),
                }
            }
            (&Step::Write { old, new, .. }, Ok(IoDone::Written)) => {
                let mut it = it;
                it.moved.push((old, new));
                self.next_piece(it, out)
            }
            _ => None,
        }
    }

    /// The record is here: which of its pieces are in the segment, and may they be carried?
    fn plan(&self, mut it: Move, bytes: Bytes, out: &mut Outbox) -> Option<Move> {
        let device = self.device(it.place.device)?;
        let record = Record::decode_at(&bytes, device.info.id, &it.place).ok()?;
        let Body::Extents(extents) = record.body() else { return None };
        let table = Table::of(extents.iter());
        let victim = self.device(it.from)?.info.id.short();
        let is_there = |piece: &&Piece| {
            let ExtentRef { device, segment, sequence, .. } = piece.extent;
            (device, segment, sequence) == (victim, it.body.segment, it.body.sequence)
        };
        if it.moved.is_empty() {
            it.todo = table.pieces().iter().filter(is_there).rev().copied().collect();
            it.uses_left = uses_left(it.location.hits(), &it.todo, table.pieces())?;
            trim(&mut it.todo, it.body.bytes);
        }
        it.record = bytes;
        self.next_piece(it, out)
    }

    fn next_piece(&self, mut it: Move, out: &mut Outbox) -> Option<Move> {
        let Some(piece) = it.todo.pop() else {
            return self.store_moved(it, out);
        };
        let place = self.place_here(&it, &piece)?;
        it.io = read(self.device(it.from)?, &place, out);
        it.step = Step::Read(piece);
        Some(it)
    }

    /// The place of a piece that is in the segment that is taken back.
    fn place_here(&self, it: &Move, piece: &Piece) -> Option<Place> {
        let segment_bytes = self.device(it.from)?.info.geometry.segment_bytes();
        let ExtentRef { segment, sequence, offset, len, .. } = piece.extent;
        let is_inside = offset.checked_add(len)? <= segment_bytes;
        is_inside.then_some(Place { device: it.from, segment, sequence, offset, len })
    }

    /// Writes an intact piece elsewhere; a small body goes into one record with its head instead.
    fn write_piece(&self, mut it: Move, piece: Piece, bytes: &Bytes, out: &mut Outbox) -> Option<Move> {
        if self.fits_record(&it, piece) {
            self.store_inline(&it, piece.extent.crc, bytes, out);
            return None;
        }
        // Beside the record, so that one device's checkpoint covers both or neither.
        let device = self.device(it.place.device).filter(|device| self.is_home(it.body.of, device))?;
        let len = piece.extent.len;
        let lease = device.log.lock().reserve(it.body.of, len, Source::Upkeep, out).ok()?;
        let place = *lease.place();
        let data = BlockBuf::copy_of(bytes).freeze();
        let written = u64::from(data.len());
        self.common.in_flight_bytes.fetch_add(written, Relaxed);
        self.common.written_bytes.fetch_add(written, Relaxed);
        device.info.given_bytes.fetch_add(written, Relaxed);
        it.io = device.info.new_io();
        it.held.push(lease);
        let extent = ExtentRef::new(device.info.id, &place, piece.extent.crc);
        it.step = Step::Write { old: piece.extent, new: Piece { extent, ..piece }, bytes: written };
        let offset = place.device_offset(&device.info.geometry);
        out.push(Io::Write { id: it.io, device: device.info.index, offset, data });
        Some(it)
    }

    /// A write is no longer under way, well or badly.
    fn written(&self, it: &Move) {
        if let Step::Write { bytes, .. } = it.step {
            self.common.in_flight_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    fn is_home(&self, of: Fingerprint, device: &Device) -> bool {
        self.home(of).is_some_and(|home| home.info.index == device.info.index)
    }

    fn fits_record(&self, it: &Move, piece: Piece) -> bool {
        let length = self.record_of(it).map(|record| record.body_len());
        let most = self.common.config.inline_bytes_max;
        piece.extent.len <= most && length == Some(u64::from(piece.extent.len))
    }

    fn record_of<'a>(&self, it: &'a Move) -> Option<Record<'a>> {
        let device = self.device(it.place.device)?;
        Record::decode_at(&it.record, device.info.id, &it.place).ok()
    }

    fn store_inline(&self, it: &Move, crc: u32, bytes: &[u8], out: &mut Outbox) {
        let _ = self.store(it, BodyToWrite::Inline { bytes, crc }, bytes.len() as u64, out);
    }

    /// Puts the new places into the record; once more where it has been replaced, as far as it still names the old ones.
    fn store_moved(&self, it: Move, out: &mut Outbox) -> Option<Move> {
        let Body::Extents(extents) = self.record_of(&it)?.body() else { return None };
        let mut table = Table::of(extents.iter());
        let is_named = |old: &ExtentRef, new: &Piece| {
            table.pieces().iter().any(|piece| piece.start == new.start && piece.extent == *old)
        };
        let moved = it.moved.iter().filter(|(old, new)| is_named(old, new)).map(|(_, new)| *new);
        let moved: Vec<Piece> = moved.collect();
        let bytes = moved.iter().map(|piece| u64::from(piece.extent.len)).sum();
        if !table.add(moved) {
            return None;
        }
        match self.store(&it, BodyToWrite::Extents(&table.extents()), bytes, out) {
            Err(Declined::Superseded) => self.load_record(it, out),
            _ => None,
        }
    }

    /// Stores the record with its body in the new place, if the object is still where it was.
    fn store(
        &self,
        it: &Move,
        body: BodyToWrite<'_>,
        bytes: u64,
        out: &mut Outbox,
    ) -> Result<Place, Declined> {
        let beside = |home: &Device| {
            let id = home.info.id.short();
            self.is_home(it.body.of, home) && it.moved.iter().all(|(_, new)| new.extent.device == id)
        };
        let home = self.device(it.place.device).filter(|home| beside(home));
        let (Some(old), Some(_)) = (self.record_of(it), home) else { return Err(Declined::BodyGone) };
        if it.place.device != it.from
            && let Some(device) = self.device(it.from)
        {
            device.log.lock().note_moved_off();
        }
        let verified = it.location.verified() || matches!(body, BodyToWrite::Inline { .. });
        let terms = Terms { expected: Expected::At(it.place), verified };
        let record = RecordToWrite { hash: old.key_hash(), key: old.key, head: old.head, body };
        let place = self.put_for(Source::Upkeep, &record, terms, out)?;
        if let Some(location) = self.location_of(&place) {
            self.common.index.set_uses(it.body.of, location, it.uses_left);
        }
        self.common.carried.fetch_add(1, Relaxed);
        self.common.carried_bytes.fetch_add(bytes, Relaxed);
        Ok(place)
    }
}

/// Keeps the first pieces (they come last) that are `bytes` together.
fn trim(todo: &mut Vec<Piece>, bytes: u32) {
    let mut left = bytes;
    let fits = todo.iter().rev().take_while(|piece| {
        let rest = left.checked_sub(piece.extent.len);
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    let kept = fits.count();
    todo.drain(..todo.len() - kept);
}

/// What is left of an object's uses when these of its pieces are carried; nothing where they may not be.
fn uses_left(uses: u32, carried: &[Piece], all: &[Piece]) -> Option<u32> {
    let has_first = carried.iter().any(|piece| Some(piece) == all.first());
    match (carried.len(), has_first) {
        (0, _) => None,
        (n, _) if n == all.len() => (uses > 0).then(|| left_after_carry(uses)),
        (_, true) => (uses > 1).then_some(1),
        (_, false) => (uses > 0).then_some(uses),
    }
}

/// Asks for the blocks that hold a place.
fn read(device: &Device, place: &Place, out: &mut Outbox) -> IoId {
    let id = device.info.new_io();
    let from = place.offset / BLOCK_BYTES * BLOCK_BYTES;
    let len = round_to_blocks(place.offset + place.len) - from;
    let offset = device.info.geometry.segment_start(place.segment) + u64::from(from);
    out.push(Io::Read { id, device: device.info.index, offset, len });
    id
}

/// The bytes of a place within its blocks.
fn cut(blocks: &Bytes, place: &Place) -> Option<Bytes> {
    let from = (place.offset % BLOCK_BYTES) as usize;
    let end = from.checked_add(place.len as usize)?;
    (end <= blocks.len()).then(|| blocks.slice(from..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_piece_takes_two_uses_and_the_others_follow() {
        let piece = |n: u64| Piece {
            start: n * 100,
            extent: ExtentRef { device: 1, segment: 1, sequence: n + 1, offset: 4096, len: 100, crc: 0 },
        };
        let all = [piece(0), piece(1), piece(2)];
        let rows = [
            (3, &all[..], Some(1)),
            (1, &all[..], Some(0)),
            (0, &all[..], None),
            (3, &all[..1], Some(1)),
            (1, &all[..1], None),
            (1, &all[1..], Some(1)),
            (3, &all[2..], Some(3)),
            (0, &all[1..], None),
            (3, &all[..0], None),
        ];
        for (uses, carried, left) in rows {
            assert_eq!(uses_left(uses, carried, &all), left, "{uses} uses, {} pieces", carried.len());
        }
    }
}
