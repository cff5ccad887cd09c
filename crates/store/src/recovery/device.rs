//! One device's share of a start: which reads, what they say, what is closed behind the run before.

use super::*;
use crate::block::Blocks;
use crate::disk::checkpoint::{Checkpoint, Life, OpenContents, Owed};
use crate::disk::segment::{Entry, Trailer};
use crate::disk::superblock::candidates;
use crate::health::Health;
use crate::lease::Lives;
use crate::log::{Sealed, State};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};

/// What a request is for.
#[derive(Debug, Clone)]
pub(super) enum Job {
    Superblock {
        at: u64,
    },
    CheckpointHeader(AreaCopy),
    Checkpoint {
        copy: AreaCopy,
        len: u32,
    },
    Write {
        at: u64,
        data: Blocks,
    },
    /// Looks at what was written.
    ReadBack {
        at: u64,
        data: Blocks,
    },
    Sync,
}

/// One of the copies of a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct AreaCopy {
    area: Area,
    at: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct DeviceRecovery {
    pub(super) index: DeviceIndex,
    pub(super) base: u32,
    pub(super) superblock: Option<Superblock>,
    bytes: u64,
    depth: usize,
    next_io: u64,
    /// Queue: reads of a device at the start.
    queue: VecDeque<Job>,
    /// Queue: reads of a device at the start.
    under_way: HashMap<IoId, Job>,
    copies: Vec<Bytes>,
    copies_used: Vec<(AreaCopy, u32)>,
    checkpoints: Vec<(Area, Checkpoint)>,
    /// Which of them counts, if any.
    chosen: Option<usize>,
    /// The segment that was open and is being sealed, with its entries.
    closed: Option<(Life, Vec<Entry>)>,
}

impl DeviceRecovery {
    pub(super) fn new(index: DeviceIndex, bytes: u64, depth: usize) -> Self {
        Self {
            index,
            base: 0,
            superblock: None,
            bytes,
            depth,
            next_io: 0,
            queue: VecDeque::new(),
            under_way: HashMap::new(),
            copies: Vec::new(),
            copies_used: Vec::new(),
            checkpoints: Vec::new(),
            chosen: None,
            closed: None,
        }
    }

    // --- requests ---

    /// Whether nothing is to be asked for or waited for.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty()
    }

    /// Hands out requests up to the depth.
    pub(super) fn issue(&mut self, out: &mut Outbox) {
        while self.under_way.len() < self.depth
            && let Some(job) = self.queue.pop_front()
        {
            let id = IoId::new(self.index, self.next_io);
            self.next_io += 1;
            out.push(self.request(id, &job));
            self.under_way.insert(id, job);
        }
    }

    fn request(&self, id: IoId, job: &Job) -> Io {
        let device = self.index;
        let read = |offset: u64, len: u32| Io::Read { id, device, offset, len };
        match *job {
            Job::Superblock { at } => read(at, BLOCK_BYTES),
            Job::CheckpointHeader(copy) => read(copy.at, BLOCK_BYTES),
            Job::Checkpoint { copy, len } => read(copy.at, len),
            Job::Write { at, ref data } => Io::Write { id, device, offset: at, data: data.clone() },
            Job::ReadBack { at, ref data } => read(at, data.len()),
            Job::Sync => Io::Sync { id, device },
        }
    }

    pub(super) fn complete(&mut self, id: IoId, result: IoResult) -> Result<(), OpenError> {
        let Some(job) = self.under_way.remove(&id) else { return Ok(()) };
        let result = result.map(|done| if let IoDone::Read(bytes) = done { bytes } else { Bytes::new() });
        match job {
            Job::Superblock { .. } => self.copies.extend(result.ok()),
            Job::CheckpointHeader(copy) => self.take_checkpoint_header(copy, result.ok()),
            Job::Checkpoint { copy, .. } => self.take_checkpoint(copy, result.ok()),
            Job::Write { at, data } => {
                self.written(result)?;
                self.queue.push_front(Job::ReadBack { at, data });
            }
            Job::ReadBack { data, .. } => {
                let there = self.written(result)? == data.as_ref();
                self.written(if there { Ok(Bytes::new()) } else { Err(IoError::NotThere) })?;
            }
            Job::Sync => _ = self.written(result)?,
        }
        Ok(())
    }

    /// A start does not go on after a write that failed, or that is not where it should be: what it decides has
    /// to be true for the next one, which may find other evidence.
    fn written(&self, result: Result<Bytes, IoError>) -> Result<Bytes, OpenError> {
        result.map_err(|error| OpenError::Device { device: self.index, error })
    }

    // --- who it is ---

    pub(super) fn queue_first_superblock(&mut self) {
        self.queue.extend(candidates(self.bytes).first().map(|&at| Job::Superblock { at }));
    }

    /// Asks for the other copies where the first one does not do.
    pub(super) fn queue_copies(&mut self) {
        if self.find_superblock().is_err() {
            self.queue.extend(candidates(self.bytes).into_iter().skip(1).map(|at| Job::Superblock { at }));
        }
    }

    fn find_superblock(&self) -> Result<Superblock, SuperblockError> {
        Superblock::find(self.copies.iter().map(|copy| &copy[..]), self.bytes)
    }

    pub(super) fn identify(&mut self) -> Result<Geometry, OpenError> {
        let superblock = self.find_superblock();
        let superblock = superblock.map_err(|why| OpenError::Superblock { device: self.index, why })?;
        self.superblock = Some(superblock);
        Ok(superblock.geometry)
    }

    pub(super) fn id(&self) -> DeviceId {
        self.superblock.map_or(DeviceId(0), |superblock| superblock.device_id)
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(self.superblock?.geometry)
    }

    // --- checkpoints ---

    pub(super) fn queue_checkpoint_headers(&mut self) {
        let Some(geometry) = self.geometry() else { return };
        let copies = |area: Area| {
            geometry.checkpoint_copies(area).map(|at| Job::CheckpointHeader(AreaCopy { area, at }))
        };
        self.queue.extend(Area::BOTH.into_iter().flat_map(copies));
    }

    fn take_checkpoint_header(&mut self, copy: AreaCopy, bytes: Option<Bytes>) {
        let Some((bytes, geometry)) = bytes.zip(self.geometry()) else { return };
        if let Ok(used) = Checkpoint::used_bytes(&bytes, geometry.checkpoint_bytes()) {
            self.copies_used.push((copy, used));
        }
    }

    pub(super) fn queue_checkpoints(&mut self) {
        self.queue.extend(self.copies_used.iter().map(|&(copy, len)| Job::Checkpoint { copy, len }));
    }

    fn take_checkpoint(&mut self, copy: AreaCopy, bytes: Option<Bytes>) {
        let Some((bytes, geometry)) = bytes.zip(self.geometry()) else { return };
        let found = Checkpoint::decode(&bytes, self.id(), &geometry).ok();
        self.checkpoints.extend(found.map(|found| (copy.area, found)));
    }

    /// All that were found intact, in no order.
    pub(super) fn checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.iter().map(|(_, checkpoint)| checkpoint)
    }

    /// Says which of [`DeviceRecovery::checkpoints`] counts.
    pub(super) fn choose(&mut self, chosen: Option<usize>) {
        self.chosen = chosen;
    }

    /// The checkpoint that counts; where there is none, the device has no contents.
    pub(super) fn checkpoint(&self) -> Option<&Checkpoint> {
        Some(&self.checkpoints.get(self.chosen?)?.1)
    }

    /// Where a checkpoint may be written without losing the one that counts.
    pub(super) fn next_area(&self) -> Area {
        let chosen = self.chosen.and_then(|at| self.checkpoints.get(at));
        chosen.map_or(Area::A, |(area, _)| area.other())
    }

    // --- closing what the run before left ---

    /// Seals what was open, as far as the checkpoint lists it. What came later was promised to nobody.
    pub(super) fn queue_closing(&mut self) {
        let Some(geometry) = self.geometry() else { return };
        let open = self.checkpoint().and_then(|checkpoint| checkpoint.open.clone());
        let Some(OpenContents { segment, sequence, data_bytes, entries }) = open else { return };
        let (offset, table, run) =
            Trailer::encode_with_contents(self.id(), segment, sequence, &entries, data_bytes, &geometry);
        let at = geometry.segment_start(segment) + u64::from(offset);
        self.queue.push_back(Job::Write { at, data: run.freeze() });
        let life = Life { sequence, segment, table, data_bytes };
        self.closed = Some((life, entries));
    }

    /// The lives that count, oldest first.
    fn lives(&self) -> Vec<Life> {
        let sealed = self.checkpoint().map_or(&[][..], |checkpoint| &checkpoint.sealed);
        let closed = self.closed.iter().map(|(life, _)| *life);
        sealed.iter().copied().chain(closed).collect()
    }

    fn owed(&self) -> Owed {
        self.checkpoint().map_or_else(Owed::default, |checkpoint| checkpoint.owed.clone())
    }

    /// The sequence that the next life gets. Lives that were begun after the checkpoint that counts are not more than
    /// the segments, because a segment is used again only after the next one.
    fn next_sequence(&self) -> u64 {
        let segments = self.geometry().map_or(0, |geometry| geometry.segments());
        let known = self.checkpoints().map(|checkpoint| checkpoint.next_sequence).max().unwrap_or(0);
        known + u64::from(segments) + 1
    }

    /// Writes what was decided into the area that the checkpoint that counts is not in.
    pub(super) fn queue_checkpoint(&mut self, identity: &Identity, number: u64, last_lsn: Lsn, note: &Bytes) {
        let Some(geometry) = self.geometry() else { return };
        let checkpoint = Checkpoint {
            device: self.id(),
            store_id: identity.store_id,
            hash_seed: identity.hash_seed,
            number,
            generation: identity.generation,
            next_sequence: self.next_sequence(),
            sealed: self.lives(),
            last_lsn: last_lsn.0,
            members: identity.members.clone(),
            owed: self.owed(),
            open: None,
            note: note.clone(),
        };
        let data = checkpoint.encode().freeze();
        let copies = geometry.checkpoint_copies(self.next_area());
        self.queue.extend(copies.map(|at| Job::Write { at, data: data.clone() }));
    }

    pub(super) fn queue_sync(&mut self) {
        self.queue.push_back(Job::Sync);
    }

    /// The device as part of the open store, and its contents tables that are to be merged; nothing where it was never
    /// identified.
    pub(super) fn open(self, common: &Arc<Common>) -> Option<(Device, Tables)> {
        let geometry = self.geometry()?;
        let segments = Lives::new(geometry.segments());
        let mut states = vec![State::Free; geometry.segments() as usize + 1];
        let lives = self.lives();
        for &Life { sequence, segment, table, data_bytes } in &lives {
            states[segment as usize] = State::Sealed(Sealed { sequence, table, data_bytes });
            segments.open(segment, sequence, true);
        }
        let info = Arc::new(DeviceInfo {
            index: self.index,
            id: self.id(),
            geometry,
            base: self.base,
            lives: segments,
            floor: AtomicU64::new(1),
            health: Health::default(),
            has_room: AtomicBool::new(true),
            writes: AtomicU64::new(0),
            given_bytes: AtomicU64::new(0),
            next_io: AtomicU64::new(self.next_io),
        });
        let (next_sequence, owed) = (self.next_sequence(), self.owed());
        let sealed = lives.iter().map(|life| life.segment).collect();
        let tables = Tables::new(Arc::clone(&info), lives, self.closed.map(|(_, entries)| entries), &owed);
        let log = Log::new(Arc::clone(&info), Arc::clone(common), states, sealed, next_sequence, owed);
        Some((Device { info, log: Mutex::new(log), carrying: AtomicBool::new(false) }, tables))
    }
}
