#![allow(clippy::unwrap_used)]
use super::*;
use crate::testing::{connected, pattern};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

fn v4() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

#[test]
fn a_connection_inherits_how_much_may_be_unsent() {
    const UNSENT_MAX: usize = 64 << 10;
    let listener = listen("127.0.0.1:0".parse().unwrap(), 7, false).unwrap();
    set_unsent_max(&listener, UNSENT_MAX as u32).unwrap();
    set_user_timeout(&listener, Duration::from_secs(1)).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    socket2::SockRef::from(&far).set_recv_buffer_size(16 << 10).unwrap();
    let near = eventually_accepted(&listener);
    let mut sent = 0;
    while let Ok(n) = send(&near, &[7; 16 << 10]) {
        sent += n;
    }
    assert!(sent < 8 * UNSENT_MAX, "{sent} bytes");
}

#[test]
fn a_first_request_is_acknowledged_by_its_response_or_when_asked_for() {
    // A delayed acknowledgement comes by itself after 40 ms, and on a busy machine before we look: not every time.
    let is_quiet = (0..10).any(|_| {
        let listener = listen(v4(), 7, false).unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = eventually_accepted(&listener);
        far.write_all(b"POST").unwrap();
        let unacknowledged = crate::tcp::unacknowledged(&far).unwrap();
        assert_eq!(recv(&near, &mut [0; 9]).unwrap(), 4);
        acknowledge_at_once(&near).unwrap();
        assert_eq!(crate::tcp::unacknowledged(&far).unwrap(), 0);
        far.write_all(b"the rest").unwrap();
        assert_eq!(crate::tcp::unacknowledged(&far).unwrap(), 0);
        unacknowledged == 4
    });
    assert!(is_quiet);
}

/// A handshake over loopback is complete when `connect` comes back, or a moment later.
fn eventually_accepted(listener: &TcpListener) -> TcpStream {
    loop {
        match accept(listener) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            accepted => return accepted.unwrap().0,
        }
    }
}

#[test]
fn a_listener_never_blocks() {
    let listener = listen(v4(), 16, false).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn reuse_port_decides_whether_a_port_is_shared() {
    let shared = listen(v4(), 16, true).unwrap();
    assert!(listen(shared.local_addr().unwrap(), 16, true).is_ok());
    let alone = listen(v4(), 16, false).unwrap();
    let refused = listen(alone.local_addr().unwrap(), 16, true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AddrInUse);
}

#[test]
fn an_ipv6_listener_leaves_ipv4_to_others() {
    let Ok(six) = listen("[::]:0".parse().unwrap(), 16, false) else {
        return println!("NOT RUN: no IPv6 here");
    };
    let port = six.local_addr().unwrap().port();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(TcpStream::connect(("::1", port)).is_ok());
}

#[test]
fn a_full_socket_is_would_block_even_in_blocking_mode() {
    let (near, _far) = connected();
    near.set_nonblocking(false).unwrap();
    let block = pattern(1 << 20);
    let error = loop {
        match send(&near, &block) {
            Ok(count) => assert!(count > 0),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert_eq!(recv(&near, &mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn what_is_sent_with_more_leaves_with_the_next_send() {
    let (near, far) = connected();
    set_nodelay(&near, true).unwrap();
    assert_eq!(send_more(&near, b"head ").unwrap(), 5);
    assert_eq!(peer(&far), Peer::Silent, "a partial segment must be held back");
    assert_eq!(send(&near, b"body").unwrap(), 4);
    let mut got = [0; 16];
    assert_eq!(recv(&far, &mut got).unwrap(), 9);
    assert_eq!(&got[..9], b"head body");
}

#[test]
fn slices_go_out_in_order_and_too_many_are_cut_not_refused() {
    let (near, far) = connected();
    let slices = vec![IoSlice::new(b"ab"); SLICES_MAX + 10];
    assert_eq!(send_vectored(&near, &slices[..3], false).unwrap(), 6);
    let mut got = [0; 6];
    assert_eq!(recv(&far, &mut got).unwrap(), 6);
    assert_eq!(&got, b"ababab");
    assert_eq!(send_vectored(&near, &slices, false).unwrap(), 2 * SLICES_MAX);
}

#[test]
fn two_places_are_filled_in_order() {
    let (mut near, far) = connected();
    near.write_all(b"bodynext head").unwrap();
    let (mut body, mut next) = ([0; 4], [0; 16]);
    assert_eq!(recv_into_two(&far, &mut body, &mut next).unwrap(), 13);
    assert_eq!((&body, &next[..9]), (b"body", &b"next head"[..]));
    let again = recv_into_two(&far, &mut body, &mut next).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WouldBlock);
}

#[test]
fn what_the_peer_did_is_seen_without_taking_it() {
    let (mut near, mut far) = connected();
    assert_eq!(peer(&far), Peer::Silent);
    near.write_all(b"x").unwrap();
    shutdown_write(&near).unwrap();
    assert_eq!(peer(&far), Peer::Sent);
    assert!(!peer_closed(&far));
    assert_eq!(far.read(&mut [0; 4]).unwrap(), 1);
    assert!(peer_closed(&far));
    far.write_all(b"still open this way").unwrap();
    assert_eq!(peer(&near), Peer::Sent);
}

#[test]
fn an_abort_is_a_reset_and_no_end_of_stream() {
    let (near, far) = connected();
    abort_on_close(&near).unwrap();
    drop(near);
    assert_eq!(recv(&far, &mut [0; 4]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert!(shutdown_write(&far).is_ok(), "a connection that is gone has nothing to shut");
}
