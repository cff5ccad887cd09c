//! Streams a response to a client while it is being fetched: for the client that caused the fetch and for those that
//! came later; all of it, or the part that the client wants.
//!
//! What must hold: while a client does not take bytes, it holds no buffer; bytes that left memory and that their device
//! does not give any more come from the origin once more; when the fetch fails, the response is left without an end.

use std::ops::Range;

use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use semantics::parts::{Wants, wants};
use semantics::preconditions::{Verdict, evaluate};
use semantics::ranges::{ByteRange, RangeAnswer, ranges};
use wire::Fields;

use crate::exchange::{Exchange, Outcome};
use crate::fetch::missing::Arriving;
use crate::fill::receive::Work;
use crate::fill::{At, Follower};
use crate::hit::{self, PartKind, Serving};
use crate::metrics::{RequestResult, Route};
use crate::outbound::{Outbound, Outgoing, Unfinished};
use crate::respond;

/// What of a fill answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// All that comes.
    Whole,
    /// These bytes, of so many.
    Part(ByteRange, u64),
    /// There are no such bytes: 416, with the length.
    Unsatisfiable(u64),
}

/// What of the fill answers the request? `None`: it does not bring what the client wants, or not soon.
#[must_use]
pub fn plan(x: &Exchange<'_>, follower: &Follower) -> Option<Plan> {
    let (start, end) = follower.span();
    let length = follower.length();
    let is_whole = start == 0 && end.is_none_or(|end| length == Some(end));
    let whole = is_whole.then_some(Plan::Whole);
    let stored = &follower.promised.head.stored;
    let Some(length) = length else { return whole.filter(|_| wants(&x.request.traits) == Wants::Whole) };
    match ranges(&x.request.traits, stored, length, x.request.now) {
        RangeAnswer::Whole => whole,
        RangeAnswer::Unsatisfiable => Some(Plan::Unsatisfiable(length)),
        RangeAnswer::Parts(parts) => match &*parts {
            [part] => {
                let within = start <= part.start && end.is_none_or(|end| part.end <= end);
                (within && follower.is_near(part.start)).then_some(Plan::Part(*part, length))
            }
            _ => whole,
        },
    }
}

/// What the client whose request caused the fetch gets: if not what it wants, then what the origin gave for it.
fn own_plan(x: &Exchange<'_>, follower: &Follower) -> Plan {
    let given = || match (follower.span(), follower.length()) {
        ((start, Some(end)), Some(length)) if start < end && end - start < length => {
            Plan::Part(ByteRange { start, end }, length)
        }
        _ => Plan::Whole,
    };
    plan(x, follower).unwrap_or_else(given)
}

/// For the client whose request caused the fetch, which carries the receiving on meanwhile.
pub async fn lead(x: &Exchange<'_>, follower: Follower, work: Work, why: Forward) -> Outcome {
    let forwarded = Forwarded { stored: true, ..Forwarded::because(why) };
    let plan = own_plan(x, &follower);
    drive(work, stream(x, follower, plan, RequestResult::Miss, forwarded)).await
}

/// For a client that came while the fetch was under way.
pub async fn follow(x: &Exchange<'_>, follower: Follower, plan: Plan, why: Forward) -> Outcome {
    let forwarded = Forwarded { collapsed: true, ..Forwarded::because(why) };
    stream(x, follower, plan, RequestResult::Collapsed, forwarded).await
}

/// Sends what arrives, up to the byte before `until` or to its own end, in the middle of a message. What cannot be read
/// any more ends it too.
///
/// # Errors
/// [`Unfinished`].
pub async fn along(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    arriving: &mut Arriving,
    until: u64,
) -> Result<(), Unfinished> {
    let work = std::mem::replace(&mut arriving.work, Work::none());
    drive(work, send(x, outbound, &mut arriving.follower, until)).await.map(|_| ())
}

/// Carries the receiving on until the sending is done; what is left of it then goes on by itself.
async fn drive<T>(mut work: Work, sending: impl Future<Output = T>) -> T {
    let mut sending = std::pin::pin!(sending);
    tokio::select! {
        biased;
        () = &mut work => {}
        sent = &mut sending => return sent,
    }
    sending.await
}

async fn stream(
    x: &Exchange<'_>,
    mut follower: Follower,
    plan: Plan,
    result: RequestResult,
    forwarded: Forwarded,
) -> Outcome {
    let status = CacheStatus::forwarded(forwarded);
    let stored = &follower.promised.head.stored;
    match evaluate(&x.request.traits, stored, x.request.now) {
        Verdict::Serve => {}
        verdict => return hit::bodiless_for(x, &follower.promised.head, verdict, result, status).await,
    }
    let (code, outgoing, range) = match plan {
        Plan::Unsatisfiable(length) => {
            return hit::unsatisfiable(x, length, &Serving { result, status }).await;
        }
        Plan::Part(part, _) => (206, Outgoing::Length(part.len()), part.start..part.end),
        Plan::Whole => (stored.status, whole(x, &follower), 0..u64::MAX),
    };
    let mut persistence = x.persistence();
    persistence.keep &= outgoing != Outgoing::UntilClose;
    let head = match plan {
        Plan::Part(part, length) => {
            let kind = PartKind::One(part, length);
            hit::part_head(x, &follower.promised.head, kind, part.len(), &status, persistence)
        }
        _ => whole_head(x, &follower, outgoing, &status, persistence),
    };
    let head = x.client.behind_interim(head);
    follower.advance(range.start.saturating_sub(follower.offset()));
    let (patience, means) = (x.worker.to_client(), x.worker.response_means());
    let mut outbound = Outbound::new(&x.client.socket, &x.client.watch, patience, means, head, outgoing);
    let sent = async {
        while let Sent::UpTo(lost) = send(x, &mut outbound, &mut follower, range.end).await? {
            let n = lost.end - lost.start;
            // Seldom, and large: in a box, or every connection would have room for it.
            Box::pin(hit::send_lost(x, &mut outbound, &follower.promised, lost)).await?;
            follower.advance(n);
        }
        outbound.end(&Fields::new()).await
    };
    let sent = sent.await;
    let (body_bytes, ends_connection) = (outbound.sent(), !persistence.keep);
    Outcome { body_bytes, ends_connection, ..Outcome::new(code, result) }.sent(sent)
}

/// How the whole is framed.
fn whole(x: &Exchange<'_>, follower: &Follower) -> Outgoing {
    match (follower.length(), x.is_chunking()) {
        (Some(length), _) => Outgoing::Length(length),
        (None, true) => Outgoing::Chunked,
        (None, false) => Outgoing::UntilClose,
    }
}

fn whole_head(
    x: &Exchange<'_>,
    follower: &Follower,
    outgoing: Outgoing,
    status: &CacheStatus<'_>,
    persistence: respond::Persistence,
) -> Vec<u8> {
    let promised = &follower.promised.head;
    let mut head = Vec::with_capacity(promised.text.len() + 128);
    head.extend_from_slice(&promised.text);
    if let (Outgoing::Length(length), None) = (outgoing, promised.stored.content_length) {
        wire::write::field_decimal(&mut head, "Content-Length", length);
    }
    hit::write_age(&mut head, promised.stored.age(x.request.now));
    hit::write_via(x.worker, &mut head);
    respond::finish_head(&mut head, status, outgoing, persistence);
    head
}

/// How far [`send`] came.
enum Sent {
    /// To the end of what was wanted.
    All,
    /// Up to these bytes, which cannot be read any more.
    UpTo(Range<u64>),
}

/// Sends what comes, up to the byte before `until` or to its end.
async fn send(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    follower: &mut Follower,
    until: u64,
) -> Result<Sent, Unfinished> {
    while follower.offset() < until {
        let left = until - follower.offset();
        match follower.at() {
            At::Memory(reader, range) => {
                let bytes = &reader.filled()[range];
                let most = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let taken = outbound.try_bytes(&bytes[..most], Route::Memory)?;
                drop(reader);
                match taken {
                    0 => outbound.writable().await?,
                    n => follower.advance(n as u64),
                }
            }
            At::Device(lease, range) => {
                // Of a chunk that was announced from memory the rest may have to come from the device.
                let most = u64::from(range.end - range.start).min(left).min(outbound.next_at_most()) as u32;
                let before = outbound.sent();
                let sent = from_device(x, outbound, lease, range.start..range.start + most).await;
                follower.advance(outbound.sent() - before);
                match sent {
                    Err(Unfinished::Device(word)) => {
                        tracing::debug!(reason = word, "bytes that were received cannot be read any more");
                        follower.lose();
                    }
                    sent => sent?,
                }
            }
            At::Lost(end) => return Ok(Sent::UpTo(follower.offset()..end.min(until))),
            At::NotYet => {
                outbound.flush(false).await?;
                tokio::select! {
                    biased;
                    _ = follower.more() => {}
                    gone = outbound.reset() => return Err(gone),
                }
            }
            At::End => break,
            At::Broken(word) => {
                // The end of a chunk may not have gone out yet.
                outbound.flush(false).await?;
                return Err(Unfinished::Source(word));
            }
        }
    }
    Ok(Sent::All)
}

/// Sends a part of an extent that has left memory already.
async fn from_device(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    lease: store::Lease,
    range: Range<u32>,
) -> Result<(), Unfinished> {
    let ready = hit::ready_lease(x.worker, lease.clone()).await;
    let ready = ready.map_err(|_| Unfinished::Device("extent-gone"))?;
    let n = u64::from(range.end - range.start);
    tokio::select! {
        biased;
        sent = hit::send_extent(x.worker, outbound, &ready, u64::from(range.start), n, false) => sent,
        () = hit::overdue(|| lease.recalled()) => Err(Unfinished::Source("lease-recalled")),
    }
}
