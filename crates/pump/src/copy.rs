//! Socket to socket through a buffer in user memory: for bodies too small for a pipe to pay.

use std::time::Duration;

use crate::{Side, Socket, Stopped, Watch, Why, memory, settle};

/// Moves exactly `length` bytes from `from` to `to` through `buffer`.
///
/// # Errors
/// [`Stopped`] by either side.
pub async fn copy(
    from: &Socket,
    to: &Socket,
    length: u64,
    buffer: &mut [u8],
    watch: &Watch,
    limits: crate::splice::Limits,
) -> Result<(), Stopped> {
    let mut moved = 0;
    while moved < length {
        let take = buffer.len().min(usize::try_from(length - moved).unwrap_or(usize::MAX));
        let n = receive(from, &mut buffer[..take], watch, limits.from)
            .await
            .map_err(|why| Stopped::new(Side::From, why, moved))?;
        memory::send(to, &buffer[..n], moved + (n as u64) < length, watch, limits.to)
            .await
            .map_err(|s| s.after(moved))?;
        moved += n as u64;
    }
    Ok(())
}

/// Receives at least one byte; the end of the stream is [`Why::Ended`].
///
/// # Errors
/// Why nothing came.
pub async fn receive(from: &Socket, buffer: &mut [u8], watch: &Watch, limit: Duration) -> Result<usize, Why> {
    match settle(watch.within(limit, from.recv(buffer)).await)? {
        0 => Err(Why::Ended),
        n => Ok(n),
    }
}
