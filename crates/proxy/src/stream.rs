//! Streams a response to a client while it is being fetched: for the client that caused the fetch and for those that
//! came later.
//!
//! What must hold: while a client does not take bytes, it holds no buffer; when the fetch fails, the response is left
//! without an end.

use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::preconditions::{Verdict, evaluate};
use wire::Fields;

use crate::exchange::{Exchange, Outcome};
use crate::fill::receive::Work;
use crate::fill::{At, Follower};
use crate::hit;
use crate::metrics::{RequestResult, Route};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::respond;

/// For the client whose request caused the fetch, which carries the receiving on meanwhile.
pub async fn lead(x: &Exchange<'_>, follower: Follower, mut work: Work, why: Forward) -> Outcome {
    let forwarded = Forwarded { stored: true, ..Forwarded::because(why) };
    let mut sent = std::pin::pin!(stream(x, follower, RequestResult::Miss, forwarded));
    tokio::select! {
        biased;
        () = &mut work => {}
        outcome = &mut sent => return outcome,
    }
    sent.await
}

/// For a client that came while the fetch was under way.
pub async fn follow(x: &Exchange<'_>, follower: Follower, why: Forward) -> Outcome {
    let forwarded = Forwarded { collapsed: true, ..Forwarded::because(why) };
    stream(x, follower, RequestResult::Collapsed, forwarded).await
}

async fn stream(
    x: &Exchange<'_>,
    mut follower: Follower,
    result: RequestResult,
    forwarded: Forwarded,
) -> Outcome {
    let status = CacheStatus::forwarded(forwarded);
    let stored = &follower.promised.head.stored;
    match evaluate(&x.request.traits, stored, x.request.now) {
        Verdict::Serve => {}
        verdict => return hit::bodiless_for(x, &follower.promised.head, verdict, result, status).await,
    }
    let outgoing = match (follower.length(), x.is_chunking()) {
        (Some(length), _) => Outgoing::Length(length),
        (None, true) => Outgoing::Chunked,
        (None, false) => Outgoing::UntilClose,
    };
    let mut persistence = x.persistence();
    persistence.keep &= outgoing != Outgoing::UntilClose;
    let mut head = Vec::with_capacity(follower.promised.head.text.len() + 128);
    head.extend_from_slice(&follower.promised.head.text);
    if let (Outgoing::Length(length), None) = (outgoing, stored.content_length) {
        wire::write::field_decimal(&mut head, "Content-Length", length);
    }
    hit::write_age(&mut head, stored.age(x.request.now));
    hit::write_via(x.worker, &mut head);
    respond::finish_head(&mut head, &status, outgoing, persistence);
    let head = x.client.behind_interim(head);
    let code = stored.status;
    let limit = x.worker.shared.settings.timeouts.client_send;
    let means = x.worker.response_means();
    let mut outbound = Outbound::new(&x.client.socket, &x.client.watch, limit, means, head, outgoing);
    let sent = body(x, &mut outbound, &mut follower).await;
    let outcome = Outcome {
        body_bytes: outbound.sent(),
        ends_connection: !persistence.keep,
        ..Outcome::new(code, result)
    };
    match sent {
        Ok(()) => outcome,
        Err(Unfinished::Receiver(_)) => Outcome { complete: false, ..outcome }.because("client-left"),
        Err(Unfinished::Source(word)) => Outcome { complete: false, ..outcome }.because(word),
    }
}

async fn body(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    follower: &mut Follower,
) -> Result<(), Unfinished> {
    loop {
        match follower.at() {
            At::Memory(reader, range) => {
                let taken = outbound.try_bytes(&reader.filled()[range], Route::Memory)?;
                drop(reader);
                match taken {
                    0 => outbound.writable().await?,
                    n => follower.advance(n as u64),
                }
            }
            At::Device(lease, range) => {
                let n = from_device(x, outbound, lease, range).await?;
                follower.advance(n);
            }
            At::NotYet => {
                outbound.flush(false).await?;
                tokio::select! {
                    biased;
                    _ = follower.more() => {}
                    gone = outbound.reset() => return Err(gone),
                }
            }
            At::End => return outbound.end(&Fields::new()).await,
            At::Broken(word) => return Err(Unfinished::Source(word)),
        }
    }
}

/// Sends a part of an extent that has left memory already.
async fn from_device(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    lease: store::Lease,
    range: std::ops::Range<u32>,
) -> Result<u64, Unfinished> {
    let ready = hit::ready_lease(x.worker, lease.clone()).await;
    let ready = ready.map_err(|_| Unfinished::Source("extent-gone"))?;
    let n = u64::from(range.end - range.start);
    tokio::select! {
        biased;
        sent = hit::send_extent(x.worker, outbound, &ready, u64::from(range.start), n, false) => sent?,
        () = hit::overdue(|| lease.recalled()) => return Err(Unfinished::Source("lease-recalled")),
    }
    Ok(n)
}
