//! All devices of a run, and the fault model.
//!
//! Always:
//! * Requests complete in any order. A write is seen by reads from its completion on.
//! * A sync makes durable what had *completed* when it was asked for; nothing else does.
//! * A crash decides for every write that is not durable, completed or not, in any order: it is there, or not at
//!   all, or torn: any set of its 512-byte sectors. Syncs under way are forgotten.
//!
//! Where a run has them ([`Faults`]):
//! * `errors`: requests fail now and then, reads of the store's user and of a start too. A failed write may have
//!   happened, wholly or in part. A start fails with its first failed write, and is tried again.
//! * `slow`: requests are answered long after they were asked, in any order with hundreds of others.
//! * `hung`: requests are never answered, until the store's user has counted the device out (then they may be,
//!   late) or the crash.
//! * `astray`: a write lands at another block of the same device or another one, at any offset or at its own. It
//!   reports success. What belongs there is not, and what was there is gone.
//! * `rot`: a crash may flip one bit anywhere behind the first superblock.
//! * `moves`: devices come and go between runs, but not behind the back of one that was retired: alone it could not know
//!   what it missed.
//!
//! Damage adds up without limit, but for one thing: of each device one *copy of a checkpoint* at most is damaged
//! between two successful starts (by rot, by a stray write that misses or strikes it, by a read that fails), and
//! none by stray writes of a start. A checkpoint has two copies, and the loss of both cannot be told from one that
//! was never written. The first superblock stays: superblocks are written once and need one good copy.
//!
//! Not modelled: devices that lie about syncs; damage to what was checked in the same run that nobody reads again
//! before the next start (a scrub finds it, [`World::is_wrong`] tells the twin where to expect it).

use super::disk::{Disk, Fate, NEVER};
use super::{Rng, SEGMENT};
use crate::geometry::Geometry;
use crate::*;

/// What may go wrong in a run. See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Faults {
    pub(super) errors: bool,
    pub(super) slow: bool,
    pub(super) hung: bool,
    pub(super) astray: bool,
    pub(super) rot: bool,
    pub(super) moves: bool,
}

impl Faults {
    /// Whether nothing that is covered may be lost.
    pub(super) fn spare_everything(self) -> bool {
        self == Self { slow: self.slow, ..Self::default() }
    }

    /// Whether a device may be retired.
    pub(super) fn retire(self) -> bool {
        self.errors || self.hung
    }
}

/// Beats that a slow request takes at most, and after which a device is behind.
const SLOW_BEATS: u64 = 60;
const BEHIND_BEATS: u64 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct World {
    faults: Faults,
    rng: Rng,
    disks: Vec<Disk>,
    /// Devices that take part, by position in `disks`.
    present: Vec<usize>,
    beat: u64,
    /// Whether a start is under way, and whether this one may still meet a read of slot 0 that fails.
    starting: bool,
    may_fail_slot_0: bool,
    /// Writes and syncs that were completed, and after how many of them the power goes.
    completed: u64,
    cut: Option<u64>,
    was_cut: bool,
}

impl World {
    pub(super) fn new(mut rng: Rng, faults: Faults) -> Self {
        let count = 1 + rng.below(3);
        let disks: Vec<Disk> = (0..count).map(|n| new_disk(&mut rng, n)).collect();
        let present = (0..disks.len()).collect();
        Self {
            faults,
            rng,
            disks,
            present,
            beat: 0,
            starting: false,
            may_fail_slot_0: false,
            completed: 0,
            cut: None,
            was_cut: false,
        }
    }

    /// The devices that take part, as the store counts them.
    pub(super) fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.present.iter().map(|&at| &self.disks[at])
    }

    pub(super) fn devices(&self) -> Vec<DeviceIndex> {
        (0..self.present.len() as u16).map(DeviceIndex).collect()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.disks.iter().all(Disk::is_idle)
    }

    fn disk(&mut self, device: DeviceIndex) -> &mut Disk {
        &mut self.disks[self.present[device.at()]]
    }

    // --- requests of the store ---

    pub(super) fn submit(&mut self, out: Outbox) {
        for io in out {
            let due = self.due();
            let now = self.beat;
            self.disk(io.id().device()).submit(io, now, due);
        }
    }

    fn due(&mut self) -> u64 {
        if self.faults.hung && !self.starting && self.rng.one_in(200) {
            NEVER
        } else if self.faults.slow && self.rng.one_in(10) {
            self.beat + self.rng.below(SLOW_BEATS)
        } else {
            self.beat
        }
    }

    /// Completes one request of a device, chosen by chance among those that may be.
    pub(super) fn complete(&mut self, device: DeviceIndex) -> Option<(IoId, IoResult)> {
        if self.is_off() {
            return None;
        }
        let at = self.present[device.at()];
        let (io, covers) = self.disks[at].take_due(self.beat, &mut self.rng)?;
        let id = io.id();
        self.completed += u64::from(!matches!(io, Io::Read { .. }));
        if self.fails(at, &io) {
            if let Io::Write { offset, data, .. } = io {
                self.disks[at].write_part(offset, data.as_ref(), &mut self.rng);
            }
            let short = self.rng.one_in(4);
            return Some((id, Err(if short { IoError::Short(512) } else { IoError::Failed(5) })));
        }
        Some((id, Ok(self.perform(at, io, covers))))
    }

    fn perform(&mut self, at: usize, io: Io, covers: usize) -> IoDone {
        match io {
            Io::Write { offset, data, .. } => {
                self.write_at(at, offset, data.as_ref());
                IoDone::Written
            }
            Io::Read { offset, len, .. } => {
                IoDone::Read(bytes::Bytes::copy_from_slice(self.disks[at].see(offset, len)))
            }
            Io::Sync { .. } => {
                self.disks[at].sync(covers);
                IoDone::Synced
            }
        }
    }

    fn fails(&mut self, at: usize, io: &Io) -> bool {
        let often = if self.starting { 200 } else { 60 };
        if !self.faults.errors || !self.rng.one_in(often) {
            return false;
        }
        match io {
            Io::Read { offset, .. } if *offset < u64::from(SEGMENT) => {
                let may = !self.disks[at].is_checkpoint_hurt();
                may && std::mem::take(&mut self.may_fail_slot_0)
            }
            _ => true,
        }
    }

    /// Time goes by for slow requests.
    pub(super) fn beat(&mut self) {
        self.beat += 1;
    }

    /// Devices that have not answered for too long.
    pub(super) fn behind(&self) -> Vec<DeviceIndex> {
        let since = self.beat.saturating_sub(BEHIND_BEATS);
        self.devices()
            .into_iter()
            .filter(|device| self.disks[self.present[device.at()]].is_behind(since))
            .collect()
    }

    /// A device that was counted out may answer after all.
    pub(super) fn wake(&mut self, device: DeviceIndex) {
        let now = self.beat;
        self.disk(device).wake(now);
    }

    // --- reads and writes of the store's user ---

    /// Writes at once; whether it succeeded.
    pub(super) fn write(&mut self, device: DeviceIndex, offset: u64, data: &[u8]) -> bool {
        let at = self.present[device.at()];
        let fails = self.faults.errors && self.rng.one_in(60);
        if fails {
            self.disks[at].write_part(offset, data, &mut self.rng);
        } else {
            self.write_at(at, offset, data);
        }
        !fails
    }

    /// Reads at once; nothing where it failed.
    pub(super) fn read(&mut self, device: DeviceIndex, offset: u64, len: u32) -> Option<Vec<u8>> {
        let fails = self.faults.errors && self.rng.one_in(100);
        (!fails).then(|| self.see(device, offset, len))
    }

    /// What is there, without fail.
    pub(super) fn see(&self, device: DeviceIndex, offset: u64, len: u32) -> Vec<u8> {
        self.disks[self.present[device.at()]].see(offset, len).to_vec()
    }

    /// Changes one bit, at once and for good.
    pub(super) fn flip(&mut self, device: DeviceIndex, at: u64, bit: u32) {
        self.disk(device).flip(at, bit);
    }

    /// Whether a stray write has left its trace there since the last start.
    pub(super) fn is_wrong(&self, device: DeviceIndex, offset: u64, len: u32) -> bool {
        self.disks[self.present[device.at()]].is_wrong(offset, len as usize)
    }

    // --- stray writes ---

    fn write_at(&mut self, at: usize, offset: u64, data: &[u8]) {
        match self.stray(at, offset, data.len()) {
            None => self.disks[at].write(offset, data),
            Some((other, landing)) => {
                self.disks[at].miss(offset, data.len());
                self.disks[other].strike(landing, data);
            }
        }
    }

    /// Where a write ends up that does not end up where it belongs.
    fn stray(&mut self, at: usize, offset: u64, len: usize) -> Option<(usize, u64)> {
        if !self.faults.astray || !self.rng.one_in(60) {
            return None;
        }
        let other = self.rng.below(self.disks.len() as u64) as usize;
        let first = 20 * 1024 / 4096;
        let blocks = self.disks[other].bytes().checked_sub(first * 4096 + len as u64)? / 4096;
        let anywhere = (first + self.rng.below(blocks + 1)) * 4096;
        let landing = if other != at && self.rng.one_in(2) { offset } else { anywhere };
        let fits = landing + len as u64 <= self.disks[other].bytes();
        (fits && (other, landing) != (at, offset) && self.may_hurt([(at, offset), (other, landing)], len))
            .then_some((other, landing))
    }

    /// Whether damage in these places leaves a whole copy of each checkpoint.
    fn may_hurt(&self, places: [(usize, u64); 2], len: usize) -> bool {
        let copies = places.map(|(at, offset)| self.disks[at].copies_in(offset, len));
        let hurt = |place: usize| copies[place] > 0 && self.disks[places[place].0].is_checkpoint_hurt();
        let both = places[0].0 == places[1].0;
        let many = copies.iter().any(|&copies| copies > 1) || (both && copies[0] + copies[1] > 1);
        copies == [0, 0] || !(self.starting || many || hurt(0) || hurt(1))
    }

    // --- power ---

    /// The power will go after so many completed writes and syncs.
    pub(super) fn cut_after(&mut self, completed: u64) {
        self.cut = Some(completed);
    }

    /// Whether the power is gone: nothing completes any more.
    pub(super) fn is_off(&self) -> bool {
        self.cut.is_some_and(|cut| self.completed >= cut)
    }

    /// Whether it went as [`World::cut_after`] wanted, and came back.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Writes and syncs that were completed so far.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    pub(super) fn crash(&mut self, fate: Fate) {
        if self.is_off() {
            (self.cut, self.was_cut) = (None, true);
        }
        for disk in &mut self.disks {
            disk.crash(fate, &mut self.rng);
            if self.faults.rot && self.rng.one_in(2) {
                disk.rot(&mut self.rng);
            }
        }
    }

    // --- starts ---

    pub(super) fn starting(&mut self) {
        (self.starting, self.may_fail_slot_0) = (true, true);
    }

    pub(super) fn opened(&mut self) {
        self.starting = false;
        self.present.iter().for_each(|&at| self.disks[at].opened());
    }

    /// Every request does what it should until [`World::resume`] gets what this returns.
    pub(super) fn behave(&mut self) -> Faults {
        let calm = Faults { errors: false, astray: false, ..self.faults };
        std::mem::replace(&mut self.faults, calm)
    }

    pub(super) fn resume(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Takes a device away, brings one back, adds a new one, or changes the order.
    pub(super) fn move_devices(&mut self) {
        match self.rng.below(4) {
            0 if self.disks.len() < 4 => {
                let disk = new_disk(&mut self.rng, self.disks.len() as u64);
                self.disks.push(disk);
                self.present.push(self.disks.len() - 1);
            }
            1 if self.present.len() > 1 => {
                // The first one stays: a device that missed a run cannot know that, alone.
                let at = self.rng.below(self.present.len() as u64) as usize;
                if self.present[at] != 0 {
                    self.present.remove(at);
                }
            }
            2 => self.present = (0..self.disks.len()).collect(),
            _ => self.present.rotate_left(1),
        }
    }
}

fn new_disk(rng: &mut Rng, number: u64) -> Disk {
    let device_bytes = u64::from(SEGMENT) * (6 + rng.below(8));
    Disk::formatted(&format::FormatOptions {
        device_bytes,
        geometry: Geometry::new(device_bytes, SEGMENT).unwrap(),
        device_id: DeviceId(u128::from(rng.next()) << 64 | u128::from(number + 1)),
        store_id: 1,
        hash_seed: 7,
        now: 0,
    })
}
