//! Device to socket: the kernel lends the pages of its cache to the socket, no byte enters user memory.
//!
//! `sendfile` blocks the whole thread on a page that is not resident (docs/decisions/0011-reads.md), so the caller has made the
//! range resident before it comes here; and whenever the socket was full for a while, in which pages may have left, it is
//! asked to see to that again.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsFd;

use crate::pace::until_writable;
use crate::turn::slice;
use crate::{Patience, Side, Socket, Stopped, Turn, Watch, Why};

/// Sends `length` bytes of `device` from byte `offset` on. `resident` makes what is left of them resident, if it is not.
///
/// # Errors
/// [`Stopped`] by either side; a device that ends early is [`Why::Ended`].
pub async fn sendfile(
    device: impl AsFd,
    offset: u64,
    length: u64,
    to: &Socket,
    watch: &Watch,
    patience: &Patience,
    mut resident: impl AsyncFnMut(Range<u64>) -> io::Result<()>,
) -> Result<(), Stopped> {
    let (mut at, end) = (offset, offset + length);
    let mut turn = Turn::default();
    while at < end {
        let ask = slice(end - at);
        match to.attempt(|socket| sys::sendfile::sendfile(socket, &device, &mut at, ask)) {
            Ok(0) => return Err(Stopped::new(Side::From, Why::Ended, at - offset)),
            Ok(n) => turn.moved(n as u64).await,
            Err(full) if full.kind() == ErrorKind::WouldBlock => {
                let stopped = |why| Stopped::new(Side::To, why, at - offset);
                until_writable(to, watch, patience).await.map_err(stopped)?;
                let stopped = |error| Stopped::new(Side::From, Why::Failed(error), at - offset);
                resident(at..end).await.map_err(stopped)?;
            }
            Err(error) => return Err(Stopped::new(Side::To, Why::Failed(error), at - offset)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Timers;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    const BODY_BYTES: u64 = 16 << 20;

    /// A connection that holds far less than the body on its way.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&listener).set_recv_buffer_size(64 << 10).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket2::SockRef::from(&near).set_send_buffer_size(64 << 10).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// A file of zeroes is as good as any: what is claimed is who is asked, and for what.
    #[test]
    fn what_is_left_is_made_resident_again_whenever_the_socket_was_full() {
        let (near, mut far) = connected();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        file.set_len(100 + BODY_BYTES).unwrap();
        // Reads from when the sender has met a full socket.
        let (full, was_full) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            was_full.recv().unwrap();
            let mut body = vec![1; BODY_BYTES as usize];
            far.read_exact(&mut body).map(|()| body.iter().all(|byte| *byte == 0))
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        let mut asked = Vec::new();
        runtime.block_on(async {
            let (socket, timers) = (Socket::new(near), Timers::new());
            let watch = timers.watch();
            let note = async |left: Range<u64>| {
                asked.push(left);
                // Whoever reads already has stopped listening.
                let _ = full.send(());
                Ok(())
            };
            let patience = Patience::idle(Duration::from_secs(30));
            sendfile(&file, 100, BODY_BYTES, &socket, &watch, &patience, note).await.unwrap();
        });
        assert!(reader.join().unwrap().unwrap());
        assert!(!asked.is_empty(), "the socket was never full: nothing was shown");
        assert!(
            asked.iter().all(|left| left.end == 100 + BODY_BYTES && (100..left.end).contains(&left.start))
        );
        assert!(asked.is_sorted_by_key(|left| left.start));
    }
}
