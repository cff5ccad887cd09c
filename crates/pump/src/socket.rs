//! A stream socket of one thread, and what it can do for a body.
//!
//! It is registered with the runtime when it has to wait for the first time: many a connection brings its request along
//! and is closed behind the response. From then on reads wait for readiness first and give it up on a short read: under
//! edge-triggered polling a short read says that the queue is empty, so the call that would only answer "would block" is
//! never made. Writes are always tried first, because a socket can nearly always take a response.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use sys::watched::Lazy;
use tokio::io::Interest;

/// What an end of a body's way offers to the kernel's movers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Bytes written to its descriptor reach the peer as they are (no encryption or framing in user space).
    pub plain: bool,
}

/// A plaintext TCP stream of the thread's runtime.
pub struct Socket {
    fd: Lazy<TcpStream>,
    /// Whether nothing was ever received: what comes with the connection is taken without asking whether it is there.
    fresh: Cell<bool>,
}

impl Socket {
    /// Takes `stream`, which must be non-blocking already.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        Self { fd: Lazy::new(stream), fresh: Cell::new(true) }
    }

    /// What this end can do.
    #[must_use]
    pub fn abilities(&self) -> Abilities {
        Abilities { plain: true }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// When the socket is not connected.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// Receives into `buffer`; 0 is the end of the stream.
    ///
    /// # Errors
    /// The socket's, or the poller's (descriptor or watch limits).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        // Once only: the runtime sees to it that a socket that is always readable does not keep the thread.
        if self.fresh.replace(false) {
            match sys::socket::recv(self.fd.get_ref(), buffer) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        let fd = self.fd.register()?;
        loop {
            let mut guard = ready!(fd.poll_read_ready(cx))?;
            match sys::socket::recv(self.fd.get_ref(), buffer) {
                Ok(n) => {
                    if n != 0 && n < buffer.len() {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }

    /// [`Self::poll_recv`], awaited.
    ///
    /// # Errors
    /// The socket's.
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_recv(cx, buffer)).await
    }

    /// Whether bytes or an end wait to be received. On a socket that has been waited for, this costs no system call when
    /// nothing was signalled; on another one the socket itself is asked, because nothing would have been.
    ///
    /// # Errors
    /// The socket's, a reset among them. The kernel tells it once: whoever hears it here must act on it.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.fd.registered().is_none()
            && let Some(found) = self.look()
        {
            return Poll::Ready(found);
        }
        let fd = self.fd.register()?;
        loop {
            let mut guard = ready!(fd.poll_read_ready(cx))?;
            match self.look() {
                None => guard.clear_ready(),
                Some(found) => return Poll::Ready(found),
            }
        }
    }

    /// Whether bytes, an end or an error wait in the socket.
    fn look(&self) -> Option<io::Result<()>> {
        match sys::socket::peek(self.fd.get_ref(), &mut [0]) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => None,
            Err(e) => Some(Err(e)),
            Ok(_) => Some(Ok(())),
        }
    }

    /// Runs `attempt` when the socket is readable, again after each "would block".
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn when_readable<R>(
        &self,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        let fd = self.fd.register()?;
        loop {
            let mut guard = fd.readable().await?;
            match guard.try_io(|_| attempt(self.as_fd())) {
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }

    /// Runs `attempt` now, and again whenever the socket turns writable after a "would block".
    ///
    /// # Errors
    /// Those of `attempt`.
    pub async fn when_writable<R>(
        &self,
        mut attempt: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        match attempt(self.as_fd()) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.not_writable(),
            done => return done,
        }
        let fd = self.fd.register()?;
        loop {
            let mut guard = fd.writable().await?;
            match guard.try_io(|_| attempt(self.as_fd())) {
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }

    /// One attempt to send, without waiting. `more`: further bytes follow at once, do not cut a packet here.
    ///
    /// # Errors
    /// The socket's, "would block" among them.
    pub fn try_send(&self, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
        self.attempt(|fd| match parts {
            [one] => send_one(fd, one, more),
            _ => sys::socket::send_vectored(fd, parts, more),
        })
    }

    /// One attempt at a call that writes, without waiting.
    ///
    /// # Errors
    /// Those of `call`, "would block" among them.
    pub fn attempt<R>(&self, call: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        let done = call(self.as_fd());
        if matches!(&done, Err(e) if e.kind() == io::ErrorKind::WouldBlock) {
            self.not_writable();
        }
        done
    }

    /// Waits until the socket takes bytes, after a send that would have blocked.
    ///
    /// # Errors
    /// The runtime's.
    pub async fn writable(&self) -> io::Result<()> {
        self.fd.register()?.writable().await?.retain_ready();
        Ok(())
    }

    /// Bytes that were sent and that the peer has not acknowledged; 0 where the socket cannot tell.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        sys::tcp::unacknowledged(self).map_or(0, u64::from)
    }

    /// The peer has to send more before anything is sent to it: it learns at once that what it sent has come.
    pub fn acknowledge_at_once(&self) {
        // Where the kernel does not, the peer learns it after 40 ms.
        let _ = sys::socket::acknowledge_at_once(self);
    }

    /// Forgets that the socket was writable: an attempt has just shown that it is not. A later edge is not lost, for
    /// the runtime hears of it only after this call.
    fn not_writable(&self) {
        if let Some(fd) = self.fd.registered() {
            let _ = fd.try_io(Interest::WRITABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        }
    }

    /// Ends the sending direction; the peer sees the end of the stream.
    ///
    /// # Errors
    /// The socket's.
    pub fn shutdown_write(&self) -> io::Result<()> {
        self.fd.get_ref().shutdown(std::net::Shutdown::Write)
    }

    /// Ends both directions at once; whoever waits on the socket sees the end.
    pub fn shutdown_both(&self) {
        // Refused only when the peer ended both already.
        let _ = self.fd.get_ref().shutdown(std::net::Shutdown::Both);
    }

    /// Makes the coming close a reset, so that no peer takes what it has received for complete.
    pub fn abort_on_close(&self) {
        // A socket that refuses the option is already beyond saving; its close is then an ordinary one.
        let _ = sys::socket::abort_on_close(self.fd.get_ref());
    }
}

fn send_one(fd: impl AsFd, bytes: &[u8], more: bool) -> io::Result<usize> {
    if more { sys::socket::send_more(fd, bytes) } else { sys::socket::send(fd, bytes) }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.get_ref().as_fd()
    }
}
