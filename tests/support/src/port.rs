//! Ports that are nobody else's.
//!
//! A port number asked from the kernel can be given away again before the process under test binds it. A
//! [`Reserved`] keeps it: a socket stays bound there, never listening, and lets only listeners with `SO_REUSEPORT` or
//! `SO_REUSEADDR` beside it. Connections to a port that is reserved only are refused.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::origin::Address;

/// A port that stays ours while this value lives.
pub(crate) struct Reserved {
    socket: Socket,
}

impl Reserved {
    pub(crate) fn on(ip: IpAddr) -> Reserved {
        let domain = Domain::for_address(SocketAddr::new(ip, 0));
        let socket = Socket::new(domain, Type::STREAM, None).expect("socket");
        socket.bind(&SocketAddr::new(ip, 0).into()).expect("bind");
        // After the bind: at the bind it would let the kernel choose a port that another test reserves.
        socket.set_reuse_port(true).expect("SO_REUSEPORT");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        Reserved { socket }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().ok().and_then(|a| a.as_socket()).expect("a bound socket")
    }
}

/// An address where connections are refused for as long as the returned guard lives.
pub fn refused_address() -> (SocketAddr, impl Sized) {
    let reserved = Reserved::on(IpAddr::from([127, 0, 0, 1]));
    (reserved.address(), reserved)
}

/// An address where connecting gets no answer at all: a listener whose queue is full.
pub struct BlackHole {
    listener: Socket,
    _queued: Vec<TcpStream>,
}

impl BlackHole {
    /// Listens, and fills the queue until a connection is not taken any more.
    #[allow(clippy::new_without_default, reason = "making one takes a while and a port")]
    pub fn new() -> BlackHole {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("bind");
        listener.listen(0).expect("listen");
        let address = listener.local_addr().ok().and_then(|a| a.as_socket()).expect("a bound socket");
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let queued = std::iter::from_fn(connect).take(16).collect();
        BlackHole { listener, _queued: queued }
    }
}

impl Address for BlackHole {
    fn address(&self) -> SocketAddr {
        self.listener.local_addr().ok().and_then(|a| a.as_socket()).expect("a bound socket")
    }
}
