//! Moves body bytes from one end to another.
//!
//! [`route`] picks the way, one short file walks each of them: [`memory`] (bytes that rest in user memory),
//! [`sendfile`] (device to socket), [`splice`] (socket to socket through a pipe), [`copy`] (into a buffer) and
//! [`tunnel`] (splice, both ways). What must hold in all of them: exactly the asked number of bytes moves or the
//! caller learns who stopped it ([`Stopped`]) and how many did move; nothing here ever waits for a disk, nor keeps the thread for longer than a [`turn`].
//! HTTP, the index and settings are unknown here.
#![forbid(unsafe_code)]

pub mod copy;
pub mod memory;
pub mod pace;
pub mod patience;
pub mod route;
pub mod sendfile;
pub mod socket;
pub mod splice;
pub mod tunnel;
pub mod turn;

use std::io;

pub use pace::Patience;
pub use patience::{Elapsed, Timers, Watch};
pub use route::Route;
pub use socket::Socket;
pub use turn::Turn;

/// The side of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the bytes come from.
    From,
    /// Where they go.
    To,
}

/// Why a move ended before its last byte.
#[derive(Debug)]
pub enum Why {
    /// The source ended (end of stream) before the asked length.
    Ended,
    /// The side made no progress, or too little, for longer than there was patience with it.
    Stalled,
    /// The side failed.
    Failed(io::Error),
}

/// A move that ended early: whose doing it was, and how far it came.
#[derive(Debug)]
pub struct Stopped {
    /// The side at fault.
    pub side: Side,
    /// What it did.
    pub why: Why,
    /// Bytes that reached the destination's socket.
    pub moved: u64,
}

impl Stopped {
    fn new(side: Side, why: Why, moved: u64) -> Self {
        Self { side, why, moved }
    }

    /// The same, counted behind `before` bytes that an earlier part of the move brought over.
    #[must_use]
    pub fn after(self, before: u64) -> Self {
        Self { moved: before + self.moved, ..self }
    }
}

/// Turns a guarded attempt's two layers of failure into one.
fn settle<T>(outcome: Result<io::Result<T>, Elapsed>) -> Result<T, Why> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Why::Failed(error)),
        Err(Elapsed) => Err(Why::Stalled),
    }
}
