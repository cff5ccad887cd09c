//! TCP sockets: listeners, and sends and receives that never wait.
//!
//! Owns the flags that a proxy wants on each call. What must hold: no call here blocks, whatever the mode of
//! the descriptor (`MSG_DONTWAIT`), and none raises `SIGPIPE` (`MSG_NOSIGNAL`); a full or empty socket is
//! `WouldBlock`, a short count is an ordinary answer. Refuses to know: what is sent, and when to try again.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, RecvFlags, SendFlags, Shutdown, SocketFlags, sockopt};

pub use crate::tcp::{AcceptQueue, accept_queue};

/// The most slices that one `sendmsg` takes (`UIO_MAXIOV`); what lies behind them is left for the next call.
const SLICES_MAX: usize = 1024;

/// A non-blocking TCP listener whose connections need no further option (`TCP_NODELAY` is inherited), with `SO_REUSEADDR`, and with `SO_REUSEPORT` where several threads share the port.
///
/// Its connections do not acknowledge their first request by a segment of its own: the response follows, and its segments do.
/// Who needs more bytes before it can respond calls [`acknowledge_at_once`].
///
/// An IPv6 listener takes IPv6 only: an address in the configuration means what it says, and `0.0.0.0:80` beside
/// `[::]:80` is no conflict. `backlog` counts connections; the kernel cuts it to `somaxconn`.
pub fn listen(addr: SocketAddr, backlog: u32, reuse_port: bool) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(reuse_port)?;
    socket.set_tcp_nodelay(true)?;
    socket.bind(&addr.into())?;
    // Queue: connections that wait for `accept`.
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    // Inherited; `listen` would have reset it.
    sockopt::set_tcp_quickack(&socket, false)?;
    Ok(socket.into())
}

/// Accepts a connection, non-blocking and with the listener's options, in one call; `WouldBlock` when none waits.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (socket, peer) = retry_on_intr(|| net::acceptfrom_with(listener, flags))?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    Ok((socket.into(), peer.ok_or(io::ErrorKind::ConnectionAborted)?))
}

/// Sends bytes after which nothing is known to follow.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flagged(socket, bytes, SendFlags::empty())
}

/// Sends bytes that more will follow at once: the kernel may hold back a partial segment (a head before `sendfile`).
///
/// What is held back leaves with the next send without the flag, or after 200 ms.
pub fn send_more(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_flagged(socket, bytes, SendFlags::MORE)
}

fn send_flagged(socket: impl AsFd, bytes: &[u8], extra: SendFlags) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | extra;
    Ok(retry_on_intr(|| net::send(&socket, bytes, flags))?)
}

/// Sends several slices as one; `more` as in [`send_more`]. Returns the bytes taken over all slices.
pub fn send_vectored(socket: impl AsFd, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let slices = &slices[..slices.len().min(SLICES_MAX)];
    let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    let mut control = net::SendAncillaryBuffer::default();
    Ok(retry_on_intr(|| net::sendmsg(&socket, slices, &mut control, flags))?)
}

/// Receives into `into`; 0 is the end of the stream (or an empty `into`).
pub fn recv(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let (count, _) = retry_on_intr(|| net::recv(&socket, &mut *into, RecvFlags::DONTWAIT))?;
    Ok(count)
}

/// Receives into two places with one call, the first filled before the second.
///
/// For a body whose rest is known: the body's buffer first, the next head's buffer second.
pub fn recv_into_two(socket: impl AsFd, first: &mut [u8], second: &mut [u8]) -> io::Result<usize> {
    let mut control = net::RecvAncillaryBuffer::default();
    let received = retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
        net::recvmsg(&socket, &mut slices, &mut control, RecvFlags::DONTWAIT)
    })?;
    Ok(received.bytes)
}

/// Looks at what waits in the socket without taking it.
pub fn peek(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let (count, _) = retry_on_intr(|| net::recv(&socket, &mut *into, RecvFlags::DONTWAIT | RecvFlags::PEEK))?;
    Ok(count)
}

/// What the other end of a connection has done since anybody last read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Nothing: an idle connection that can be used.
    Silent,
    /// It sent bytes, which nobody has read yet.
    Sent,
    /// It closed its sending side, or the connection is broken.
    Closed,
}

/// Asks what the peer did, without taking a byte. Bytes before a close count as [`Peer::Sent`].
pub fn peer(socket: impl AsFd) -> Peer {
    match peek(socket, &mut [0]) {
        Ok(0) => Peer::Closed,
        Ok(_) => Peer::Sent,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Peer::Silent,
        Err(_) => Peer::Closed,
    }
}

/// Whether the peer has closed and left nothing to read.
pub fn peer_closed(socket: impl AsFd) -> bool {
    peer(socket) == Peer::Closed
}

/// Switches Nagle's algorithm off: a short last segment leaves at once. Belongs together with [`send_more`].
pub fn set_nodelay(socket: impl AsFd, nodelay: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, nodelay)?)
}

/// Acknowledges now what was received, if no more of it waits to be read, and what comes next without delay
/// (`TCP_QUICKACK`, RFC 1122 §4.2.3.2): a peer with Nagle's algorithm sends the rest of its message only then.
pub fn acknowledge_at_once(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, true)?)
}

/// Has the kernel give up a connection whose peer acknowledges nothing, or keeps its window shut, for so long while there is
/// something to send, also when this process has closed it (`TCP_USER_TIMEOUT`, RFC 5482). Connections inherit it from
/// their listener.
pub fn set_user_timeout(socket: impl AsFd, timeout: Duration) -> io::Result<()> {
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(socket, millis)?)
}

/// Has the kernel take no more than so many bytes that it cannot send yet (`TCP_NOTSENT_LOWAT`); a socket with more of them is
/// full. Connections inherit it from their listener.
pub fn set_unsent_max(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(bytes)
}

/// Makes the close of this socket a reset: what is unsent is dropped and the peer sees a broken connection.
///
/// The signal for "this body is not complete" where no framing can say it.
pub fn abort_on_close(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Closes the sending side; receiving goes on. A connection that is already gone is no error.
pub fn shutdown_write(socket: impl AsFd) -> io::Result<()> {
    match net::shutdown(socket, Shutdown::Write) {
        Err(Errno::NOTCONN) => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests;
