//! The right to read the stored extents of a range, held until its last byte has been sent.
//!
//! What must hold: an extent that could not be leased, or was given up, is a hole for as long as this is held: it is not
//! tried again.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use store::At;

use super::ready::whereabouts;
use crate::object::DeviceBody;
use crate::worker::Worker;

/// The extents of a range, held in place until it has been sent: what the store wants back meanwhile, it gets then.
pub(super) struct Leases {
    /// Index of the first extent held.
    first: usize,
    /// Those that cannot be had are holes.
    /// Queue: extents held for one response.
    at: RefCell<Vec<Option<At>>>,
}

impl Leases {
    /// Takes hold of the extents of `range`, as far as they can be had.
    pub(super) fn of(worker: &Worker, body: &DeviceBody, range: &Range<u64>) -> Rc<Self> {
        let held = body.extents_in(range);
        let extents = body.extents.get(held.clone()).unwrap_or_default();
        let at = extents.iter().map(|extent| whereabouts(worker, extent).ok()).collect();
        Rc::new(Self { first: held.start, at: RefCell::new(at) })
    }

    /// Where an extent is; `None` where it is a hole.
    pub(super) fn get(&self, extent: usize) -> Option<At> {
        self.at.borrow().get(extent.checked_sub(self.first)?)?.clone()
    }

    /// Whether it is one of those held, and cannot be had.
    pub(super) fn is_lost(&self, extent: usize) -> bool {
        let at = self.at.borrow();
        extent.checked_sub(self.first).and_then(|i| at.get(i)).is_some_and(Option::is_none)
    }

    /// The extent cannot be had: a hole from now on, and so are all those behind it whose device does not answer any more.
    /// What follows each other of them is then asked for at once.
    pub(super) fn give_up(&self, worker: &Worker, extent: usize) {
        let Some(given_up) = extent.checked_sub(self.first) else { return };
        let answers = |at: &At| match at {
            At::Device(lease) => worker.disk.answers(lease.place()),
            At::Buffered(_) => true,
        };
        for (i, at) in self.at.borrow_mut().iter_mut().enumerate().skip(given_up) {
            if i == given_up || at.as_ref().is_some_and(|at| !answers(at)) {
                *at = None;
            }
        }
    }

    /// Whether the store wants one of them back.
    pub(super) fn are_recalled(&self) -> bool {
        self.at.borrow().iter().any(|at| matches!(at, Some(At::Device(lease)) if lease.recalled()))
    }
}
