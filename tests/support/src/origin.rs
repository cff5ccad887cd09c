//! The origin's side: [`Script`] lets the test play every byte in order, [`Origin`] answers by a function.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::PATIENCE;
use crate::message::{Framing, Request};
use crate::reply::Reply;
use crate::wire::Wire;

/// Something that a proxy can be pointed at.
pub trait Address {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Its authority as written in a URL, `127.0.0.1:9000` or `[::1]:9000`.
    fn authority(&self) -> String {
        self.address().to_string()
    }

    /// An absolute URL on it.
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority())
    }
}

impl Address for SocketAddr {
    fn address(&self) -> SocketAddr {
        *self
    }
}

/// An origin whose every byte is played by the test.
///
/// The kernel accepts connections at once; the test takes them with [`Script::accept`] when it wants to see them.
pub struct Script {
    listener: TcpListener,
}

impl Default for Script {
    fn default() -> Self {
        Script::new()
    }
}

impl Script {
    /// Listens on a free port of 127.0.0.1.
    pub fn new() -> Script {
        Script::on("127.0.0.1:0")
    }

    /// Listens on this address.
    pub fn on(address: &str) -> Script {
        let listener = TcpListener::bind(address).expect("bind the origin");
        listener.set_nonblocking(true).expect("non-blocking listener");
        Script { listener }
    }

    /// The next connection.
    ///
    /// # Panics
    /// When none comes.
    #[track_caller]
    pub fn accept(&self) -> Upstream {
        self.accept_within(PATIENCE).expect("the proxy connects to the origin")
    }

    /// The next connection, if one comes in time.
    pub fn accept_within(&self, limit: Duration) -> Option<Upstream> {
        readable(&self.listener, limit).then(|| self.take()).flatten()
    }

    /// Fails the test if a connection is waiting.
    ///
    /// Call it after the client has its answer: had the request been sent on, the connection would be there.
    #[track_caller]
    pub fn expect_untouched(&self) {
        assert!(self.take().is_none(), "the origin was contacted");
    }

    fn take(&self) -> Option<Upstream> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("blocking connection");
                Some(Upstream { wire: Wire::new(stream) })
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("accept: {error}"),
        }
    }
}

impl Address for Script {
    fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a bound listener")
    }
}

fn readable(listener: &TcpListener, limit: Duration) -> bool {
    let timeout = Timespec::try_from(limit).expect("a short wait");
    let mut waiting = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
    poll(&mut waiting, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// A connection from the proxy, seen from the origin. Everything of [`Wire`] is there too.
pub struct Upstream {
    wire: Wire,
}

impl Upstream {
    /// The next whole request.
    #[track_caller]
    pub fn request(&mut self) -> Request {
        self.try_request().expect("a request")
    }

    /// The next whole request, or why there was none.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] when the proxy closed, or what the socket says.
    pub fn try_request(&mut self) -> std::io::Result<Request> {
        let head = self.wire.try_head()?;
        let payload = self.wire.payload(Framing::of_request(&head)).map_err(|(_, error)| error)?;
        Ok(Request { head, body: payload.bytes, trailers: payload.trailers })
    }

    /// Sends a prepared answer.
    #[track_caller]
    pub fn reply(&mut self, reply: Reply) {
        reply.send(&mut self.wire, "GET").expect("send the reply");
    }

    /// Closes in an orderly way.
    pub fn close(self) {}

    /// Closes with a RST, as a process that dies with unread data does.
    pub fn reset(self) {
        self.wire.make_close_a_reset();
    }
}

// As with the client: an upstream is a wire with HTTP knowledge on top.
impl Deref for Upstream {
    type Target = Wire;
    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Upstream {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

/// An origin that answers every request by a function, on as many connections as come, and remembers them.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    stop: AtomicBool,
    answer: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
}

impl Origin {
    /// Answers every request by `answer`, which may block to play a slow origin.
    pub fn answering(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Origin {
        let script = Script::new();
        let shared = Arc::new(Shared {
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            answer: Box::new(answer),
        });
        let origin = Origin { address: script.address(), shared: shared.clone() };
        thread::spawn(move || shared.accept_all(&script));
        origin
    }

    /// Answers every request with this.
    pub fn always(reply: Reply) -> Origin {
        Origin::answering(move |_| reply.clone())
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("requests").clone()
    }

    /// How many requests came so far.
    pub fn count(&self) -> usize {
        self.shared.requests.lock().expect("requests").len()
    }

    /// How many connections came so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Address for Origin {
    fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread so that it sees the flag.
        let _ = std::net::TcpStream::connect(self.address);
    }
}

impl Shared {
    fn accept_all(self: Arc<Self>, script: &Script) {
        while !self.stop.load(Ordering::SeqCst) {
            let Some(upstream) = script.accept_within(Duration::from_secs(3600)) else { continue };
            self.connections.fetch_add(1, Ordering::SeqCst);
            let shared = self.clone();
            thread::spawn(move || shared.serve(upstream));
        }
    }

    /// Serves one connection until either side ends it.
    fn serve(&self, mut upstream: Upstream) {
        while let Some(request) = self.next(&mut upstream) {
            let reply = (self.answer)(&request);
            self.requests.lock().expect("requests").push(request.clone());
            let after = reply.send(&mut upstream.wire, request.head.method());
            match after {
                Ok(crate::reply::After::Keep) => {}
                Ok(crate::reply::After::Reset) => return upstream.reset(),
                Ok(crate::reply::After::Close) | Err(_) => return,
            }
        }
    }

    /// Idle pooled connections may wait longer than [`PATIENCE`].
    fn next(&self, upstream: &mut Upstream) -> Option<Request> {
        loop {
            match upstream.try_request() {
                Ok(request) => return Some(request),
                Err(e) if e.kind() == ErrorKind::WouldBlock && !self.stop.load(Ordering::SeqCst) => {}
                Err(_) => return None,
            }
        }
    }
}
