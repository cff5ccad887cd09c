//! `sendfile(2)`: bytes of a file to a socket without passing through user memory.
//!
//! Owns one call and its retry on `EINTR`. What must hold: `offset` always says what has been handed to the
//! socket, after a short count and after an error too. Refuses to know when the socket can take more, and whether
//! the pages are resident: **a cold page blocks the thread**, so ask
//! [`Device::resident`](crate::device::Device::resident) first.
//!
//! The pages are lent, not copied: until the peer has acknowledged them, a later buffered write to the same range
//! changes what it receives. The kernel offers no `MSG_NOSIGNAL` here: the process must ignore `SIGPIPE`, as Rust's
//! start-up code does.

use std::io;
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;

/// Sends up to `count` bytes of `file` from `offset` and moves `offset` past what the socket took.
///
/// Less than `count` means that the socket is full (or, for some kernels, that a pipe's worth was moved): call again
/// until `WouldBlock`. 0 for a positive `count` means that the file ends at `offset`: a file shorter than it was said
/// to be, which the caller must treat as a broken body.
pub fn sendfile(socket: impl AsFd, file: impl AsFd, offset: &mut u64, count: usize) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::fs::sendfile(&socket, &file, Some(&mut *offset), count))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{connected, pattern};
    use std::io::{Read, Write};

    fn file_of(bytes: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_full_socket_gives_short_counts_and_offset_keeps_the_place() {
        let body = pattern(16 << 20);
        let file = file_of(&body);
        let (near, mut far) = connected();
        let (mut offset, mut received, mut refusals) = (0, Vec::new(), 0);
        let mut chunk = vec![0; 1 << 20];
        while received.len() < body.len() {
            let left = body.len() - offset as usize;
            match sendfile(&near, &file, &mut offset, left) {
                Ok(_) => {} // the receiver waits until the socket is full
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    refusals += 1;
                }
            }
            if refusals == 0 && (offset as usize) < body.len() {
                continue;
            }
            if let Ok(count) = far.read(&mut chunk) {
                received.extend_from_slice(&chunk[..count]);
            }
            assert!(received.len() <= offset as usize, "more arrived than offset admits");
        }
        assert!(refusals > 0, "the socket never filled: nothing was shown");
        assert!(received == body);
    }

    #[test]
    fn the_end_of_the_file_is_a_count_of_zero() {
        let file = file_of(b"short");
        let (near, _far) = connected();
        let mut offset = 2;
        assert_eq!(sendfile(&near, &file, &mut offset, 100).unwrap(), 3);
        assert_eq!(sendfile(&near, &file, &mut offset, 100).unwrap(), 0);
        assert_eq!(offset, 5);
    }

    #[test]
    fn a_closed_peer_is_an_error_and_no_signal() {
        let file = file_of(&pattern(1 << 20));
        let (near, far) = connected();
        crate::socket::abort_on_close(&far).unwrap();
        drop(far);
        let error = sendfile(&near, &file, &mut 0, 1 << 20).unwrap_err();
        assert!(
            matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset),
            "{error}"
        );
    }
}
