//! An answer for one client alone, sent on and not stored.
//!
//! What must hold: the connection goes back to the pool only after a body that ended where its framing said.

use std::time::Instant;

use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use wire::framing::ResponseBody;

use super::head::{Conditions, framing, read_head, request_head};
use super::{Stale, serve_stale_on_error, stale_or_shed};
use crate::admission::level::Cost;
use crate::body::Inbound;
use crate::exchange::{Exchange, Outcome};
use crate::invalidate;
use crate::metrics::RequestResult;
use crate::origin::ask::{Answer, Ask, Behalf, ask};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::request::Denied;
use crate::respond::{self, Made};

/// Passes the request to the origin and the answer to this client alone.
pub async fn alone(x: &mut Exchange<'_>, why: Forward, stale: Option<Stale>) -> Outcome {
    let endpoints = x.request.endpoints(x.worker, x.client.mode);
    if endpoints.is_empty() {
        return x.made(&Made::denied(Denied::UnknownHost)).await;
    }
    if let Err(shed) = x.may(Cost::Miss) {
        return stale_or_shed(x, stale.as_ref(), shed).await;
    }
    let outgoing = match x.body.as_ref().map(Inbound::remaining) {
        None => Outgoing::None,
        Some(Some(length)) => Outgoing::Length(length),
        Some(None) => Outgoing::Chunked,
    };
    let head = request_head(x.worker, x.request, Conditions::Clients, outgoing);
    let replayable = x.request.is_idempotent() && x.body.is_none();
    let behalf = Behalf::Client(x.client, x.request.head.version);
    let body = x.body.as_mut().map(|body| (body, outgoing));
    let ask_for = Ask { endpoints: &endpoints, head: &head, body, replayable, behalf };
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
    let left_out = respond::left_out(worker, x.client.mode);
    let mut text = respond::relayed_head(worker, &head, outgoing, left_out);
    respond::finish_head(&mut text, &status, outgoing, persistence);
    let keep_alive = wire::framing::keep_alive(head.version, &head.fields) && answer.request_sent;
    let code = head.status;
    drop(head);
    let Answer { connection, mut window, .. } = answer;
    window.consume(head_len);
    let mut inbound = Inbound::new(framing(worker, body), window);
    let means = worker.response_means();
    let (to, watch) = (&x.client.socket, &x.client.watch);
    let text = x.client.behind_interim(text);
    let mut outbound = Outbound::new(to, watch, worker.to_client(), means, text, outgoing);
    let sent = match outgoing {
        Outgoing::None => outbound.flush(false).await,
        _ => outbound.relay(&mut inbound, &connection.socket, &worker.with_origin()).await,
    };
    let whole = inbound.is_done() || outgoing == Outgoing::None;
    if keep_alive && whole && !inbound.ends_with_connection() && inbound.window.filled().is_empty() {
        worker.origins.give_back(connection, Instant::now());
    }
    let mut outcome = Outcome::new(code, RequestResult::Pass);
    outcome.body_bytes = outbound.sent();
    outcome.reason = detail;
    outcome.ends_connection = !persistence.keep;
    if let Err(Unfinished::Source(word)) = sent {
        tracing::info!(reason = word, "the response body broke off");
    }
    outcome.sent(sent)
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
