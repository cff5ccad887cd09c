//! Socket to socket through a kernel pipe: payload bytes change queues and never enter user memory.
//!
//! What must hold: the pipe is empty before and after a move that succeeds. One that is stopped may leave bytes in it;
//! the pipe's pool closes such a pipe, or the next body through it would begin with this one's end.

use std::io::ErrorKind;

use sys::pipe::Pipe;

use crate::pace::until_writable;
use crate::{Patience, Side, Socket, Stopped, Turn, Watch, Why, settle};

/// The patience with each side.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'p> {
    /// For the source to bring bytes.
    pub from: &'p Patience,
    /// For the destination to take bytes.
    pub to: &'p Patience,
}

/// Moves exactly `length` bytes from `from` to `to`. `more`: the last byte is not the end of what is sent.
///
/// # Errors
/// [`Stopped`] by either side.
pub async fn splice(
    from: &Socket,
    to: &Socket,
    length: u64,
    more: bool,
    pipe: &mut Pipe,
    watch: &Watch,
    limits: Limits<'_>,
) -> Result<(), Stopped> {
    let (mut moved, mut turn) = (0u64, Turn::default());
    while moved < length {
        let left = length - moved;
        let taken = take(from, pipe, left, watch, limits.from).await;
        let taken = taken.map_err(|why| Stopped::new(Side::From, why, moved))?;
        let hold = more || taken < left;
        moved += drain(pipe, to, hold, watch, limits.to).await.map_err(|s| s.after(moved))?;
        turn.moved(taken).await;
    }
    Ok(())
}

/// Moves what `from` brings next, at most `most` bytes, into `pipe`; [`Why::Ended`] when it brings no more.
///
/// # Errors
/// Why nothing came.
pub async fn take(
    from: &Socket,
    pipe: &mut Pipe,
    most: u64,
    watch: &Watch,
    patience: &Patience,
) -> Result<u64, Why> {
    let ask = pipe.capacity().min(usize::try_from(most).unwrap_or(usize::MAX));
    let step = from.when_readable(|socket| sys::splice::socket_to_pipe(socket, pipe, ask));
    match settle(watch.patiently(patience, step).await)? as u64 {
        0 => Err(Why::Ended),
        n => {
            patience.moved(n);
            Ok(n)
        }
    }
}

/// Moves all that is in `pipe` to `to`; gives how much that was.
///
/// # Errors
/// [`Stopped`] by [`Side::To`].
pub async fn drain(
    pipe: &mut Pipe,
    to: &Socket,
    more: bool,
    watch: &Watch,
    patience: &Patience,
) -> Result<u64, Stopped> {
    let mut moved = 0;
    while !pipe.is_empty() {
        let stopped = |why| Stopped::new(Side::To, why, moved);
        match to.attempt(|socket| sys::splice::pipe_to_socket(pipe, socket, usize::MAX, more)) {
            Ok(n) => moved += n as u64,
            Err(full) if full.kind() == ErrorKind::WouldBlock => {
                until_writable(to, watch, patience).await.map_err(stopped)?;
            }
            Err(error) => return Err(stopped(Why::Failed(error))),
        }
    }
    Ok(moved)
}
