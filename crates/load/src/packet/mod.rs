//! Requests by a TCP client in user space, straight to the frames of an interface.
//!
//! What holds an ordinary client back (descriptors, ports, its own kernel's stack) does not hold this one, so that it
//! starts what it was asked for: one core offers a hundred thousand connections a second. Its addresses are its own: nobody
//! else may have them, it answers for them (ARP), and its kernel never hears of them. IPv4 only, on the server's own
//! network or through the gateway whose hardware address is given.
//!
//! A SYN is sent once: what a server drops is dropped. A request whose reply does not begin is sent again after 200 and 600
//! ms, because a handshake by SYN cookie loses it (so a quantile near those is that timer).

mod connection;
mod frame;
mod wire;

use std::io;
use std::iter::Peekable;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::flights::{Clock, Flights};
use crate::outcome::Outcomes;
use crate::plan::{Plan, Start};
use connection::Connection;

use wire::Wire;

/// Ports of one client address: so many connections of it may be under way.
const PORTS: usize = 60_000;
const FIRST_PORT: u16 = 2_000;
/// Places that are looked at for a new connection before it is given up.
const PLACES_TRIED_MAX: usize = 1_000;
/// Frames that are taken before time is looked at again: more than come while as many starts are made as are due at the rates
/// that one core can offer. With fewer, a client that is short of time would let replies wait for its own starts.
const TURN: usize = 4_096;
/// Starts that are made meanwhile. More than a burst has: those who come at once do not wait for answers to each other.
const STARTS_A_TURN: usize = 16_384;
/// After this a request is sent again.
const REPEATS: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(600)];
/// Below this it is not worth to sleep.
const NAP_MIN: Duration = Duration::from_micros(200);
const NAP_MAX: Duration = Duration::from_millis(10);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Who is asked, through which interface, and from where.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who is asked.
    pub server: SocketAddrV4,
    /// Leads there.
    pub interface: String,
    /// The client's addresses, at least one; used by nobody else on that network.
    pub clients: Vec<Ipv4Addr>,
    /// The server's hardware address, or its gateway's; asked for where it is not given.
    pub server_mac: Option<[u8; 6]>,
}

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// No such interface, or no privilege.
    #[error("{interface}: {error}{}", hint(.error))]
    Interface {
        /// Its name.
        interface: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// Nobody answers to the server's address on that network.
    #[error(
        "nobody says that it is {0}: is the interface right? Behind a gateway, give the gateway's --server-mac"
    )]
    Unknown(Ipv4Addr),
    /// The request does not fit into one segment.
    #[error("the request has {0} bytes; one segment takes {max}: ask for a shorter path", max = frame::PAYLOAD_BYTES_MAX)]
    RequestTooLong(usize),
    /// There is no address to send from.
    #[error("no client address: give --clients, addresses of the server's network that nobody uses")]
    NoClients,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (packet sockets need CAP_NET_RAW: run as root, or leave out --interface)"
        }
        io::ErrorKind::NotFound => " (no such interface; `ip link` lists them)",
        _ => "",
    }
}

/// The client.
#[derive(Debug)]
pub struct Packets {
    wire: Wire,
    clients: Vec<Ipv4Addr>,
    connections: Vec<Connection>,
    /// For each client address, where to look for a free port first.
    next_port: Vec<usize>,
    opened: u32,
    under_way: usize,
}

impl Packets {
    /// Opens the interface, finds the server, and tells it where the clients are.
    ///
    /// # Errors
    /// Why nothing can be sent.
    pub fn open(setup: &Setup, request: Vec<u8>) -> Result<Self, Refused> {
        if setup.clients.is_empty() {
            return Err(Refused::NoClients);
        }
        if request.len() > frame::PAYLOAD_BYTES_MAX {
            return Err(Refused::RequestTooLong(request.len()));
        }
        let failed = |error| Refused::Interface { interface: setup.interface.clone(), error };
        let mut wire = Wire::open(setup, request).map_err(failed)?;
        match setup.server_mac {
            Some(mac) => wire.ends.server_mac = mac,
            None => wire.ask_for_server(&setup.clients)?,
        }
        wire.introduce(&setup.clients);
        let connections = vec![Connection::default(); setup.clients.len() * PORTS];
        let next_port = vec![0; setup.clients.len()];
        Ok(Self { wire, clients: setup.clients.clone(), connections, next_port, opened: 0, under_way: 0 })
    }

    /// Client addresses.
    pub fn sources(&self) -> usize {
        self.clients.len()
    }

    /// Carries out a plan. `progress` hears now and then how much time of it has passed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&mut self, plan: &Plan, progress: &mut dyn FnMut(Duration)) -> io::Result<Outcomes> {
        let refused_before = self.wire.sender.sent().refused;
        self.wire.receiver.lost()?;
        let mut flights = Flights::default();
        let mut starts = plan.starts(self.clients.len()).peekable();
        let timeout_ns = plan.timeout.as_nanos() as u64;
        let mut late = Clock::new(timeout_ns);
        let mut repeats = REPEATS.map(|age| Clock::new(age.as_nanos() as u64));
        let begin = Instant::now();
        let mut told = begin;
        while starts.peek().is_some() || self.under_way > 0 {
            let now_ns = begin.elapsed().as_nanos() as u64;
            self.start_due(&mut starts, &mut flights, now_ns);
            self.end_late(&mut late, &flights, now_ns);
            repeats.iter_mut().for_each(|clock| self.repeat(clock, &flights, now_ns));
            self.wire.sender.flush();
            let taken = self.take_replies(&mut flights, begin, timeout_ns);
            self.wire.sender.flush();
            if taken == 0 {
                self.wire.answer_questions(&self.clients);
                let next_start = starts.peek().map(|start| start.at_ns);
                self.nap(next_start.into_iter().chain(late.next_ns(&flights)).min(), begin)?;
            }
            if told.elapsed() > PROGRESS_EVERY {
                told = Instant::now();
                progress(begin.elapsed());
            }
        }
        let lost = u64::from(self.wire.receiver.lost()?);
        Ok(Outcomes {
            all: flights.all,
            lost_frames: lost + self.wire.sender.sent().refused - refused_before,
        })
    }

    fn start_due(
        &mut self,
        starts: &mut Peekable<impl Iterator<Item = Start>>,
        flights: &mut Flights,
        now_ns: u64,
    ) {
        for _ in 0..STARTS_A_TURN {
            let Some(start) = starts.next_if(|start| start.at_ns <= now_ns) else { return };
            let place = if now_ns > start.expires_ns { None } else { self.free_place(start.source) };
            let flight = flights.all.len();
            flights.add(&start, now_ns, place);
            if let Some(place) = place {
                // Numbers far from each other, so that what belongs to a former connection is recognised.
                self.under_way += 1;
                self.opened = self.opened.wrapping_add(1);
                let syn = self.connections[place].open(flight, self.opened.wrapping_mul(0x9e37_79b1));
                self.wire.send(self.address(place), &syn);
            }
        }
    }

    fn free_place(&mut self, source: usize) -> Option<usize> {
        (0..PLACES_TRIED_MAX).find_map(|_| {
            let place = source * PORTS + self.next_port[source];
            self.next_port[source] = (self.next_port[source] + 1) % PORTS;
            self.connections[place].is_closed().then_some(place)
        })
    }

    fn end_late(&mut self, late: &mut Clock, flights: &Flights, now_ns: u64) {
        while let Some((flight, place)) = late.due(flights, now_ns) {
            if self.is_open(flight, place) {
                self.under_way -= 1;
                let address = self.address(place);
                let wanted = self.connections[place].give_up(self.wire.request.len() as u32);
                wanted.iter().flatten().for_each(|wanted| self.wire.send(address, wanted));
            }
        }
    }

    fn repeat(&mut self, clock: &mut Clock, flights: &Flights, now_ns: u64) {
        while let Some((flight, place)) = clock.due(flights, now_ns) {
            let request = self.connections[place].ask_again().filter(|_| self.is_open(flight, place));
            if let Some(request) = request {
                self.wire.send(self.address(place), &request);
            }
        }
    }

    /// Whether the connection of a flight has neither ended nor become another's.
    fn is_open(&self, flight: usize, place: usize) -> bool {
        let connection = &self.connections[place];
        !connection.is_closed() && connection.flight == flight
    }

    /// Takes what has arrived, and says how much it was.
    fn take_replies(&mut self, flights: &mut Flights, begin: Instant, timeout_ns: u64) -> usize {
        for taken in 0..TURN {
            let Some(received) = self.wire.receiver.next() else { return taken };
            let Some(arrived) = frame::read(self.wire.ends.server, &received) else { continue };
            let Some(place) = place_of(&self.clients, arrived.client) else { continue };
            let connection = &mut self.connections[place];
            let flight = connection.flight;
            let step = connection.take(&arrived, self.wire.request.len() as u32);
            drop(received);
            let address = self.address(place);
            step.wanted.iter().flatten().for_each(|wanted| self.wire.send(address, wanted));
            let Some(outcome) = flights.all.get_mut(flight) else { continue };
            outcome.established |= step.established;
            if let Some(fate) = step.fate {
                self.under_way -= 1;
                outcome.end(fate, begin.elapsed().as_nanos() as u64, timeout_ns);
            }
        }
        TURN
    }

    /// Sleeps until a frame comes or something is due, if that is worth it.
    fn nap(&self, due_ns: Option<u64>, begin: Instant) -> io::Result<()> {
        let wait = Duration::from_nanos(due_ns.unwrap_or(0)).saturating_sub(begin.elapsed()).min(NAP_MAX);
        if wait < NAP_MIN {
            return Ok(());
        }
        let limit = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        match poll(&mut [PollFd::new(&self.wire.receiver, PollFlags::IN)], Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn address(&self, place: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.clients[place / PORTS], FIRST_PORT + (place % PORTS) as u16)
    }
}

fn place_of(clients: &[Ipv4Addr], address: SocketAddrV4) -> Option<usize> {
    let source = clients.iter().position(|client| client == address.ip())?;
    let port = usize::from(address.port().checked_sub(FIRST_PORT)?);
    (port < PORTS).then_some(source * PORTS + port)
}
