//! One device's contents tables, read ahead and given out newest entry first.
//!
//! Tables are held only between their arrival and their merging: at most [`AHEAD_BYTES`] of them (or one) are asked for
//! ahead. The second copy of a table is read where the first one is damaged; where both are, the tombstones in it are
//! lost, and nothing older on the device can be trusted.

use crate::disk::checkpoint::{Life, Owed};
use crate::disk::segment::Entry;
use crate::fingerprint::Fingerprint;
use crate::io::{Io, IoId};
use crate::log::DeviceInfo;
use crate::types::Lsn;
use bytes::Bytes;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Bytes of tables that are read ahead on a device.
const AHEAD_BYTES: u64 = 8 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) device: Arc<DeviceInfo>,
    /// Objects of which older records are void on this device.
    /// Queue: what changes while an index is completed.
    pub(crate) dead: HashSet<Fingerprint>,
    /// Newest first; the front is being merged.
    /// Queue: segments of one device.
    sources: VecDeque<Source>,
    /// How many from the front were asked for.
    asked: usize,
    /// Bytes of those that were asked for.
    ahead_bytes: u64,
}

/// A life whose entries are to be merged.
#[derive(Debug)]
struct Source {
    life: Life,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    /// To be read; with the copy that is tried, and the request once there is one.
    OnDisk { copy: usize, io: Option<IoId> },
    /// Known; the newest entry is last.
    Here(Vec<Entry>),
    /// Both copies are damaged.
    Lost,
}

/// What is known of the newest entry that was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// Its number.
    Newest(Lsn),
    /// The table that it is in has not arrived.
    Awaited,
    /// There is none.
    End,
    /// The table that it was in is lost; it was of this life.
    Lost(u64),
}

impl Tables {
    /// The tables of `lives`, oldest first; of the last one the entries may be known. What is `owed` is void from the
    /// start.
    pub(crate) fn new(
        device: Arc<DeviceInfo>,
        lives: Vec<Life>,
        newest: Option<Vec<Entry>>,
        owed: &Owed,
    ) -> Self {
        let source = |life: Life| {
            let empty = life.table.entries == 0;
            let contents =
                if empty { Contents::Here(Vec::new()) } else { Contents::OnDisk { copy: 0, io: None } };
            Source { life, contents }
        };
        let mut sources: VecDeque<Source> = lives.into_iter().rev().map(source).collect();
        if let Some((entries, source)) = newest.zip(sources.front_mut()) {
            source.contents = Contents::Here(entries);
        }
        if owed.clear {
            sources.clear();
        }
        let dead = owed.tombstones.iter().copied().collect();
        Self { device, dead, sources, asked: 0, ahead_bytes: 0 }
    }

    /// Segments whose entries are not all merged.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// The life that is being merged.
    pub(crate) fn life(&self) -> Option<&Life> {
        Some(&self.sources.front()?.life)
    }

    /// Asks for what comes next, as far ahead as is allowed.
    pub(crate) fn read_ahead(&mut self) -> Vec<Io> {
        let mut reads = Vec::new();
        while let Some(source) = self.sources.get_mut(self.asked) {
            let bytes = u64::from(source.life.table.bytes());
            if self.ahead_bytes > 0 && self.ahead_bytes + bytes > AHEAD_BYTES {
                break;
            }
            self.ahead_bytes += bytes;
            self.asked += 1;
            reads.extend(source.ask(&self.device));
        }
        reads
    }

    /// Takes the outcome of a read; the other copy may have to be read then.
    pub(crate) fn complete(&mut self, id: IoId, bytes: Option<&Bytes>) -> Option<Io> {
        let source = self.sources.iter_mut().take(self.asked).find(|source| source.waits_for(id))?;
        source.take(bytes, &self.device);
        source.ask(&self.device)
    }

    /// What is known of the newest entry that was not taken.
    pub(crate) fn front(&mut self) -> Front {
        while let Some(source) = self.sources.front() {
            match &source.contents {
                Contents::OnDisk { .. } => return Front::Awaited,
                Contents::Lost => return Front::Lost(source.life.sequence),
                Contents::Here(entries) => match entries.last() {
                    Some(entry) => return Front::Newest(entry.lsn),
                    None => self.next_source(),
                },
            }
        }
        Front::End
    }

    /// Takes the newest entry.
    pub(crate) fn take_newest(&mut self) -> Option<Entry> {
        match &mut self.sources.front_mut()?.contents {
            Contents::Here(entries) => entries.pop(),
            _ => None,
        }
    }

    /// Nothing older on this device counts.
    pub(crate) fn end(&mut self) {
        self.sources.clear();
        self.dead = HashSet::new();
        (self.asked, self.ahead_bytes) = (0, 0);
    }

    fn next_source(&mut self) {
        let Some(done) = self.sources.pop_front() else { return };
        if self.asked > 0 {
            self.asked -= 1;
            self.ahead_bytes -= u64::from(done.life.table.bytes());
        }
    }
}

impl Source {
    fn ask(&mut self, device: &DeviceInfo) -> Option<Io> {
        let Contents::OnDisk { copy, io } = &mut self.contents else { return None };
        let id = *io.insert(device.new_io());
        let within = self.life.table.copies(&device.geometry)[*copy];
        let offset = device.geometry.segment_start(self.life.segment) + u64::from(within);
        Some(Io::Read { id, device: device.index, offset, len: self.life.table.bytes() })
    }

    fn waits_for(&self, id: IoId) -> bool {
        matches!(self.contents, Contents::OnDisk { io: Some(io), .. } if io == id)
    }

    fn take(&mut self, bytes: Option<&Bytes>, device: &DeviceInfo) {
        let Contents::OnDisk { copy, .. } = self.contents else { return };
        let entries = bytes.and_then(|bytes| self.life.table.decode(bytes, &device.geometry).ok());
        self.contents = match entries {
            Some(entries) => Contents::Here(entries),
            None if copy == 0 => Contents::OnDisk { copy: 1, io: None },
            None => Contents::Lost,
        };
    }
}
