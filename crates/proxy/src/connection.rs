//! One client connection: request heads in, one exchange after another, until somebody ends it.
//!
//! What must hold: an idle connection holds no buffer; requests are answered in the order in which they came; a request
//! that was refused is answered and the connection closed, with what else had been received thrown away, because nobody
//! can say where the next request begins.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::IoSlice;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use pump::{Socket, Watch};
use wire::{HeadScan, HeadText};

use crate::admission::clients::Presence;
use crate::buffers::{NoRoom, Size, Window};
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
    /// Its part in what is held by all clients.
    pub presence: Presence,
    /// For how long it is not heard, because it was refused ([`crate::admission::refusals`]).
    pub rest: Cell<Duration>,
    /// Whether the socket may have inherited a filter from its listener ([`crate::admission::gate`]).
    is_heir: Cell<bool>,
    /// Bytes that go out before anything else: interim responses that the socket did not take.
    /// Queue: interim responses that a client does not take.
    unsent: RefCell<Vec<u8>>,
}

/// Bytes of interim responses that may wait for a client.
const UNSENT_MAX: usize = 64 * 1024;

impl Client {
    /// Makes an accepted connection ready for use.
    pub fn new(
        worker: &Rc<Worker>,
        mode: Mode,
        stream: TcpStream,
        peer: SocketAddr,
        presence: Presence,
        is_heir: bool,
    ) -> Self {
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
            presence,
            rest: Cell::default(),
            is_heir: Cell::new(is_heir),
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
    let mut window = worker.buffers.window(Size::Small);
    let mut turn = Turn::default();
    loop {
        if window.is_empty() && !idle(&worker, &client, &mut window, &mut turn).await {
            return;
        }
        turn.yield_when_over().await;
        worker = worker.up_to_date();
        match one_request(&worker, &client, window).await {
            ControlFlow::Continue(behind) => window = behind,
            ControlFlow::Break(()) => return,
        }
        let rest = client.rest.take();
        if !rest.is_zero() {
            Box::pin(tokio::time::sleep(rest)).await;
        }
    }
}

/// Requests that one connection may have answered before all others get their turn.
const REQUESTS_A_TURN: u32 = 32;

/// Sees to it that a client that pipelines without end does not keep the thread.
#[derive(Default)]
struct Turn {
    answered: u32,
    /// Whether the client was waited for before.
    spoken: bool,
}

impl Turn {
    /// The connection had to wait, so the others had their turn.
    fn waited(&mut self) {
        self.answered = 0;
    }

    async fn yield_when_over(&mut self) {
        if self.answered == REQUESTS_A_TURN {
            tokio::task::yield_now().await;
            self.answered = 0;
        }
        self.answered += 1;
    }
}

/// Waits for the first bytes of a request, without holding a buffer meanwhile; false when the connection ends.
async fn idle(worker: &Rc<Worker>, client: &Client, window: &mut Window, turn: &mut Turn) -> bool {
    let timeouts = &worker.shared.settings.timeouts;
    // Whoever connects has something to say; whoever has said something may think about the next.
    let first = timeouts.keep_alive.min(timeouts.client_head);
    let limit = if turn.spoken { timeouts.keep_alive } else { first };
    if turn.spoken && client.is_heir.take() {
        // It costs a little for each packet, but breaks nothing.
        let _ = sys::syn_filter::detach(client.socket.as_fd());
    }
    turn.spoken = true;
    window.resize(Size::Small);
    let since = worker.timers.now();
    let bytes = poll_fn(|cx| {
        if worker.draining.get() || worker.crowd.is_over(since, worker.timers.now(), limit) {
            return Poll::Ready(false);
        }
        let polled = window.poll_fill(cx, &client.socket, usize::MAX);
        if polled.is_pending() {
            turn.waited();
        }
        polled.map(|received| matches!(received, Ok(1..)))
    });
    client.watch.within(limit, bytes).await.unwrap_or(false)
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
        match more(worker, client, &mut window, started).await {
            More::Bytes => {}
            More::TooSlow if !scan.is_idle() => {
                Box::pin(last_words(worker, client, Made::too_slow(), started)).await;
                return ControlFlow::Break(());
            }
            More::NoMemory => {
                Box::pin(last_words(worker, client, Made::no_memory(), started)).await;
                return ControlFlow::Break(());
            }
            More::TooSlow | More::Ended => return ControlFlow::Break(()),
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

/// What came of waiting for more of a head.
enum More {
    /// There is more.
    Bytes,
    /// The connection has ended.
    Ended,
    /// The head's time is over.
    TooSlow,
    /// There is no memory for so long a head.
    NoMemory,
}

async fn more(worker: &Rc<Worker>, client: &Client, window: &mut Window, started: Instant) -> More {
    if window.is_full() {
        match window.grow(worker.shared.wire_limits.head_bytes + Size::Large.bytes()) {
            Ok(()) => {}
            Err(NoRoom::Memory) => return More::NoMemory,
            // Not reached: the scan refuses a head over its limit, for which there is room.
            Err(NoRoom::Limit) => return More::Ended,
        }
    }
    client.socket.acknowledge_at_once();
    let left = worker.shared.settings.timeouts.client_head.saturating_sub(started.elapsed());
    match client.watch.within(left, window.fill(&client.socket, usize::MAX)).await {
        Ok(Ok(1..)) => More::Bytes,
        Ok(_end_or_error) => More::Ended,
        Err(pump::Elapsed) => More::TooSlow,
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
    let mut window = worker.buffers.window(Size::Large);
    let drain = async {
        let mut left = LINGER_BYTES;
        while let Ok(n @ 1..) = window.fill(&client.socket, usize::MAX).await {
            window.consume(n);
            left = left.saturating_sub(n);
            if left == 0 {
                return;
            }
        }
    };
    // Whether the client ended or the moment passed makes no difference.
    let _ = client.watch.within(Duration::from_secs(2), drain).await;
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn size_of_future<A, B, F>(_: impl Fn(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// Whether a turn lets the next request through at once.
    fn goes_on(turn: &mut Turn) -> bool {
        let next = std::pin::pin!(turn.yield_when_over());
        next.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_turn_ends_after_its_requests_and_begins_anew_behind_a_wait() {
        let mut turn = Turn::default();
        for _ in 0..REQUESTS_A_TURN / 2 {
            assert!(goes_on(&mut turn));
        }
        turn.waited();
        for _ in 0..REQUESTS_A_TURN {
            assert!(goes_on(&mut turn));
        }
        assert!(!goes_on(&mut turn));
    }

    /// An idle connection is this future, two allocations of the runtime, and its watch.
    #[test]
    fn an_idle_connection_is_small() {
        let bytes = size_of_future(serve);
        assert!(bytes <= 1536, "{bytes} bytes");
    }
}
