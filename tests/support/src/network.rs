//! A network of its own for a test: a pair of interfaces, whose far end is in another network namespace. Needs root.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

use crate::notrun::{have, is_root, not_run};

/// Two interfaces that are joined. Both go when this is dropped.
pub struct Network {
    name: String,
    net: [u8; 3],
}

impl Network {
    /// A new one; `number` tells those of one test process apart, 0 to 9.
    ///
    /// # Errors
    /// What the commands say that make it.
    pub fn new(number: u32) -> Result<Network, String> {
        let id = std::process::id();
        // Of the addresses for benchmarks (RFC 2544), so that nothing real is hidden.
        let net = [198, 18 + (id >> 8 & 1) as u8, id as u8 & 0xf8 | number as u8 & 7];
        let network = Network { name: format!("tg{id:x}n{number}"), net };
        let (near, far, space) = (network.interface(), format!("{}f", network.name), &network.name);
        let mut commands = vec![
            format!("netns add {space}"),
            format!("link add {near} type veth peer name {far} netns {space}"),
            format!("addr add {}/24 dev {near}", network.near()),
            format!("link set {near} up"),
            format!("-n {space} link set lo up"),
            format!("-n {space} link set {far} up"),
        ];
        commands
            .extend((2..=9).map(|host| format!("-n {space} addr add {}/24 dev {far}", network.far(host))));
        for command in commands {
            ip(&command)?;
        }
        Ok(network)
    }

    /// [`Self::new`] for a test; nothing where this machine has none for us, and then that was said.
    pub fn of(test: &str, number: u32) -> Option<Network> {
        if !is_root() || !have("ip") {
            not_run(test, "needs root and ip (iproute2) for a network of its own");
            return None;
        }
        Network::new(number).inspect_err(|why| not_run(test, why)).ok()
    }

    /// [`Self::of`] with the addresses of [`Self::near6`] and [`Self::far6`].
    pub fn of_ipv6(test: &str, number: u32) -> Option<Network> {
        let network = Network::of(test, number)?;
        network.add_ipv6().inspect_err(|why| not_run(test, why)).ok()?;
        Some(network)
    }

    fn add_ipv6(&self) -> Result<(), String> {
        let (near, space) = (self.interface(), &self.name);
        ip(&format!("-6 addr add {}/48 dev {near} nodad", self.near6()))?;
        for (site, host) in [(2, 2), (2, 3), (2, 4), (3, 2)] {
            ip(&format!("-n {space} -6 addr add {}/48 dev {space}f nodad", self.far6(site, host)))?;
        }
        Ok(())
    }

    /// The name of the near interface.
    pub fn interface(&self) -> String {
        format!("{}e", self.name)
    }

    /// The address of the near interface.
    pub fn near(&self) -> IpAddr {
        self.far(1)
    }

    /// One of the addresses of the far interface, 2 to 9.
    pub fn far(&self, host: u8) -> IpAddr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, host).into()
    }

    /// The IPv6 address of the near interface.
    pub fn near6(&self) -> IpAddr {
        self.far6(1, 1)
    }

    /// One of the IPv6 addresses of the far interface: hosts 2 to 4 of the /64 that is site 2, host 2 of site 3.
    pub fn far6(&self, site: u16, host: u16) -> IpAddr {
        let [_, b, c] = self.net;
        // Unique local addresses (RFC 4193).
        Ipv6Addr::new(0xfd54, 0x4700, u16::from_be_bytes([b, c]), site, 0, 0, 0, host).into()
    }

    /// What `ip` says of the near interface.
    pub fn details(&self) -> String {
        ip(&format!("-details link show {}", self.interface())).expect("an interface")
    }

    /// Runs `work` on a thread whose sockets are at the far end.
    pub fn at_far_end<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let space = File::open(format!("/run/netns/{}", self.name)).expect("a namespace");
        std::thread::spawn(move || {
            move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("to move there");
            work()
        })
    }

    /// A connection from an address of the far end, if it is made within `patience`.
    ///
    /// # Errors
    /// The system's; `TimedOut`.
    pub fn connect(from: IpAddr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
        let socket = socket(from)?;
        socket.connect_timeout(&to.into(), patience)?;
        Ok(socket.into())
    }

    /// Asks for new connections from an address of the far end, as fast as one thread can, until this is dropped.
    pub fn flood(&self, from: IpAddr, to: SocketAddr) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = self.at_far_end(move || {
            let mut open = std::collections::VecDeque::new();
            while !stopped.load(Ordering::Relaxed) {
                open.extend(ask(from, to));
                if open.len() > Flood::OPEN {
                    open.pop_front();
                }
            }
        });
        Flood { stop, thread: Some(thread) }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The pair goes with either end.
        let _ = ip(&format!("link del {}", self.interface()));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

/// A thread that floods. See [`Network::flood`].
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Connections that it has open, or has asked for, at a time.
    const OPEN: usize = 1000;
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks for a connection and does not wait for it.
fn ask(from: IpAddr, to: SocketAddr) -> Option<Socket> {
    let socket = socket(from).ok()?;
    socket.set_nonblocking(true).ok()?;
    // Not made yet is what is wanted.
    let _ = socket.connect(&to.into());
    Some(socket)
}

/// A socket at an address, that leaves nothing behind when it is closed.
fn socket(from: IpAddr) -> io::Result<Socket> {
    let socket =
        Socket::new(Domain::for_address(SocketAddr::new(from, 0)), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    Ok(socket)
}

fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip").args(arguments.split(' ')).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr)))
}
