//! User memory to socket: heads, small bodies, and the buffers of a fill.

use std::io::{self, IoSlice};

use crate::pace::until_writable;
use crate::turn::slice;
use crate::{Patience, Side, Socket, Stopped, Turn, Watch, Why};

/// Sends all of `bytes`. `more`: further bytes follow at once.
///
/// # Errors
/// [`Stopped`] by [`Side::To`].
pub async fn send(
    to: &Socket,
    bytes: &[u8],
    more: bool,
    watch: &Watch,
    patience: &Patience,
) -> Result<(), Stopped> {
    let (mut sent, mut turn) = (0, Turn::default());
    while sent < bytes.len() {
        let stopped = |why| Stopped::new(Side::To, why, sent as u64);
        let slice = &bytes[sent..][..slice((bytes.len() - sent) as u64)];
        match to.try_send(&[IoSlice::new(slice)], more || sent + slice.len() < bytes.len()) {
            Ok(n) => {
                sent += n;
                turn.moved(n as u64).await;
            }
            Err(full) if full.kind() == io::ErrorKind::WouldBlock => {
                until_writable(to, watch, patience).await.map_err(stopped)?;
            }
            Err(error) => return Err(stopped(Why::Failed(error))),
        }
    }
    Ok(())
}

/// Sends `head` and then `body`, with as few calls as the socket allows.
///
/// # Errors
/// [`Stopped`] by [`Side::To`]; its count covers both parts.
pub async fn send_two(
    to: &Socket,
    head: &[u8],
    body: &[u8],
    more: bool,
    watch: &Watch,
    patience: &Patience,
) -> Result<(), Stopped> {
    let first = &body[..slice(body.len() as u64)];
    match to.try_send(&[IoSlice::new(head), IoSlice::new(first)], more || first.len() < body.len()) {
        Ok(n) => {
            Turn::default().moved(n as u64).await;
            send_rest_of_two(to, head, body, n, more, watch, patience).await
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            send_rest_of_two(to, head, body, 0, more, watch, patience).await
        }
        Err(e) => Err(Stopped::new(Side::To, Why::Failed(e), 0)),
    }
}

/// Sends what is left of `head` and `body` after `sent` bytes of the two.
///
/// # Errors
/// [`Stopped`] by [`Side::To`]; its count covers both parts.
pub async fn send_rest_of_two(
    to: &Socket,
    head: &[u8],
    body: &[u8],
    sent: usize,
    more: bool,
    watch: &Watch,
    patience: &Patience,
) -> Result<(), Stopped> {
    let left_of_head = head.get(sent..).unwrap_or_default();
    let left_of_body = body.get(sent.saturating_sub(head.len())..).unwrap_or_default();
    let head_more = more || !left_of_body.is_empty();
    send(to, left_of_head, head_more, watch, patience).await.map_err(|s| s.after(sent as u64))?;
    send(to, left_of_body, more, watch, patience).await.map_err(|s| s.after(sent.max(head.len()) as u64))
}
