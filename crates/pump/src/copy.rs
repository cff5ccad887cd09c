//! From a socket into user memory, for bodies too small for a pipe to pay. From there on [`crate::memory`] sends them.

use crate::{Patience, Socket, Watch, Why, settle};

/// Receives at least one byte; the end of the stream is [`Why::Ended`].
///
/// # Errors
/// Why nothing came.
pub async fn receive(
    from: &Socket,
    buffer: &mut [u8],
    watch: &Watch,
    patience: &Patience,
) -> Result<usize, Why> {
    match settle(watch.patiently(patience, from.recv(buffer)).await)? {
        0 => Err(Why::Ended),
        n => {
            patience.moved(n as u64);
            Ok(n)
        }
    }
}
