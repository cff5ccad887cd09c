//! Disk operations through io_uring.
//!
//! Owns one ring and the operations in it. What must hold: **the kernel never sees memory that we have given up.**
//! An operation stays in its slot, with file and buffer, from `push` until its completion is reaped; the drop of the
//! ring waits for all of them, and where the wait itself fails it leaks them rather than free them.
//!
//! Queue sizes are chosen so that nothing can overflow: at most `depth` operations exist, each with at most one entry
//! in the submission queue and one completion outstanding; the queues have room for `depth` and twice that.
//!
//! Reads into an [`Arena`] that the ring was given go to registered memory, where the kernel allows that; see `registered`.
//!
//! Refused in many containers: [`Refused`] says why, and [`crate::pool`] does the same work with threads.
#![allow(unsafe_code)] // io-uring's push trusts us with pointers

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;

use crate::aligned::{BLOCK_BYTES, Memory};
use crate::arena::Arena;
use crate::operation::{Flight, LOAD_PIECE_BYTES, Load, Operation, Step, Vectors};
use crate::queue::{Completion, NotQueued, Queue, Slots, Token, Unqueued};
use registered::Registered;

mod registered;

/// Why this system gives no ring.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The kernel has no io_uring, or a filter pretends so (`ENOSYS`).
    #[error("io_uring-missing")]
    Missing,
    /// Switched off by `kernel.io_uring_disabled` or forbidden by a filter (`EPERM`, `EACCES`).
    #[error("io_uring-forbidden")]
    Forbidden,
    /// No memory may be locked or no descriptor is left (`ENOMEM`, `EMFILE`, `ENFILE`).
    #[error("io_uring-no-resources")]
    Resources,
    /// It lacks an operation that is needed: a kernel before 5.6.
    #[error("io_uring-too-old")]
    TooOld,
    /// Anything else.
    #[error("io_uring-failed: {0}")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => Self::Missing,
            Some(Errno::PERM | Errno::ACCESS) => Self::Forbidden,
            Some(Errno::NOMEM | Errno::MFILE | Errno::NFILE) => Self::Resources,
            _ => Self::Failed(error),
        }
    }
}

/// One ring, for one thread at a time.
#[derive(Debug)]
pub struct Ring {
    /// Never freed before `drop` has seen the last completion.
    flights: ManuallyDrop<Slots<Flight>>,
    /// Takes the bytes that a load touches; any number at a time, nobody reads them.
    scratch: ManuallyDrop<Memory>,
    ring: Uring,
    /// Behind the ring: what it has pinned goes after it.
    registered: Option<Registered>,
}

impl Ring {
    /// A ring for at most `depth` operations at a time (at least 1; the kernel's own maximum is 32768).
    pub fn new(depth: u32) -> Result<Self, Refused> {
        let depth = depth.clamp(1, 32_768);
        let ring = build(depth)?;
        probe(&ring)?;
        let flights = ManuallyDrop::new(Slots::new(depth));
        let scratch = ManuallyDrop::new(Memory::map(BLOCK_BYTES)?);
        Ok(Self { flights, scratch, ring: Uring(ring), registered: None })
    }

    /// The same, with the memory of `arena` registered as reads come to need it.
    pub fn with_arena(depth: u32, arena: &Arena) -> Result<Self, Refused> {
        let mut ring = Self::new(depth)?;
        ring.registered = Some(Registered::new(&ring.ring.0, arena));
        Ok(ring)
    }

    /// Why reads go to memory that is not registered, or not to all of it; nothing where they may.
    pub fn unregistered(&self) -> Option<&io::Error> {
        self.registered.as_ref().and_then(Registered::refused)
    }

    /// Lets as many operations of this thread's rings wait in the kernel at a time (the kernel's own limit is four per
    /// processor). What a device cannot do asynchronously takes a kernel thread for as long, and a device that does not
    /// answer must leave some to the others.
    pub fn allow_waiting(&self, operations: u32) {
        // Nothing is lost where the kernel refuses (before 5.15) but the higher limit.
        let _ = self.ring.0.submitter().register_iowq_max_workers(&mut [operations, 0]);
    }

    /// Puts the entry for what is left of an operation into the submission queue.
    fn stage(&mut self, token: Token) {
        let Some(flight) = self.flights.get_mut(token) else {
            return debug_assert!(false, "staged without a flight");
        };
        let number = match (&flight.operation, &mut self.registered) {
            (Operation::Read { into, .. }, Some(registered)) => registered.number_of(&self.ring.0, into),
            _ => None,
        };
        let entry = entry_for(flight, number, self.scratch.start()).user_data(token.to_bits());
        // SAFETY: push requires that everything the entry points to stays valid until the operation is over:
        // - the file: an `Arc` in the flight keeps the descriptor open;
        // - the bytes of a write: `Bytes` in the flight keeps them where they are, and nobody writes to them;
        // - the vectors of a write of parts: a `Vec` in the flight, which changes only when the entry is made anew, after
        //   the completion of the one before;
        // - the target of a read: the `Writer` in the flight keeps it mapped; nobody else can form a reference to the
        //   unfilled part, and we form none before `absorb` takes the completion of this entry;
        // - the target of a touch: one byte that is mapped for as long as the ring, or leaked with it, and never read.
        // The flight leaves its slot only in `reap`, after its completion, or never (see `drop`).
        let pushed = unsafe { self.ring.0.submission().push(&entry) };
        // One entry per operation and room for all of them: see the head of this file.
        debug_assert!(pushed.is_ok());
    }

    fn next_answer(&mut self) -> Option<(Token, i32)> {
        let entry = self.ring.0.completion().next()?;
        Some((Token::from_bits(entry.user_data()), entry.result()))
    }

    fn take_answer(&mut self, token: Token, answer: i32) -> Option<Completion> {
        match self.flights.get_mut(token)?.absorb(answer) {
            Step::Again => {
                self.stage(token);
                None
            }
            Step::Done(result) => {
                let flight = self.flights.remove(token)?;
                flight.wanted.then_some(Completion { token, result, operation: flight.operation })
            }
        }
    }

    /// Lets the kernel finish on this thread what it put off until our next call (`COOP_TASKRUN`).
    fn run_deferred(&mut self) -> io::Result<()> {
        if self.ring.0.submission().taskrun() { self.enter(0) } else { Ok(()) }
    }

    /// Submits what is staged and waits for `want` completions.
    fn enter(&mut self, want: usize) -> io::Result<()> {
        loop {
            match self.ring.0.submit_and_wait(want) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(|_| ()),
            }
        }
    }
}

impl Queue for Ring {
    fn push(&mut self, operation: Operation) -> Result<Token, NotQueued> {
        if !operation.is_sound() {
            return Err(NotQueued { operation, why: Unqueued::Range });
        }
        if self.flights.is_full() {
            return Err(NotQueued { operation, why: Unqueued::Full });
        }
        #[allow(clippy::expect_used, reason = "asked the line before")]
        let token = self.flights.insert(Flight::new(operation)).expect("a free slot");
        self.stage(token);
        Ok(token)
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.0.submission().is_empty() {
            self.enter(0)?;
        }
        Ok(())
    }

    fn reap(&mut self, deliver: &mut dyn FnMut(Completion)) -> io::Result<usize> {
        self.run_deferred()?;
        let mut delivered = 0;
        while let Some((token, answer)) = self.next_answer() {
            if let Some(completion) = self.take_answer(token, answer) {
                delivered += 1;
                deliver(completion);
            }
        }
        self.submit()?; // what was short goes on at once
        Ok(delivered)
    }

    fn abandon(&mut self, token: Token) {
        if let Some(flight) = self.flights.get_mut(token) {
            flight.wanted = false;
        }
    }

    fn in_flight(&self) -> usize {
        self.flights.occupied()
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: borrow_raw requires a descriptor that stays open for the borrow: the ring closes it on drop only.
        unsafe { BorrowedFd::borrow_raw(self.ring.0.as_raw_fd()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if self.enter(1).and_then(|()| self.reap(&mut drop)).is_err() {
                return; // the kernel may still write to these buffers: leaked, nobody else ever gets them
            }
        }
        // SAFETY: ManuallyDrop::drop requires that the values are not used again: this is the end of `drop`, and
        // nothing is in flight, so that the kernel has no pointer to them either.
        unsafe {
            ManuallyDrop::drop(&mut self.flights);
            ManuallyDrop::drop(&mut self.scratch);
        }
    }
}

/// `IoUring` with a `Debug`.
struct Uring(IoUring);

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoUring({})", self.0.as_raw_fd())
    }
}

fn build(depth: u32) -> io::Result<IoUring> {
    // COOP_TASKRUN: completions wait for our next system call instead of interrupting the thread (5.19).
    let cooperative = IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(depth);
    cooperative.or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => IoUring::new(depth),
        _ => Err(error),
    })
}

fn probe(ring: &IoUring) -> Result<(), Refused> {
    const NEEDED: [u8; 6] = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Writev::CODE,
        opcode::Fsync::CODE,
        opcode::Fadvise::CODE,
        opcode::Fallocate::CODE,
    ];
    let mut probe = Probe::new();
    match ring.submitter().register_probe(&mut probe) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(Refused::TooOld),
        other => other?,
    }
    if NEEDED.iter().all(|&code| probe.is_supported(code)) { Ok(()) } else { Err(Refused::TooOld) }
}

/// What to submit for what is left of an operation. `number`: the registered buffer in which a read's target lies.
fn entry_for(flight: &mut Flight, number: Option<u16>, scratch: NonNull<u8>) -> squeue::Entry {
    let done = flight.done;
    match &mut flight.operation {
        Operation::Write { file, offset, bytes } => {
            let left = &bytes[done..];
            let entry = opcode::Write::new(fd(file), left.as_ptr(), left.len() as u32);
            entry.offset(*offset + done as u64).build()
        }
        Operation::WriteVectored { file, offset, parts } => {
            let of = |slice: &io::IoSlice<'_>| libc::iovec {
                iov_base: slice.as_ptr().cast_mut().cast(),
                iov_len: slice.len(),
            };
            flight.vectors = Vectors(parts.rest(done).iter().map(of).collect());
            let Vectors(vectors) = &flight.vectors;
            let entry = opcode::Writev::new(fd(file), vectors.as_ptr(), vectors.len() as u32);
            entry.offset(*offset + done as u64).build()
        }
        Operation::Read { file, offset, len, into } => {
            let target = &mut into.unfilled()[..*len - done];
            let (file, start, left, offset) =
                (fd(file), target.as_mut_ptr(), target.len() as u32, *offset + done as u64);
            match number {
                Some(number) => opcode::ReadFixed::new(file, start, left, number).offset(offset).build(),
                None => opcode::Read::new(file, start, left).offset(offset).build(),
            }
        }
        Operation::Load { file, offset, len } => match flight.load {
            Load::Whole => will_need(file, *offset, *len),
            Load::Piece(start) => will_need(file, *offset + start as u64, LOAD_PIECE_BYTES.min(*len - start)),
            Load::Touch => {
                let last = *offset + *len as u64 - 1;
                opcode::Read::new(fd(file), scratch.as_ptr(), 1).offset(last).build()
            }
        },
        Operation::Forget { file, offset, len } => {
            opcode::Fadvise::new(fd(file), *len as i64, libc::POSIX_FADV_DONTNEED).offset(*offset).build()
        }
        Operation::Sync { file } => opcode::Fsync::new(fd(file)).flags(FsyncFlags::DATASYNC).build(),
        Operation::ZeroRange { file, offset, len } => {
            let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(fd(file), *len as u64).offset(*offset).mode(mode).build()
        }
    }
}

fn will_need(file: &Arc<File>, offset: u64, len: usize) -> squeue::Entry {
    opcode::Fadvise::new(fd(file), len as i64, libc::POSIX_FADV_WILLNEED).offset(offset).build()
}

fn fd(file: &Arc<File>) -> Fd {
    Fd(file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rustix::event::epoll;
    use rustix::io::retry_on_intr;

    #[test]
    fn every_refusal_has_its_word() {
        let rows = [
            (Errno::NOSYS, "io_uring-missing"),
            (Errno::PERM, "io_uring-forbidden"),
            (Errno::ACCESS, "io_uring-forbidden"),
            (Errno::NOMEM, "io_uring-no-resources"),
            (Errno::MFILE, "io_uring-no-resources"),
            (Errno::INVAL, "io_uring-failed: Invalid argument (os error 22)"),
        ];
        for (errno, word) in rows {
            assert_eq!(Refused::from(io::Error::from(errno)).to_string(), word);
        }
    }

    /// As a runtime waits: edge-triggered, and asleep while the disk works.
    #[test]
    fn an_edge_triggered_waiter_is_woken_by_each_completion() {
        let mut ring = match Ring::new(4) {
            Ok(ring) => ring,
            Err(refused) => return println!("NOT RUN over a ring: {refused}"),
        };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, &ring, epoll::EventData::new_u64(7), flags).unwrap();
        let (from, to) = rustix::pipe::pipe().unwrap();
        let file = Arc::new(File::from(from));
        let writer = std::thread::spawn(move || {
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(2));
                rustix::io::write(&to, b"x").unwrap();
            }
        });
        for round in 0..20 {
            let into = crate::aligned::AlignedBuffer::new(4096).unwrap().split().0;
            ring.push(Operation::Read { file: Arc::clone(&file), offset: 0, len: 1, into }).unwrap();
            ring.submit().unwrap();
            let mut reaped = 0;
            while reaped == 0 {
                let mut events = [epoll::Event { flags, data: epoll::EventData::new_u64(0) }; 4];
                let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
                let count = retry_on_intr(|| epoll::wait(&poll, &mut events[..], Some(&limit))).unwrap();
                assert_eq!(count, 1, "round {round} was not woken");
                reaped = ring.reap(&mut drop).unwrap();
            }
        }
        writer.join().unwrap();
    }
}
