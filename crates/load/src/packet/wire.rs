//! The interface, and what is said over it: segments of the connections, and ARP (RFC 826) for the addresses of a client
//! that no kernel knows.
//!
//! What must hold: only what comes from the server's port is received; questions for the clients' addresses are answered.
//! Refuses to know connections and plans.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use socket2::SockFilter;
use sys::packet::{Interface, Receiver, SEEN_BYTES_MAX, Sender};

use super::connection::Wanted;
use super::frame::{self, Arp, Ends, Mac, Segment};
use super::{Refused, Setup};

/// Frames kept until they are read: a tenth of a second of replies at the highest rates.
const RING_SLOTS: usize = 32_768;
const ARP_SLOTS: usize = 256;
/// How long a server may take to say its hardware address, and how long one question waits.
const ARP_PATIENCE: Duration = Duration::from_secs(2);
const ANSWER_WAIT: Duration = Duration::from_micros(200);
/// A locally administered address: frames to it are for nobody but us.
const CLIENT_MAC: Mac = [0x02, 0x54, 0x47, 0, 0, 0x01];

/// The interface, and what is said over it.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    questions: Receiver,
    pub(super) ends: Ends,
    pub(super) request: Vec<u8>,
    frames: u16,
}

impl Wire {
    pub(super) fn open(setup: &Setup, request: Vec<u8>) -> io::Result<Self> {
        let interface = Interface::named(&setup.interface)?;
        let macs = [CLIENT_MAC];
        Ok(Self {
            sender: Sender::open(interface)?,
            receiver: Receiver::open(
                interface,
                frame::IPV4,
                &from_port(setup.server.port()),
                RING_SLOTS,
                &macs,
            )?,
            questions: Receiver::open(interface, frame::ARP, &everything(), ARP_SLOTS, &macs)?,
            ends: Ends { client_mac: CLIENT_MAC, server_mac: [0; 6], server: setup.server },
            request,
            frames: 0,
        })
    }

    pub(super) fn send(&mut self, client: SocketAddrV4, wanted: &Wanted) {
        let Self { sender, ends, request, frames, .. } = self;
        *frames = frames.wrapping_add(1);
        let payload = if wanted.asks { &request[..] } else { &[] };
        let Wanted { flags, sequence, acknowledged, .. } = *wanted;
        let segment = Segment { client, sequence, acknowledged, flags, payload };
        sender.push(|buffer| frame::write(ends, &segment, *frames, buffer));
    }

    fn say(&mut self, arp: &Arp) {
        self.sender.push(|buffer| arp.write(buffer));
        self.sender.flush();
    }

    /// Finds the server's hardware address.
    pub(super) fn ask_for_server(&mut self, clients: &[Ipv4Addr]) -> Result<(), Refused> {
        let server = *self.ends.server.ip();
        let begin = Instant::now();
        while begin.elapsed() < ARP_PATIENCE {
            self.introduce(clients);
            let asked = Instant::now();
            while asked.elapsed() < ARP_PATIENCE / 8 {
                let answer = self.questions.next().and_then(|frame| Arp::read(&frame));
                match answer.filter(|arp| !arp.asks && arp.from.1 == server) {
                    Some(arp) => {
                        self.ends.server_mac = arp.from.0;
                        return Ok(());
                    }
                    None => std::thread::sleep(ANSWER_WAIT),
                }
            }
        }
        Err(Refused::Unknown(server))
    }

    /// Asks for the server from every client address: who is asked learns who asks (RFC 826), so that its first answer
    /// does not have to wait for a question of its own.
    pub(super) fn introduce(&mut self, clients: &[Ipv4Addr]) {
        let server = *self.ends.server.ip();
        for client in clients {
            self.say(&Arp { asks: true, from: (CLIENT_MAC, *client), to: ([0; 6], server) });
        }
    }

    /// Says where the clients are, to whom asks.
    pub(super) fn answer_questions(&mut self, clients: &[Ipv4Addr]) {
        for _ in 0..ARP_SLOTS {
            let Some(arp) = self.questions.next().map(|frame| Arp::read(&frame)) else { return };
            if let Some(arp) = arp.filter(|arp| arp.asks && clients.contains(&arp.to.1)) {
                self.say(&Arp { asks: false, from: (CLIENT_MAC, arp.to.1), to: arp.from });
            }
        }
    }
}

/// Lets segments from this port through. (A frame whose IP head has options is missed; servers send none.)
fn from_port(port: u16) -> [SockFilter; 4] {
    const SOURCE_PORT_AT: u32 = 34;
    const LOAD_HALF_AT: u16 = 0x28;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    [
        SockFilter::new(LOAD_HALF_AT, 0, 0, SOURCE_PORT_AT),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, u32::from(port)),
        SockFilter::new(RETURN, 0, 0, SEEN_BYTES_MAX as u32),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

fn everything() -> [SockFilter; 1] {
    const RETURN: u16 = 0x06;
    [SockFilter::new(RETURN, 0, 0, SEEN_BYTES_MAX as u32)]
}
