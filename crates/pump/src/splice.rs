//! Socket to socket through a kernel pipe: payload bytes change queues and never enter user memory.
//!
//! What must hold: the pipe is empty before and after a move that succeeds. One that is stopped may leave bytes in it;
//! the pipe's pool closes such a pipe, or the next body through it would begin with this one's end.

use std::time::Duration;

use sys::pipe::Pipe;

use crate::{Side, Socket, Stopped, Watch, Why, settle};

/// How long each side may stay without progress.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the source to bring bytes.
    pub from: Duration,
    /// For the destination to take bytes.
    pub to: Duration,
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
    limits: Limits,
) -> Result<(), Stopped> {
    let mut moved = 0u64;
    while moved < length {
        let left = length - moved;
        let taken = take(from, pipe, left, watch, limits.from).await;
        let taken = taken.map_err(|why| Stopped::new(Side::From, why, moved))?;
        let hold = more || taken < left;
        moved += drain(pipe, to, hold, watch, limits.to).await.map_err(|s| s.after(moved))?;
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
    limit: Duration,
) -> Result<u64, Why> {
    let ask = pipe.capacity().min(usize::try_from(most).unwrap_or(usize::MAX));
    let step = from.when_readable(|socket| sys::splice::socket_to_pipe(socket, pipe, ask));
    match settle(watch.within(limit, step).await)? {
        0 => Err(Why::Ended),
        n => Ok(n as u64),
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
    limit: Duration,
) -> Result<u64, Stopped> {
    let mut moved = 0;
    while !pipe.is_empty() {
        let step = to.when_writable(|socket| sys::splice::pipe_to_socket(pipe, socket, usize::MAX, more));
        moved +=
            settle(watch.within(limit, step).await).map_err(|why| Stopped::new(Side::To, why, moved))? as u64;
    }
    Ok(moved)
}
