//! One response, or a part of one, on its way from an origin into the store, and everybody who waits for it or streams
//! along.
//!
//! ```text
//!            head is storable        first payload           all of it safe in the store
//!   Ready ───────────────────▶ Waiting ──────────▶ Splicing ─────────────────────────────▶ Done
//!     │ head may not be stored            │ origin or device fails
//!     ▼                                   ▼
//!   Released                            Failed
//! ```
//!
//! What must hold:
//! - a fill has exactly one [`Owner`]; when that dies, on whatever path, the fill ends as Failed and nobody waits on;
//! - whoever waits is woken by the change itself, never by a timer;
//! - a follower sees the body in order from the byte that it asked for, or learns that it cannot have it: never a short
//!   body that looks complete;
//! - a slow follower does not slow the fill: what is safe on a device is read from there, not kept in memory for it.
//!   Only a fill that the store gave up on keeps bytes for its followers, and then waits for the slowest.

pub mod keeper;
pub mod parts;
pub mod receive;
mod stream;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use slab::Slab;
use store::{KeyHash, Lease};
use sys::aligned::Reader;
use tokio::sync::Notify;

use crate::lookup::Response;
use crate::object::{Head, Variants};
use crate::request::Request;
use crate::worker::Shared;
pub use stream::{At, NEAR_BYTES};
use stream::{Piece, PieceAt, Stream};

/// A fill, shared by its owner, the table of fills and its followers.
pub struct Fill {
    /// What it is collapsed under: the key, with the variant where the resource is known to vary.
    pub hash: KeyHash,
    /// The key without a variant: what a purge names.
    pub primary: KeyHash,
    asked: Asked,
    state: Mutex<State>,
    /// Queue: requests that wait for another's fetch.
    changed: Notify,
    unwanted: AtomicBool,
}

/// What of a representation is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of it.
    Whole,
    /// What this `Range` comes to: the length of the whole is not known before the origin has told it.
    Range(Box<[u8]>),
    /// These bytes of what is stored with a hole.
    Missing(Range<u64>),
}

impl Asked {
    /// Whether the answer to this question, which nobody has seen yet, is worth waiting for with that one.
    fn is_enough_for(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Missing(own), Self::Missing(missing)) => {
                own.contains(&missing.start) && missing.start <= own.start.saturating_add(NEAR_BYTES)
            }
            (_, Self::Missing(_)) => false,
            (Self::Whole, _) => true,
            (own, other) => own == other,
        }
    }
}

/// Where a fill stands. The table is in the module's comment.
enum State {
    Ready,
    Waiting(Stream),
    Splicing(Stream),
    /// The stream stays for those who still follow: every piece of it can be read.
    Done(Option<Response>, Option<Stream>),
    Released(&'static str),
    /// The stream stays for those who have not sent all of what came.
    Failed(&'static str, Option<Stream>),
}

impl State {
    /// What there is to follow, also when no more will come.
    fn stream(&self) -> Option<&Stream> {
        match self {
            Self::Waiting(stream) | Self::Splicing(stream) => Some(stream),
            Self::Done(_, stream) | Self::Failed(_, stream) => stream.as_ref(),
            Self::Ready | Self::Released(_) => None,
        }
    }

    fn stream_mut(&mut self) -> Option<&mut Stream> {
        match self {
            Self::Waiting(stream) | Self::Splicing(stream) => Some(stream),
            Self::Done(_, stream) | Self::Failed(_, stream) => stream.as_mut(),
            Self::Ready | Self::Released(_) => None,
        }
    }
}

/// What is to be stored when the body has come.
pub struct Promised {
    /// The response head.
    pub head: Arc<Head>,
    /// The key it will be found under.
    pub key: Box<[u8]>,
    /// Its hash.
    pub hash: KeyHash,
    /// How its key was made, where the resource varies.
    pub variants: Option<Variants>,
}

/// What a fill came to, for those who waited for its response head.
pub enum Decision {
    /// The response is storable: stream along.
    Stream(Follower),
    /// It ended; look the object up, or take it from here.
    Done(Option<Response>),
    /// The response may not be shared, for the reason named: ask the origin yourself.
    Released(&'static str),
    /// The origin gave no usable response.
    Failed(&'static str),
}

impl Fill {
    /// Starts a fill in state Ready and gives its owner.
    #[must_use]
    pub fn start(hash: KeyHash, primary: KeyHash, asked: Asked) -> Owner {
        let (state, changed) = (Mutex::new(State::Ready), Notify::new());
        let unwanted = AtomicBool::new(false);
        Owner { fill: Arc::new(Self { hash, primary, asked, state, changed, unwanted }) }
    }

    /// Whether who asks for `asked` had better wait for this fill than ask the origin.
    #[must_use]
    pub fn may_serve(&self, asked: &Asked) -> bool {
        match (&*self.state.lock(), asked) {
            (State::Ready, asked) => self.asked.is_enough_for(asked),
            (State::Waiting(stream) | State::Splicing(stream), Asked::Missing(missing)) => {
                stream.has(missing.start) && stream.is_near(missing.start)
            }
            (State::Waiting(stream) | State::Splicing(stream), Asked::Range(range)) => {
                self.asked == *asked || stream.brings(range)
            }
            (State::Waiting(stream) | State::Splicing(stream), Asked::Whole) => stream.is_whole(),
            (State::Done(..) | State::Released(_) | State::Failed(..), asked) => self.asked == *asked,
        }
    }

    /// Whether the response head has been judged.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        !matches!(*self.state.lock(), State::Ready)
    }

    /// Waits until the response head has been judged. A follower begins at `offset`, else at the first byte that comes.
    pub async fn decided(self: &Arc<Self>, offset: Option<u64>) -> Decision {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(decision) = self.decision(offset) {
                return decision;
            }
            changed.await;
        }
    }

    /// A purge named this object while it was on its way: those who stream along go on, but it is not kept.
    pub fn forget(&self) {
        self.unwanted.store(true, Ordering::Release);
    }

    /// Whether [`Self::forget`] was called.
    #[must_use]
    pub fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Acquire)
    }

    fn decision(self: &Arc<Self>, offset: Option<u64>) -> Option<Decision> {
        let mut state = self.state.lock();
        Some(match &mut *state {
            State::Ready => return None,
            State::Waiting(stream) | State::Splicing(stream) => {
                let offset = offset.unwrap_or(stream.start);
                if stream.has(offset) {
                    Decision::Stream(Follower::join(self, stream, offset))
                } else {
                    Decision::Released("no-longer-whole")
                }
            }
            State::Done(response, _) => Decision::Done(response.clone()),
            State::Released(why) => Decision::Released(why),
            State::Failed(why, _) => Decision::Failed(why),
        })
    }
}

/// The one who fetches. See the states for its calls' order.
pub struct Owner {
    fill: Arc<Fill>,
}

impl Owner {
    /// The fill, for the table and for whoever follows.
    #[must_use]
    pub fn fill(&self) -> &Arc<Fill> {
        &self.fill
    }

    /// Whether a purge named the object meanwhile.
    #[must_use]
    pub fn is_unwanted(&self) -> bool {
        self.fill.is_unwanted()
    }

    /// Ready → Waiting: the head is storable, and the bytes from `start` to `end` will come; `end` where the framing
    /// tells. Gives the first follower.
    #[must_use]
    pub fn storable(&self, promised: Arc<Promised>, start: u64, end: Option<u64>) -> Follower {
        let (pieces, followers) = (VecDeque::new(), Slab::new());
        let mut stream = Stream { promised, start, end, pieces, followers, kept: true };
        let follower = Follower::join(&self.fill, &mut stream, start);
        self.turn(State::Waiting(stream));
        follower
    }

    /// A further stretch of the body begins at `start` and will be received into what `reader` sees.
    pub fn piece(&self, start: u64, reader: Reader) {
        let mut state = self.fill.state.lock();
        if let State::Waiting(stream) = &mut *state {
            stream.pieces.push_back(Piece { start, place: PieceAt::Memory(reader) });
            let stream = std::mem::replace(&mut *state, State::Ready);
            if let State::Waiting(stream) = stream {
                *state = State::Splicing(stream);
            }
        } else if let State::Splicing(stream) = &mut *state {
            stream.pieces.push_back(Piece { start, place: PieceAt::Memory(reader) });
        }
    }

    /// More payload is in the newest piece.
    pub fn progressed(&self) {
        self.fill.changed.notify_waiters();
    }

    /// The payload has ended before the byte at `end`.
    pub fn ended(&self, end: u64) {
        self.with_stream(|stream| stream.end = Some(end));
        self.progressed();
    }

    /// The piece that begins at `start` is on a device now, and stays there for as long as it may be followed.
    pub fn on_device(&self, start: u64, lease: Lease) {
        self.with_stream(|stream| {
            if let Ok(i) = stream.pieces.binary_search_by_key(&start, |piece| piece.start) {
                stream.pieces[i].place = PieceAt::Device(lease);
            }
        });
    }

    /// The store will not have this object: from here on pieces stay in memory until every follower has passed them.
    pub fn give_up_keeping(&self) {
        self.with_stream(|stream| stream.kept = false);
    }

    /// Pieces that are in memory only.
    #[must_use]
    pub fn pieces_in_memory(&self) -> usize {
        let count = |stream: &mut Stream| {
            if !stream.kept {
                stream.drop_passed();
            }
            stream.pieces.iter().filter(|piece| matches!(piece.place, PieceAt::Memory(_))).count()
        };
        self.with_stream(count).unwrap_or(0)
    }

    /// Clients that stream along.
    #[must_use]
    pub fn followers(&self) -> usize {
        self.with_stream(|stream| stream.followers.len()).unwrap_or(0)
    }

    /// Waits until a follower has moved on or left.
    pub async fn followed(&self) {
        self.fill.changed.notified().await;
    }

    /// Waits until nobody streams along any more.
    pub async fn abandoned(&self) {
        loop {
            let changed = self.fill.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.followers() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// → Done. `response` where it can be had at once; otherwise a lookup finds it.
    pub fn done(self, response: Option<Response>) {
        self.end(|stream| State::Done(response, stream));
    }

    /// Ready → Released.
    pub fn release(self, why: &'static str) {
        self.turn(State::Released(why));
    }

    /// → Failed.
    pub fn fail(self, why: &'static str) {
        self.end(|stream| State::Failed(why, stream));
    }

    /// The last state, with the stream for those who have not sent all of it.
    fn end(&self, last: impl FnOnce(Option<Stream>) -> State) {
        let mut state = self.fill.state.lock();
        let stream = match std::mem::replace(&mut *state, State::Ready) {
            State::Waiting(stream) | State::Splicing(stream) => Some(stream),
            _ => None,
        };
        *state = last(stream);
        drop(state);
        self.fill.changed.notify_waiters();
    }

    fn turn(&self, next: State) {
        *self.fill.state.lock() = next;
        self.fill.changed.notify_waiters();
    }

    fn with_stream<R>(&self, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        match &mut *self.fill.state.lock() {
            State::Waiting(stream) | State::Splicing(stream) => Some(change(stream)),
            _ => None,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let is_under_way =
            matches!(*self.fill.state.lock(), State::Ready | State::Waiting(_) | State::Splicing(_));
        if is_under_way {
            self.end(|stream| State::Failed("owner-gone", stream));
        }
    }
}

/// One client that streams along.
pub struct Follower {
    fill: Arc<Fill>,
    /// What is being stored.
    pub promised: Arc<Promised>,
    id: usize,
    offset: u64,
}

impl Follower {
    fn join(fill: &Arc<Fill>, stream: &mut Stream, offset: u64) -> Self {
        let (id, promised) = (stream.followers.insert(offset), Arc::clone(&stream.promised));
        Self { fill: Arc::clone(fill), promised, id, offset }
    }

    /// Whether the response that is being stored is the variant for `request`.
    #[must_use]
    pub fn fits(&self, shared: &Shared, request: &Request<'_>) -> bool {
        match &self.promised.variants {
            None => true,
            Some(variants) => request.variant(shared, variants).1 == self.promised.hash,
        }
    }

    /// What is there at this follower's offset.
    #[must_use]
    pub fn at(&self) -> At {
        let state = self.fill.state.lock();
        let at = state.stream().map_or(At::Broken("not-a-stream"), |stream| stream.at(self.offset));
        match (at, &*state) {
            // What came went out first.
            (At::NotYet, State::Failed(why, _)) => At::Broken(why),
            (at, _) => at,
        }
    }

    /// Waits until [`Self::at`] has something other than [`At::NotYet`].
    pub async fn more(&self) -> At {
        loop {
            let changed = self.fill.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match self.at() {
                At::NotYet => changed.await,
                at => return at,
            }
        }
    }

    /// What [`Self::at`] has on a device cannot be read: nobody is shown it any more.
    pub fn lose(&self) {
        if let Some(stream) = self.fill.state.lock().stream_mut() {
            stream.lose(self.offset);
        }
    }

    /// Which bytes of the whole the fill brings: from the first on, up to the second where that is known.
    #[must_use]
    pub fn span(&self) -> (u64, Option<u64>) {
        self.fill.state.lock().stream().map_or((self.offset, None), |stream| (stream.start, stream.end))
    }

    /// Bytes of the whole representation, once that is known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match self.promised.head.stored.content_length {
            Some(length) => Some(length),
            None => self.span().1,
        }
    }

    /// Whether the byte at `offset` is there, or soon will be.
    #[must_use]
    pub fn is_near(&self, offset: u64) -> bool {
        match &*self.fill.state.lock() {
            State::Waiting(stream) | State::Splicing(stream) => stream.is_near(offset),
            _ => true,
        }
    }

    /// The next byte that the client gets.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The client has `n` bytes more, or does without them.
    pub fn advance(&mut self, n: u64) {
        self.offset += n;
        let mut state = self.fill.state.lock();
        let (State::Waiting(stream) | State::Splicing(stream)) = &mut *state else { return };
        if let Some(offset) = stream.followers.get_mut(self.id) {
            *offset = self.offset;
        }
        let owner_waits = !stream.kept;
        drop(state);
        if owner_waits {
            self.fill.changed.notify_waiters();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let State::Waiting(stream) | State::Splicing(stream) = &mut *self.fill.state.lock() {
            stream.followers.try_remove(self.id);
        }
        self.fill.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
