//! A body that arrives on a connection: the framing is read, the payload is left where it is.
//!
//! [`Inbound::next`] says where the next payload bytes are: in the receive buffer already, or in the socket's queue,
//! from where the caller moves them as it likes. What must hold: no byte behind the body's end is ever taken for
//! payload, and what was received behind it stays in the window for the next message.

use pump::{Elapsed, Patience, Socket, Watch, Why};
use wire::Refusal;
use wire::chunked::{ChunkedDecoder, Step, Trailers};

use crate::buffers::Window;

/// Where a body ends.
pub enum Framing {
    /// After this many more payload bytes.
    Length(u64),
    /// Where the chunks say so.
    Chunked(Box<ChunkedDecoder>),
    /// With its connection.
    UntilClose,
}

/// The next payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// This many are at the front of [`Inbound::window`].
    InWindow(usize),
    /// This many are next in the socket's queue, or will be; `u64::MAX`: until it closes.
    OnSocket(u64),
    /// There are no more.
    End,
}

/// Why a body cannot be read on.
#[derive(Debug)]
pub enum Broken {
    /// Its framing is wrong.
    Framing(Refusal),
    /// Its sender ended, stalled or failed.
    Sender(Why),
}

/// Request bodies up to this are received and thrown away when nobody wants them, so that the connection can go on.
pub const DRAIN_BYTES: u64 = 64 * 1024;

/// A body and what of it has been received.
pub struct Inbound {
    framing: Framing,
    /// Bytes received and not used up.
    pub window: Window,
    done: bool,
    /// Whether anybody has begun to use it.
    begun: bool,
    trailers: Trailers,
}

/// Received at once while chunk framing is read: little, when the chunks are large enough to be moved by the kernel.
const FRAMING_READ_BYTES: usize = 512;

impl Inbound {
    /// The body that begins at the front of `window`.
    #[must_use]
    pub fn new(framing: Framing, window: Window) -> Self {
        let done = matches!(framing, Framing::Length(0));
        Self { framing, window, done, begun: false, trailers: Trailers::default() }
    }

    /// Payload bytes still to come, where that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Whether the whole body has been used up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether so much is left, or may be, that the connection had better end: anything but a short body that is not
    /// begun. (A short one is received and thrown away.)
    #[must_use]
    pub fn is_unread(&self) -> bool {
        let short = matches!(self.framing, Framing::Length(n) if n <= DRAIN_BYTES);
        !self.done && (self.begun || !short)
    }

    /// Whether the end of the connection is the end of the body.
    #[must_use]
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.framing, Framing::UntilClose)
    }

    /// The trailer section behind a chunked body; empty before its end.
    #[must_use]
    pub fn trailers(&self) -> &Trailers {
        &self.trailers
    }

    /// What was received behind the body's end.
    #[must_use]
    pub fn into_window(self) -> Window {
        self.window
    }

    /// Finds the next payload. Receives only where chunk framing has to be read.
    ///
    /// # Errors
    /// [`Broken`]: the body cannot be read on.
    pub async fn next(
        &mut self,
        socket: &Socket,
        watch: &Watch,
        patience: &Patience,
    ) -> Result<Span, Broken> {
        loop {
            if let Some(span) = self.at_hand()? {
                return Ok(span);
            }
            let most = if self.window.filled().is_empty() { FRAMING_READ_BYTES } else { usize::MAX };
            self.receive(socket, most, watch, patience).await.map_err(Broken::Sender)?;
        }
    }

    /// What [`Self::next`] would give without receiving; `None` when framing is missing.
    ///
    /// # Errors
    /// [`Broken::Framing`].
    pub fn at_hand(&mut self) -> Result<Option<Span>, Broken> {
        self.begun = true;
        if self.done {
            return Ok(Some(Span::End));
        }
        let next = match &mut self.framing {
            Framing::Length(left) => *left,
            Framing::UntilClose => u64::MAX,
            Framing::Chunked(_) => return self.read_framing(),
        };
        Ok(Some(self.span_of(next)))
    }

    /// Receives up to `most` bytes behind those in the window.
    ///
    /// # Errors
    /// Why nothing came. The end of the connection is the end of a body that is delimited by it.
    pub async fn receive(
        &mut self,
        socket: &Socket,
        most: usize,
        watch: &Watch,
        patience: &Patience,
    ) -> Result<(), Why> {
        match watch.patiently(patience, self.window.fill(socket, most)).await {
            Ok(Ok(n @ 1..)) => {
                patience.moved(n as u64);
                Ok(())
            }
            Ok(Ok(0)) if self.ends_with_connection() => {
                self.done = true;
                Ok(())
            }
            Ok(Ok(0)) => Err(Why::Ended),
            Ok(Err(error)) => Err(Why::Failed(error)),
            Err(Elapsed) => Err(Why::Stalled),
        }
    }

    /// The caller used the first `n` payload bytes of the window.
    pub fn used(&mut self, n: usize) {
        self.window.consume(n);
        self.moved(n as u64);
    }

    /// The caller moved `n` payload bytes off the socket.
    pub fn moved(&mut self, n: u64) {
        match &mut self.framing {
            Framing::Length(left) => {
                *left = left.saturating_sub(n);
                self.done = *left == 0;
            }
            Framing::Chunked(decoder) => decoder.payload_moved(n),
            Framing::UntilClose => {}
        }
    }

    /// The socket ended behind a body that is delimited by that.
    pub fn ended(&mut self) {
        self.done = true;
    }

    fn span_of(&self, next: u64) -> Span {
        let here = self.window.filled().len();
        if here == 0 {
            return Span::OnSocket(next);
        }
        Span::InWindow(here.min(usize::try_from(next).unwrap_or(usize::MAX)))
    }

    /// Reads chunk framing from the window until payload, the end, or nothing more.
    fn read_framing(&mut self) -> Result<Option<Span>, Broken> {
        let Framing::Chunked(decoder) = &mut self.framing else { return Ok(None) };
        match decoder.next(self.window.filled()).map_err(Broken::Framing)? {
            Step::NeedMore { consumed } => {
                self.window.consume(consumed);
                Ok(None)
            }
            Step::Payload { consumed, len } => {
                self.window.consume(consumed);
                Ok(Some(self.span_of(len)))
            }
            Step::Done { consumed, trailers } => {
                self.trailers = trailers;
                self.window.consume(consumed);
                self.done = true;
                Ok(Some(Span::End))
            }
        }
    }
}
