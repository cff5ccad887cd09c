//! Device to socket: the kernel lends the pages of its cache to the socket, no byte enters user memory.
//!
//! `sendfile` blocks the whole thread on a page that is not resident (docs/decisions/0002-disk-engine.md), so the caller has made the range
//! resident before it comes here.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::{Side, Socket, Stopped, Watch, Why, settle};

/// Sends `length` bytes of `device` from byte `offset` on.
///
/// # Errors
/// [`Stopped`] by either side; a device that ends early is [`Why::Ended`].
pub async fn sendfile(
    device: impl AsFd,
    offset: u64,
    length: u64,
    to: &Socket,
    watch: &Watch,
    limit: Duration,
) -> Result<(), Stopped> {
    let mut at = offset;
    while at < offset + length {
        let left = usize::try_from(offset + length - at).unwrap_or(usize::MAX);
        let step = to.when_writable(|socket| sys::sendfile::sendfile(socket, &device, &mut at, left));
        match settle(watch.within(limit, step).await) {
            Ok(0) => return Err(Stopped::new(Side::From, Why::Ended, at - offset)),
            Ok(_) => {}
            Err(why) => return Err(Stopped::new(Side::To, why, at - offset)),
        }
    }
    Ok(())
}
