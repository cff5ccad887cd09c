//! One response on its way from an origin into the store, and everybody who waits for it or streams along.
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
//! - a follower sees the body from its first byte, in order, or learns that it cannot have it: never a short body that
//!   looks complete;
//! - a slow follower does not slow the fill: what is safe on a device is read from there, not kept in memory for it.
//!   Only a fill that the store gave up on keeps bytes for its followers, and then waits for the slowest.

pub mod keeper;
pub mod receive;

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

/// A fill, shared by its owner, the table of fills and its followers.
pub struct Fill {
    /// What it is collapsed under: the key, with the variant where the resource is known to vary.
    pub hash: KeyHash,
    /// The key without a variant: what a purge names.
    pub primary: KeyHash,
    state: Mutex<State>,
    changed: Notify,
    unwanted: AtomicBool,
}

/// Where a fill stands. The table is in the module's comment.
enum State {
    Ready,
    Waiting(Stream),
    Splicing(Stream),
    /// The stream stays for those who still follow: every piece of it can be read.
    Done(Option<Response>, Option<Stream>),
    Released(&'static str),
    Failed(&'static str),
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

/// A body on its way.
struct Stream {
    promised: Arc<Promised>,
    /// Its whole length, where the framing told or the end has come.
    length: Option<u64>,
    pieces: VecDeque<Piece>,
    /// Offsets that the followers have reached.
    followers: Slab<u64>,
    /// Whether every piece stays readable: in memory, then on a device. Not so once the store has given up.
    kept: bool,
}

/// A stretch of the body: first in memory, then on a device.
struct Piece {
    start: u64,
    place: PieceAt,
}

enum PieceAt {
    Memory(Reader),
    Device(Lease),
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

/// What is there at a follower's offset.
pub enum At {
    /// Bytes in memory: this range of the reader's filled part.
    Memory(Reader, Range<usize>),
    /// Bytes on a device: this range of the leased place.
    Device(Lease, Range<u32>),
    /// Nothing yet.
    NotYet,
    /// The body ends here.
    End,
    /// The body will not be completed.
    Broken(&'static str),
}

impl Fill {
    fn new(hash: KeyHash, primary: KeyHash) -> Arc<Self> {
        Arc::new(Self {
            hash,
            primary,
            state: Mutex::new(State::Ready),
            changed: Notify::new(),
            unwanted: AtomicBool::new(false),
        })
    }

    /// Starts a fill in state Ready and gives its owner.
    #[must_use]
    pub fn start(hash: KeyHash, primary: KeyHash) -> Owner {
        Owner { fill: Self::new(hash, primary) }
    }

    /// Waits until the response head has been judged.
    pub async fn decided(self: &Arc<Self>) -> Decision {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(decision) = self.decision() {
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

    fn decision(self: &Arc<Self>) -> Option<Decision> {
        let mut state = self.state.lock();
        Some(match &mut *state {
            State::Ready => return None,
            State::Waiting(stream) | State::Splicing(stream) if stream.is_whole() => {
                let promised = Arc::clone(&stream.promised);
                let id = stream.followers.insert(0);
                drop(state);
                return Some(Decision::Stream(Follower { fill: Arc::clone(self), promised, id, offset: 0 }));
            }
            State::Waiting(_) | State::Splicing(_) => Decision::Released("no-longer-whole"),
            State::Done(response, _) => Decision::Done(response.clone()),
            State::Released(why) => Decision::Released(why),
            State::Failed(why) => Decision::Failed(why),
        })
    }
}

impl Stream {
    /// Whether its first byte can still be had.
    fn is_whole(&self) -> bool {
        self.pieces.front().is_none_or(|piece| piece.start == 0)
    }

    fn at(&self, offset: u64) -> At {
        if self.length == Some(offset) {
            return At::End;
        }
        let behind = self.pieces.partition_point(|piece| piece.start <= offset);
        let Some(piece) = behind.checked_sub(1).and_then(|i| self.pieces.get(i)) else {
            return if self.pieces.is_empty() { At::NotYet } else { At::Broken("follower-too-slow") };
        };
        let within = offset - piece.start;
        match &piece.place {
            PieceAt::Memory(reader) => {
                let filled = reader.filled().len();
                match usize::try_from(within) {
                    Ok(from) if from < filled => At::Memory(reader.clone(), from..filled),
                    _ => At::NotYet,
                }
            }
            PieceAt::Device(lease) => match u32::try_from(within) {
                Ok(from) if from < lease.place().len => At::Device(lease.clone(), from..lease.place().len),
                _ => At::NotYet,
            },
        }
    }

    /// Drops the pieces that every follower has behind it.
    fn drop_passed(&mut self) {
        let slowest = self.followers.iter().map(|(_, offset)| *offset).min().unwrap_or(u64::MAX);
        while self.pieces.get(1).is_some_and(|next| next.start <= slowest) {
            self.pieces.pop_front();
        }
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

    /// Ready → Waiting: the head is storable. `length` where the framing tells. Gives the first follower.
    #[must_use]
    pub fn storable(&self, promised: Arc<Promised>, length: Option<u64>) -> Follower {
        let mut followers = Slab::new();
        let id = followers.insert(0);
        let follower =
            Follower { fill: Arc::clone(&self.fill), promised: Arc::clone(&promised), id, offset: 0 };
        self.turn(State::Waiting(Stream {
            promised,
            length,
            pieces: VecDeque::new(),
            followers,
            kept: true,
        }));
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

    /// The payload has ended after `length` bytes.
    pub fn ended(&self, length: u64) {
        self.with_stream(|stream| stream.length = Some(length));
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
        let mut state = self.fill.state.lock();
        let stream = match std::mem::replace(&mut *state, State::Ready) {
            State::Waiting(stream) | State::Splicing(stream) => Some(stream),
            _ => None,
        };
        *state = State::Done(response, stream);
        drop(state);
        self.fill.changed.notify_waiters();
    }

    /// Ready → Released.
    pub fn release(self, why: &'static str) {
        self.turn(State::Released(why));
    }

    /// → Failed.
    pub fn fail(self, why: &'static str) {
        self.turn(State::Failed(why));
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
        let mut state = self.fill.state.lock();
        if matches!(*state, State::Ready | State::Waiting(_) | State::Splicing(_)) {
            *state = State::Failed("owner-gone");
            drop(state);
            self.fill.changed.notify_waiters();
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
        match &*self.fill.state.lock() {
            State::Waiting(stream) | State::Splicing(stream) | State::Done(_, Some(stream)) => {
                stream.at(self.offset)
            }
            State::Failed(why) | State::Released(why) => At::Broken(why),
            State::Ready | State::Done(_, None) => At::Broken("not-a-stream"),
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

    /// The whole length, once it is known.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &*self.fill.state.lock() {
            State::Waiting(stream) | State::Splicing(stream) | State::Done(_, Some(stream)) => stream.length,
            _ => None,
        }
    }

    /// The client has `n` bytes more.
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
