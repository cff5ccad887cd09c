//! Requests by ordinary non-blocking sockets: for whoever has no privilege, no interface of its own, or IPv6.
//!
//! The kernel is a client with manners: it sends a SYN again after a second, and descriptors and ports bound how much can
//! be under way. What could not be started in time is an outcome of its own, so that the offered load is known. Many
//! addresses of the loopback network stand for many clients.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::flights::{Clock, Flights};
use crate::outcome::{Fate, Outcomes};
use crate::plan::{Plan, Start};
use crate::reply::{self, End};

/// Addresses of the loopback network that stand for clients.
const LOOPBACK_CLIENTS: u8 = 6;
/// Starts that are made before events are looked at, and events that are taken before time is.
const TURN: usize = 64;
const WAIT_MAX: Duration = Duration::from_millis(10);
const PROGRESS_EVERY: Duration = Duration::from_millis(100);
/// Bytes of a reply that are read at once, and the longest head.
const READ_BYTES: usize = 64 * 1024;

/// The client.
#[derive(Debug)]
pub struct Sockets {
    server: SocketAddr,
    request: Vec<u8>,
    clients: Vec<IpAddr>,
    poller: OwnedFd,
    open: HashMap<usize, Open>,
    buffer: Vec<u8>,
}

/// A connection under way.
#[derive(Debug)]
struct Open {
    stream: TcpStream,
    asked: bool,
    /// Of the reply, while its head is incomplete.
    head: Vec<u8>,
    reply: Option<(Fate, End)>,
    received: u64,
}

impl Sockets {
    /// Raises the limit on descriptors as far as it goes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(server: SocketAddr, request: Vec<u8>) -> io::Result<Self> {
        sys::limits::raise_nofile()?;
        let clients: Vec<IpAddr> = match server.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => {
                (0..LOOPBACK_CLIENTS).map(|n| Ipv4Addr::new(127, 84, 71, 1 + n).into()).collect()
            }
            IpAddr::V4(_) => vec![Ipv4Addr::UNSPECIFIED.into()],
            IpAddr::V6(_) => vec![std::net::Ipv6Addr::UNSPECIFIED.into()],
        };
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { server, request, clients, poller, open: HashMap::new(), buffer: vec![0; READ_BYTES] })
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
        let mut flights = Flights::default();
        let mut starts = plan.starts(self.clients.len()).peekable();
        let timeout_ns = plan.timeout.as_nanos() as u64;
        let mut late = Clock::new(timeout_ns);
        let begin = Instant::now();
        let mut told = begin;
        while starts.peek().is_some() || !self.open.is_empty() {
            let now_ns = begin.elapsed().as_nanos() as u64;
            for _ in 0..TURN {
                let Some(start) = starts.next_if(|start| start.at_ns <= now_ns) else { break };
                self.start(&start, &mut flights, begin);
            }
            while let Some((flight, _)) = late.due(&flights, now_ns) {
                self.open.remove(&flight);
            }
            let next_start = starts.peek().map(|start| start.at_ns);
            let due_ns = next_start.into_iter().chain(late.next_ns(&flights)).min().unwrap_or(0);
            let wait = Duration::from_nanos(due_ns).saturating_sub(begin.elapsed()).min(WAIT_MAX);
            self.take_events(wait, &mut flights, begin, timeout_ns)?;
            if told.elapsed() > PROGRESS_EVERY {
                told = Instant::now();
                progress(begin.elapsed());
            }
        }
        Ok(Outcomes { all: flights.all, lost_frames: 0 })
    }

    fn start(&mut self, start: &Start, flights: &mut Flights, begin: Instant) {
        let flight = flights.all.len();
        let now_ns = begin.elapsed().as_nanos() as u64;
        let is_in_time = now_ns <= start.expires_ns;
        let stream = if is_in_time { self.connect(start.source, flight) } else { Ok(None) };
        let started = !matches!(stream, Ok(None));
        flights.add(start, now_ns, started.then_some(0));
        match stream {
            Ok(Some(stream)) => {
                let open = Open { stream, asked: false, head: Vec::new(), reply: None, received: 0 };
                self.open.insert(flight, open);
            }
            Ok(None) => {}
            Err(_) => flights.all[flight].fate = Fate::Failed,
        }
    }

    /// A connection under way; none where this side has no descriptor or port left, an error where the server refuses.
    fn connect(&self, source: usize, flight: usize) -> io::Result<Option<TcpStream>> {
        let Ok(socket) = self.socket(source) else { return Ok(None) };
        match socket.connect(&self.server.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => return Ok(None),
            Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
                return Err(error);
            }
            _ => {}
        }
        let stream = TcpStream::from(socket);
        let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.poller, &stream, epoll::EventData::new_u64(flight as u64), events)?;
        Ok(Some(stream))
    }

    fn socket(&self, source: usize) -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(self.server), kind, Some(Protocol::TCP))?;
        // Closing resets: nothing is left behind that would hold a port.
        socket.set_linger(Some(Duration::ZERO))?;
        socket.set_tcp_nodelay(true)?;
        if !self.clients[source].is_unspecified() {
            socket.bind(&SocketAddr::new(self.clients[source], 0).into())?;
        }
        Ok(socket)
    }

    fn take_events(
        &mut self,
        wait: Duration,
        flights: &mut Flights,
        begin: Instant,
        timeout_ns: u64,
    ) -> io::Result<()> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); TURN];
        let limit = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos() as _ };
        let events = match epoll::wait(&self.poller, &mut events, Some(&limit)) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for event in events {
            let flight = { event.data }.u64() as usize;
            let Some(open) = self.open.get_mut(&flight) else { continue };
            let outcome = &mut flights.all[flight];
            let fate = open.go_on(&self.request, &mut self.buffer);
            outcome.established |= open.asked;
            if let Some(fate) = fate {
                outcome.end(fate, begin.elapsed().as_nanos() as u64, timeout_ns);
                self.open.remove(&flight);
            }
        }
        Ok(())
    }
}

impl Open {
    /// Does what can be done now; says the fate when that was the end.
    fn go_on(&mut self, request: &[u8], buffer: &mut [u8]) -> Option<Fate> {
        if !self.asked {
            match SockRef::from(&self.stream).take_error() {
                Ok(None) => {}
                _ => return Some(Fate::Failed),
            }
            match self.stream.write(request) {
                Ok(count) if count == request.len() => self.asked = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // A new connection takes a request whole, or is none.
                _ => return Some(Fate::Failed),
            }
        }
        loop {
            match self.stream.read(buffer) {
                Ok(count) => {
                    if let Some(fate) = self.take(&buffer[..count]) {
                        return Some(fate);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(Fate::Failed),
            }
        }
    }

    /// Takes received bytes; none are the end of the stream.
    fn take(&mut self, bytes: &[u8]) -> Option<Fate> {
        self.received += bytes.len() as u64;
        if self.reply.is_none() {
            self.head.extend_from_slice(bytes);
            self.reply = match reply::read(&self.head) {
                Ok(reply) => reply.map(|reply| (reply.fate, reply.end)),
                Err(_) => return Some(Fate::Failed),
            };
        }
        match self.reply {
            Some((fate, End::After(whole))) if self.received >= whole => Some(fate),
            Some((fate, End::Close)) if bytes.is_empty() => Some(fate),
            _ if bytes.is_empty() || self.head.len() > READ_BYTES => Some(Fate::Failed),
            _ => None,
        }
    }
}
