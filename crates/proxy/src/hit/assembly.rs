//! The bytes of a range of a stored body, wherever they are: stored extents are leased from the first to the last and
//! made ready some ahead, those on several devices side by side; holes are fetched when they are reached, the first
//! before anything is sent.
//!
//! ```text
//!   at an offset:  stored ──▶ make ready ──▶ send
//!                    ▲            │ gone, damaged, unreadable, also halfway: a hole from now on
//!                    │            ▼
//!                    └─ look ◀── hole ──▶ bring ──▶ send along with the fill
//!                       again      (stored by others meanwhile)
//! ```
//! What must hold: a lease is held for as long as bytes may still be lent under it, and given up under a client that is
//! too slow once the store wants it back; bytes of two representations never come together.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use semantics::parts::are_of_one;
use store::ExtentRef;
use tokio::task::JoinHandle;

use super::Unserved;
use super::leases::Leases;
use super::ready::{Ready, make_ready, overdue, send_extent};
use crate::disk::ReadFailed;
use crate::exchange::Exchange;
use crate::fetch::is_too_much;
use crate::fetch::missing::{Arriving, Begun, NoBytes, bring};
use crate::fill::receive::Work;
use crate::fill::{Promised, parts};
use crate::lookup::Response;
use crate::metrics::Route;
use crate::object::{Body, DeviceBody, Spot};
use crate::outbound::{Outbound, Unfinished};
use crate::stream;
use crate::worker::Worker;

/// How often one looks again, or asks again, without a byte to show for it.
const FRUITLESS_MAX: usize = 4;

/// See the module. Of a body that is in memory nothing needs to be held.
pub(super) struct Assembly {
    response: Response,
    leases: Rc<Leases>,
    /// The first extent, made ready before anything was sent.
    ready: Option<(usize, Ready)>,
    /// The extents behind the one that is sent, being made ready.
    /// Queue: extents made ready for one response.
    ahead: VecDeque<Ahead>,
    /// The first hole, on its way since before anything was sent.
    arriving: Option<Arriving>,
}

/// Extents that are made ready ahead of the one that is sent: two keep two devices busy.
const AHEAD: usize = 2;

/// An extent that is being made ready; no longer once nobody wants it.
struct Ahead {
    extent: usize,
    made: JoinHandle<Result<Ready, ReadFailed>>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.made.abort();
    }
}

/// Whether holes may be fetched for a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    Fetch,
    /// A response of several parts is made only of what is there.
    Refuse,
}

/// Takes hold of a range of a body, and gets its first bytes ready and its first hole under way. `None`: the body is in
/// memory, or nothing of it is wanted.
pub(super) async fn assemble(
    x: &Exchange<'_>,
    response: &Response,
    range: Range<u64>,
    holes: Holes,
) -> Result<Option<Assembly>, Unserved> {
    let mut response = response.clone();
    for _ in 0..FRUITLESS_MAX {
        let Some(mut assembly) = Assembly::of(x.worker, &response, &range) else { return Ok(None) };
        assembly.begin(x.worker, &range).await;
        let Some(missing) = assembly.first_hole(&range) else { return Ok(Some(assembly)) };
        if holes == Holes::Refuse || is_too_much(&x.worker.shared, assembly.missing_bytes(&range)) {
            return Err(Unserved::Miss);
        }
        match bring(x, &response, missing, Begun::No).await {
            Ok(mut arriving) => {
                if arriving.follower.offset() > range.start {
                    // Stored bytes are sent first; until then it is received by itself.
                    arriving.work = Work::none();
                }
                assembly.arriving = Some(arriving);
                return Ok(Some(assembly));
            }
            Err(NoBytes::Outdated) => {
                response = look_again(x.worker, &response).await.ok_or(Unserved::Miss)?;
            }
            Err(NoBytes::Instead(settled)) => return Err(Unserved::Instead(settled)),
            Err(NoBytes::NotAsked | NoBytes::Lost(_) | NoBytes::Failed(_)) => return Err(Unserved::Miss),
        }
    }
    Err(Unserved::Miss)
}

/// The same representation as it is stored by now.
async fn look_again(worker: &Rc<Worker>, response: &Response) -> Option<Response> {
    let cache = &worker.shared.cache;
    cache.memory.remove(response.hash);
    let policy = &worker.shared.policy;
    let object = cache.find(&worker.disk, response.hash, &response.object.key, policy).await?;
    let newer = Response::of(response.hash, object)?;
    are_of_one(&newer.head.stored, &response.head.stored).then_some(newer)
}

impl Assembly {
    fn of(worker: &Worker, response: &Response, range: &Range<u64>) -> Option<Self> {
        let Some(Body::Device(body)) = response.body() else { return None };
        if range.is_empty() {
            return None;
        }
        let leases = Leases::of(worker, body, range);
        let (ready, ahead, arriving) = (None, VecDeque::new(), None);
        Some(Self { response: response.clone(), leases, ready, ahead, arriving })
    }

    /// Whether bytes are fetched for it, and whether on its own account.
    pub(super) fn fetches(&self) -> Option<&Arriving> {
        self.arriving.as_ref()
    }

    fn body(&self) -> Option<&DeviceBody> {
        match self.response.body() {
            Some(Body::Device(body)) => Some(body),
            _ => None,
        }
    }

    /// What is there at `at`: an extent that can be had, or a hole.
    fn spot(&self, at: u64) -> Spot {
        let Some(body) = self.body() else { return Spot::Hole(at) };
        match body.spot(at) {
            Spot::Stored(extent) if self.leases.is_lost(extent) => {
                self.hole_from(body, body.extents[extent].end())
            }
            Spot::Stored(extent) => Spot::Stored(extent),
            Spot::Hole(end) => self.hole_from(body, end),
        }
    }

    /// A hole goes on over extents that cannot be had.
    fn hole_from(&self, body: &DeviceBody, mut end: u64) -> Spot {
        loop {
            match body.spot(end) {
                Spot::Stored(i) if self.leases.is_lost(i) => end = body.extents[i].end(),
                Spot::Hole(next) if next > end => end = next,
                _ => return Spot::Hole(end),
            }
        }
    }

    /// Makes the first extent ready: until then a failure is only a miss.
    async fn begin(&mut self, worker: &Rc<Worker>, range: &Range<u64>) {
        if let Spot::Stored(extent) = self.spot(range.start) {
            self.look_ahead(worker, extent, range.end);
            self.ready = self.make_ready(worker, extent).await.map(|ready| (extent, ready));
        }
    }

    /// Begins to make those extents ready that follow `sent` and have bytes before `end`.
    fn look_ahead(&mut self, worker: &Rc<Worker>, sent: usize, end: u64) {
        self.ahead.retain(|ahead| ahead.extent > sent);
        let begun = self.ahead.back().map_or(sent, |ahead| ahead.extent);
        for extent in begun + 1..=sent + AHEAD {
            let piece = self.body().and_then(|body| body.extents.get(extent));
            if piece.is_none_or(|piece| piece.start >= end) {
                return;
            }
            let Some(at) = self.leases.get(extent) else { continue };
            let (worker, response) = (Rc::clone(worker), self.response.clone());
            let made = tokio::task::spawn_local(async move {
                let Some(Body::Device(body)) = response.body() else { return Err(ReadFailed::Gone) };
                make_ready(&worker, &body.extents[extent], at).await
            });
            self.ahead.push_back(Ahead { extent, made });
        }
    }

    /// Bytes of the range that have to be fetched.
    fn missing_bytes(&self, range: &Range<u64>) -> u64 {
        let (mut at, mut missing) = (range.start, 0);
        while let Some(hole) = self.first_hole(&(at..range.end)) {
            missing += hole.end - hole.start;
            at = hole.end;
        }
        missing
    }

    fn first_hole(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        while at < range.end {
            match self.spot(at) {
                Spot::Stored(extent) => at = self.body()?.extents.get(extent)?.end(),
                Spot::Hole(end) => return Some(at..end.min(range.end)),
            }
        }
        None
    }

    /// Makes an extent ready. One that fails is a hole from now on.
    async fn make_ready(&mut self, worker: &Rc<Worker>, extent: usize) -> Option<Ready> {
        self.ahead.retain(|ahead| ahead.extent >= extent);
        let ahead = self.ahead.pop_front_if(|ahead| ahead.extent == extent);
        let (body, at) = (self.body()?, self.leases.get(extent)?);
        let piece = body.extents.get(extent)?;
        let made = match ahead {
            Some(mut ahead) => (&mut ahead.made).await.unwrap_or(Err(ReadFailed::Gone)),
            None => make_ready(worker, piece, at).await,
        };
        match made {
            Ok(ready) => {
                self.note_verified(worker, body);
                Some(ready)
            }
            Err(failed) => {
                self.leases.give_up(worker, extent);
                self.lose(worker, piece.at, &failed).await;
                None
            }
        }
    }

    fn note_verified(&self, worker: &Worker, body: &DeviceBody) {
        if let Some(place) = self.response.object.place
            && !body.noted.get()
            && body.is_verified()
        {
            body.noted.set();
            worker.shared.cache.store.note_verified(self.response.hash, &place);
        }
    }

    /// What a failure says of the stored body: it has a hole, or is of no use where that cannot be filled.
    async fn lose(&self, worker: &Rc<Worker>, extent: ExtentRef, failed: &ReadFailed) {
        let cache = &worker.shared.cache;
        let can_be_filled = self.response.head.stored.strong_validator().is_some();
        match (failed, self.response.object.place) {
            (ReadFailed::Gone | ReadFailed::Unanswered | ReadFailed::NoBuffer, _) => return,
            (ReadFailed::Device(_), _) if !can_be_filled => return,
            (ReadFailed::Checksum, Some(place)) if !can_be_filled => {
                return cache.bad(&worker.disk, self.response.hash, &place);
            }
            (ReadFailed::Checksum, _) => cache.store.note_bad_extent(),
            (ReadFailed::Device(_), _) => {}
        }
        parts::lose(worker, &self.response, extent).await;
    }

    async fn send(
        &mut self,
        x: &Exchange<'_>,
        outbound: &mut Outbound<'_>,
        range: Range<u64>,
    ) -> Result<(), Unfinished> {
        let (mut at, mut fruitless) = (range.start, 0);
        while at < range.end {
            let before = outbound.sent();
            match self.spot(at) {
                Spot::Stored(extent) => self.send_stored(x, outbound, extent, at..range.end).await?,
                Spot::Hole(end) => self.send_hole(x, outbound, at..end.min(range.end)).await?,
            }
            let sent = outbound.sent() - before;
            at += sent;
            fruitless = if sent > 0 { 0 } else { fruitless + 1 };
            if fruitless > FRUITLESS_MAX {
                return Err(Unfinished::Source("bytes-not-to-be-had"));
            }
        }
        Ok(())
    }

    /// Sends what an extent has of `left`, while those behind it are made ready. Sends nothing, or not all, if it cannot
    /// be had.
    async fn send_stored(
        &mut self,
        x: &Exchange<'_>,
        outbound: &mut Outbound<'_>,
        extent: usize,
        left: Range<u64>,
    ) -> Result<(), Unfinished> {
        let ready = match self.ready.take() {
            Some((of, ready)) if of == extent => Some(ready),
            _ => self.make_ready(x.worker, extent).await,
        };
        let Some(ready) = ready else { return Ok(()) };
        self.look_ahead(x.worker, extent, left.end);
        let Some(piece) = self.body().and_then(|body| body.extents.get(extent)) else { return Ok(()) };
        let end = piece.end().min(left.end);
        let (within, n) = (left.start - piece.start, end - left.start);
        match send_extent(x.worker, outbound, &ready, within, n, end < left.end).await {
            Err(Unfinished::Device(word)) => {
                tracing::debug!(reason = word, "the bytes of an extent broke off");
                self.leases.give_up(x.worker, extent);
                Ok(())
            }
            sent => sent,
        }
    }

    /// Sends what arrives of a hole. Sends nothing, or not all, if that has come to an end which is not the hole's.
    async fn send_hole(
        &mut self,
        x: &Exchange<'_>,
        outbound: &mut Outbound<'_>,
        hole: Range<u64>,
    ) -> Result<(), Unfinished> {
        let under_way = self.arriving.take().filter(|arriving| arriving.follower.offset() == hole.start);
        let mut arriving = match under_way {
            Some(arriving) => arriving,
            None => match bring(x, &self.response, hole.clone(), Begun::Yes).await {
                Ok(arriving) => arriving,
                Err(NoBytes::Outdated) => return self.look_again(x.worker, &hole).await,
                Err(NoBytes::Lost(word) | NoBytes::Failed(word)) => return Err(Unfinished::Source(word)),
                Err(NoBytes::NotAsked | NoBytes::Instead(_)) => {
                    return Err(Unfinished::Source("bytes-not-to-be-had"));
                }
            },
        };
        match stream::along(x, outbound, &mut arriving, hole.end).await {
            // It was another's, who may have left: the next round asks for the rest.
            Err(Unfinished::Source(word)) if !arriving.led => {
                tracing::debug!(reason = word, "the bytes of a hole broke off");
                Ok(())
            }
            sent => sent,
        }
    }

    /// The wanted bytes may be stored by now. Where the store has nothing of them any more, what is held goes on, and what
    /// is missing of it is asked for all the same.
    async fn look_again(&mut self, worker: &Rc<Worker>, from: &Range<u64>) -> Result<(), Unfinished> {
        let Some(newer) = look_again(worker, &self.response).await else {
            self.response = self.response.unplaced();
            return Ok(());
        };
        self.response = newer;
        (self.ready, self.ahead) = (None, VecDeque::new());
        let body = self.body().ok_or(Unfinished::Source("object-gone"))?;
        self.leases = Leases::of(worker, body, &(from.start..body.length));
        Ok(())
    }
}

/// Sends bytes of a body on its way that its fill had, and a device does not give any more.
///
/// # Errors
/// [`Unfinished`].
pub async fn send_lost(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    promised: &Promised,
    lost: Range<u64>,
) -> Result<(), Unfinished> {
    let gone = Unfinished::Device("extent-gone");
    let length = promised.head.stored.content_length;
    let Some(hole) = length.map(|length| Response::hole(promised, length)) else { return Err(gone) };
    let mut assembly = Assembly::of(x.worker, &hole, &lost).ok_or(gone)?;
    assembly.send(x, outbound, lost).await
}

/// Sends a range of a body.
pub(super) async fn send_range(
    x: &Exchange<'_>,
    outbound: &mut Outbound<'_>,
    body: &Body,
    range: Range<u64>,
    assembly: Option<&mut Assembly>,
) -> Result<(), Unfinished> {
    match (body, assembly) {
        (Body::Memory(bytes), _) => {
            let bytes = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
            outbound.bytes(bytes, Route::Memory, false).await
        }
        (Body::Device(_), _) if range.is_empty() => Ok(()),
        (Body::Device(_), None) => Err(Unfinished::Source("extent-missing")),
        (Body::Device(_), Some(assembly)) => {
            let leases = Rc::clone(&assembly.leases);
            tokio::select! {
                biased;
                sent = assembly.send(x, outbound, range) => sent,
                () = overdue(|| leases.are_recalled()) => Err(Unfinished::Source("lease-recalled")),
            }
        }
    }
}
