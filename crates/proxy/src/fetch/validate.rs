//! The answer to a validating request (RFC 9111 §4.3.3, §4.3.4).
//!
//! What must hold: a stored response gets a new head only from an answer that speaks of it.

use std::sync::Arc;
use std::time::Instant;

use semantics::validation::{AfterValidation, Freshened, Keep, after_validation};
use semantics::{Times, UnixSeconds};

use super::head::read_head;
use super::judge::judge;
use super::{Query, Settled, ask_origin, failed};
use crate::collapse::Ticket;
use crate::fill::{Owner, keeper};
use crate::hit::Serving;
use crate::lookup::Response;
use crate::object::{self, Head};
use crate::origin::OriginError;
use crate::origin::ask::Answer;
use crate::purge::tags;
use crate::worker::Worker;

/// RFC 9111 §4.3.3.
pub(super) async fn validated(
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
            if ticket.owner().is_some_and(Owner::is_unwanted) {
                keeper::drop_unwanted(worker, response.hash);
            }
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
    let text = object::stored_text(stored.status, reason, &fields, length, received_at, query.left_out);
    let tags = tags::renewed(&fields, &worker.shared.settings.purge.tag_fields, &old.head.tags);
    // Marks since either moment have not been compared with what is now.
    let epoch = query.epoch.min(old.object.seen.epoch());
    let head = Arc::new(Head { stored, text: text.into(), tags, epoch });
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

/// Puts the connection of a bodiless answer back, if it can be used again.
fn give_back(worker: &Worker, answer: Answer, head_len: usize, keep_alive: bool) {
    if keep_alive && answer.request_sent && answer.window.filled().len() == head_len {
        worker.origins.give_back(answer.connection, Instant::now());
    }
}
