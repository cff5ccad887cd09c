//! One request to a disk, with everything that it needs until it is over.
//!
//! What must hold: an operation owns its file and its buffer, so nothing that the kernel may still touch can be
//! freed, moved or reused while it runs. Short counts are handled here: a write ends when all of it is written, a
//! read when all is read or the file ends. Refuses to know who runs it: [`crate::uring`] or [`crate::pool`].

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::Advice;
use rustix::io::{pwritev, retry_on_intr};

use crate::aligned::Writer;
use crate::device::{advise, all_present, zero_range};

mod parts;

pub use parts::{PARTS_MAX, Parts};

/// The most bytes of one operation: what one system call surely takes.
pub const OPERATION_BYTES_MAX: usize = 1 << 30;

/// What the kernel surely takes of one request to bring pages in: its default readahead window.
pub(crate) const LOAD_PIECE_BYTES: usize = 128 << 10;

/// No disk has smaller blocks: a count that is no multiple of this is the end of the file, not an interruption.
const SECTOR_BYTES: usize = 512;

/// What a disk is asked to do.
#[derive(Debug)]
pub enum Operation {
    /// Write all of `bytes`. Result: their number.
    Write {
        /// Where to; by O_DIRECT everything must be aligned.
        file: Arc<File>,
        /// Position in the file.
        offset: u64,
        /// What to write; a [`Settled`](crate::aligned::Settled) becomes one without a copy.
        bytes: Bytes,
    },
    /// Write all of `parts`, one behind the other. Result: the number of their bytes.
    WriteVectored {
        /// Where to; by O_DIRECT every part must be aligned.
        file: Arc<File>,
        /// Position in the file of the first part.
        offset: u64,
        /// What to write, at most [`PARTS_MAX`] of them.
        parts: Parts,
    },
    /// Read `len` bytes into the writer, whose watermark moves as they arrive. Result: their number, fewer only at the
    /// end of the file.
    Read {
        /// Where from.
        file: Arc<File>,
        /// Position in the file.
        offset: u64,
        /// Bytes wanted, no more than the writer has room for.
        len: usize,
        /// The unfilled front takes them.
        into: Writer,
    },
    /// Bring a range into memory and end when its last page is there. Result: 0.
    ///
    /// The kernel may take less of one request than asked (down to 128 KiB, by device): what it left is asked for
    /// again. Pages before the last may still be on their way for a moment.
    Load {
        /// A buffered descriptor.
        file: Arc<File>,
        /// Position in the file.
        offset: u64,
        /// Bytes wanted; 1 MiB is a good step.
        len: usize,
    },
    /// Let go of clean pages. Result: 0.
    Forget {
        /// A buffered descriptor.
        file: Arc<File>,
        /// Position in the file.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// Make durable what was written by operations that have completed. Result: 0.
    Sync {
        /// The file.
        file: Arc<File>,
    },
    /// Make a range read as zeroes, keeping its blocks. Result: 0.
    ZeroRange {
        /// The file.
        file: Arc<File>,
        /// Position in the file.
        offset: u64,
        /// Bytes.
        len: usize,
    },
}

impl Operation {
    /// Whether its range can be served: a length of 1 to [`OPERATION_BYTES_MAX`] that fits the writer's room, and an
    /// end that a file can have.
    pub fn is_sound(&self) -> bool {
        let (offset, len, room) = match self {
            Self::Write { offset, bytes, .. } => (*offset, bytes.len(), usize::MAX),
            Self::WriteVectored { parts, .. } if parts.count() > PARTS_MAX => return false,
            Self::WriteVectored { offset, parts, .. } => (*offset, parts.len(), usize::MAX),
            Self::Read { offset, len, into, .. } => (*offset, *len, into.remaining()),
            Self::Load { offset, len, .. }
            | Self::Forget { offset, len, .. }
            | Self::ZeroRange { offset, len, .. } => (*offset, *len, usize::MAX),
            Self::Sync { .. } => return true,
        };
        let end = offset.checked_add(len as u64);
        (1..=OPERATION_BYTES_MAX.min(room)).contains(&len) && end.is_some_and(|end| end <= i64::MAX as u64)
    }

    /// Does it now, on this thread, waiting for the disk.
    pub fn run(&mut self) -> io::Result<usize> {
        match self {
            Self::Write { file, offset, bytes } => file.write_all_at(bytes, *offset).map(|()| bytes.len()),
            Self::WriteVectored { file, offset, parts } => write_all_parts(file, *offset, parts),
            Self::Read { file, offset, len, into } => read_up_to(file, *offset, *len, into),
            Self::Load { file, offset, len } => {
                for start in (0..*len).step_by(LOAD_PIECE_BYTES) {
                    let piece = LOAD_PIECE_BYTES.min(*len - start);
                    advise(file, *offset + start as u64, piece as u64, Advice::WillNeed)?;
                }
                file.read_at(&mut [0], *offset + *len as u64 - 1).map(|_| 0)
            }
            Self::Forget { file, offset, len } => {
                advise(file, *offset, *len as u64, Advice::DontNeed).map(|()| 0)
            }
            Self::Sync { file } => file.sync_data().map(|()| 0),
            Self::ZeroRange { file, offset, len } => zero_range(file, *offset, *len as u64).map(|()| 0),
        }
    }
}

fn write_all_parts(file: &File, offset: u64, parts: &Parts) -> io::Result<usize> {
    let mut done = 0;
    while done < parts.len() {
        match retry_on_intr(|| pwritev(file, &parts.rest(done), offset + done as u64))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(done)
}

fn read_up_to(file: &File, offset: u64, len: usize, into: &mut Writer) -> io::Result<usize> {
    let mut done = 0;
    while done < len {
        match file.read_at(&mut into.unfilled()[..len - done], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => {
                into.advance(count);
                done += count;
                if !count.is_multiple_of(SECTOR_BYTES) {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// What is left to do of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Ask for all of it.
    Whole,
    /// The kernel took only some: ask for the piece that starts here, counted from the start of the range.
    Piece(usize),
    /// All is asked for: read the last byte, which waits for its page.
    Touch,
}

impl Load {
    /// What follows once the kernel has answered this step; nothing after the last.
    fn next(self, file: &File, offset: u64, len: usize) -> Option<Self> {
        let piece = |start| if start < len { Self::Piece(start) } else { Self::Touch };
        match self {
            Self::Whole if len <= LOAD_PIECE_BYTES => Some(Self::Touch),
            // The pages of a request exist when it is answered, so counting them tells what was taken.
            Self::Whole if all_present(file, offset, len as u64) == Some(true) => Some(Self::Touch),
            Self::Whole => Some(piece(0)),
            Self::Piece(start) => Some(piece(start + LOAD_PIECE_BYTES)),
            Self::Touch => None,
        }
    }
}

/// An operation on its way through a ring: how far it is.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) operation: Operation,
    /// Bytes moved by a write or read.
    pub(crate) done: usize,
    /// The step of a load.
    pub(crate) load: Load,
    /// Whether anybody waits for the result.
    pub(crate) wanted: bool,
    /// Where the kernel finds the parts of a vectored write.
    pub(crate) vectors: Vectors,
}

/// What the kernel reads as an array of `iovec`: pointers into the parts of the operation beside it.
#[derive(Default)]
pub(crate) struct Vectors(pub(crate) Vec<libc::iovec>);

impl std::fmt::Debug for Vectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vectors({})", self.0.len())
    }
}

/// What a completion means for its operation.
#[derive(Debug)]
pub(crate) enum Step {
    /// Not over: submit what is left.
    Again,
    /// Over, with this result.
    Done(io::Result<usize>),
}

impl Flight {
    pub(crate) fn new(operation: Operation) -> Self {
        Self { operation, done: 0, load: Load::Whole, wanted: true, vectors: Vectors::default() }
    }

    /// Takes the kernel's answer: a count, or an error number below zero.
    pub(crate) fn absorb(&mut self, answer: i32) -> Step {
        let count = match usize::try_from(answer) {
            Ok(count) => count,
            Err(_) if answer == -libc::EINTR => return Step::Again,
            Err(_) => return Step::Done(Err(io::Error::from_raw_os_error(-answer))),
        };
        match &mut self.operation {
            Operation::Write { bytes, .. } => {
                let len = bytes.len();
                self.wrote(count, len)
            }
            Operation::WriteVectored { parts, .. } => {
                let len = parts.len();
                self.wrote(count, len)
            }
            Operation::Read { len, into, .. } => {
                into.advance(count);
                self.done += count;
                let ended = count == 0 || !count.is_multiple_of(SECTOR_BYTES);
                if ended || self.done == *len { Step::Done(Ok(self.done)) } else { Step::Again }
            }
            Operation::Load { file, offset, len } => match self.load.next(file, *offset, *len) {
                Some(next) => {
                    self.load = next;
                    Step::Again
                }
                None => Step::Done(Ok(0)),
            },
            Operation::Forget { .. } | Operation::Sync { .. } | Operation::ZeroRange { .. } => {
                Step::Done(Ok(0))
            }
        }
    }

    fn wrote(&mut self, count: usize, of: usize) -> Step {
        self.done += count;
        match (count, of - self.done) {
            (_, 0) => Step::Done(Ok(self.done)),
            (0, _) => Step::Done(Err(ErrorKind::WriteZero.into())),
            _ => Step::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::aligned::AlignedBuffer;

    /// Feeds the kernel's answers one by one; what the last one led to, and whether the others asked for more.
    fn fed(operation: Operation, answers: &[i32]) -> Result<usize, ErrorKind> {
        let mut flight = Flight::new(operation);
        let (last, before) = answers.split_last().unwrap();
        for answer in before {
            assert!(matches!(flight.absorb(*answer), Step::Again), "{answer} ended it");
        }
        match flight.absorb(*last) {
            Step::Done(result) => result.map_err(|error| error.kind()),
            Step::Again => panic!("{last} did not end it"),
        }
    }

    fn file() -> Arc<File> {
        Arc::new(tempfile::tempfile().unwrap())
    }

    #[test]
    fn answers_of_the_kernel_end_an_operation_or_do_not() {
        let write = || {
            let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
            writer.put(&[1; 4096]);
            writer.finish();
            Operation::Write { file: file(), offset: 0, bytes: reader.settled_padded().unwrap().into() }
        };
        let read = || {
            let into = AlignedBuffer::new(4096).unwrap().split().0;
            Operation::Read { file: file(), offset: 0, len: 4096, into }
        };
        let load = |len| Operation::Load { file: file(), offset: 0, len };
        let parts = || Parts::from(vec![Bytes::from_static(&[1; 4096]); 2]);
        let vectored = || Operation::WriteVectored { file: file(), offset: 0, parts: parts() };
        let rows: [(Operation, &[i32], Result<usize, ErrorKind>); 17] = [
            (vectored(), &[8192], Ok(8192)),
            (vectored(), &[4608, -libc::EINTR, 3584], Ok(8192)),
            (vectored(), &[4096, 0], Err(ErrorKind::WriteZero)),
            (write(), &[4096], Ok(4096)),
            (write(), &[512, -libc::EINTR, 3584], Ok(4096)),
            (write(), &[512, 0], Err(ErrorKind::WriteZero)),
            (write(), &[512, -libc::ENOSPC], Err(ErrorKind::StorageFull)),
            (read(), &[4096], Ok(4096)),
            (read(), &[512, 1024, 2560], Ok(4096)),
            (read(), &[512, 100], Ok(612)),
            (read(), &[512, 0], Ok(512)),
            (read(), &[0], Ok(0)),
            (read(), &[-libc::EINTR, -libc::ENOENT], Err(ErrorKind::NotFound)),
            (load(4096), &[0, 1], Ok(0)),
            (load(3 * LOAD_PIECE_BYTES), &[0, 0, 0, 0, 1], Ok(0)), // nothing of an empty file is ever present
            (load(4096), &[-libc::ENOENT], Err(ErrorKind::NotFound)),
            (Operation::Sync { file: file() }, &[-libc::EINTR, 0], Ok(0)),
        ];
        for (operation, answers, expected) in rows {
            let told = format!("{operation:?} {answers:?}");
            assert_eq!(fed(operation, answers), expected, "{told}");
        }
    }
}
