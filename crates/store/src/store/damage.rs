//! What is done about damage that scrubbing finds: a damaged record takes its object out of the index; a damaged piece of
//! a body becomes a hole, as it does for a reader who meets it, and what else is stored of the object stays.
//!
//! What must hold: from the moment in which damage is known nobody is given the damaged bytes. So the hole is made at
//! once, in the record that the check has read, and only if the object is still there; where that is declined, the
//! object goes.

use super::{Expected, Shared, Terms};
use crate::disk::record::{BodyToWrite, RecordToWrite};
use crate::fingerprint::Fingerprint;
use crate::log::Source;
use crate::scrub::{BodyCheck, Damage, Damaged, Scrub, Step};
use crate::*;
use std::sync::atomic::Ordering::Relaxed;

/// An object that is to go, and the bytes that are the reason.
pub(super) struct Culprit {
    pub(super) of: Fingerprint,
    pub(super) record: Place,
    pub(super) at: Place,
    pub(super) hash: Option<KeyHash>,
}

impl Shared {
    /// Takes an object out of the index for good, unless it is no longer at that place, and tells what is wrong where.
    pub(super) fn condemn(&self, scrub: &mut Scrub, culprit: Culprit, what: Damaged, out: &mut Outbox) {
        if self.remove_damaged(culprit.of, &culprit.record, out) {
            self.count_bad(what);
            self.tell(scrub, &culprit.at, what, culprit.hash);
        }
    }

    /// Makes a hole of a damaged piece, tells of it (where, and what), and goes on with the rest of the body.
    pub(super) fn lose_piece(
        &self,
        scrub: &mut Scrub,
        mut body: Box<BodyCheck>,
        piece: ExtentRef,
        (at, what): (Place, Damaged),
        out: &mut Outbox,
    ) {
        body.damaged.push(piece);
        match self.store_without(&body, out) {
            Ok(place) => {
                self.count_bad(what);
                self.tell(scrub, &at, what, Some(body.hash));
                body.record = place;
                scrub.todo.push(Step::Body(body));
            }
            Err(Declined::Superseded) => {}
            Err(_) => {
                let (of, record, hash) = (body.hash.into(), body.record, Some(body.hash));
                self.condemn(scrub, Culprit { of, record, at, hash }, what, out);
            }
        }
    }

    /// Stores the record anew, with holes in the place of its damaged pieces. Its uses stay; what is left of its body counts
    /// as not checked until the check has come to its end.
    fn store_without(&self, body: &BodyCheck, out: &mut Outbox) -> Result<Place, Declined> {
        let (place, bytes) = &body.read;
        let device = self.device(place.device).ok_or(Declined::DeviceRetired)?;
        let record = Record::decode_at(bytes, device.info.id, place).map_err(|_| Declined::BodyGone)?;
        let Body::Extents(extents) = record.body() else { return Err(Declined::BodyGone) };
        let mut table = Table::of(extents.iter());
        table.retain(|extent| !body.damaged.contains(extent));
        if table.pieces().is_empty() {
            return Err(Declined::BodyGone);
        }
        let of = Fingerprint::from(body.hash);
        let uses = self.common.index.get(of).map_or(0, |location| location.hits());
        let extents = table.extents();
        let (hash, body_left) = (record.key_hash(), BodyToWrite::Extents(&extents));
        let anew = RecordToWrite { hash, key: record.key, head: record.head, body: body_left };
        let terms = Terms { expected: Expected::At(body.record), verified: false };
        let place = self.put_for(Source::Upkeep, &anew, terms, out)?;
        if let Some(location) = self.location_of(&place) {
            self.common.index.set_uses(of, location, uses);
        }
        Ok(place)
    }

    /// What was not read did not fail its checksum: it counts as an error of the device.
    fn count_bad(&self, what: Damaged) {
        if what != Damaged::Unreadable {
            self.common.bad.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn tell(&self, scrub: &mut Scrub, at: &Place, what: Damaged, hash: Option<KeyHash>) {
        let Some(device) = self.device(at.device) else { return };
        let offset = at.device_offset(&device.info.geometry);
        scrub.tell(Damage { device: at.device, offset, len: at.len, what, hash });
    }
}
