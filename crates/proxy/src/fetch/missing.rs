//! The bytes that a stored response has not: from whoever fetches them already, else from the origin (RFC 9111 §3.4; RFC
//! 9110 §13.1.5, §14.2).
//!
//! What must hold: they are asked for under the strong validator of what is stored, and used only if the answer has the
//! same one, and the same length of the whole; where the origin has something else by now, what is stored leaves the
//! cache.

use std::ops::Range;
use std::sync::Arc;

use semantics::cache_status::Forward;
use semantics::parts::{are_of_one, part_conditions};
use semantics::ranges::ByteRange;
use semantics::reuse::is_origin_error;
use semantics::{Part, Stored, Times, UnixSeconds};
use wire::ResponseHead;
use wire::framing::ResponseBody;

use super::head::{Conditions, framing, read_head};
use super::judge::judge;
use super::{Query, Settled};
use crate::body::Inbound;
use crate::collapse::{Role, Ticket};
use crate::exchange::Exchange;
use crate::fill::receive::{self, Source, Work};
use crate::fill::{Asked, Decision, Follower, Promised};
use crate::lookup::Response;
use crate::object;
use crate::origin::OriginError;
use crate::origin::ask::{Answer, Behalf};
use crate::purge::tags;
use crate::worker::Shared;

/// Bytes on their way.
pub struct Arriving {
    /// Where they can be followed, from the first missing one on.
    pub follower: Follower,
    /// The receiving, where this client causes it.
    pub work: Work,
    /// Whether it does.
    pub led: bool,
}

/// Why bytes that are missing do not come.
pub enum NoBytes {
    /// Other bytes are stored by now than were seen: look again.
    Outdated,
    /// This client's request may not cause a fetch.
    NotAsked,
    /// What is stored cannot be completed, or is no longer what the origin has: it is no longer stored.
    Lost(&'static str),
    /// The origin answered otherwise, and nothing has been sent yet: that is the answer.
    Instead(Box<Settled>),
    /// The origin failed.
    Failed(&'static str),
}

/// Whether anything of the response has been sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: another answer may take its place.
    No,
    /// Its head at least.
    Yes,
}

/// Gets the bytes of `missing` under way.
///
/// # Errors
/// [`NoBytes`].
pub async fn bring(
    x: &Exchange<'_>,
    response: &Response,
    missing: Range<u64>,
    begun: Begun,
) -> Result<Arriving, NoBytes> {
    let shared = &x.worker.shared;
    if x.request.traits.only_if_cached() || x.request.traits.directives.no_store {
        return Err(NoBytes::NotAsked);
    }
    if response.head.stored.status != 200 || response.head.stored.strong_validator().is_none() {
        return Err(lost(shared, response, "no-strong-validator"));
    }
    let (hash, primary) = (response.hash, x.request.hash);
    let asked = Asked::Missing(missing.clone());
    let ticket = match shared.collapse.enter(hash, primary, &asked) {
        Role::Leader(ticket) if is_current(shared, response) => ticket,
        Role::Leader(ticket) => {
            ticket.end(|owner| owner.done(None));
            return Err(NoBytes::Outdated);
        }
        Role::Follower(fill) => match fill.decided(Some(missing.start)).await {
            Decision::Stream(follower)
                if are_of_one(&follower.promised.head.stored, &response.head.stored)
                    && !shared.cache.purges.name(&follower.promised.key, &follower.promised.head) =>
            {
                return Ok(Arriving { follower, work: Work::none(), led: false });
            }
            Decision::Done(_) => return Err(NoBytes::Outdated),
            Decision::Failed(word) => return Err(NoBytes::Failed(word)),
            Decision::Stream(_) | Decision::Released(_) => shared.collapse.lead(hash, primary, asked),
        },
    };
    lead(x, response, missing, ticket, begun).await
}

/// Whether the store still has what was seen: another's fetch may have ended in between. Where the store did not have it,
/// it does not matter what is there now.
fn is_current(shared: &Shared, response: &Response) -> bool {
    response.object.place.is_none_or(|place| shared.cache.store.is_at(response.hash, &place))
}

fn lost(shared: &Shared, response: &Response, why: &'static str) -> NoBytes {
    if let Some(place) = response.object.place {
        shared.cache.forget(response.hash, &place);
    }
    NoBytes::Lost(why)
}

async fn lead(
    x: &Exchange<'_>,
    response: &Response,
    missing: Range<u64>,
    ticket: Ticket,
    begun: Begun,
) -> Result<Arriving, NoBytes> {
    let asked = Asked::Missing(missing.clone());
    let Some(mut query) = Query::of(x, response.hash, asked, Forward::Partial) else {
        return Err(NoBytes::Failed("unknown-host"));
    };
    if begun == Begun::Yes {
        query.behalf = Behalf::Begun;
    }
    let requested_at = UnixSeconds(x.worker.now());
    let answer = match ask_for(&query, response, &missing).await {
        Ok(answer) => answer,
        Err(error) => return Err(failed(ticket, &error)),
    };
    let times = Times { requested_at, received_at: UnixSeconds(x.worker.now()) };
    let meaning = match meaning(&query, &answer, response, &missing, times) {
        Ok(meaning) => meaning,
        Err(error) => return Err(failed(ticket, &error)),
    };
    match meaning {
        Meaning::Part(part) => start(&query, ticket, answer, response, *part),
        Meaning::SameWhole => same_whole(judge(&query, ticket, answer, times), &missing, begun),
        Meaning::Changed => {
            ticket.end(|owner| owner.release("representation-changed"));
            Err(lost(&x.worker.shared, response, "representation-changed"))
        }
        Meaning::OtherWhole => {
            let lost = lost(&x.worker.shared, response, "representation-changed");
            instead(begun, lost, || judge(&query, ticket, answer, times))
        }
        Meaning::Other(word) => instead(begun, NoBytes::Failed(word), || {
            ticket.end(|owner| owner.fail(word));
            Settled::Pass(answer, word)
        }),
    }
}

/// Another answer than wanted, as long as it can still be given.
fn instead(begun: Begun, otherwise: NoBytes, settle: impl FnOnce() -> Settled) -> Result<Arriving, NoBytes> {
    match begun {
        Begun::No => Err(NoBytes::Instead(Box::new(settle()))),
        Begun::Yes => Err(otherwise),
    }
}

fn failed(ticket: Ticket, error: &OriginError) -> NoBytes {
    let word = error.word();
    ticket.end(|owner| owner.fail(word));
    NoBytes::Failed(word)
}

async fn ask_for(
    query: &Query<'_>,
    response: &Response,
    missing: &Range<u64>,
) -> Result<Answer, OriginError> {
    let complete = response.head.complete();
    let parsed = response.head.parsed(&complete);
    let range = ByteRange { start: missing.start, end: missing.end };
    let conditions =
        parsed.as_ref().and_then(|head| part_conditions(&response.head.stored, &head.fields, range));
    let Some((range, condition)) = conditions else { return Err(OriginError::NoOrigin) };
    query.ask(Conditions::Part(&range, condition)).await
}

/// What an answer to the question for a part means.
enum Meaning {
    /// The bytes.
    Part(Box<Arrived>),
    /// All of the same representation: the origin does not cut it.
    SameWhole,
    /// All of another representation.
    OtherWhole,
    /// There is another representation, but this is not all of it.
    Changed,
    /// Nothing about the representation.
    Other(&'static str),
}

/// A part as it came.
struct Arrived {
    part: Part,
    head: object::Head,
    body: ResponseBody,
    head_len: usize,
    keep_alive: bool,
}

fn meaning(
    query: &Query<'_>,
    answer: &Answer,
    response: &Response,
    missing: &Range<u64>,
    times: Times,
) -> Result<Meaning, OriginError> {
    let (worker, request) = (query.worker, query.request);
    let (head, body, head_len) = read_head(worker, answer.window.filled(), request.head.method, false)?;
    let policy = &worker.shared.policy;
    Ok(match head.status {
        206 => match wanted_part(query, &head, &body, response, missing, times) {
            None => Meaning::Changed,
            Some((part, new)) => {
                let keep_alive = wire::framing::keep_alive(head.version, &head.fields);
                Meaning::Part(Box::new(Arrived { part, head: new, body, head_len, keep_alive }))
            }
        },
        200 if are_of_one(&Stored::from_head(&head, times, policy), &response.head.stored) => {
            Meaning::SameWhole
        }
        200 => Meaning::OtherWhole,
        412 | 416 => Meaning::Changed,
        status if is_origin_error(status) => Meaning::Other("origin-error"),
        _ => Meaning::OtherWhole,
    })
}

/// The part, if it is one of what is stored and begins where it should, and the stored head brought up to date by it.
fn wanted_part(
    query: &Query<'_>,
    head: &ResponseHead<'_>,
    body: &ResponseBody,
    response: &Response,
    missing: &Range<u64>,
    times: Times,
) -> Option<(Part, object::Head)> {
    let policy = &query.worker.shared.policy;
    let part = semantics::may_store_part(&query.request.traits, head, times, policy).ok()?;
    let is_wanted = part.range.start == missing.start && part.range.end <= missing.end;
    let is_framed = !matches!(body, ResponseBody::Length(n) if *n != part.range.len());
    if !(is_wanted && is_framed && are_of_one(&part.stored, &response.head.stored)) {
        return None;
    }
    let new = object::updated(&response.head, &head.fields, times, policy, query.left_out)?;
    let tag_fields = &query.worker.shared.settings.purge.tag_fields;
    let tags = tags::renewed(&head.fields, tag_fields, &response.head.tags);
    // Marks since either moment have not been compared with what is now.
    let epoch = query.epoch.min(response.object.seen.epoch());
    Some((part, object::Head { tags, epoch, ..new }))
}

fn start(
    query: &Query<'_>,
    ticket: Ticket,
    mut answer: Answer,
    response: &Response,
    arrived: Arrived,
) -> Result<Arriving, NoBytes> {
    let Arrived { part, head, body, head_len, keep_alive } = arrived;
    let (key, hash) = (response.object.key.clone(), response.hash);
    let promised = Arc::new(Promised { head: Arc::new(head), key, hash, variants: None });
    let range = part.range.start..part.range.end;
    let Some(owner) = ticket.owner() else { return Err(NoBytes::Failed("owner-gone")) };
    let follower = owner.storable(Arc::clone(&promised), range.start, Some(range.end));
    answer.window.consume(head_len);
    let inbound = Inbound::new(framing(query.worker, body), answer.window);
    let reusable = keep_alive && answer.request_sent && !inbound.ends_with_connection();
    let source = Source { promised, part: Some(range), inbound, connection: answer.connection, reusable };
    let work = receive::start(query.worker, ticket, source);
    Ok(Arriving { follower, work, led: true })
}

/// All of the representation comes: the missing bytes are among them.
fn same_whole(settled: Settled, missing: &Range<u64>, begun: Begun) -> Result<Arriving, NoBytes> {
    match settled {
        Settled::Streaming(mut follower, work) => {
            follower.advance(missing.start);
            Ok(Arriving { follower, work, led: true })
        }
        Settled::Ready(..) if begun == Begun::Yes => Err(NoBytes::Outdated),
        settled => instead(begun, NoBytes::Failed("whole-not-stored"), || settled),
    }
}
