//! The scripted client: raw bytes when framing is the question, short forms when it is not.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};

use socket2::{Domain, Socket, Type};

use crate::PATIENCE;
use crate::message::{Framing, Head, Response};
use crate::wire::Wire;

/// The `Host` of a request whose target does not name one.
const HOST: &str = "www.example.com";

/// A client connection. Everything of [`Wire`] is there too.
pub struct Client {
    wire: Wire,
}

impl Client {
    /// Connects.
    ///
    /// # Panics
    /// When nobody accepts.
    #[track_caller]
    pub fn connect(address: SocketAddr) -> Client {
        Client::try_connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"))
    }

    /// Connects, or says why not.
    ///
    /// # Errors
    /// What the socket says.
    pub fn try_connect(address: SocketAddr) -> std::io::Result<Client> {
        TcpStream::connect_timeout(&address, PATIENCE).map(|stream| Client { wire: Wire::new(stream) })
    }

    /// Connects from this address of this machine (any in 127.0.0.0/8), as another client would.
    ///
    /// # Panics
    /// When nobody accepts.
    #[track_caller]
    pub fn connect_from(source: IpAddr, address: SocketAddr) -> Client {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("socket");
        socket.bind(&SocketAddr::new(source, 0).into()).expect("bind");
        socket.connect_timeout(&address.into(), PATIENCE).expect("connect");
        Client { wire: Wire::new(socket.into()) }
    }

    /// Asks and reads the whole answer. A target with `http://` is sent in absolute form, as to a forward proxy.
    #[track_caller]
    pub fn get(&mut self, target: &str) -> Response {
        self.ask(Ask::get(target))
    }

    /// Sends a prepared request and reads the whole answer.
    #[track_caller]
    pub fn ask(&mut self, ask: Ask) -> Response {
        self.send(ask.bytes());
        self.response_to(&ask.method)
    }

    /// The next whole response, to a request that was not `HEAD`.
    #[track_caller]
    pub fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// The next whole response, to a request with this method.
    ///
    /// # Panics
    /// When the body ends early, or the response is interim.
    #[track_caller]
    pub fn response_to(&mut self, method: &str) -> Response {
        let head = self.wire.head();
        assert!(head.status() >= 200, "interim response: {head:?}");
        match self.wire.payload(Framing::of_response(&head, method)) {
            Ok(payload) => Response { head, body: payload.bytes, trailers: payload.trailers },
            Err((got, error)) => panic!("body broke after {} bytes ({error}): {head:?}", got.len()),
        }
    }

    /// The whole answer to `ask`, if it comes and its body is complete.
    ///
    /// # Errors
    /// What the socket says; [`ErrorKind::UnexpectedEof`](std::io::ErrorKind::UnexpectedEof) for a body cut short.
    pub fn try_response(&mut self, ask: &Ask) -> std::io::Result<Response> {
        let head = self.wire.try_head()?;
        let payload =
            self.wire.payload(Framing::of_response(&head, &ask.method)).map_err(|(_, error)| error)?;
        Ok(Response { head, body: payload.bytes, trailers: payload.trailers })
    }

    /// The head of an interim (1xx) response.
    #[track_caller]
    pub fn interim(&mut self) -> Head {
        let head = self.wire.head();
        assert!(head.status() < 200, "not interim: {head:?}");
        head
    }

    /// The body bytes of a response whose head was read already, which must end *broken*: short of its declared
    /// length, without its last chunk, or by a reset.
    ///
    /// # Panics
    /// When the body looks complete.
    #[track_caller]
    pub fn broken_body(&mut self, head: &Head) -> Vec<u8> {
        match self.wire.payload(Framing::of_response(head, "GET")) {
            Ok(payload) => panic!("the body looks complete after {} bytes: {head:?}", payload.bytes.len()),
            Err((got, _)) => got,
        }
    }

    /// The body of a response whose head was read already.
    #[track_caller]
    pub fn body(&mut self, head: &Head) -> Vec<u8> {
        match self.wire.payload(Framing::of_response(head, "GET")) {
            Ok(payload) => payload.bytes,
            Err((got, error)) => panic!("body broke after {} bytes ({error}): {head:?}", got.len()),
        }
    }

    /// Closes in an orderly way.
    pub fn close(self) {}

    /// Closes with a RST, as a process that dies with unread data does.
    pub fn reset(self) {
        self.wire.make_close_a_reset();
    }
}

// A client is a wire with HTTP knowledge on top; cases use both in one breath.
impl Deref for Client {
    type Target = Wire;
    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

/// A well-formed request in the making.
#[derive(Clone)]
pub struct Ask {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    /// A request with this method.
    pub fn new(method: &str, target: &str) -> Ask {
        Ask { method: method.into(), target: target.into(), fields: Vec::new(), body: Vec::new() }
    }

    /// A `GET`.
    pub fn get(target: &str) -> Ask {
        Ask::new("GET", target)
    }

    /// A `HEAD`.
    pub fn head(target: &str) -> Ask {
        Ask::new("HEAD", target)
    }

    /// A `POST` with a body.
    pub fn post(target: &str, body: &[u8]) -> Ask {
        Ask { body: body.to_vec(), ..Ask::new("POST", target) }
    }

    /// Whether it is a `HEAD`.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Adds a field. `Host` replaces the default one.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Ask {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// With this `Host`, unless the target or a field names one.
    #[must_use]
    pub fn host(self, authority: &str) -> Ask {
        let named = self.target.starts_with("http://") || self.names_host();
        if named { self } else { self.field("Host", authority) }
    }

    fn names_host(&self) -> bool {
        self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"))
    }

    /// The bytes to send; a body gets its `Content-Length`.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !self.names_host() {
            text += &format!("Host: {}\r\n", authority(&self.target));
        }
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        if !self.body.is_empty() {
            text += &format!("Content-Length: {}\r\n", self.body.len());
        }
        text += "\r\n";
        [text.as_bytes(), &self.body].concat()
    }
}

fn authority(target: &str) -> &str {
    let absolute = target.strip_prefix("http://").and_then(|rest| rest.split(['/', '?']).next());
    absolute.unwrap_or(HOST)
}
