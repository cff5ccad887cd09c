//! One client connection: request heads in, one exchange after another, until somebody ends it.
//!
//! What must hold: an idle connection holds no buffer; requests are answered in the order in which they came; a request
//! that was refused is answered and the connection closed, with what else had been received thrown away, because nobody
//! can say where the next request begins.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use pump::{Socket, Watch};
use wire::{HeadScan, HeadText};

use crate::buffers::Window;
use crate::exchange::{self, After, Begun};
use crate::respond::{self, Made};
use crate::settings::Mode;
use crate::worker::Worker;

/// A client, as one connection shows it.
pub struct Client {
    /// The stream.
    pub socket: Socket,
    /// For the waits of this connection, one at a time.
    pub watch: Watch,
    /// Who it is.
    pub peer: SocketAddr,
    /// What we are to it.
    pub mode: Mode,
    /// Whether it may use us so.
    pub allowed: bool,
    /// Bytes that go out before anything else: interim responses that the socket did not take.
    unsent: RefCell<Vec<u8>>,
}

/// Bytes of interim responses that may wait for a client.
const UNSENT_MAX: usize = 64 * 1024;

impl Client {
    /// Makes an accepted connection ready for use.
    pub fn new(worker: &Rc<Worker>, mode: Mode, stream: TcpStream, peer: SocketAddr) -> Self {
        let allowed = match mode {
            Mode::Reverse => true,
            Mode::Forward => {
                let address = peer.ip().to_canonical();
                worker.shared.settings.forward.allow.iter().any(|network| network.contains(&address))
            }
        };
        Self {
            socket: Socket::new(stream),
            watch: worker.timers.watch(),
            peer,
            mode,
            allowed,
            unsent: RefCell::default(),
        }
    }
}

impl Client {
    /// Sends an interim response, as far as the socket takes it; the rest goes out before the next one. Never waits, so
    /// nobody can cut it in two. False when too much is waiting already.
    #[must_use]
    pub fn interim(&self, head: &[u8]) -> bool {
        let mut unsent = self.unsent.borrow_mut();
        unsent.extend_from_slice(head);
        // A failed socket is found out by the final response.
        let sent = self.socket.try_send(&[IoSlice::new(&unsent)], false).unwrap_or(0);
        unsent.drain(..sent);
        unsent.len() <= UNSENT_MAX
    }

    /// A final response head with what has to go out before it.
    #[must_use]
    pub fn behind_interim(&self, head: Vec<u8>) -> Vec<u8> {
        let mut unsent = self.unsent.take();
        if unsent.is_empty() {
            return head;
        }
        unsent.extend_from_slice(&head);
        unsent
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics.connection_closed();
    }
}

/// Serves `client` until its connection ends.
pub async fn serve(mut worker: Rc<Worker>, client: Client) {
    worker.metrics.connection_opened();
    let _counted = Counted(Rc::clone(&worker));
    let mut received = None;
    loop {
        let window = match received.take() {
            Some(window) => window,
            None => match idle(&worker, &client).await {
                Some(window) => window,
                None => return,
            },
        };
        worker = worker.up_to_date();
        match one_request(&worker, &client, window).await {
            ControlFlow::Continue(window) => received = Some(window).filter(|w| !w.filled().is_empty()),
            ControlFlow::Break(()) => return,
        }
    }
}

/// Waits for the first bytes of a request, without holding a buffer meanwhile; `None` when the connection ends.
async fn idle(worker: &Rc<Worker>, client: &Client) -> Option<Window> {
    let bytes = poll_fn(|cx| {
        if worker.draining.get() {
            return Poll::Ready(None);
        }
        let mut window = worker.buffers.window();
        match client.socket.poll_recv(cx, window.room(usize::MAX)) {
            Poll::Ready(Ok(n)) if n > 0 => {
                window.filled_more(n);
                Poll::Ready(Some(window))
            }
            Poll::Ready(_end_or_error) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    client.watch.within(worker.shared.settings.timeouts.keep_alive, bytes).await.ok().flatten()
}

/// Reads one request head from `window` on, answers it, and gives back what was received behind it.
async fn one_request(worker: &Rc<Worker>, client: &Client, mut window: Window) -> ControlFlow<(), Window> {
    let started = Instant::now();
    let limits = &worker.shared.wire_limits;
    let mut scan = HeadScan::request();
    loop {
        match scan.advance(window.filled(), limits) {
            Ok(Some(text)) => {
                let behind = &window.filled()[text.len()..];
                let head_len = text.len();
                let after = match begin(worker, client, &text, behind, started) {
                    Begun::Ended(after) => after,
                    Begun::Continues(exchange) => exchange.await,
                };
                return match after {
                    After::KeepAlive { consumed } => {
                        let used = head_len + consumed;
                        window.consume(used);
                        ControlFlow::Continue(window)
                    }
                    After::Continue(window) => ControlFlow::Continue(window),
                    After::Close => {
                        Box::pin(linger(worker, client)).await;
                        ControlFlow::Break(())
                    }
                    After::Gone => ControlFlow::Break(()),
                };
            }
            Ok(None) => {}
            Err(refusal) => {
                Box::pin(last_words(worker, client, Made::refused(refusal), started)).await;
                return ControlFlow::Break(());
            }
        }
        if !more(worker, client, &mut window, started).await {
            if !scan.is_idle() && started.elapsed() >= worker.shared.settings.timeouts.client_head {
                Box::pin(last_words(worker, client, Made::too_slow(), started)).await;
            }
            return ControlFlow::Break(());
        }
    }
}

fn begin<'x>(
    worker: &'x Rc<Worker>,
    client: &'x Client,
    text: &HeadText<'x>,
    behind: &'x [u8],
    started: Instant,
) -> Begun<'x> {
    match wire::parse::request_head(text, &worker.shared.wire_limits) {
        Ok(head) => exchange::begin(worker, client, head, behind, started),
        Err(refusal) => Begun::refused(worker, client, refusal, started),
    }
}

/// Receives more of a head; false when the connection has ended or the head's time is over.
async fn more(worker: &Rc<Worker>, client: &Client, window: &mut Window, started: Instant) -> bool {
    if window.is_full() && !window.grow(worker.shared.wire_limits.head_bytes + crate::buffers::BUFFER_BYTES) {
        return false;
    }
    let left = worker.shared.settings.timeouts.client_head.saturating_sub(started.elapsed());
    match client.watch.within(left, client.socket.recv(window.room(usize::MAX))).await {
        Ok(Ok(n)) if n > 0 => {
            window.filled_more(n);
            true
        }
        _ => false,
    }
}

/// Tells a client why its connection ends, and ends it so that it can read that.
async fn last_words(worker: &Rc<Worker>, client: &Client, made: Made, started: Instant) {
    respond::unreadable(worker, client, &made, started).await;
    linger(worker, client).await;
}

/// Bytes thrown away at most before a connection is closed under a client that still sends.
const LINGER_BYTES: usize = 1 << 20;

/// Ends our direction and reads on for a moment: closing with unread bytes in the queue would reset the connection,
/// and the client would lose the response that tells it why (RFC 9112 §9.6).
async fn linger(worker: &Rc<Worker>, client: &Client) {
    if client.socket.shutdown_write().is_err() {
        return;
    }
    let mut window = worker.buffers.window();
    let drain = async {
        let mut left = LINGER_BYTES;
        while let Ok(n @ 1..) = client.socket.recv(window.room(usize::MAX)).await {
            left = left.saturating_sub(n);
            if left == 0 {
                return;
            }
        }
    };
    // Whether the client ended or the moment passed makes no difference.
    let _ = client.watch.within(std::time::Duration::from_secs(2), drain).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// An idle connection is this future, two allocations of the runtime, and its watch.
    #[test]
    fn an_idle_connection_is_small() {
        let bytes = size_of_future(serve);
        assert!(bytes <= 1536, "{bytes} bytes");
    }
}
