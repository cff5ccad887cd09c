//! One device's share of recovery: which reads, what they say, which segments count.

use super::*;
use crate::block::{BlockBuf, Blocks};
use crate::disk::checkpoint::{Checkpoint, Sequences, owed_max};
use crate::disk::segment::{Entry, Header, Trailer, void_frame};
use crate::disk::superblock::candidates;
use crate::fingerprint::Fingerprint;
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
    Header(u32),
    Trailer(u32),
    /// Contents of the n-th segment in the order of merging.
    Contents(usize),
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

/// What the first and the last block of a segment say.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    header: Option<Header>,
    trailer: Option<Trailer>,
    unreadable: bool,
}

/// A segment that counts, and how far its entries were merged.
#[derive(Debug)]
struct Source {
    segment: u32,
    sealed: Sealed,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    /// To be read.
    OnDisk(Trailer),
    /// Known; the newest entry is last.
    Here(Vec<Entry>),
    /// Damaged.
    Bad,
}

/// See the module.
#[derive(Debug)]
pub(super) struct DeviceRecovery {
    pub(super) index: DeviceIndex,
    pub(super) base: u32,
    /// Whether the contents do not count.
    pub(super) void: bool,
    pub(super) superblock: Option<Superblock>,
    bytes: u64,
    depth: usize,
    next_io: u64,
    queue: VecDeque<Job>,
    under_way: HashMap<IoId, Job>,
    copies: Vec<Bytes>,
    copies_used: Vec<(AreaCopy, u32)>,
    checkpoints: Vec<(Area, Checkpoint)>,
    frames: Vec<Frame>,
    /// Newest first.
    sources: Vec<Source>,
    merging: usize,
    asked: usize,
    floor: u64,
    next_sequence: u64,
    torn: Vec<u32>,
    bad_contents: u64,
    read_segments: u64,
    /// The segment that was open at the last checkpoint and must be sealed.
    to_seal: Option<(u32, u64, u32, Vec<Entry>)>,
}

impl DeviceRecovery {
    pub(super) fn new(index: DeviceIndex, bytes: u64, depth: usize) -> Self {
        Self {
            index,
            base: 0,
            void: false,
            superblock: None,
            bytes,
            depth,
            next_io: 0,
            queue: VecDeque::new(),
            under_way: HashMap::new(),
            copies: Vec::new(),
            copies_used: Vec::new(),
            checkpoints: Vec::new(),
            frames: Vec::new(),
            sources: Vec::new(),
            merging: 0,
            asked: 0,
            floor: 1,
            next_sequence: 1,
            torn: Vec::new(),
            bad_contents: 0,
            read_segments: 0,
            to_seal: None,
        }
    }

    // --- requests ---

    /// Whether nothing is to be asked for or waited for.
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty() && self.merging >= self.sources.len()
    }

    /// Hands out requests up to the depth.
    pub(super) fn issue(&mut self, out: &mut Outbox) {
        self.queue_contents();
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
        let segment = |segment: u32, offset: u32| {
            self.geometry().map_or(0, |geometry| geometry.segment_start(segment) + u64::from(offset))
        };
        let trailer_at = self.geometry().map_or(0, |geometry| geometry.trailer_offset());
        match *job {
            Job::Superblock { at } => read(at, BLOCK_BYTES),
            Job::CheckpointHeader(copy) => read(copy.at, BLOCK_BYTES),
            Job::Checkpoint { copy, len } => read(copy.at, len),
            Job::Header(number) => read(segment(number, 0), BLOCK_BYTES),
            Job::Trailer(number) => read(segment(number, trailer_at), BLOCK_BYTES),
            Job::Contents(at) => {
                let Source { segment: number, sealed, .. } = &self.sources[at];
                read(segment(*number, sealed.contents_offset), trailer_at - sealed.contents_offset)
            }
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
            Job::Header(segment) => self.take_header(segment, result.ok()),
            Job::Trailer(segment) => self.take_trailer(segment, result.ok()),
            Job::Contents(at) => self.take_contents(at, result.ok()),
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
    /// to be true for the next one, which may find other evidence (a contents table that should have been replaced
    /// is as good as the new one).
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
        self.frames = vec![Frame::default(); superblock.geometry.segments() as usize + 1];
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

    fn newest_checkpoint(&self) -> Option<&(Area, Checkpoint)> {
        self.checkpoints.iter().max_by_key(|(_, checkpoint)| checkpoint.number)
    }

    pub(super) fn checkpoint(&self) -> Option<&Checkpoint> {
        self.newest_checkpoint().map(|(_, checkpoint)| checkpoint)
    }

    /// Tombstones that the log owed at the last checkpoint.
    pub(super) fn owed(&self) -> Vec<Fingerprint> {
        let counts = self.checkpoint().filter(|_| !self.void);
        counts.map_or_else(Vec::new, |checkpoint| checkpoint.owed.clone())
    }

    /// Where a checkpoint may be written without losing the newest one.
    pub(super) fn next_area(&self) -> Area {
        self.newest_checkpoint().map_or(Area::A, |(area, _)| area.other())
    }

    // --- segments ---

    pub(super) fn queue_frames(&mut self) {
        let segments = 1..self.frames.len() as u32;
        self.queue.extend(segments.flat_map(|segment| [Job::Header(segment), Job::Trailer(segment)]));
    }

    fn take_header(&mut self, segment: u32, bytes: Option<Bytes>) {
        let id = self.id();
        let frame = &mut self.frames[segment as usize];
        frame.unreadable |= bytes.is_none();
        let header = bytes.and_then(|bytes| Header::decode(&bytes).ok());
        frame.header = header.filter(|header| header.device == id && header.segment == segment);
    }

    fn take_trailer(&mut self, segment: u32, bytes: Option<Bytes>) {
        let (id, geometry) = (self.id(), self.geometry());
        let frame = &mut self.frames[segment as usize];
        frame.unreadable |= bytes.is_none();
        let trailer =
            bytes.zip(geometry).and_then(|(bytes, geometry)| Trailer::decode(&bytes, &geometry).ok());
        frame.trailer = trailer.filter(|trailer| trailer.device == id && trailer.segment == segment);
    }

    /// Decides which segments count: those that the checkpoint knows as sealed, and of the one that was open what
    /// it lists. What came later was promised to nobody and goes: a later entry may be there without its
    /// bytes, and must not stand in the way of an earlier one.
    pub(super) fn sort_segments(&mut self) {
        let known = self.checkpoint().map(|checkpoint| checkpoint.sequences);
        let headers = self.frames.iter().filter_map(|frame| Some(frame.header?.sequence));
        let trailers = self.frames.iter().filter_map(|frame| Some(frame.trailer?.sequence));
        let highest = headers.chain(trailers).chain(known.map(|known| known.next)).max().unwrap_or(0);
        // Lives that were begun after the last checkpoint and lost without a trace are fewer than the
        // segments, because a segment is used again only after a checkpoint.
        self.next_sequence = highest + self.frames.len() as u64 + 1;
        let Some(known) = known.filter(|_| !self.void) else {
            self.floor = self.next_sequence;
            return;
        };
        self.floor = known.floor;
        for segment in 1..self.frames.len() as u32 {
            self.sort_segment(segment, known);
        }
        self.miss_lives();
        self.sources.retain(|source| source.sealed.sequence >= self.floor);
        self.sources.sort_by_key(|source| std::cmp::Reverse(source.sealed.sequence));
        self.queue_contents();
    }

    fn sort_segment(&mut self, segment: u32, known: Sequences) {
        let frame = self.frames[segment as usize];
        let open = self.checkpoint().and_then(|checkpoint| checkpoint.open.as_ref());
        let open = open.filter(|open| open.segment == segment).cloned();
        let begun = frame.header.map(|header| header.sequence);
        let written = frame.trailer.map(|trailer| trailer.sequence);
        let sealed = frame.trailer.filter(|trailer| begun.is_none_or(|begun| begun == trailer.sequence));
        let promised = known.floor..known.next;
        match (sealed, open) {
            // The checkpoint knows it better than a header that is damaged, or of a life before: its write was lost.
            (_, Some(open)) if begun.is_none_or(|begun| begun <= open.sequence) => {
                let sealed = self.plan_seal(segment, open.sequence, open.data_bytes, &open.entries);
                self.sources.push(Source { segment, sealed, contents: Contents::Here(open.entries) });
            }
            _ if frame.header.is_some_and(|header| header.void) => {
                // Only half of the frame was written: the life before would be a damaged header away.
                self.torn.extend(frame.trailer.map(|_| segment));
            }
            _ if begun.max(written).is_some_and(|newest| newest >= known.next) => self.torn.push(segment),
            (Some(trailer), _) if promised.contains(&trailer.sequence) => {
                let Trailer { sequence, contents_offset, data_bytes, .. } = trailer;
                let sealed = Sealed { sequence, contents_offset, data_bytes };
                self.sources.push(Source { segment, sealed, contents: Contents::OnDisk(trailer) });
            }
            // Sealed as far as the checkpoint knows, and the trailer is gone.
            _ if begun.is_some_and(|begun| promised.contains(&begun)) => {
                self.lose_contents(begun.unwrap_or(known.next));
            }
            _ if frame.unreadable => self.lose_contents(known.next.saturating_sub(1)),
            _ => {}
        }
    }

    /// A sealed segment of which header and trailer are damaged looks like a free one, but is missed here. Which
    /// life it was is not known, only that it was before the open one.
    fn miss_lives(&mut self) {
        let Some(checkpoint) = self.checkpoint() else { return };
        let open = checkpoint.open.as_ref().map(|open| open.sequence);
        let (sealed, end) = (u64::from(checkpoint.sealed), open.unwrap_or(checkpoint.sequences.next));
        let on_disk = |source: &&Source| matches!(source.contents, Contents::OnDisk(_));
        let found = self.sources.iter().filter(on_disk).count() as u64 + self.bad_contents;
        if found < sealed {
            self.lose_contents(end.saturating_sub(1));
        }
    }

    /// Contents are lost, and with them tombstones: nothing older on this device can be trusted.
    fn lose_contents(&mut self, sequence: u64) {
        self.bad_contents += 1;
        self.floor = self.floor.max(sequence + 1);
    }

    fn plan_seal(&mut self, segment: u32, sequence: u64, data_bytes: u32, entries: &[Entry]) -> Sealed {
        self.to_seal = Some((segment, sequence, data_bytes, entries.to_vec()));
        let contents_offset = self.geometry().map_or(0, |geometry| {
            Trailer::encode_with_contents(self.id(), segment, sequence, entries, data_bytes, &geometry).0
        });
        Sealed { sequence, contents_offset, data_bytes }
    }

    // --- contents, newest first ---

    fn queue_contents(&mut self) {
        while self.asked < self.sources.len() && self.asked < self.merging + self.depth {
            if matches!(self.sources[self.asked].contents, Contents::OnDisk(_)) {
                self.queue.push_back(Job::Contents(self.asked));
            }
            self.asked += 1;
        }
    }

    fn take_contents(&mut self, at: usize, bytes: Option<Bytes>) {
        self.read_segments += 1;
        let geometry = self.geometry();
        let Some(Source { contents, .. }) = self.sources.get_mut(at) else { return };
        let Contents::OnDisk(trailer) = contents else { return };
        let entries = bytes.zip(geometry);
        let entries = entries.and_then(|(bytes, geometry)| trailer.contents(&bytes, &geometry).ok());
        *contents = entries.map_or(Contents::Bad, Contents::Here);
    }

    /// Whether the newest entry that was not taken yet is known, or there is none.
    pub(super) fn shows_newest(&mut self) -> bool {
        while let Some(source) = self.sources.get(self.merging) {
            match &source.contents {
                Contents::OnDisk(_) => return false,
                Contents::Here(entries) if !entries.is_empty() => return true,
                Contents::Here(_) => self.merging += 1,
                Contents::Bad => {
                    let sequence = source.sealed.sequence;
                    self.lose_contents(sequence);
                    self.ignore_older();
                }
            }
        }
        true
    }

    /// Lsn of the newest entry.
    pub(super) fn newest(&mut self) -> Option<Lsn> {
        match &self.sources.get(self.merging)?.contents {
            Contents::Here(entries) => Some(entries.last()?.lsn),
            _ => None,
        }
    }

    /// Takes the newest entry.
    pub(super) fn take_newest(&mut self) -> Option<(u32, Entry)> {
        let source = self.sources.get_mut(self.merging)?;
        match &mut source.contents {
            Contents::Here(entries) => Some((source.segment, entries.pop()?)),
            _ => None,
        }
    }

    /// Tombstones that the checkpoint of recovery can keep.
    pub(super) fn owed_max(&self) -> usize {
        self.geometry().map_or(0, |geometry| owed_max(geometry.checkpoint_bytes()))
    }

    /// Nothing on this device counts; says which segments that concerns.
    pub(super) fn give_up_contents(&mut self) -> std::ops::RangeInclusive<u32> {
        self.floor = self.next_sequence;
        self.base..=self.base + self.frames.len() as u32 - 1
    }

    /// Everything older on this device is void.
    pub(super) fn ignore_older(&mut self) {
        self.merging = self.sources.len();
        self.queue.clear();
        self.asked = self.sources.len();
    }

    // --- leaving order behind ---

    /// Seals what was open, and voids what was begun after the last checkpoint: the next one's lives begin
    /// behind it, so it would look like a sealed segment.
    pub(super) fn queue_closing(&mut self) {
        let (id, Some(geometry)) = (self.id(), self.geometry()) else { return };
        let write = |segment: u32, offset: u32, data: BlockBuf| {
            let at = geometry.segment_start(segment) + u64::from(offset);
            Job::Write { at, data: data.freeze() }
        };
        if let Some((segment, sequence, data_bytes, entries)) = self.to_seal.take() {
            let (offset, run) =
                Trailer::encode_with_contents(id, segment, sequence, &entries, data_bytes, &geometry);
            let header = Header { device: id, segment, sequence, void: false };
            self.queue.push_back(write(segment, 0, header.encode()));
            self.queue.push_back(write(segment, offset, run));
        }
        for &segment in &self.torn {
            let [header, trailer] = void_frame(id, segment, self.next_sequence);
            self.next_sequence += 1;
            self.queue.push_back(write(segment, 0, header));
            self.queue.push_back(write(segment, geometry.trailer_offset(), trailer));
        }
    }

    /// Writes what was decided here into the area that the last checkpoint is not in.
    pub(super) fn queue_checkpoint(&mut self, identity: &Identity, number: u64, merge: &Merge, note: &Bytes) {
        let Some(geometry) = self.geometry() else { return };
        let checkpoint = Checkpoint {
            device: self.id(),
            store_id: identity.store_id,
            hash_seed: identity.hash_seed,
            number,
            generation: identity.generation,
            sequences: Sequences { floor: self.floor, next: self.next_sequence },
            sealed: self.sources.iter().filter(|source| source.sealed.sequence >= self.floor).count() as u32,
            last_lsn: merge.last_lsn.0,
            members: identity.members.clone(),
            owed: merge.superseded[self.index.at()].clone(),
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

    pub(super) fn add_to(&self, report: &mut Report) {
        report.segments_read += self.read_segments;
        report.torn += self.torn.len() as u64;
        report.bad_contents += self.bad_contents;
    }

    /// The device as part of the open store; nothing where it was never identified.
    pub(super) fn open(mut self, common: &Arc<Common>) -> Option<Device> {
        let geometry = self.geometry()?;
        let id = self.id();
        let lives = Lives::new(self.frames.len() as u32 - 1);
        let mut states = vec![State::Free; self.frames.len()];
        let floor = self.floor;
        self.sources.retain(|source| source.sealed.sequence >= floor);
        self.sources.reverse();
        for Source { segment, sealed, .. } in &self.sources {
            states[*segment as usize] = State::Sealed(*sealed);
            lives.open(*segment, sealed.sequence, true);
        }
        let sealed = self.sources.iter().map(|source| source.segment).collect();
        let info = Arc::new(DeviceInfo {
            index: self.index,
            id,
            geometry,
            base: self.base,
            lives,
            health: Health::default(),
            has_room: AtomicBool::new(true),
            writes: AtomicU64::new(0),
            given_bytes: AtomicU64::new(0),
            next_io: AtomicU64::new(self.next_io),
        });
        let sequences = Sequences { floor, next: self.next_sequence };
        let log = Log::new(Arc::clone(&info), Arc::clone(common), states, sealed, sequences);
        Some(Device { info, log: Mutex::new(log), carrying: AtomicBool::new(false) })
    }
}
