//! One request, from its parsed head to its accounted end: the questions that are asked, in the order in which they
//! are asked. Read this file first.
//!
//! What must hold: a request is answered exactly once; whatever it is answered with has been allowed by `semantics`;
//! the connection goes on only if both message bodies ended where their framing said. No header is looked at here and
//! no byte is moved.

use std::cell::Cell;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use semantics::cache_status::{CacheStatus, Forward, Outcome as Handled};
use semantics::reuse::{Reuse, may_reuse};
use wire::framing::RequestBody;
use wire::{Refusal, RequestHead, Version};

use crate::access_log::Entry;
use crate::admission::level::Cost;
use crate::admission::requests::{self, Shed};
use crate::body::{Framing, Inbound};
use crate::buffers::{Size, Window};
use crate::collapse::Role;
use crate::connection::Client;
use crate::fetch::{self, Stale};
use crate::fill::{Asked, Decision};
use crate::hit::{self, AtOnce, Rest, Serving, Unserved};
use crate::lookup::{self, Found};
use crate::metrics::RequestResult;
use crate::object::Head;
use crate::outbound::Unfinished;
use crate::request::{self, Request};
use crate::respond::{self, Made, Persistence};
use crate::stream;
use crate::tunnel;
use crate::worker::Worker;

/// What becomes of the connection.
pub enum After {
    /// It goes on; so many bytes behind the head belonged to the request.
    KeepAlive {
        /// Bytes behind the head.
        consumed: usize,
    },
    /// It goes on with what this window holds.
    Continue(Window),
    /// It ends after what the client still sends has been thrown away.
    Close,
    /// It ends now.
    Gone,
}

/// How far a response went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// To its end.
    Whole,
    /// As far as its source had it.
    BrokeOff,
    /// As far as the client took it.
    ClientGone,
}

impl End {
    /// Of a response whose source cannot break off.
    #[must_use]
    pub fn of_own(taken: bool) -> Self {
        if taken { Self::Whole } else { Self::ClientGone }
    }
}

/// How a request ended.
pub struct Outcome {
    /// The status code sent.
    pub status: u16,
    /// The result in one word.
    pub result: RequestResult,
    /// The reason in one word.
    pub reason: Option<&'static str>,
    /// Body bytes sent.
    pub body_bytes: u64,
    /// How far the response went out.
    pub end: End,
    /// Whether the end of the connection is what ends the response.
    pub ends_connection: bool,
    /// Who answered, if an origin did.
    pub origin: Option<SocketAddr>,
}

impl Outcome {
    /// A response that went out whole.
    #[must_use]
    pub fn new(status: u16, result: RequestResult) -> Self {
        Self {
            status,
            result,
            reason: None,
            body_bytes: 0,
            end: End::Whole,
            ends_connection: false,
            origin: None,
        }
    }

    /// With a reason.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// With how its sending ended.
    #[must_use]
    pub fn sent(self, sent: Result<(), Unfinished>) -> Self {
        match sent {
            Ok(()) => self,
            Err(Unfinished::Receiver(_)) => Self { end: End::ClientGone, ..self }.because("client-left"),
            Err(Unfinished::Source(word) | Unfinished::Device(word)) => {
                Self { end: End::BrokeOff, ..self }.because(word)
            }
        }
    }
}

/// How often a request looks again after another's fetch has ended, before it asks the origin by itself.
const ROUNDS: usize = 4;

/// One request under way.
pub struct Exchange<'x> {
    /// The thread's own.
    pub worker: &'x Rc<Worker>,
    /// Who asks.
    pub client: &'x Client,
    /// For what.
    pub request: &'x Request<'x>,
    /// The request body, as long as it has not been used.
    pub body: Option<Inbound>,
    /// What was received behind the head: for a tunnel, its first bytes.
    pub behind: &'x [u8],
    /// Who answered, if an origin did.
    pub origin: Cell<Option<SocketAddr>>,
}

/// A request that has been begun.
pub enum Begun<'x> {
    /// It was answered at once.
    Ended(After),
    /// It goes on. Its state is on the heap, so that an idle connection is small.
    Continues(Pin<Box<dyn Future<Output = After> + 'x>>),
}

/// Begins a request, and ends it if memory and one call are all that it takes. `behind` is what was received behind
/// its head.
pub fn begin<'x>(
    worker: &'x Rc<Worker>,
    client: &'x Client,
    head: RequestHead<'x>,
    behind: &'x [u8],
    started: Instant,
) -> Begun<'x> {
    let request = match Request::new(worker, client.mode, head, started) {
        Ok(request) => request,
        Err(refusal) => return Begun::refused(worker, client, refusal, started),
    };
    let outcome = match hit::at_once(worker, client, &request) {
        AtOnce::Sent(outcome) => outcome,
        AtOnce::Partly(outcome, rest) => {
            return Begun::Continues(Box::pin(send_rest(worker, client, request, outcome, rest)));
        }
        AtOnce::No => return Begun::Continues(Box::pin(in_full(worker, client, request, behind))),
    };
    account(worker, client, Some(&request), &outcome, started);
    Begun::Ended(after_hit(&request, &outcome))
}

impl<'x> Begun<'x> {
    /// A request that breaks a rule: it is answered, and the connection ends.
    pub fn refused(worker: &'x Rc<Worker>, client: &'x Client, refusal: Refusal, started: Instant) -> Self {
        Self::Continues(Box::pin(async move {
            respond::refused(worker, client, refusal, started).await;
            After::Close
        }))
    }
}

fn after_hit(request: &Request<'_>, outcome: &Outcome) -> After {
    if outcome.end == End::Whole && request.keep_alive {
        After::KeepAlive { consumed: 0 }
    } else {
        After::Gone
    }
}

async fn send_rest(
    worker: &Rc<Worker>,
    client: &Client,
    request: Request<'_>,
    outcome: Outcome,
    rest: Rest,
) -> After {
    let _occupied = worker.occupied();
    let end = End::of_own(hit::send_rest(worker, client, rest).await);
    let outcome = Outcome { end, ..outcome };
    account(worker, client, Some(&request), &outcome, request.started);
    if end != End::Whole {
        client.socket.abort_on_close();
    }
    after_hit(&request, &outcome)
}

async fn in_full(worker: &Rc<Worker>, client: &Client, request: Request<'_>, behind: &[u8]) -> After {
    let request = &request;
    let _occupied = worker.occupied();
    let _asking = client.presence.asks();
    let body = inbound(worker, request, behind);
    if body.is_some() {
        client.socket.acknowledge_at_once();
    }
    let mut exchange = Exchange { worker, client, request, body, behind, origin: Cell::new(None) };
    let mut outcome = exchange.answer().await;
    outcome.origin = exchange.origin.get();
    account(worker, client, Some(request), &outcome, request.started);
    match outcome.end {
        End::Whole => exchange.after(outcome.ends_connection).await,
        // The framing tells the client (RFC 9112 §8), and it gets what the socket still holds.
        End::BrokeOff if exchange.is_chunking() => After::Close,
        End::BrokeOff | End::ClientGone => {
            client.socket.abort_on_close();
            After::Gone
        }
    }
}

/// The request body, with what of it has been received already.
fn inbound(worker: &Rc<Worker>, request: &Request<'_>, behind: &[u8]) -> Option<Inbound> {
    let framing = match request.body {
        RequestBody::None | RequestBody::Length(0) => return None,
        RequestBody::Length(length) => Framing::Length(length),
        RequestBody::Chunked => {
            Framing::Chunked(Box::new(wire::chunked::ChunkedDecoder::new(&worker.shared.wire_limits)))
        }
    };
    let mut window = worker.buffers.window(Size::Large);
    window.append(behind);
    Some(Inbound::new(framing, window))
}

impl Exchange<'_> {
    async fn answer(&mut self) -> Outcome {
        if let Err(denied) = request::admit(self.worker, self.client, self.request) {
            return self.made(&Made::denied(denied)).await;
        }
        if self.request.head.method == "CONNECT" {
            return match self.may(Cost::NewConnection) {
                Ok(()) => tunnel::connect(self).await,
                Err(shed) => self.made(&Made::shed(shed)).await,
            };
        }
        if wire::fields::max_forwards(&self.request.head) == Some(0) {
            return respond::as_last_recipient(self).await;
        }
        if self.request.is_upgrade() {
            return tunnel::upgrade(self).await;
        }
        if !self.request.may_use_stored() {
            return fetch::alone(self, Forward::Method, None).await;
        }
        self.through_cache().await
    }

    /// `GET` and `HEAD`: from the cache if it may be, else from whoever fetches it, else from the origin.
    async fn through_cache(&mut self) -> Outcome {
        let mut collapsed = false;
        for _ in 0..ROUNDS {
            if let Err(shed) = requests::admit_lookup(self.worker, self.client, self.request) {
                return self.made(&Made::shed(shed)).await;
            }
            let found = lookup::find(self.worker, self.request).await;
            match self.serve_stored(&found, collapsed).await {
                ControlFlow::Break(outcome) => return outcome,
                ControlFlow::Continue((why, stale)) => {
                    if self.request.traits.only_if_cached() {
                        return self.made(&Made::not_cached()).await;
                    }
                    let wanted = fetch::wanted(self.request, stale.as_ref());
                    let Some(asked) = wanted.filter(|_| self.may_share(&found)) else {
                        return fetch::alone(self, why, stale).await;
                    };
                    match self.share_fetch(&found, asked, why, stale).await {
                        ControlFlow::Break(outcome) => return outcome,
                        ControlFlow::Continue(()) => collapsed = true,
                    }
                }
            }
        }
        fetch::alone(self, Forward::Miss, None).await
    }

    /// Serves what was found, if it may be served; otherwise says why not, and what there is to validate.
    async fn serve_stored(
        &mut self,
        found: &Found,
        collapsed: bool,
    ) -> ControlFlow<Outcome, (Forward, Option<Stale>)> {
        let Some(response) = &found.response else {
            return ControlFlow::Continue((found.absence, None));
        };
        let now = self.request.now;
        let serving = match may_reuse(&self.request.traits, &response.head.stored, now) {
            Reuse::Fresh { ttl, .. } if collapsed => Serving::collapsed(ttl),
            Reuse::Fresh { ttl, .. } => Serving::fresh(ttl),
            Reuse::Stale { staleness, why, revalidate, .. } => {
                if revalidate {
                    fetch::revalidate_in_background(self, found);
                }
                Serving::stale(staleness, why.word())
            }
            Reuse::Validate { why } => {
                return ControlFlow::Continue((why.forward(), Some(Stale::new(response))));
            }
        };
        match hit::serve(self, response, &serving).await {
            Ok(outcome) => ControlFlow::Break(outcome),
            Err(Unserved::Miss) => ControlFlow::Continue((Forward::Miss, None)),
            Err(Unserved::Instead(settled)) => {
                ControlFlow::Break(fetch::conclude(self, *settled, Forward::Partial).await)
            }
        }
    }

    /// Whether other requests may wait for this one's response.
    fn may_share(&self, found: &Found) -> bool {
        let request = self.request;
        !request.is_head()
            && self.body.is_none()
            && !request.traits.directives.no_store
            && !self.worker.shared.collapse.is_unshareable(found.hash, request.now.0)
    }

    /// Joins the fetch that is under way, or leads one.
    async fn share_fetch(
        &mut self,
        found: &Found,
        asked: Asked,
        why: Forward,
        stale: Option<Stale>,
    ) -> ControlFlow<Outcome> {
        let shared = &self.worker.shared;
        let fill = match shared.collapse.enter(found.hash, self.request.hash, &asked) {
            Role::Leader(ticket) => {
                // Another's fetch may have ended between the lookup and here.
                if stale.is_none() && found.response.is_none() && shared.cache.may_have(found.hash) {
                    ticket.end(|owner| owner.done(None));
                    return ControlFlow::Continue(());
                }
                if let Err(shed) = self.may(Cost::Miss) {
                    ticket.end(|owner| owner.fail(shed.word()));
                    return ControlFlow::Break(fetch::stale_or_shed(self, stale.as_ref(), shed).await);
                }
                return ControlFlow::Break(fetch::lead(self, found, ticket, asked, why, stale).await);
            }
            Role::Follower(fill) => fill,
        };
        let purges = &shared.cache.purges;
        let is_late = fill.is_decided();
        match fill.decided(None).await {
            // A purge came after the fetch began, or what it brings is stale: it is for those who asked before.
            Decision::Stream(follower)
                if purges.name(&follower.promised.key, &follower.promised.head)
                    || is_late && !self.may_follow(&follower.promised.head) =>
            {
                // What is asked for now is newer, and may be stored first: this must not take its place then.
                fill.forget();
                shared.collapse.part(&fill);
                ControlFlow::Continue(())
            }
            Decision::Done(Some(response)) if purges.name(&response.object.key, &response.head) => {
                ControlFlow::Continue(())
            }
            Decision::Stream(follower) if follower.fits(shared, self.request) => {
                if let Some(plan) = stream::plan(self, &follower) {
                    return ControlFlow::Break(stream::follow(self, follower, plan, why).await);
                }
                // What is wanted comes later, or not at all: it is asked for beside the other fetch.
                drop(follower);
                let ticket = shared.collapse.lead(found.hash, self.request.hash, asked.clone());
                ControlFlow::Break(fetch::lead(self, found, ticket, asked, why, stale).await)
            }
            Decision::Stream(_) | Decision::Done(None) => ControlFlow::Continue(()),
            // The resource turned out to vary: what came may be another's variant.
            Decision::Done(Some(response)) if response.hash != found.hash => ControlFlow::Continue(()),
            Decision::Done(Some(response)) => {
                let serving = Serving::collapsed(response.head.stored.ttl(self.request.now));
                match hit::serve(self, &response, &serving).await {
                    Ok(outcome) => ControlFlow::Break(outcome),
                    Err(Unserved::Miss | Unserved::Instead(_)) => ControlFlow::Continue(()),
                }
            }
            Decision::Released(_) => ControlFlow::Break(fetch::alone(self, why, stale).await),
            Decision::Failed(word) => match fetch::serve_stale_on_error(self, stale.as_ref()).await {
                Some(outcome) => ControlFlow::Break(outcome),
                None => ControlFlow::Break(self.made(&Made::collapsed_failure(word)).await),
            },
        }
    }

    /// Whether a response that came before this request may be used for it (RFC 9111 §4).
    fn may_follow(&self, head: &Head) -> bool {
        !matches!(may_reuse(&self.request.traits, &head.stored, self.request.now), Reuse::Validate { .. })
    }

    /// Whether work of this cost may be done for the request.
    ///
    /// # Errors
    /// Why not.
    pub fn may(&self, cost: Cost) -> Result<(), Shed> {
        requests::admit(self.worker, Some(self.client), cost, self.request.started)
    }

    /// Sends a response made here.
    pub async fn made(&self, made: &Made) -> Outcome {
        let status = CacheStatus { outcome: Handled::Generated, detail: Some(made.word) };
        let head_only = self.request.is_head();
        respond::send_made(self.worker, self.client, made, &status, self.persistence(), head_only).await
    }

    /// What the response says of the connection.
    #[must_use]
    pub fn persistence(&self) -> Persistence {
        // What is left of a request body that was not read to its end is not the next request, and a client that waits
        // for permission to send one may or may not send it.
        let waits = || wire::fields::expects_continue(&self.request.head);
        let unread = self.body.as_ref().is_some_and(|body| body.is_unread() || !body.is_done() && waits());
        let keep = self.request.keep_alive && !self.worker.draining.get() && !unread;
        Persistence { version: self.request.head.version, keep }
    }

    /// How a body of unknown length is sent to this client.
    #[must_use]
    pub fn is_chunking(&self) -> bool {
        self.request.head.version == Version::Http11
    }

    /// Decides about the connection once the response is out.
    async fn after(self, response_ends_connection: bool) -> After {
        let keep = self.persistence().keep && !response_ends_connection;
        match self.body {
            Some(body) if !keep && !body.is_done() => After::Close,
            _ if !keep => After::Gone,
            None => After::KeepAlive { consumed: 0 },
            Some(body) => match hit::drain(self.worker, self.client, body).await {
                Some(window) => After::Continue(window),
                None => After::Close,
            },
        }
    }
}

/// Counts and logs a request that has ended.
pub fn account(
    worker: &Rc<Worker>,
    client: &Client,
    request: Option<&Request<'_>>,
    outcome: &Outcome,
    started: Instant,
) {
    let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    worker.metrics.request(outcome.result, nanos);
    let mut log = worker.log.borrow_mut();
    if !log.is_on() {
        return;
    }
    let field = |name| request.and_then(|r| r.head.fields.get(name));
    log.log(&Entry {
        at_millis: worker.now_millis(),
        nanos,
        client: client.peer,
        method: request.map_or(b"", |r| r.head.method.as_bytes()),
        target: request.map_or(b"", |r| r.head.target.as_bytes()),
        host: request.map_or(b"", |r| &r.authority),
        version: request.map_or(Version::Http11, |r| r.head.version),
        status: outcome.status,
        body_bytes: outcome.body_bytes,
        result: outcome.result,
        reason: outcome.reason,
        origin: outcome.origin,
        referer: field("referer"),
        user_agent: field("user-agent"),
        content_type: None,
    });
}
