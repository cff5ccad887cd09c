//! Asking the origin: what goes out, what the answer means, and who gets it.
//!
//! [`settle`] asks and decides; [`lead`] does so for a client whose response others may wait for, [`alone`] passes an
//! answer to one client only, [`revalidate_in_background`] has no client. What must hold: an answer is stored only as
//! `semantics` allows, and whoever waits for it is told at once when it is not; the connection goes back to the pool
//! only after a body that ended where its framing said.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use pump::Watch;
use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::validation::{AfterValidation, Freshened, Keep, after_validation, conditions, is_condition};
use semantics::{Times, UnixSeconds, VaryNames};
use store::KeyHash;
use wire::framing::ResponseBody;
use wire::{Fields, ResponseHead};

use crate::body::{Framing, Inbound};
use crate::collapse::{Role, Ticket};
use crate::connection::Client;
use crate::exchange::{Exchange, Outcome};
use crate::fill::{Follower, Promised, keeper, receive};
use crate::hit::{self, Serving};
use crate::invalidate;
use crate::lookup::{Found, Response};
use crate::metrics::RequestResult;
use crate::object::{self, Content, Head, Variants};
use crate::origin::OriginError;
use crate::origin::ask::{Answer, Ask, ask};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::request::{Denied, Request};
use crate::respond::{self, Made};
use crate::stream;
use crate::worker::Worker;

/// A stored response that may not be served as it is, but can be asked about.
pub struct Stale(Response);

impl Stale {
    /// Takes note of it.
    #[must_use]
    pub fn new(response: &Response) -> Self {
        Self(response.clone())
    }
}

/// What the origin's answer came to.
enum Settled {
    /// There is a stored response to serve: a validated one, or one that came whole at once.
    Ready(Response, Serving),
    /// There is a fill to stream along with.
    Streaming(Follower, receive::Work),
    /// The answer is for this client alone.
    Pass(Answer, &'static str),
    /// The origin failed, but what is stored may be served.
    StaleOnError(Response),
    /// There is no answer.
    Failed(OriginError),
}

/// What is to be asked, and on whose behalf.
struct Query<'q> {
    worker: &'q Rc<Worker>,
    client: Option<&'q Client>,
    watch: &'q Watch,
    request: &'q Request<'q>,
    endpoints: Vec<Rc<crate::origin::Endpoint>>,
    why: Forward,
    /// The hash that was looked up.
    hash: KeyHash,
    /// Where to note who answered.
    origin: &'q Cell<Option<SocketAddr>>,
}

/// Fetches for this client and for all who wait.
pub async fn lead(
    x: &mut Exchange<'_>,
    found: &Found,
    ticket: Ticket,
    why: Forward,
    stale: Option<Stale>,
) -> Outcome {
    let endpoints = x.request.endpoints(x.worker, x.client.mode);
    if endpoints.is_empty() {
        ticket.end(|owner| owner.fail(Denied::UnknownHost.word()));
        return x.made(&Made::denied(Denied::UnknownHost)).await;
    }
    let query = Query {
        worker: x.worker,
        client: Some(x.client),
        watch: &x.client.watch,
        request: x.request,
        endpoints,
        why,
        hash: found.hash,
        origin: &x.origin,
    };
    match settle(&query, ticket, stale.map(|s| s.0)).await {
        Settled::Ready(response, serving) => match hit::serve(x, &response, &serving).await {
            Some(outcome) => outcome,
            // Validated, but its bytes are gone or damaged: the origin has them.
            None => alone(x, Forward::Miss, None).await,
        },
        Settled::Streaming(follower, work) => stream::lead(x, follower, work, why).await,
        Settled::Pass(answer, word) => pass(x, answer, why, Some(word)).await,
        Settled::StaleOnError(response) => match serve_stale_on_error(x, Some(&Stale(response))).await {
            Some(outcome) => outcome,
            None => x.made(&Made::unreadable()).await,
        },
        Settled::Failed(error) => x.made(&Made::origin(&error)).await,
    }
}

/// Validates what is stored while the client gets it stale (RFC 5861 §3). At most one such fetch an object.
pub fn revalidate_in_background(x: &Exchange<'_>, found: &Found) {
    let Some(stale) = found.response.clone() else { return };
    let Role::Leader(ticket) = x.worker.shared.collapse.enter(found.hash, x.request.hash) else { return };
    let mut text = Vec::with_capacity(512);
    wire::write::request_line(&mut text, x.request.head.method, x.request.head.target.as_bytes());
    for field in x.request.head.fields.iter() {
        wire::write::field(&mut text, field.name, field.value);
    }
    wire::write::end_head(&mut text);
    let (worker, mode, hash) = (Rc::clone(x.worker), x.client.mode, found.hash);
    tokio::task::spawn_local(async move {
        let _occupied = worker.occupied();
        let Ok(wire::Parsed::Complete { head, .. }) = wire::parse::request(&text, &worker.shared.wire_limits)
        else {
            return;
        };
        let Ok(request) = Request::new(&worker, mode, head, Instant::now()) else { return };
        let watch = worker.timers.watch();
        let endpoints = request.endpoints(&worker, mode);
        let query = Query {
            worker: &worker,
            client: None,
            watch: &watch,
            request: &request,
            endpoints,
            why: Forward::Stale,
            hash,
            origin: &Cell::new(None),
        };
        if let Settled::Failed(error) = settle(&query, ticket, Some(stale)).await {
            tracing::debug!(%error, "background validation failed; the stored response stays");
        }
    });
}

/// Serves what is stored because the origin failed, where RFC 9111 §4.2.4 and RFC 5861 §4 allow it.
pub async fn serve_stale_on_error(x: &Exchange<'_>, stale: Option<&Stale>) -> Option<Outcome> {
    let response = &stale?.0;
    let stored = &response.head.stored;
    if !semantics::may_serve_on_error(&x.request.traits, stored, x.request.now) {
        return None;
    }
    let staleness = stored.age(x.request.now).minus(stored.lifetime);
    hit::serve(x, response, &Serving::stale(staleness, "stale-if-error")).await
}

/// Whether only a part of the representation is wanted, so that fetching all of it would be too much. A range from the
/// first byte to the end is all of it.
#[must_use]
pub fn wants_part(request: &Request<'_>) -> bool {
    match request.traits.range {
        semantics::request::Once::Absent => false,
        semantics::request::Once::Value(value) => !value.eq_ignore_ascii_case(b"bytes=0-"),
        semantics::request::Once::Repeated => true,
    }
}

/// Asks, and decides what the answer is. Ends `ticket` in every case, or hands it to the fill.
async fn settle(query: &Query<'_>, ticket: Ticket, stale: Option<Response>) -> Settled {
    let validating = stale.filter(|response| response.head.stored.has_validator());
    let requested_at = UnixSeconds(query.worker.now());
    let answer = match ask_origin(query, validating.as_ref()).await {
        Ok(answer) => answer,
        Err(error) => return failed(query, ticket, validating, error),
    };
    let times = Times { requested_at, received_at: UnixSeconds(query.worker.now()) };
    match validating {
        None => judge(query, ticket, answer, times),
        Some(stored) => validated(query, ticket, answer, stored, times).await,
    }
}

fn failed(query: &Query<'_>, ticket: Ticket, stale: Option<Response>, error: OriginError) -> Settled {
    let word = error.word();
    ticket.end(|owner| owner.fail(word));
    let may = |r: &Response| {
        semantics::may_serve_on_error(&query.request.traits, &r.head.stored, query.request.now)
    };
    match stale.filter(may) {
        Some(response) => Settled::StaleOnError(response),
        None => Settled::Failed(error),
    }
}

async fn ask_origin(query: &Query<'_>, stale: Option<&Response>) -> Result<Answer, OriginError> {
    let complete = stale.map(|response| response.head.complete());
    let parsed = complete.as_ref().zip(stale).and_then(|(text, response)| response.head.parsed(text));
    let validators = parsed.as_ref().map(|head| &head.fields);
    let head = request_head(query.worker, query.request, Conditions::Own(validators), Outgoing::None);
    let client = query.client.map(|client| (client, query.request.head.version));
    let ask_for = Ask { endpoints: &query.endpoints, head: &head, body: None, replayable: true, client };
    let answer = ask(query.worker, query.watch, ask_for).await?;
    query.origin.set(Some(answer.connection.address));
    Ok(answer)
}

/// A full answer: may it be stored, and how does it come?
fn judge(query: &Query<'_>, ticket: Ticket, answer: Answer, times: Times) -> Settled {
    let arrived = match Arrived::read(query, &answer, times, ticket.is_awaited()) {
        Ok(arrived) => arrived,
        Err(NotStored::Broken(error)) => return failed(query, ticket, None, error),
        Err(NotStored::Declined(word)) => {
            ticket.end(|owner| owner.release(word));
            return Settled::Pass(answer, word);
        }
    };
    keep(query, ticket, answer, arrived)
}

/// A storable response head, taken out of the receive buffer.
struct Arrived {
    head: Head,
    names: VaryNames,
    body: ResponseBody,
    /// The whole payload, where it came with the head.
    whole: Option<Box<[u8]>>,
    /// Bytes of the head in the receive buffer, and of the body if that is whole.
    used: usize,
    keep_alive: bool,
}

/// Why a response is not stored.
enum NotStored {
    /// It is no response.
    Broken(OriginError),
    /// It may not be, or had better not.
    Declined(&'static str),
}

impl Arrived {
    fn read(query: &Query<'_>, answer: &Answer, times: Times, awaited: bool) -> Result<Self, NotStored> {
        let (worker, request) = (query.worker, query.request);
        let shared = &worker.shared;
        let received = answer.window.filled();
        let (head, body, head_len) =
            read_head(worker, received, request.head.method, false).map_err(NotStored::Broken)?;
        let stored = semantics::may_store(&request.traits, &head, times, &shared.policy).map_err(|why| {
            if !why.is_about_request() {
                shared.collapse.note_unshareable(query.hash, request.now.0);
            }
            NotStored::Declined(why.word())
        })?;
        // One object that pushes out nearly all others is not worth having.
        let most = shared.settings.limits.object_bytes.min(shared.disks.capacity_bytes / 4 * 3);
        if matches!(body, ResponseBody::Length(n) if n > most) {
            return Err(NotStored::Declined("too-large"));
        }
        let (whole, body_len) = whole_body(&received[head_len..], &body, &shared.wire_limits).unzip();
        // Devices that are behind are not waited for. A body that nobody else waits for goes past them, by splice.
        let piece = receive::PIECE_BYTES;
        if whole.is_none() && !awaited && !shared.disks.has_room_for(piece) {
            return Err(NotStored::Declined("writes-behind"));
        }
        let length = match (&whole, &body) {
            (Some(payload), _) => Some(payload.len() as u64),
            (None, ResponseBody::Length(n)) => Some(*n),
            (None, _) => None,
        };
        let received_at = times.received_at.0;
        let text = object::stored_text(head.status, head.reason, &head.fields, length, received_at);
        Ok(Self {
            head: Head { stored, text: text.into() },
            names: VaryNames::of(&head.fields),
            whole,
            used: head_len + body_len.unwrap_or(0),
            keep_alive: wire::framing::keep_alive(head.version, &head.fields),
            body,
        })
    }
}

/// The payload, and how many received bytes it took, where all of a small body is there.
fn whole_body(received: &[u8], body: &ResponseBody, limits: &wire::Limits) -> Option<(Box<[u8]>, usize)> {
    match body {
        ResponseBody::None => Some((Box::default(), 0)),
        ResponseBody::Length(n) => {
            let n = usize::try_from(*n).ok().filter(|n| *n as u64 <= keeper::SMALL_BYTES)?;
            Some((received.get(..n)?.into(), n))
        }
        ResponseBody::Chunked => {
            // A broken one is left to the stream, which reports it to whom it concerns.
            let decoded = wire::chunked::decode(received, limits).ok().flatten()?;
            let is_small = decoded.payload.len() as u64 <= keeper::SMALL_BYTES;
            (is_small && decoded.trailers.fields().is_empty())
                .then(|| (decoded.payload.into_boxed_slice(), decoded.len))
        }
        ResponseBody::UntilClose | ResponseBody::Tunnel => None,
    }
}

/// Stores what came whole, or starts a fill for what did not.
fn keep(query: &Query<'_>, ticket: Ticket, mut answer: Answer, arrived: Arrived) -> Settled {
    let worker = query.worker;
    let Arrived { head, names, body, whole, used, keep_alive } = arrived;
    let promised = promise(query, head, &names);
    answer.window.consume(used);
    let reusable = keep_alive && answer.request_sent;
    if let Some(payload) = whole {
        worker.metrics.user_copied(payload.len() as u64);
        let unwanted = ticket.owner().is_some_and(crate::fill::Owner::is_unwanted);
        let response = keeper::keep_small(worker, &promised, payload, unwanted);
        if reusable && answer.window.filled().is_empty() {
            worker.origins.give_back(answer.connection, Instant::now());
        }
        let told = response.clone();
        ticket.end(|owner| owner.done(Some(told)));
        return Settled::Ready(response, Serving::stored(query.why));
    }
    let framing = framing(worker, body);
    let length = match &framing {
        Framing::Length(n) => Some(*n),
        Framing::Chunked(_) | Framing::UntilClose => None,
    };
    let Some(owner) = ticket.owner() else { return Settled::Failed(OriginError::Ended) };
    let follower = owner.storable(Arc::clone(&promised), length);
    let inbound = Inbound::new(framing, answer.window);
    let reusable = reusable && !inbound.ends_with_connection();
    let work = receive::start(worker, ticket, promised, inbound, answer.connection, reusable);
    Settled::Streaming(follower, work)
}

/// Under which key the response will be found; notes that the resource varies, where that is new.
fn promise(query: &Query<'_>, head: Head, names: &VaryNames) -> Arc<Promised> {
    let (worker, request) = (query.worker, query.request);
    let head = Arc::new(head);
    if names.is_empty() {
        let key = request.key.clone().into();
        return Arc::new(Promised { head, key, hash: request.hash, variants: None });
    }
    let known = known_variants(worker, request);
    let variants = match known {
        Some(known) if known.names.union(names) == known.names => known,
        known => {
            let names = known.map_or_else(|| names.clone(), |known| known.names.union(names));
            let variants = Variants { names, generation: worker.random() };
            keeper::note_variants(worker, request, variants.clone());
            variants
        }
    };
    let (key, hash) = request.variant(&worker.shared, &variants);
    Arc::new(Promised { head, key: key.into(), hash, variants: Some(variants) })
}

fn known_variants(worker: &Worker, request: &Request<'_>) -> Option<Variants> {
    let object = worker.shared.cache.memory.get(request.hash, &request.key)?;
    match &object.content {
        Content::Variants(variants) => Some(variants.clone()),
        Content::Response(..) => None,
    }
}

/// RFC 9111 §4.3.3.
async fn validated(
    query: &Query<'_>,
    ticket: Ticket,
    answer: Answer,
    old: Response,
    times: Times,
) -> Settled {
    let (worker, request) = (query.worker, query.request);
    let meaning = match meaning(query, &answer, &old, times) {
        Ok(meaning) => meaning,
        Err(error) => return failed(query, ticket, Some(old), error),
    };
    match meaning {
        Meaning::StillGood { response, head_len, keep_alive } => {
            give_back(worker, answer, head_len, keep_alive);
            let told = response.clone();
            ticket.end(|owner| owner.done(Some(told)));
            let serving = Serving::revalidated(query.why);
            Settled::Ready(response, serving)
        }
        Meaning::AskAgain => {
            let requested_at = UnixSeconds(worker.now());
            match ask_origin(query, None).await {
                Ok(answer) => {
                    let times = Times { requested_at, received_at: UnixSeconds(worker.now()) };
                    judge(query, ticket, answer, times)
                }
                Err(error) => failed(query, ticket, Some(old), error),
            }
        }
        Meaning::OriginFails
            if semantics::may_serve_on_error(&request.traits, &old.head.stored, request.now) =>
        {
            ticket.end(|owner| owner.fail("origin-error"));
            Settled::StaleOnError(old)
        }
        Meaning::OriginFails | Meaning::Replaced => judge(query, ticket, answer, times),
    }
}

/// What an answer to a validating request means.
enum Meaning {
    /// 304: the stored response with its new head.
    StillGood { response: Response, head_len: usize, keep_alive: bool },
    /// 304 about something else.
    AskAgain,
    /// 5xx.
    OriginFails,
    /// A full answer.
    Replaced,
}

fn meaning(query: &Query<'_>, answer: &Answer, old: &Response, times: Times) -> Result<Meaning, OriginError> {
    let worker = query.worker;
    let (head, _, head_len) = read_head(worker, answer.window.filled(), query.request.head.method, false)?;
    let complete = old.head.complete();
    let Some(parsed) = old.head.parsed(&complete) else { return Ok(Meaning::Replaced) };
    let (traits, policy) = (&query.request.traits, &worker.shared.policy);
    Ok(match after_validation(traits, &old.head.stored, &parsed.fields, &head, times, policy) {
        AfterValidation::Freshened(fresh) => Meaning::StillGood {
            response: freshen(query, old, *fresh),
            head_len,
            keep_alive: wire::framing::keep_alive(head.version, &head.fields),
        },
        AfterValidation::NotOurs(_) => Meaning::AskAgain,
        AfterValidation::Failed => Meaning::OriginFails,
        AfterValidation::Replaced => Meaning::Replaced,
    })
}

/// The stored response with the head that a 304 gave it.
fn freshen(query: &Query<'_>, old: &Response, fresh: Freshened<'_>) -> Response {
    let Freshened { fields, stored, keep } = fresh;
    let worker = query.worker;
    let length = old.body().map(object::Body::length);
    let received_at = stored.received_at.0;
    let reason = wire::write::reason(stored.status).as_bytes();
    let text = object::stored_text(stored.status, reason, &fields, length, received_at);
    let head = Arc::new(Head { stored, text: text.into() });
    match keep {
        Keep::Update => keeper::refresh(worker, old, &head),
        Keep::Leave(_) => keeper::with_head(old, head),
        Keep::Drop(_) => {
            let mut out = store::Outbox::new();
            worker.shared.cache.remove(old.hash, &mut out);
            worker.disk.carry_out(out);
            keeper::with_head(old, head)
        }
    }
}

/// Passes the request to the origin and the answer to this client alone.
pub async fn alone(x: &mut Exchange<'_>, why: Forward, stale: Option<Stale>) -> Outcome {
    let endpoints = x.request.endpoints(x.worker, x.client.mode);
    if endpoints.is_empty() {
        return x.made(&Made::denied(Denied::UnknownHost)).await;
    }
    let outgoing = match x.body.as_ref().map(Inbound::remaining) {
        None => Outgoing::None,
        Some(Some(length)) => Outgoing::Length(length),
        Some(None) => Outgoing::Chunked,
    };
    let head = request_head(x.worker, x.request, Conditions::Clients, outgoing);
    let replayable = x.request.is_idempotent() && x.body.is_none();
    let client = Some((x.client, x.request.head.version));
    let body = x.body.as_mut().map(|body| (body, outgoing));
    let ask_for = Ask { endpoints: &endpoints, head: &head, body, replayable, client };
    match ask(x.worker, &x.client.watch, ask_for).await {
        Ok(answer) => pass(x, answer, why, None).await,
        Err(error) => match serve_stale_on_error(x, stale.as_ref()).await {
            Some(outcome) => outcome,
            None => {
                tracing::info!(%error, status = error.status(), "no response from the origin");
                x.made(&Made::origin(&error)).await
            }
        },
    }
}

/// Sends an answer on to this client, unstored.
pub async fn pass(
    x: &mut Exchange<'_>,
    answer: Answer,
    why: Forward,
    detail: Option<&'static str>,
) -> Outcome {
    let worker = x.worker;
    let (head, body, head_len) = match read_head(worker, answer.window.filled(), x.request.head.method, false)
    {
        Ok(read) => read,
        Err(error) => return x.made(&Made::origin(&error)).await,
    };
    x.origin.set(Some(answer.connection.address));
    invalidate::after(x, &head);
    let outgoing = outgoing(&body, x.is_chunking());
    let status = CacheStatus { detail, ..CacheStatus::forwarded(Forwarded::because(why)) };
    let mut persistence = x.persistence();
    let upload_cut = !answer.request_sent;
    persistence.keep &= outgoing != Outgoing::UntilClose && !upload_cut;
    let mut text = respond::relayed_head(worker, &head, outgoing);
    respond::finish_head(&mut text, &status, outgoing, persistence);
    let keep_alive = wire::framing::keep_alive(head.version, &head.fields) && answer.request_sent;
    let code = head.status;
    drop(head);
    let Answer { connection, mut window, .. } = answer;
    window.consume(head_len);
    let mut inbound = Inbound::new(framing(worker, body), window);
    let timeouts = &worker.shared.settings.timeouts;
    let means = worker.response_means();
    let (to, watch) = (&x.client.socket, &x.client.watch);
    let text = x.client.behind_interim(text);
    let mut outbound = Outbound::new(to, watch, timeouts.client_send, means, text, outgoing);
    let sent = match outgoing {
        Outgoing::None => outbound.flush(false).await,
        _ => outbound.relay(&mut inbound, &connection.socket, timeouts.origin_body).await,
    };
    let whole = inbound.is_done() || outgoing == Outgoing::None;
    if keep_alive && whole && !inbound.ends_with_connection() && inbound.window.filled().is_empty() {
        worker.origins.give_back(connection, Instant::now());
    }
    let mut outcome = Outcome::new(code, RequestResult::Pass);
    outcome.body_bytes = outbound.sent();
    outcome.reason = detail;
    outcome.ends_connection = !persistence.keep;
    match sent {
        Ok(()) => outcome,
        Err(Unfinished::Receiver(_)) => Outcome { complete: false, ..outcome.because("client-left") },
        Err(Unfinished::Source(word)) => {
            tracing::info!(reason = word, "the response body broke off");
            Outcome { complete: false, ..outcome.because(word) }
        }
    }
}

/// How a body of that kind is framed towards the client.
fn outgoing(body: &ResponseBody, chunking: bool) -> Outgoing {
    match body {
        ResponseBody::None | ResponseBody::Tunnel => Outgoing::None,
        ResponseBody::Length(n) => Outgoing::Length(*n),
        ResponseBody::Chunked | ResponseBody::UntilClose if chunking => Outgoing::Chunked,
        ResponseBody::Chunked | ResponseBody::UntilClose => Outgoing::UntilClose,
    }
}

fn framing(worker: &Worker, body: ResponseBody) -> Framing {
    match body {
        ResponseBody::None | ResponseBody::Tunnel => Framing::Length(0),
        ResponseBody::Length(n) => Framing::Length(n),
        ResponseBody::Chunked => {
            Framing::Chunked(Box::new(wire::chunked::ChunkedDecoder::new(&worker.shared.wire_limits)))
        }
        ResponseBody::UntilClose => Framing::UntilClose,
    }
}

/// The head at the front of what was received, how its body is framed, and its length. `switching`: the request asked
/// for another protocol.
///
/// # Errors
/// [`OriginError`] for what is no response head.
pub fn read_head<'w>(
    worker: &Worker,
    received: &'w [u8],
    method: &str,
    switching: bool,
) -> Result<(ResponseHead<'w>, ResponseBody, usize), OriginError> {
    match wire::parse::response(received, &worker.shared.wire_limits).map_err(OriginError::Protocol)? {
        wire::Parsed::Partial => Err(OriginError::Ended),
        wire::Parsed::Complete { head, len } => {
            let body = wire::framing::response_body(&head, method).map_err(OriginError::Protocol)?;
            if head.status == 101 && !switching {
                return Err(OriginError::Switched);
            }
            Ok((head, body, len))
        }
    }
}

/// Which preconditions go to the origin.
pub enum Conditions<'a> {
    /// The client's, and its ranges.
    Clients,
    /// Ours: the validators of the stored response with these fields, or none.
    Own(Option<&'a Fields<'a>>),
}

/// The request head as it goes to the origin.
#[must_use]
pub fn request_head(
    worker: &Worker,
    request: &Request<'_>,
    asked: Conditions<'_>,
    body: Outgoing,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut target = Vec::with_capacity(128);
    request.uri.write_path_and_query(&mut target, request.head.method);
    wire::write::request_line(&mut out, request.head.method, &target);
    wire::write::field(&mut out, "Host", &request.authority);
    let ours = matches!(asked, Conditions::Own(_));
    let forwards = wire::fields::max_forwards(&request.head);
    for field in wire::fields::end_to_end(&request.head.fields) {
        let replaced = is_replaced(field.name, forwards.is_some());
        if !(replaced || ours && is_condition(field.name)) {
            wire::write::field(&mut out, field.name, field.value);
        }
    }
    if let Some(left) = forwards {
        wire::write::field_decimal(&mut out, "Max-Forwards", left.saturating_sub(1));
    }
    if let Conditions::Own(Some(stored)) = asked {
        for field in conditions(stored) {
            wire::write::field(&mut out, field.name, field.value);
        }
    }
    match body {
        Outgoing::Length(length) => wire::write::field_decimal(&mut out, "Content-Length", length),
        Outgoing::Chunked => wire::write::field(&mut out, "Transfer-Encoding", b"chunked"),
        Outgoing::None if is_usually_with_content(request.head.method) => {
            wire::write::field_decimal(&mut out, "Content-Length", 0);
        }
        Outgoing::None | Outgoing::UntilClose => {}
    }
    respond::write_via(&mut out, request.head.version, &worker.shared.pseudonym);
    wire::write::end_head(&mut out);
    out
}

/// Fields of a request that are written anew.
fn is_replaced(name: &str, counts_forwards: bool) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    is("host") || is("content-length") || counts_forwards && is("max-forwards")
}

/// The head of a request to change the protocol, as it goes to the origin (RFC 9110 §7.8).
#[must_use]
pub fn upgrade_head(worker: &Worker, request: &Request<'_>) -> Vec<u8> {
    let mut head = request_head(worker, request, Conditions::Clients, Outgoing::None);
    head.truncate(head.len() - b"\r\n".len());
    for protocol in request.head.fields.all("upgrade") {
        wire::write::field(&mut head, "Upgrade", protocol);
    }
    wire::write::field(&mut head, "Connection", b"Upgrade");
    wire::write::end_head(&mut head);
    head
}

/// Methods for which a missing length would leave the origin in doubt (RFC 9110 §8.6).
fn is_usually_with_content(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// Puts the connection of a bodiless answer back, if it can be used again.
fn give_back(worker: &Worker, answer: Answer, head_len: usize, keep_alive: bool) {
    if keep_alive && answer.request_sent && answer.window.filled().len() == head_len {
        worker.origins.give_back(answer.connection, Instant::now());
    }
}
