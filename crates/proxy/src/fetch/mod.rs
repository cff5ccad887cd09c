//! Asking the origin: what goes out, what the answer means, and who gets it.
//!
//! [`settle`] asks and decides; [`lead`] does so for a client whose response others may wait for, [`alone`] passes an
//! answer to one client only, [`revalidate_in_background`] has no client.
//!
//! | room | question |
//! |---|---|
//! | [`head`] | what does the request say to the origin? |
//! | [`judge`] | may a full answer be stored, and how does it come? |
//! | [`validate`] | what does the answer to a condition mean for what is stored? |
//! | [`missing`] | how do the bytes come that a stored response has not? |
//! | [`pass`] | how does an answer reach one client alone? |

mod head;
mod judge;
pub mod missing;
mod pass;
mod validate;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use pump::Watch;
use semantics::cache_status::Forward;
use semantics::parts::{self, Wants};
use semantics::{Once, Times, UnixSeconds};
use store::KeyHash;

use crate::admission::level::Cost;
use crate::admission::requests::{self, Shed};
use crate::collapse::{Role, Ticket};
use crate::exchange::{Exchange, Outcome};
use crate::fill::{Asked, Follower, receive};
use crate::hit::{self, Serving, Unserved};
use crate::lookup::{Found, Response};
use crate::origin::OriginError;
use crate::origin::ask::{Answer, Ask, Behalf, ask};
use crate::outbound::Outgoing;
use crate::purge::Epoch;
use crate::request::{Denied, Request};
use crate::respond::{self, Made};
use crate::stream;
use crate::worker::Worker;
use head::{Conditions, request_head};
pub use head::{read_head, upgrade_head};
pub use judge::is_too_much;
use judge::judge;
pub use pass::{alone, pass};
use validate::validated;

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
pub enum Settled {
    /// There is a stored response to serve: a validated one, or one that came whole at once.
    Ready(Response, Serving),
    /// There is a fill to stream along with.
    Streaming(Follower, receive::Work),
    /// The answer is for this client alone.
    Pass(Answer, &'static str),
    /// The origin failed, but what is stored may be served.
    StaleOnError(Response),
    /// The answer is not what the client's own conditions want: it asks for itself.
    Alone,
    /// There is no answer.
    Failed(OriginError),
}

/// What is to be asked, and on whose behalf.
struct Query<'q> {
    worker: &'q Rc<Worker>,
    behalf: Behalf<'q>,
    watch: &'q Watch,
    request: &'q Request<'q>,
    endpoints: Vec<Rc<crate::origin::Endpoint>>,
    why: Forward,
    /// The hash that was looked up.
    hash: KeyHash,
    asked: Asked,
    /// Where to note who answered.
    origin: &'q Cell<Option<SocketAddr>>,
    /// From before the origin is asked.
    epoch: Epoch,
    /// Names of fields that clients are not to see.
    left_out: &'q [String],
}

impl<'q> Query<'q> {
    /// On behalf of a client; `None` where nobody can be asked.
    fn of(x: &'q Exchange<'_>, hash: KeyHash, asked: Asked, why: Forward) -> Option<Self> {
        let (worker, request) = (x.worker, x.request);
        let behalf = Behalf::Client(x.client, request.head.version);
        let endpoints = request.endpoints(worker, x.client.mode);
        let (watch, origin) = (&x.client.watch, &x.origin);
        let (epoch, left_out) = (worker.shared.cache.purges.now(), respond::left_out(worker, x.client.mode));
        let query =
            Self { worker, behalf, watch, request, endpoints, why, hash, asked, origin, epoch, left_out };
        (!query.endpoints.is_empty()).then_some(query)
    }

    /// Asks with a head made for these conditions.
    async fn ask(&self, conditions: Conditions<'_>) -> Result<Answer, OriginError> {
        let head = request_head(self.worker, self.request, conditions, Outgoing::None);
        let (endpoints, behalf) = (&self.endpoints, self.behalf);
        let ask_for = Ask { endpoints, head: &head, body: None, replayable: true, behalf };
        let answer = ask(self.worker, self.watch, ask_for).await?;
        self.origin.set(Some(answer.connection.address));
        Ok(answer)
    }
}

/// Fetches for this client and for all who wait.
pub async fn lead(
    x: &mut Exchange<'_>,
    found: &Found,
    ticket: Ticket,
    asked: Asked,
    why: Forward,
    stale: Option<Stale>,
) -> Outcome {
    let Some(query) = Query::of(x, found.hash, asked, why) else {
        ticket.end(|owner| owner.fail(Denied::UnknownHost.word()));
        return x.made(&Made::denied(Denied::UnknownHost)).await;
    };
    let settled = settle(&query, ticket, stale.map(|s| s.0)).await;
    conclude(x, settled, why).await
}

/// Gives the client what its question came to.
pub async fn conclude(x: &mut Exchange<'_>, settled: Settled, why: Forward) -> Outcome {
    match settled {
        Settled::Ready(response, serving) => match hit::serve(x, &response, &serving).await {
            Ok(outcome) => outcome,
            // Validated, but not to be had without the origin: another asking would be one too many.
            Err(Unserved::Miss | Unserved::Instead(_)) => alone(x, Forward::Miss, None).await,
        },
        Settled::Streaming(follower, work) => stream::lead(x, follower, work, why).await,
        Settled::Pass(answer, word) => pass(x, answer, why, Some(word)).await,
        Settled::Alone => alone(x, why, None).await,
        Settled::StaleOnError(response) => match serve_stale_on_error(x, Some(&Stale(response))).await {
            Some(outcome) => outcome,
            None => x.made(&Made::unreadable()).await,
        },
        Settled::Failed(error) => x.made(&Made::origin(&error)).await,
    }
}

/// Validates what is stored while the client gets it stale (RFC 5861 §3). At most one such fetch an object.
pub fn revalidate_in_background(x: &Exchange<'_>, found: &Found) {
    if requests::admit(x.worker, None, Cost::Miss, x.request.started).is_err() {
        return; // a later request does it
    }
    let Some(stale) = found.response.clone() else { return };
    let entered = x.worker.shared.collapse.enter(found.hash, x.request.hash, &Asked::Whole);
    let Role::Leader(ticket) = entered else { return };
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
            behalf: Behalf::Nobody,
            watch: &watch,
            request: &request,
            endpoints,
            why: Forward::Stale,
            hash,
            asked: Asked::Whole,
            origin: &Cell::new(None),
            epoch: worker.shared.cache.purges.now(),
            left_out: respond::left_out(&worker, mode),
        };
        if let Settled::Failed(error) = settle(&query, ticket, Some(stale)).await {
            tracing::debug!(%error, "background validation failed; the stored response stays");
        }
    });
}

/// Serves what is stored in place of a request to the origin that is not made, where that is allowed; else refuses.
pub async fn stale_or_shed(x: &Exchange<'_>, stale: Option<&Stale>, shed: Shed) -> Outcome {
    match serve_stale_on_error(x, stale).await {
        Some(outcome) => outcome,
        None => x.made(&Made::shed(shed)).await,
    }
}

/// Serves what is stored because the origin failed, where RFC 9111 §4.2.4 and RFC 5861 §4 allow it.
pub async fn serve_stale_on_error(x: &Exchange<'_>, stale: Option<&Stale>) -> Option<Outcome> {
    let response = &stale?.0;
    let stored = &response.head.stored;
    if !semantics::may_serve_on_error(&x.request.traits, stored, x.request.now) {
        return None;
    }
    let staleness = stored.age(x.request.now).minus(stored.lifetime);
    hit::serve(x, response, &Serving::stale(staleness, "stale-if-error")).await.ok()
}

/// What to ask the origin for on behalf of a request, so that others may share the answer. `None`: only the client's own
/// words will do.
#[must_use]
pub fn wanted(request: &Request<'_>, stale: Option<&Stale>) -> Option<Asked> {
    match (parts::wants(&request.traits), request.traits.range) {
        (Wants::Whole, _) => Some(Asked::Whole),
        // If what is stored has changed, the client wants all of it or nothing of it: its condition speaks of the old.
        (Wants::OneRange, _) if stale.is_some() && request.traits.if_range != Once::Absent => {
            Some(Asked::Whole)
        }
        (Wants::OneRange, Once::Value(range)) => Some(Asked::Range(range.into())),
        _ => None,
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
    let range = match &query.asked {
        Asked::Range(range) => Some(&**range),
        Asked::Whole | Asked::Missing(_) => None,
    };
    query.ask(Conditions::Own(validators, range)).await
}
