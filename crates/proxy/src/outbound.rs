//! Writes one HTTP/1 message: the head, then the body in the framing that was announced (RFC 9112 §6, §7). Responses
//! to clients and requests to origins alike.
//!
//! What must hold: what is sent is framed as announced, and a message whose body cannot be completed is never given an
//! end: its length is not reached, or its last chunk is missing. Head and first body bytes leave together.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::ops::Range;

use pump::splice::Limits;
use pump::{Patience, Socket, Stopped, Turn, Watch, memory, sendfile, splice};
use sys::pipe::PipePool;

use crate::body::{Broken, Inbound, Span};
use crate::metrics::{Route, WorkerMetrics};

/// How the end of the body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// There is no body: the head says all.
    None,
    /// By `Content-Length`: this many bytes are left.
    Length(u64),
    /// By the chunked coding.
    Chunked,
    /// By the end of the connection (to HTTP/1.0 clients, when the length is not known).
    UntilClose,
}

/// What the moves need, and where the ledger counts.
#[derive(Clone, Copy)]
pub struct Means<'w> {
    /// The thread's counters.
    pub metrics: &'w WorkerMetrics,
    /// The thread's pipes.
    pub pipes: &'w PipePool,
    /// Whether payload counts as response body bytes.
    pub is_response: bool,
}

/// Why a message could not be completed.
#[derive(Debug)]
pub enum Unfinished {
    /// Whoever receives it left, stalled or failed.
    Receiver(Stopped),
    /// The body's source did, in the way named.
    Source(&'static str),
    /// A device does not give the bytes, in the way named: who has them elsewhere can go on behind what was sent.
    Device(&'static str),
}

/// A message being written.
pub struct Outbound<'c> {
    socket: &'c Socket,
    watch: &'c Watch,
    patience: Patience,
    means: Means<'c>,
    /// Bytes that go out before the next payload: the head, chunk framing, small payloads.
    /// Queue: payload that is copied, of one message.
    held: Vec<u8>,
    outgoing: Outgoing,
    /// Of what was announced, as a chunk where the body is chunked: payload not yet sent.
    chunk_left: u64,
    sent: Cell<u64>,
    /// Payload sent since the others on the thread had their turn.
    turn: Turn,
}

/// Payloads up to this are gathered with their framing rather than sent one by one.
const GATHER_UP_TO: usize = 4096;

/// Payload per received buffer where the copy route is taken.
const HELD_MAX: usize = 64 * 1024;

impl<'c> Outbound<'c> {
    /// A message that begins with `head`, whose fields announce `outgoing`.
    #[must_use]
    pub fn new(
        socket: &'c Socket,
        watch: &'c Watch,
        patience: Patience,
        means: Means<'c>,
        head: Vec<u8>,
        outgoing: Outgoing,
    ) -> Self {
        Self {
            socket,
            watch,
            patience,
            means,
            held: head,
            outgoing,
            chunk_left: 0,
            sent: Cell::new(0),
            turn: Turn::default(),
        }
    }

    /// Payload bytes sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// How the body's end is told.
    #[must_use]
    pub fn outgoing(&self) -> Outgoing {
        self.outgoing
    }

    /// Sends payload from user memory, counted under `route`. `more`: the next payload is at hand.
    ///
    /// # Errors
    /// [`Unfinished::Receiver`].
    pub async fn bytes(&mut self, payload: &[u8], route: Route, more: bool) -> Result<(), Unfinished> {
        if payload.is_empty() {
            return Ok(());
        }
        self.open(payload.len() as u64);
        if more && payload.len() <= GATHER_UP_TO && self.held.len() <= HELD_MAX {
            self.held.extend_from_slice(payload);
        } else {
            let held = std::mem::take(&mut self.held);
            let sent = memory::send_two(self.socket, &held, payload, more, self.watch, &self.patience).await;
            self.keep_allocation(held);
            sent.map_err(Unfinished::Receiver)?;
        }
        self.close(payload.len() as u64, route);
        self.turn.moved(payload.len() as u64).await;
        Ok(())
    }

    /// Sends as much payload as the socket takes now, and says how much that was.
    ///
    /// # Errors
    /// [`Unfinished::Receiver`].
    pub fn try_bytes(&mut self, payload: &[u8], route: Route) -> Result<usize, Unfinished> {
        if self.chunk_left == 0 {
            self.open(payload.len() as u64);
            self.chunk_left = payload.len() as u64;
        }
        let most = payload.len().min(usize::try_from(self.chunk_left).unwrap_or(usize::MAX));
        let parts = [IoSlice::new(&self.held), IoSlice::new(&payload[..most])];
        let parts = if self.held.is_empty() { &parts[1..] } else { &parts[..] };
        let sent = match self.socket.try_send(parts, false) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(self.gone(e)),
        };
        let of_held = sent.min(self.held.len());
        self.held.drain(..of_held);
        let n = sent - of_held;
        self.chunk_left -= n as u64;
        self.count_payload(n as u64, route);
        if self.chunk_left == 0 && self.outgoing == Outgoing::Chunked {
            self.held.extend_from_slice(wire::chunked::CHUNK_END);
        }
        Ok(n)
    }

    /// Waits until the socket takes bytes again.
    ///
    /// # Errors
    /// [`Unfinished::Receiver`].
    pub async fn writable(&self) -> Result<(), Unfinished> {
        let writable = pump::pace::until_writable(self.socket, self.watch, &self.patience).await;
        writable.map_err(|why| Unfinished::Receiver(Stopped { side: pump::Side::To, why, moved: 0 }))
    }

    /// Waits until the receiver resets the connection. Its ordinary end says nothing: it may still want the response.
    pub async fn reset(&self) -> Unfinished {
        match std::future::poll_fn(|cx| self.socket.poll_readable(cx)).await {
            Err(error) => self.gone(error),
            Ok(()) => std::future::pending().await,
        }
    }

    fn gone(&self, error: io::Error) -> Unfinished {
        Unfinished::Receiver(Stopped { side: pump::Side::To, why: pump::Why::Failed(error), moved: 0 })
    }

    /// Sends `length` resident bytes of `device` from byte `offset` on. `resident` sees to it that what is left of them
    /// is so again, after the socket was full for a while.
    ///
    /// # Errors
    /// [`Unfinished`].
    pub async fn device(
        &mut self,
        device: impl std::os::fd::AsFd,
        offset: u64,
        length: u64,
        resident: impl AsyncFnMut(Range<u64>) -> io::Result<()>,
    ) -> Result<(), Unfinished> {
        self.open(length);
        self.flush(true).await?;
        let (to, watch, patience) = (self.socket, self.watch, &self.patience);
        match sendfile::sendfile(device, offset, length, to, watch, patience, resident).await {
            Ok(()) => {
                self.close(length, Route::Sendfile);
                self.turn.moved(length).await;
            }
            Err(stopped) => {
                self.close(stopped.moved, Route::Sendfile);
                return Err(match (stopped.side, &stopped.why) {
                    (pump::Side::To, _) => Unfinished::Receiver(stopped),
                    (pump::Side::From, pump::Why::Ended) => Unfinished::Device("device-ended"),
                    (pump::Side::From, _) => Unfinished::Device("device-error"),
                });
            }
        }
        Ok(())
    }

    /// Moves the whole of `inbound`'s payload, each span on its best route, and ends the message.
    ///
    /// # Errors
    /// [`Unfinished`].
    pub async fn relay(
        &mut self,
        inbound: &mut Inbound,
        from: &Socket,
        patience: &Patience,
    ) -> Result<(), Unfinished> {
        loop {
            let span = match inbound.at_hand() {
                Ok(Some(span)) => span,
                // An origin that has not seen a request is not shown a broken one.
                Err(broken) if !self.means.is_response => return Err(self.broken(broken)),
                at_hand => {
                    // What came goes out before anything is waited for, or is found broken.
                    self.flush(false).await?;
                    at_hand.map_err(|b| self.broken(b))?;
                    inbound.next(from, self.watch, patience).await.map_err(|b| self.broken(b))?
                }
            };
            match span {
                Span::End => return self.end(&inbound.trailers().fields()).await,
                Span::InWindow(n) => {
                    let more = n < inbound.window.filled().len();
                    self.bytes(&inbound.window.filled()[..n], Route::Copy, more).await?;
                    self.means.metrics.user_copied(n as u64);
                    inbound.used(n);
                }
                Span::OnSocket(n) => self.move_from_socket(inbound, from, n, patience).await?,
            }
        }
    }

    /// Moves `n` payload bytes (`u64::MAX`: until the end) that are next in `from`'s queue.
    async fn move_from_socket(
        &mut self,
        inbound: &mut Inbound,
        from: &Socket,
        n: u64,
        patience: &Patience,
    ) -> Result<(), Unfinished> {
        use pump::route::{Source, route};
        if route(Source::Socket, n, self.socket.abilities()) == Route::Splice
            && let Ok(mut pipe) = self.means.pipes.take()
        {
            return match n {
                u64::MAX => self.splice_to_end(inbound, from, &mut pipe, patience).await,
                n => self.splice_exactly(inbound, from, n, &mut pipe, patience).await,
            };
        }
        self.flush(false).await?;
        let received = inbound.receive(from, usize::MAX, self.watch, patience).await;
        received.map_err(|why| self.broken(Broken::Sender(why)))
    }

    async fn splice_exactly(
        &mut self,
        inbound: &mut Inbound,
        from: &Socket,
        n: u64,
        pipe: &mut sys::pipe::Pipe,
        patience: &Patience,
    ) -> Result<(), Unfinished> {
        self.open(n);
        self.flush(true).await?;
        let more = matches!(self.outgoing, Outgoing::Chunked);
        let limits = Limits { from: patience, to: &self.patience };
        match splice::splice(from, self.socket, n, more, pipe, self.watch, limits).await {
            Ok(()) => {
                inbound.moved(n);
                self.close(n, Route::Splice);
                Ok(())
            }
            Err(stopped) => {
                self.count(stopped.moved, Route::Splice);
                Err(self.unfinished(stopped))
            }
        }
    }

    /// A body that ends with its connection: what the pipe takes at once becomes one chunk.
    async fn splice_to_end(
        &mut self,
        inbound: &mut Inbound,
        from: &Socket,
        pipe: &mut sys::pipe::Pipe,
        patience: &Patience,
    ) -> Result<(), Unfinished> {
        self.flush(false).await?;
        loop {
            let n = match splice::take(from, pipe, u64::MAX, self.watch, patience).await {
                Ok(n) => n,
                Err(pump::Why::Ended) => {
                    inbound.ended();
                    return Ok(());
                }
                Err(why) => return Err(self.broken(Broken::Sender(why))),
            };
            self.open(n);
            self.flush(true).await?;
            let moved = splice::drain(pipe, self.socket, false, self.watch, &self.patience).await;
            moved.map_err(Unfinished::Receiver)?;
            self.close(n, Route::Splice);
            self.turn.moved(n).await;
        }
    }

    /// Ends the body. `trailers` are sent only in the chunked coding.
    ///
    /// # Errors
    /// [`Unfinished`]; also when fewer bytes came than were announced.
    pub async fn end(&mut self, trailers: &wire::Fields<'_>) -> Result<(), Unfinished> {
        match self.outgoing {
            Outgoing::Chunked => wire::chunked::write_end(&mut self.held, trailers),
            Outgoing::Length(left) if left > 0 => return Err(Unfinished::Source("body-too-short")),
            Outgoing::Length(_) | Outgoing::None | Outgoing::UntilClose => {}
        }
        self.flush(false).await
    }

    /// Sends what is held. `more`: payload follows at once.
    ///
    /// # Errors
    /// [`Unfinished::Receiver`].
    pub async fn flush(&mut self, more: bool) -> Result<(), Unfinished> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        let sent = memory::send(self.socket, &held, more, self.watch, &self.patience).await;
        self.keep_allocation(held);
        sent.map_err(Unfinished::Receiver)
    }

    fn keep_allocation(&mut self, mut held: Vec<u8>) {
        held.clear();
        self.held = held;
    }

    /// Framing before `n` payload bytes.
    fn open(&mut self, n: u64) {
        if self.outgoing == Outgoing::Chunked
            && self.chunk_left == 0
            && let Some(size) = NonZeroU64::new(n)
        {
            self.held.extend_from_slice(wire::chunked::chunk_header(size, &mut [0; 18]));
            self.chunk_left = n;
        }
    }

    /// The most payload that may be sent next: what is left of a chunk that was announced, however it comes.
    #[must_use]
    pub fn next_at_most(&self) -> u64 {
        match (self.outgoing, self.chunk_left) {
            (Outgoing::Chunked, left @ 1..) => left,
            _ => u64::MAX,
        }
    }

    /// Framing behind `n` payload bytes, and the ledger.
    fn close(&mut self, n: u64, route: Route) {
        if self.outgoing == Outgoing::Chunked && n > 0 {
            debug_assert!(n <= self.chunk_left, "more payload than the chunk has");
            self.chunk_left = self.chunk_left.saturating_sub(n);
            if self.chunk_left == 0 {
                self.held.extend_from_slice(wire::chunked::CHUNK_END);
            }
        }
        self.count_payload(n, route);
    }

    fn count_payload(&mut self, n: u64, route: Route) {
        if let Outgoing::Length(left) = &mut self.outgoing {
            debug_assert!(n <= *left, "more payload than announced");
            *left = left.saturating_sub(n);
        }
        self.count(n, route);
    }

    fn count(&self, n: u64, route: Route) {
        self.sent.set(self.sent.get() + n);
        if self.means.is_response {
            self.means.metrics.body_bytes(route, n);
        }
    }

    /// The words for a source that breaks off: an origin's response, or a client's request.
    fn broken(&self, broken: Broken) -> Unfinished {
        let is_response = self.means.is_response;
        let words = |of_response, of_request| if is_response { of_response } else { of_request };
        Unfinished::Source(match broken {
            Broken::Framing(refusal) => refusal.word(),
            Broken::Sender(pump::Why::Ended) => words("origin-ended-early", "client-ended-early"),
            Broken::Sender(pump::Why::Stalled) => words("origin-stalled", "client-body-timeout"),
            Broken::Sender(pump::Why::Failed(_)) => words("origin-failed", "client-failed"),
        })
    }

    fn unfinished(&self, stopped: Stopped) -> Unfinished {
        match stopped.side {
            pump::Side::To => Unfinished::Receiver(stopped),
            pump::Side::From => self.broken(Broken::Sender(stopped.why)),
        }
    }
}
