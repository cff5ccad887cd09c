//! TCP options that no safe wrapper offers: a listener's queue, what a peer has acknowledged, and whether the kernel does
//! TLS.
//!
//! Owns `TCP_INFO`, `TCP_ULP` and `SIOCOUTQ`. Refuses to know what the answers are used for.
#![allow(unsafe_code)] // neither rustix nor socket2 offers these options

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// The accept queue of a listener: connections that completed the handshake and wait for `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptQueue {
    /// Connections waiting now.
    pub depth: u32,
    /// The most that may wait: the backlog asked for, cut to `somaxconn`.
    pub limit: u32,
}

/// The accept queue of a listening socket; `InvalidInput` for a socket that does not listen.
///
/// A listener reuses two fields of `tcp_info` for this (`tcp_get_info` in the kernel): `unacked` holds the depth,
/// `sacked` the limit.
pub fn accept_queue(listener: impl AsFd) -> io::Result<AcceptQueue> {
    const TCP_LISTEN: u8 = 10; // include/net/tcp_states.h
    let info = tcp_info(listener)?;
    if info.tcpi_state != TCP_LISTEN {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(AcceptQueue { depth: info.tcpi_unacked, limit: info.tcpi_sacked })
}

/// Packets that a listener has dropped since it was opened: by its filter, or because its queue was full.
pub fn listener_drops(listener: impl AsFd) -> io::Result<u32> {
    // include/uapi/linux/sock_diag.h: the values of SO_MEMINFO, of which the ninth counts drops.
    const DROPS: usize = 8;
    let mut values = [0_u32; DROPS + 1];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: getsockopt requires
    // - an open descriptor: borrowed from `listener` for the whole call;
    // - `length` bytes to write to: `values` is that long, and the kernel writes no more than `length`.
    let status = unsafe {
        libc::getsockopt(
            listener.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if status == 0 { Ok(values[DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Bytes in the send queue of a connection: sent or to be sent, and not acknowledged by the peer.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u32> {
    let mut queued: libc::c_int = 0;
    // SAFETY: ioctl requires
    // - an open descriptor: borrowed from `socket` for the whole call;
    // - for SIOCOUTQ (which is TIOCOUTQ, tcp(7)) a pointer to an int to write to: `queued` lives until behind the call.
    let status = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &mut queued) };
    if status == 0 { Ok(u32::try_from(queued).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel can take over the TLS records of a connection (kTLS).
///
/// Asked on a socket without a connection: a kernel that has it answers that it wants one, others that there is no such
/// protocol. The question may load the module where this process may do so.
pub fn kernel_tls() -> bool {
    let Ok(socket) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None) else {
        return false;
    };
    let name = b"tls";
    // SAFETY: setsockopt requires
    // - an open descriptor: `socket` lives until the end of this function;
    // - as many readable bytes as the length says: both are those of `name`.
    let status = unsafe {
        let length = name.len() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_ULP, name.as_ptr().cast(), length)
    };
    status == 0 || io::Error::last_os_error().kind() == io::ErrorKind::NotConnected
}

fn tcp_info(socket: impl AsFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: getsockopt requires
    // - an open descriptor: borrowed from `socket` for the whole call;
    // - `length` bytes to write to: `info` is that long, and the kernel writes no more than `length`.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: assume_init requires a valid value: every field is an integer, for which all bit patterns are valid,
    // and all bytes were zeroed before, so that those that an older kernel left alone are initialised too.
    Ok(unsafe { info.assume_init() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::socket::listen;
    use std::net::TcpStream;

    #[test]
    fn the_queue_grows_with_each_connection_and_shrinks_with_accept() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), 7, false).unwrap();
        assert_eq!(accept_queue(&listener).unwrap(), AcceptQueue { depth: 0, limit: 7 });
        let addr = listener.local_addr().unwrap();
        let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
        assert_eq!(accept_queue(&listener).unwrap().depth, 3);
        listener.accept().unwrap();
        assert_eq!(accept_queue(&listener).unwrap().depth, 2);
    }

    #[test]
    fn what_a_peer_takes_leaves_the_queue() {
        use std::io::{Read, Write};
        let (mut near, mut far) = crate::testing::connected();
        assert_eq!(unacknowledged(&near).unwrap(), 0);
        near.set_nonblocking(true).unwrap();
        while near.write(&[7; 65536]).is_ok() {}
        let full = unacknowledged(&near).unwrap();
        assert!(full > 0);
        let mut taken = vec![0; full as usize];
        far.read_exact(&mut taken).unwrap();
        assert!(unacknowledged(&near).unwrap() < full);
    }

    #[test]
    fn kernel_tls_agrees_with_the_list_of_the_kernel() {
        let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp");
        let listed = list.is_ok_and(|list| list.split_whitespace().any(|name| name == "tls"));
        assert!(kernel_tls() || !listed, "listed and not seen");
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let (near, _far) = crate::testing::connected();
        assert_eq!(accept_queue(&near).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
