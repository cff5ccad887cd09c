//! One end of a TCP connection that speaks HTTP/1.1 byte by byte: what [`Client`](crate::Client) and
//! [`Upstream`](crate::Upstream) have in common.
//!
//! Bytes are sent exactly as given, so hostile framing is possible. Every read ends after
//! [`PATIENCE`]. Functions named `try_` return errors; the others fail the test.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::PATIENCE;
use crate::message::{Framing, Head};

/// Largest head the harness accepts, bytes.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// One end of a connection, with the bytes that were read and not yet asked for.
pub struct Wire {
    stream: TcpStream,
    pending: Vec<u8>,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By an orderly FIN.
    Closed,
    /// By a RST.
    Reset,
    /// It did not: it stayed open and silent.
    Open,
}

/// A body without its transfer coding.
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_read_timeout(Some(PATIENCE)).expect("read timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("write timeout");
        Wire { stream, pending: Vec::new() }
    }

    /// This end's address.
    #[track_caller]
    pub fn local_address(&self) -> std::net::SocketAddr {
        self.stream.local_addr().expect("a connected socket")
    }

    /// Sends these bytes and nothing else.
    ///
    /// # Panics
    /// When the other side has gone.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("send");
    }

    /// Sends these bytes; the other side may have gone, which is the caller's to judge.
    ///
    /// # Errors
    /// What the socket says.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends as much as the other side takes within `limit`; returns how many bytes that was.
    pub fn send_until_blocked(&mut self, bytes: &[u8], limit: Duration) -> usize {
        self.stream.set_write_timeout(Some(limit)).expect("write timeout");
        let mut sent = 0;
        while let Ok(n) = self.stream.write(&bytes[sent..]) {
            sent += n;
            if sent == bytes.len() {
                break;
            }
        }
        self.stream.set_write_timeout(Some(PATIENCE)).expect("write timeout");
        sent
    }

    /// The next head.
    #[track_caller]
    pub fn head(&mut self) -> Head {
        let raw = self.raw_head().expect("a message head");
        Head::parse(&raw)
    }

    /// The next head, or the error or end that came instead of it.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] when the connection ended first, or what the socket says.
    pub fn try_head(&mut self) -> io::Result<Head> {
        Ok(Head::parse(&self.raw_head()?))
    }

    /// The bytes of the next head, with the empty line.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] when the connection ended first, or what the socket says.
    pub fn raw_head(&mut self) -> io::Result<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = find(&self.pending[searched..], b"\r\n\r\n") {
                return Ok(self.take(searched + at + 4));
            }
            searched = self.pending.len().saturating_sub(3);
            assert!(searched < HEAD_BYTES_MAX, "endless head");
            self.more()?;
        }
    }

    /// Exactly the next `count` bytes.
    #[track_caller]
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        self.try_exactly(count).expect("more bytes")
    }

    /// Exactly the next `count` bytes, or why they did not come.
    ///
    /// # Errors
    /// [`ErrorKind::UnexpectedEof`] when the connection ended first, or what the socket says.
    pub fn try_exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.more()?;
        }
        Ok(self.take(count))
    }

    /// Some bytes, at most `most`, as soon as there are any; none at the end of the stream.
    ///
    /// # Errors
    /// What the socket says.
    pub fn try_some(&mut self, most: usize) -> io::Result<Vec<u8>> {
        if self.pending.is_empty() {
            match self.more() {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Vec::new()),
                other => other?,
            }
        }
        Ok(self.take(most.min(self.pending.len())))
    }

    /// Everything until the other side ends the connection, and how it did.
    #[track_caller]
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let (bytes, end) = self.rest_within(PATIENCE);
        assert_ne!(end, End::Open, "the connection stays open after {:?}", String::from_utf8_lossy(&bytes));
        (bytes, end)
    }

    /// Everything until the other side ends the connection or is silent for `limit`, and how it did.
    pub fn rest_within(&mut self, limit: Duration) -> (Vec<u8>, End) {
        self.stream.set_read_timeout(Some(limit)).expect("read timeout");
        let end = loop {
            match self.more() {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => break End::Closed,
                Err(e) if is_reset(&e) => break End::Reset,
                Err(_) => break End::Open,
            }
        };
        self.stream.set_read_timeout(Some(PATIENCE)).expect("read timeout");
        (self.take_all(), end)
    }

    /// Fails the test unless the other side closes without another byte.
    #[track_caller]
    pub fn expect_end(&mut self) {
        let (rest, _) = self.rest();
        assert!(rest.is_empty(), "bytes before the close: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Fails the test if there is anything to read, or an end, within `limit`.
    ///
    /// For proving that something does *not* happen; keep `limit` short.
    #[track_caller]
    pub fn expect_silence(&mut self, limit: Duration) {
        self.stream.set_read_timeout(Some(limit)).expect("read timeout");
        let outcome = self.more();
        self.stream.set_read_timeout(Some(PATIENCE)).expect("read timeout");
        let quiet =
            matches!(&outcome, Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(quiet && self.pending.is_empty(), "not silent: {outcome:?} {:?}", self.pending);
    }

    /// Says that nothing more will be sent; reading goes on.
    pub fn half_close(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("shutdown");
    }

    /// Makes the coming close a RST, as of a process that dies with unread data.
    pub(crate) fn make_close_a_reset(&self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("SO_LINGER");
    }

    /// Makes the receive buffer small, so that not reading is felt by the other side soon.
    pub fn small_receive_buffer(&mut self) {
        SockRef::from(&self.stream).set_recv_buffer_size(16 * 1024).expect("SO_RCVBUF");
    }

    /// A second handle on the same connection, to send from another thread.
    pub fn second_hand(&self) -> Wire {
        Wire { stream: self.stream.try_clone().expect("dup"), pending: Vec::new() }
    }

    /// The body that `framing` announces; with an error, what had come so far.
    pub(crate) fn payload(&mut self, framing: Framing) -> Result<Payload, (Vec<u8>, io::Error)> {
        match framing {
            Framing::Empty => Ok(Payload { bytes: Vec::new(), trailers: Vec::new() }),
            Framing::Length(count) => self.counted(count as usize),
            Framing::UntilClose => self.closing(),
            Framing::Chunked => self.chunked(),
        }
    }

    fn counted(&mut self, count: usize) -> Result<Payload, (Vec<u8>, io::Error)> {
        match self.try_exactly(count) {
            Ok(bytes) => Ok(Payload { bytes, trailers: Vec::new() }),
            Err(error) => Err((self.take_all(), error)),
        }
    }

    fn closing(&mut self) -> Result<Payload, (Vec<u8>, io::Error)> {
        loop {
            match self.more() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(Payload { bytes: self.take_all(), trailers: Vec::new() });
                }
                Err(error) => return Err((self.take_all(), error)),
            }
        }
    }

    fn chunked(&mut self) -> Result<Payload, (Vec<u8>, io::Error)> {
        let mut bytes = Vec::new();
        loop {
            match self.chunk() {
                Ok(chunk) if chunk.is_empty() => break,
                Ok(chunk) => bytes.extend(chunk),
                Err(error) => return Err((bytes, error)),
            }
        }
        match self.trailers() {
            Ok(trailers) => Ok(Payload { bytes, trailers }),
            Err(error) => Err((bytes, error)),
        }
    }

    /// One chunk's data; empty for the last chunk.
    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let line = self.line()?;
        let size = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("chunk size {line:?}"));
        if size == 0 {
            return Ok(Vec::new());
        }
        let data = self.try_exactly(size)?;
        assert_eq!(self.try_exactly(2)?, b"\r\n", "a chunk ends with CRLF");
        Ok(data)
    }

    fn trailers(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut raw = b"trailers\r\n".to_vec();
        loop {
            let line = self.line()?;
            raw.extend_from_slice(line.as_bytes());
            raw.extend_from_slice(b"\r\n");
            if line.is_empty() {
                // `Head::parse` wants an empty line after a start line, also when there is no field.
                return Ok(Head::parse(&raw).fields);
            }
        }
    }

    /// The next line without its CRLF.
    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                let mut line = self.take(at + 2);
                line.truncate(at);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            self.more()?;
        }
    }

    /// Waits for more bytes.
    fn more(&mut self) -> io::Result<()> {
        let mut space = [0; 64 * 1024];
        let count = self.stream.read(&mut space)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.pending.extend_from_slice(&space[..count]);
        Ok(())
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.pending.split_off(count);
        std::mem::replace(&mut self.pending, rest)
    }

    fn take_all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
