//! `splice(2)` and `tee(2)`: bytes between descriptors through a pipe, by reference where the kernel can.
//!
//! What must hold: the pipe's own count is changed by exactly what the kernel moved. Sockets must be non-blocking
//! (`SPLICE_F_NONBLOCK` covers the pipe only; the socket's side goes by its own mode). Refuses to know which
//! side to wait for.
//!
//! A move into a pipe says `WouldBlock` when the source is empty **or** the pipe has no free slot, and the kernel
//! does not say which. A slot may hold a single byte (small network segments use a whole one), so a pipe can be full
//! below its capacity. Hence the rule for callers: after `WouldBlock` empty the pipe first, and wait for the source
//! only with an empty pipe.

use std::io;
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::pipe::SpliceFlags;

use crate::pipe::Pipe;

/// Moves up to `max` bytes from a socket into the pipe; 0 is the end of the stream. `max` must not be 0.
pub fn socket_to_pipe(socket: impl AsFd, pipe: &mut Pipe, max: usize) -> io::Result<usize> {
    debug_assert!(max > 0, "0 would read as the end of the stream");
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let moved = retry_on_intr(|| rustix::pipe::splice(&socket, None, pipe.write_end(), None, max, flags))?;
    pipe.put(moved);
    Ok(moved)
}

/// Moves up to `max` bytes from the front of the pipe to a socket; 0 only when the pipe is empty (or `max` is 0).
///
/// `more` says that other bytes follow at once (as `MSG_MORE`). There is no `MSG_NOSIGNAL`: the process must ignore
/// `SIGPIPE`.
pub fn pipe_to_socket(pipe: &mut Pipe, socket: impl AsFd, max: usize, more: bool) -> io::Result<usize> {
    let mut flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    flags.set(SpliceFlags::MORE, more);
    let count = max.min(pipe.in_pipe());
    if count == 0 {
        return Ok(0);
    }
    let moved = retry_on_intr(|| rustix::pipe::splice(pipe.read_end(), None, &socket, None, count, flags))?;
    pipe.took(moved);
    Ok(moved)
}

/// Moves up to `max` bytes of a file from `offset` into the pipe; 0 is the end of the file.
///
/// Blocks the thread on pages that are not resident. The pages are lent, as by
/// [`sendfile`](crate::sendfile::sendfile).
pub fn file_to_pipe(file: impl AsFd, offset: &mut u64, pipe: &mut Pipe, max: usize) -> io::Result<usize> {
    debug_assert!(max > 0, "0 would read as the end of the file");
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let moved = retry_on_intr(|| {
        rustix::pipe::splice(&file, Some(&mut *offset), pipe.write_end(), None, max, flags)
    })?;
    pipe.put(moved);
    Ok(moved)
}

/// Writes up to `max` bytes from the front of the pipe to a file at `offset`; 0 only when the pipe is empty.
///
/// A buffered write of the kernel's: it may block on the disk.
pub fn pipe_to_file(pipe: &mut Pipe, file: impl AsFd, offset: &mut u64, max: usize) -> io::Result<usize> {
    let count = max.min(pipe.in_pipe());
    if count == 0 {
        return Ok(0);
    }
    let moved = retry_on_intr(|| {
        let flags = SpliceFlags::MOVE;
        rustix::pipe::splice(pipe.read_end(), None, &file, Some(&mut *offset), count, flags)
    })?;
    pipe.took(moved);
    Ok(moved)
}

/// Puts up to `max` bytes from the front of `from` into `into` as well, leaving `from` as it is.
///
/// Always starts at the front: take from `from` exactly what was duplicated before calling again, or bytes are
/// duplicated twice. `WouldBlock` when `from` is empty or `into` has no free slot.
pub fn tee(from: &Pipe, into: &mut Pipe, max: usize) -> io::Result<usize> {
    let count =
        retry_on_intr(|| rustix::pipe::tee(from.read_end(), into.write_end(), max, SpliceFlags::NONBLOCK))?;
    into.put(count);
    Ok(count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{connected, pattern};
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_full_socket_leaves_the_rest_in_the_pipe_and_nothing_is_lost() {
        let body = pattern(8 << 20);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&body, 0).unwrap();
        let (near, mut far) = connected();
        let mut pipe = Pipe::new().unwrap();
        let (mut offset, mut received, mut left_behind) = (0, Vec::new(), false);
        while received.len() < body.len() {
            if pipe.is_empty() && (offset as usize) < body.len() {
                let capacity = pipe.capacity();
                file_to_pipe(&file, &mut offset, &mut pipe, capacity).unwrap();
            }
            match pipe_to_socket(&mut pipe, &near, usize::MAX, false) {
                Ok(_) => continue_reading(&mut far, &mut received, 4 << 10),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(!pipe.is_empty());
                    left_behind = true;
                    continue_reading(&mut far, &mut received, 1 << 20);
                }
            }
        }
        assert!(left_behind, "the socket never filled: nothing was shown");
        assert!(pipe.is_empty());
        assert!(received == body);
    }

    fn continue_reading(from: &mut std::net::TcpStream, received: &mut Vec<u8>, max: usize) {
        let mut chunk = vec![0; max];
        if let Ok(count) = from.read(&mut chunk) {
            received.extend_from_slice(&chunk[..count]);
        }
    }

    #[test]
    fn socket_to_socket_and_the_end_of_the_stream() {
        let (mut sender, near) = connected();
        let (out, mut receiver) = connected();
        let mut pipe = Pipe::new().unwrap();
        assert_eq!(socket_to_pipe(&near, &mut pipe, 10).unwrap_err().kind(), ErrorKind::WouldBlock);
        sender.write_all(b"hello").unwrap();
        assert_eq!(socket_to_pipe(&near, &mut pipe, 3).unwrap(), 3);
        assert_eq!(socket_to_pipe(&near, &mut pipe, 100).unwrap(), 2);
        assert_eq!(pipe.in_pipe(), 5);
        assert_eq!(pipe_to_socket(&mut pipe, &out, 4, true).unwrap(), 4);
        assert_eq!(pipe_to_socket(&mut pipe, &out, 4, false).unwrap(), 1);
        assert_eq!(pipe_to_socket(&mut pipe, &out, 4, false).unwrap(), 0);
        let mut got = [0; 8];
        assert_eq!(receiver.read(&mut got).unwrap(), 5);
        assert_eq!(&got[..5], b"hello");
        drop(sender);
        assert_eq!(socket_to_pipe(&near, &mut pipe, 10).unwrap(), 0);
    }

    #[test]
    fn tee_duplicates_and_leaves_the_source_alone() {
        let (mut sender, near) = connected();
        let (mut one, mut two) = (Pipe::new().unwrap(), Pipe::new().unwrap());
        sender.write_all(b"twice").unwrap();
        socket_to_pipe(&near, &mut one, 100).unwrap();
        assert_eq!(tee(&one, &mut two, 100).unwrap(), 5);
        assert_eq!((one.in_pipe(), two.in_pipe()), (5, 5));
        for pipe in [&mut one, &mut two] {
            let file = tempfile::tempfile().unwrap();
            let mut offset = 3;
            assert_eq!(pipe_to_file(pipe, &file, &mut offset, 100).unwrap(), 5);
            assert_eq!(offset, 8);
            let mut got = [0; 5];
            file.read_exact_at(&mut got, 3).unwrap();
            assert_eq!(&got, b"twice");
        }
        assert_eq!(tee(&one, &mut two, 100).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn single_byte_segments_fill_a_pipe_long_before_its_capacity() {
        let (mut sender, near) = connected();
        sender.set_nodelay(true).unwrap();
        let mut pipe = Pipe::new().unwrap();
        let mut sent = 0;
        loop {
            sender.write_all(b"x").unwrap();
            sent += 1;
            match socket_to_pipe(&near, &mut pipe, 1) {
                Ok(count) => assert_eq!(count, 1),
                Err(error) => break assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(sent <= pipe.capacity());
        }
        assert_eq!(pipe.in_pipe(), sent - 1);
        assert!(pipe.in_pipe() < pipe.capacity() / 2);
    }
}
