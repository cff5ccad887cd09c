//! Refusing new connections before anything is spent on them: a classic BPF filter on a listening socket that drops a
//! share of the SYNs.
//!
//! What must hold: only packets that ask for a *new* connection (SYN without ACK) are ever dropped; needs no privilege;
//! ends with the socket, so that a process that dies leaves nothing behind. Refuses to know when to shed, and how much.
//!
//! Accepted sockets inherit the filter of the moment of their birth: it drops nothing on them, but costs a little for each
//! packet until [`detach`].

use std::io;
use std::os::fd::AsFd;

use socket2::{SockFilter, SockRef};

/// The share of new connections to be dropped, in [`DropShare::STEPS`] steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DropShare(u16);

impl DropShare {
    /// Nothing is dropped.
    pub const NONE: Self = Self(0);
    /// The most that is less than all.
    pub const MOST: Self = Self(Self::STEPS - 1);
    /// No new connection gets through.
    pub const ALL: Self = Self(Self::STEPS);
    /// Where one in ten gets through, a step changes that by a twenty-fifth.
    pub const STEPS: u16 = 256;

    /// The nearest share; what is not a number from 0 to 1 is cut to that.
    pub fn nearest(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * f64::from(Self::STEPS)).round() as u16)
    }

    /// As a fraction.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(Self::STEPS)
    }
}

/// Interfaces whose new connections were thinned out before they came here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thinned<'a> {
    /// Their numbers. More than [`Thinned::INTERFACES_MAX`] are taken for others.
    pub interfaces: &'a [u32],
    /// The share of what comes by them that is dropped here.
    pub share: DropShare,
}

impl Thinned<'_> {
    /// A jump skips 255 instructions at most, and there is one for each.
    pub const INTERFACES_MAX: usize = 128;
}

/// Makes `listener` drop this share of new connections from now on, in place of what it dropped before; of those that come
/// by the interfaces of `thinned`, the share that stands there.
///
/// # Errors
/// The kernel's; the filter before stays.
pub fn attach(listener: impl AsFd, share: DropShare, thinned: Thinned<'_>) -> io::Result<()> {
    if (share, thinned.share) == (DropShare::NONE, DropShare::NONE) {
        return detach(listener);
    }
    SockRef::from(&listener.as_fd()).attach_filter(&program(share, thinned))
}

/// Takes the filter off a socket. One that has none is no error.
///
/// # Errors
/// The kernel's.
pub fn detach(socket: impl AsFd) -> io::Result<()> {
    match SockRef::from(&socket.as_fd()).detach_filter() {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

const DROP: u32 = 0;
const PASS: u32 = u32::MAX;

/// One instruction; on true or false so many are skipped.
fn op(code: u32, if_true: usize, if_false: usize, value: u32) -> SockFilter {
    SockFilter::new(code as u16, if_true as u8, if_false as u8, value)
}

/// The program. For a listener its input starts at the TCP header, whose flags are byte 13.
fn program(share: DropShare, thinned: Thinned<'_>) -> Vec<SockFilter> {
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    const INTERFACE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let interfaces = &thinned.interfaces[..thinned.interfaces.len().min(Thinned::INTERFACES_MAX)];
    let (of_others, of_thinned) = (draw(share), draw(thinned.share));
    let mut program = vec![
        op(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FLAGS_AT),
        op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, SYN | ACK),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, SYN),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, PASS),
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, INTERFACE),
    ];
    let compare = |(at, number): (usize, &u32)| {
        let skipped = interfaces.len() - at - 1 + of_others.len();
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skipped, 0, *number)
    };
    program.extend(interfaces.iter().enumerate().map(compare));
    program.extend(of_others);
    program.extend(of_thinned);
    program
}

/// Drops by lot. Ends the program.
fn draw(share: DropShare) -> Vec<SockFilter> {
    const RANDOM: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let end = |verdict| op(libc::BPF_RET | libc::BPF_K, 0, 0, verdict);
    match share {
        DropShare::NONE => vec![end(PASS)],
        DropShare::ALL => vec![end(DROP)],
        // Random numbers below the threshold are dropped.
        DropShare(share) => vec![
            op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, RANDOM),
            op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, u32::from(share) << 24),
            end(PASS),
            end(DROP),
        ],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tcp::listener_drops;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// How many of `tries` connections are made within a moment: a dropped SYN is sent again after a second.
    fn made(listener: &TcpListener, tries: usize) -> usize {
        let address = listener.local_addr().unwrap();
        let connect = |_: &usize| TcpStream::connect_timeout(&address, Duration::from_millis(20)).is_ok();
        (0..tries).filter(connect).count()
    }

    #[test]
    fn a_share_of_new_connections_is_dropped_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(made(&listener, 20), 20);
        attach(&listener, DropShare::ALL, Thinned::default()).unwrap();
        assert_eq!(made(&listener, 5), 0);
        assert_eq!(listener_drops(&listener).unwrap(), 5);
        attach(&listener, DropShare::nearest(0.5), Thinned::default()).unwrap();
        let half = made(&listener, 100);
        // Ten standard deviations would be 50.
        assert!((15..=85).contains(&half), "{half} of 100");
        assert_eq!(listener_drops(&listener).unwrap() as usize, 5 + 100 - half);
        attach(&listener, DropShare::NONE, Thinned::default()).unwrap();
        assert_eq!(made(&listener, 20), 20);
        detach(&listener).unwrap();
    }

    #[test]
    fn what_comes_by_an_interface_that_thins_out_is_dropped_by_the_share_for_that() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let loopback = crate::interfaces::interfaces().unwrap().into_iter().find(|found| found.loopback);
        let loopback = loopback.unwrap().index;
        let others: Vec<u32> = (900_000..901_000).collect();
        let (mut first, mut last) = (others[..100].to_vec(), others[..100].to_vec());
        first[0] = loopback;
        last[99] = loopback;
        for (interfaces, share, of_thinned, made_are) in [
            (&first[..], DropShare::ALL, DropShare::NONE, 5),
            (&last, DropShare::ALL, DropShare::NONE, 5),
            (&last, DropShare::NONE, DropShare::ALL, 0),
            (&[], DropShare::NONE, DropShare::ALL, 5),
            (&others, DropShare::ALL, DropShare::NONE, 0),
            (&others, DropShare::NONE, DropShare::ALL, 5),
        ] {
            attach(&listener, share, Thinned { interfaces, share: of_thinned }).unwrap();
            assert_eq!(made(&listener, 5), made_are, "{share:?} {of_thinned:?} {}", interfaces.len());
        }
        // By lot, with the ends of both draws in reach.
        let half = DropShare::nearest(0.5);
        for interfaces in [&first[..], &others] {
            attach(&listener, half, Thinned { interfaces, share: half }).unwrap();
            let made = made(&listener, 60);
            assert!((5..=55).contains(&made), "{made} of 60");
        }
    }

    #[test]
    fn established_connections_never_feel_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        attach(&listener, DropShare::nearest(0.01), Thinned::default()).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        attach(&listener, DropShare::ALL, Thinned::default()).unwrap();
        for round in 0..50_u8 {
            client.write_all(&[round]).unwrap();
            let mut got = [0];
            served.read_exact(&mut got).unwrap();
            assert_eq!(got, [round]);
        }
        drop(client);
        assert_eq!(served.read(&mut [0]).unwrap(), 0, "its end passes too");
        detach(&served).unwrap();
    }

    #[test]
    fn shares_are_cut_and_rounded() {
        for (share, is) in
            [(-1.0, 0.0), (f64::NAN, 0.0), (0.001, 0.0), (0.5, 0.5), (0.99, 0.988_281_25), (7.0, 1.0)]
        {
            assert_eq!(DropShare::nearest(share).fraction(), is, "{share}");
        }
    }
}
