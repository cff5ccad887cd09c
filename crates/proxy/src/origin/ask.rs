//! One request to an origin, and the head of its response.
//!
//! What must hold: the request goes out once, except that one which can be replayed goes out a second time when a
//! reused connection turns out dead; interim responses (1xx) reach the client before the final one, and never come
//! into the middle of one; a response that comes before the request body is through ends the sending of it.

use std::rc::Rc;
use std::time::Instant;

use pump::{Socket, Watch};
use wire::{HeadScan, Version};

use super::pool::Connection;
use super::{Endpoint, OriginError};
use crate::admission::level::Cost;
use crate::admission::requests;
use crate::body::Inbound;
use crate::buffers::{NoRoom, Size, Window};
use crate::connection::Client;
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::worker::Worker;

/// What is to be asked.
pub struct Ask<'a> {
    /// Whom, in the order in which to try.
    pub endpoints: &'a [Rc<Endpoint>],
    /// The request head as it goes out, blank line included.
    pub head: &'a [u8],
    /// The request body and how it goes out.
    pub body: Option<(&'a mut Inbound, Outgoing)>,
    /// Whether the request may go out twice: an idempotent method, and no body that is used up by sending it.
    pub replayable: bool,
    /// On whose behalf.
    pub behalf: Behalf<'a>,
}

/// On whose behalf an origin is asked.
#[derive(Clone, Copy)]
pub enum Behalf<'a> {
    /// On that of a client of this version which has nothing of the answer yet: interim responses go to it.
    Client(&'a Client, Version),
    /// On that of a client which has the beginning of the answer: what was begun is not refused.
    Begun,
    /// Of nobody who waits.
    Nobody,
}

/// A response whose head, and perhaps more, is in the window.
pub struct Answer {
    /// Where the rest will come from.
    pub connection: Connection,
    /// Begins with the whole head of a final response.
    pub window: Window,
    /// Whether the request body was sent to its end; otherwise the connection is of no further use.
    pub request_sent: bool,
}

/// Asks, and waits for the response head.
///
/// # Errors
/// Why there is none.
pub async fn ask(worker: &Rc<Worker>, watch: &Watch, mut ask: Ask<'_>) -> Result<Answer, OriginError> {
    let connection = any_connection(worker, watch, &ask).await?;
    let again = connection.reused && ask.replayable;
    let endpoint = Rc::clone(&connection.endpoint);
    match attempt(worker, watch, connection, &mut ask).await {
        Err(error) if again && error.is_stale_connection() => {
            let fresh = worker.origins.new_connection(&endpoint, watch).await?;
            attempt(worker, watch, fresh, &mut ask).await
        }
        outcome => outcome,
    }
}

/// A connection to the first of the endpoints that takes one.
async fn any_connection(
    worker: &Rc<Worker>,
    watch: &Watch,
    ask: &Ask<'_>,
) -> Result<Connection, OriginError> {
    let asked_for = Instant::now();
    let may_open = || match ask.behalf {
        Behalf::Client(client, _) => requests::admit(worker, Some(client), Cost::NewConnection, asked_for),
        Behalf::Begun => Ok(()),
        Behalf::Nobody => requests::admit(worker, None, Cost::NewConnection, asked_for),
    };
    if !matches!(ask.behalf, Behalf::Begun) {
        worker.turns.mine().await;
        requests::in_time(worker, asked_for).map_err(OriginError::Shed)?;
    }
    let mut last = OriginError::NoOrigin;
    for endpoint in ask.endpoints {
        match worker.origins.connection(endpoint, watch, may_open).await {
            Ok(connection) => return Ok(connection),
            Err(shed @ OriginError::Shed(_)) => last = shed,
            Err(error) => {
                tracing::warn!(origin = %endpoint, %error, "no connection");
                last = error;
            }
        }
    }
    Err(last)
}

async fn attempt(
    worker: &Rc<Worker>,
    watch: &Watch,
    connection: Connection,
    ask: &mut Ask<'_>,
) -> Result<Answer, OriginError> {
    worker.metrics.origin_request();
    let mut window = None;
    let (socket, behalf) = (&connection.socket, ask.behalf);
    let request_sent = match &mut ask.body {
        None => {
            pump::memory::send(socket, ask.head, false, watch, &worker.with_origin())
                .await
                .map_err(sending_failed)?;
            wait_for_head(worker, watch, socket, &mut window, behalf).await?;
            true
        }
        Some((body, outgoing)) => {
            send_and_wait(worker, watch, socket, &mut window, ask.head, (body, *outgoing), behalf).await?
        }
    };
    let window = window.ok_or(OriginError::Ended)?;
    Ok(Answer { connection, window, request_sent })
}

/// Sends head and body while listening for a response; gives whether the body went out whole.
async fn send_and_wait(
    worker: &Rc<Worker>,
    watch: &Watch,
    socket: &Socket,
    window: &mut Option<Window>,
    head: &[u8],
    (body, outgoing): (&mut Inbound, Outgoing),
    behalf: Behalf<'_>,
) -> Result<bool, OriginError> {
    let Behalf::Client(from, _) = behalf else { return Err(OriginError::ClientBody("no-client")) };
    let (patience, means) = (worker.with_origin(), worker.request_means());
    let mut outbound = Outbound::new(socket, watch, patience, means, head.to_vec(), outgoing);
    let from_client = worker.from_client();
    let listening = worker.timers.watch();
    let mut sending = std::pin::pin!(outbound.relay(body, &from.socket, &from_client));
    let early = tokio::select! {
        biased;
        sent = &mut sending => Err(sent),
        came = readable_head(worker, &listening, socket, window, behalf) => Ok(came),
    };
    match early {
        Ok(came) => came.map(|()| false),
        Err(Ok(())) => wait_for_head(worker, watch, socket, window, behalf).await.map(|()| true),
        Err(Err(Unfinished::Source(word) | Unfinished::Device(word))) => Err(OriginError::ClientBody(word)),
        // The origin may have answered and closed without reading on (413, say): look for that answer.
        Err(Err(Unfinished::Receiver(_))) => {
            wait_for_head(worker, watch, socket, window, behalf).await.map(|()| false)
        }
    }
}

/// Waits for the final head without a limit: while the request is being sent, its own limits hold.
async fn readable_head(
    worker: &Rc<Worker>,
    watch: &Watch,
    socket: &Socket,
    window: &mut Option<Window>,
    behalf: Behalf<'_>,
) -> Result<(), OriginError> {
    std::future::poll_fn(|cx| socket.poll_readable(cx)).await.map_err(OriginError::Failed)?;
    wait_for_head(worker, watch, socket, window, behalf).await
}

/// Receives until a whole final response head is at the front of `window`; interim ones go to who can take them.
async fn wait_for_head(
    worker: &Rc<Worker>,
    watch: &Watch,
    socket: &Socket,
    window: &mut Option<Window>,
    behalf: Behalf<'_>,
) -> Result<(), OriginError> {
    let limit = worker.shared.settings.timeouts.origin_first_byte;
    let arrives = async {
        for _ in 0..=INTERIM_MAX {
            let window = receive_head(worker, socket, window).await?;
            let Some(interim) = interim_head(window, &worker.shared.wire_limits)? else { return Ok(()) };
            if let Behalf::Client(client, Version::Http11) = behalf
                && !client.interim(&interim.line_and_fields)
            {
                return Err(OriginError::Babbling);
            }
            window.consume(interim.len);
        }
        Err(OriginError::Babbling)
    };
    watch.within(limit, arrives).await.unwrap_or(Err(OriginError::Silent))
}

/// Receives until a whole head is at the front of the window. The window is taken when the first bytes are there: until
/// then a waiting request holds none, and the bytes come into one that is still in the processor's cache.
async fn receive_head<'w>(
    worker: &Rc<Worker>,
    socket: &Socket,
    window: &'w mut Option<Window>,
) -> Result<&'w mut Window, OriginError> {
    let limits = &worker.shared.wire_limits;
    let window = match window {
        Some(window) => window,
        none => none.insert(first_bytes(worker, socket).await?),
    };
    let mut scan = HeadScan::response();
    while scan.advance(window.filled(), limits).map_err(OriginError::Protocol)?.is_none() {
        if window.is_full() {
            window.grow(limits.head_bytes + Size::Large.bytes()).map_err(|no_room| match no_room {
                NoRoom::Memory => OriginError::NoMemory,
                NoRoom::Limit => OriginError::Protocol(wire::Refusal::HeadTooLong),
            })?;
        }
        match window.fill(socket, usize::MAX).await {
            Ok(0) if window.is_empty() => return Err(OriginError::Ended),
            Ok(1..) => {}
            Ok(_) | Err(_) => return Err(OriginError::CutShort),
        }
    }
    Ok(window)
}

async fn first_bytes(worker: &Rc<Worker>, socket: &Socket) -> Result<Window, OriginError> {
    let mut window = worker.buffers.window(Size::Large);
    match window.fill(socket, usize::MAX).await {
        Ok(0) => Err(OriginError::Ended),
        Ok(_) => Ok(window),
        Err(error) => Err(OriginError::Failed(error)),
    }
}

/// Interim responses that one request may bring.
const INTERIM_MAX: usize = 64;

struct Interim {
    line_and_fields: Vec<u8>,
    len: usize,
}

/// The 1xx head at the front of `window`, if it is one. 101 is final: the connection changes its protocol.
fn interim_head(window: &Window, limits: &wire::Limits) -> Result<Option<Interim>, OriginError> {
    const STATUS_AT: usize = "HTTP/1.1 ".len();
    if window.filled().get(STATUS_AT) != Some(&b'1') {
        return Ok(None);
    }
    let parsed = wire::parse::response(window.filled(), limits).map_err(OriginError::Protocol)?;
    let wire::Parsed::Complete { head, len } = parsed else { return Ok(None) };
    if head.status == 101 || !(100..200).contains(&head.status) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(len);
    wire::write::status_line(&mut out, head.status, head.reason);
    for field in wire::fields::end_to_end(&head.fields) {
        wire::write::field(&mut out, field.name, field.value);
    }
    wire::write::end_head(&mut out);
    Ok(Some(Interim { line_and_fields: out, len }))
}

fn sending_failed(stopped: pump::Stopped) -> OriginError {
    match stopped.why {
        pump::Why::Failed(error) => OriginError::Failed(error),
        pump::Why::Ended => OriginError::Ended,
        pump::Why::Stalled => OriginError::Silent,
    }
}
