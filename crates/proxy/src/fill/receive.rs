//! Receives a large body from its origin, once, straight into the aligned buffers that its followers send from and that
//! are written to the log.
//!
//! What must hold: memory for bodies on their way is bounded by the budget, and for one fill by [`PIECES_IN_MEMORY`];
//! what is stored of a body is on its devices, and is stored as the whole only if it is; a purge meanwhile wins.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use store::{At, Crc32c, Declined, WrittenExtent};
use sys::aligned::{AlignedBuffer, Reader, Writer};

use super::{Owner, Promised, keeper, parts};
use crate::body::{Broken, Inbound, Span};
use crate::collapse::Ticket;
use crate::origin::pool::Connection;
use crate::worker::{Occupied, Worker};

/// Bytes of a full piece: one extent, one device write.
pub const PIECE_BYTES: u64 = 1 << 20;

/// Bytes of the first piece of a body whose length is not known.
const FIRST_PIECE_BYTES: u64 = 64 * 1024;

/// Pieces of one fill that are not yet on a device.
const PIECES_IN_MEMORY: usize = 4;

/// What is left of a part that nobody waits for is still received if it is no more than this: then the connection can be
/// used again. The rest is a hole that the next client who wants it has filled.
const FINISH_BYTES: u64 = 4 * PIECE_BYTES;

/// The receiving of a body. Whoever holds it carries it on by awaiting it: the client that caused it does, so that bytes
/// go out while they are still in the processor's cache. Given up, it goes on by itself.
#[must_use]
pub struct Work(Option<Pin<Box<dyn Future<Output = ()>>>>);

impl Future for Work {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.0 else { return Poll::Ready(()) };
        ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(())
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Outside of a runtime the thread is ending; so is the fill, and its owner's end says so to all who wait.
        if let (Some(rest), Ok(_)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            tokio::task::spawn_local(rest);
        }
    }
}

/// What will be received, and from where.
pub struct Source {
    /// What it will be stored as.
    pub promised: Arc<Promised>,
    /// Its bytes, where it is a part; the whole otherwise.
    pub part: Option<Range<u64>>,
    /// The body.
    pub inbound: Inbound,
    /// Where it comes from.
    pub connection: Connection,
    /// Whether the connection can be used again after the body.
    pub reusable: bool,
}

impl Work {
    /// Somebody else does it.
    pub fn none() -> Self {
        Self(None)
    }
}

/// Prepares to receive. The ticket's fill is in state Waiting.
pub fn start(worker: &Rc<Worker>, ticket: Ticket, source: Source) -> Work {
    let occupied = worker.occupied();
    let Source { promised, part, inbound, connection, reusable } = source;
    let start = part.as_ref().map_or(0, |part| part.start);
    let filling = Filling {
        worker: Rc::clone(worker),
        promised,
        part,
        inbound,
        connection,
        watch: worker.timers.watch(),
        start,
        received: 0,
        writes: Vec::new(),
        extents: Vec::new(),
        declined: None,
        small: None,
        crc: Crc32c::new(),
    };
    Work(Some(Box::pin(filling.run(ticket, reusable, occupied))))
}

/// A piece's start, and the proof that it is on a device.
type Written = (u64, Result<WrittenExtent, Declined>);

/// How a body came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// To its end.
    Whole,
    /// Not all of it, or not all of it is on a device.
    Partly,
}

/// A body being received.
struct Filling {
    worker: Rc<Worker>,
    promised: Arc<Promised>,
    part: Option<Range<u64>>,
    inbound: Inbound,
    connection: Connection,
    watch: pump::Watch,
    /// Where in the whole body the first byte belongs that is received.
    start: u64,
    received: u64,
    /// Pieces on their way to a device, oldest first.
    writes: Vec<tokio::task::JoinHandle<Written>>,
    extents: Vec<(u64, WrittenExtent)>,
    declined: Option<Declined>,
    /// The only piece, when the whole body turned out small.
    small: Option<Reader>,
    /// Of the piece being received: taken while its bytes are still in the processor's cache.
    crc: Crc32c,
}

/// Why a fill ends without an object.
struct GivenUp(&'static str);

impl Filling {
    async fn run(mut self, ticket: Ticket, reusable: bool, _occupied: Occupied) {
        let Some(owner) = ticket.owner() else { return };
        let for_cache = self.worker.shared.settings.fill.finish_without_client;
        let outcome = tokio::select! {
            biased;
            outcome = self.receive_all(owner) => outcome,
            () = owner.abandoned(), if !for_cache => Err(GivenUp("no-client-left")),
        };
        let failed = outcome.err().map(|GivenUp(word)| word);
        if let Some(word) = failed {
            tracing::info!(reason = word, received = self.received, "the body did not come to its end");
            self.wait_for_writes(owner).await;
        }
        self.keep(owner, failed.map_or(Came::Whole, |_| Came::Partly)).await;
        let Self { worker, inbound, connection, .. } = self;
        if failed.is_none() && reusable && inbound.is_done() && inbound.window.filled().is_empty() {
            worker.origins.give_back(connection, Instant::now());
        }
        ticket.end(|owner| match failed {
            None => owner.done(None),
            Some(word) => owner.fail(word),
        });
    }

    /// Until the body has ended and all of it is on its devices, or the store has declined it.
    async fn receive_all(&mut self, owner: &Owner) -> Result<(), GivenUp> {
        loop {
            let Some(more) = self.next_span(owner).await? else { break };
            if self.left_of_part() == Some(0) {
                return Err(self.lied());
            }
            let size = self.piece_size(more);
            let (mut writer, reader) = self.buffer(owner, size).await?.split();
            let start = self.start + self.received;
            owner.piece(start, reader.clone());
            self.crc = Crc32c::new();
            self.fill_piece(owner, &mut writer).await?;
            writer.finish();
            self.piece_is_full(owner, start, reader).await?;
        }
        let end = self.start + self.received;
        if self.left_of_part().is_some_and(|left| left > 0) {
            return Err(self.lied());
        }
        owner.ended(end);
        self.wait_for_writes(owner).await;
        Ok(())
    }

    async fn wait_for_writes(&mut self, owner: &Owner) {
        while !self.writes.is_empty() {
            self.oldest_write(owner).await;
        }
    }

    /// What comes next of the body; `None` at its end.
    async fn next_span(&mut self, owner: &Owner) -> Result<Option<Span>, GivenUp> {
        self.check_wanted(owner)?;
        let patience = self.worker.with_origin();
        let span =
            self.inbound.next(&self.connection.socket, &self.watch, &patience).await.map_err(broken)?;
        Ok(Some(span).filter(|span| *span != Span::End))
    }

    /// A fill that nobody follows goes on for the cache's sake, unless told otherwise or the cache will not have it.
    fn check_wanted(&self, owner: &Owner) -> Result<(), GivenUp> {
        let for_cache = self.worker.shared.settings.fill.finish_without_client && self.declined.is_none();
        let is_too_much = |part: &Range<u64>| part.end - part.start > self.received + FINISH_BYTES;
        let for_cache = for_cache && !self.part.as_ref().is_some_and(is_too_much);
        if owner.followers() == 0 && !for_cache {
            return Err(GivenUp("no-client-left"));
        }
        if self.received > self.worker.shared.settings.limits.object_bytes && owner.followers() == 0 {
            return Err(GivenUp("too-large"));
        }
        Ok(())
    }

    /// Bytes that are missing of the part that was announced.
    fn left_of_part(&self) -> Option<u64> {
        Some(self.part.as_ref()?.end.saturating_sub(self.start + self.received))
    }

    /// How many bytes may be taken next.
    fn most(&self) -> usize {
        self.left_of_part().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// More bytes came than `Content-Range` said, or fewer: none of them is kept.
    fn lied(&mut self) -> GivenUp {
        self.extents.clear();
        self.declined = Some(Declined::TooLarge);
        GivenUp("other-length-than-said")
    }

    fn piece_size(&self, span: Span) -> u64 {
        let known = self.inbound.remaining().or(self.left_of_part());
        match (known, span) {
            (Some(left), _) => left.min(PIECE_BYTES),
            (None, _) if self.received == 0 => FIRST_PIECE_BYTES,
            (None, _) => PIECE_BYTES,
        }
    }

    /// A buffer from the budget. Waits while this fill has as many as one may have; when the budget is used up by
    /// others, the store goes without this object rather than its clients without their bytes.
    async fn buffer(&mut self, owner: &Owner, size: u64) -> Result<AlignedBuffer, GivenUp> {
        loop {
            self.check_wanted(owner)?;
            let has_room = owner.pieces_in_memory() < PIECES_IN_MEMORY;
            if has_room && self.declined.is_none() {
                match self.worker.disk.disks().budget.try_take(size as usize) {
                    Ok(buffer) => return Ok(buffer),
                    Err(_) if self.writes.is_empty() => self.decline(owner, Declined::WritesBehind),
                    Err(_) => {}
                }
            }
            if !self.writes.is_empty() {
                self.oldest_write(owner).await;
            } else if has_room {
                let small = size.min(FIRST_PIECE_BYTES) as usize;
                return AlignedBuffer::new(small).map_err(|_| GivenUp("no-memory"));
            } else {
                self.wait_for_followers(owner).await?;
            }
        }
    }

    /// The store has given up on the body: it goes at its slowest follower's pace.
    async fn wait_for_followers(&mut self, owner: &Owner) -> Result<(), GivenUp> {
        let limit = self.worker.shared.settings.timeouts.client_send;
        self.watch.within(limit, owner.followed()).await.map_err(|_| GivenUp("followers-too-slow"))
    }

    /// Receives until the piece is full or the body ends.
    async fn fill_piece(&mut self, owner: &Owner, writer: &mut Writer) -> Result<(), GivenUp> {
        let patience = self.worker.with_origin();
        while writer.remaining() > 0 && self.left_of_part() != Some(0) {
            let span =
                self.inbound.next(&self.connection.socket, &self.watch, &patience).await.map_err(broken)?;
            let n = match span {
                Span::End => return Ok(()),
                Span::InWindow(n) => {
                    let n = n.min(self.most());
                    let n = writer.put(&self.inbound.window.filled()[..n]);
                    self.crc.update(&self.inbound.window.filled()[..n]);
                    self.inbound.used(n);
                    n
                }
                Span::OnSocket(left) => {
                    match self.receive_into(writer, left.min(self.most() as u64)).await? {
                        0 => return Ok(()),
                        n => n,
                    }
                }
            };
            self.worker.metrics.user_copied(n as u64);
            self.received += n as u64;
            owner.progressed();
        }
        Ok(())
    }

    /// Receives payload from the socket straight into the piece; 0 at the end of a body that ends with its connection.
    async fn receive_into(&mut self, writer: &mut Writer, left: u64) -> Result<usize, GivenUp> {
        let patience = self.worker.with_origin();
        let room = writer.unfilled();
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let socket = &self.connection.socket;
        match pump::copy::receive(socket, &mut room[..most], &self.watch, &patience).await {
            Ok(n) => {
                self.crc.update(&room[..n]);
                writer.advance(n);
                self.inbound.moved(n as u64);
                Ok(n)
            }
            Err(pump::Why::Ended) if self.inbound.ends_with_connection() => {
                self.inbound.ended();
                Ok(0)
            }
            Err(why) => Err(broken(Broken::Sender(why))),
        }
    }

    /// Sends a finished piece on its way to a device, unless it may be the only one and small.
    async fn piece_is_full(&mut self, owner: &Owner, start: u64, reader: Reader) -> Result<(), GivenUp> {
        let length = reader.filled().len();
        if length == 0 || self.declined.is_some() {
            return Ok(());
        }
        let over = self.received > self.worker.shared.settings.limits.object_bytes;
        if over || owner.is_unwanted() {
            self.decline(owner, Declined::TooLarge);
            return Ok(());
        }
        let is_all = self.part.is_none() && start == 0 && self.inbound.is_done();
        if is_all && length as u64 <= keeper::SMALL_BYTES {
            self.small = Some(reader);
            return Ok(());
        }
        let Some(settled) = reader.settled_padded() else { return Err(GivenUp("buffer-not-settled")) };
        let (worker, promised) = (Rc::clone(&self.worker), Arc::clone(&self.promised));
        let (bytes, crc): (Bytes, u32) = (settled.into(), self.crc.value());
        self.writes.push(tokio::task::spawn_local(async move {
            (start, keeper::write_extent(&worker, &promised, bytes, length, crc).await)
        }));
        if self.writes.len() >= PIECES_IN_MEMORY {
            self.oldest_write(owner).await;
        }
        Ok(())
    }

    async fn oldest_write(&mut self, owner: &Owner) {
        if self.writes.is_empty() {
            return;
        }
        match self.writes.remove(0).await {
            Ok((start, Ok(extent))) => {
                // Without a lease (reclaim was faster) the piece stays in memory.
                if let Some(At::Device(lease)) = self.worker.shared.cache.store.at(extent.place()) {
                    owner.on_device(start, lease);
                }
                self.extents.push((start, extent));
            }
            Ok((_, Err(why))) => self.decline(owner, why),
            Err(_cancelled) => self.decline(owner, Declined::Closed),
        }
    }

    fn decline(&mut self, owner: &Owner, why: Declined) {
        if self.declined.is_none() {
            tracing::debug!(reason = why.word(), "not stored");
            owner.give_up_keeping();
        }
        self.declined = Some(why);
    }

    /// What has come becomes an object, or a part of one.
    async fn keep(&mut self, owner: &Owner, came: Came) {
        if owner.is_unwanted() || self.declined == Some(Declined::TooLarge) {
            return;
        }
        let is_whole = self.part.is_none() && came == Came::Whole && self.declined.is_none();
        match self.small.take() {
            _ if !is_whole => parts::keep(&self.worker, &self.promised, &self.extents).await,
            Some(reader) => {
                let text = self.text_with_length();
                keeper::keep_small_text(&self.worker, &self.promised, &text, reader.filled());
            }
            None => {
                let text = self.text_with_length();
                keeper::keep_large(&self.worker, &self.promised, &text, &self.extents);
            }
        }
        if owner.is_unwanted() {
            keeper::drop_unwanted(&self.worker, self.promised.hash);
        }
    }

    /// The head's text as it is stored: now the length is known.
    fn text_with_length(&self) -> Vec<u8> {
        let mut text = self.promised.head.text.to_vec();
        if self.promised.head.stored.content_length.is_none() {
            wire::write::field_decimal(&mut text, "Content-Length", self.received);
        }
        text
    }
}

fn broken(broken: Broken) -> GivenUp {
    GivenUp(match broken {
        Broken::Framing(refusal) => refusal.word(),
        Broken::Sender(pump::Why::Ended) => "origin-ended-early",
        Broken::Sender(pump::Why::Stalled) => "origin-stalled",
        Broken::Sender(pump::Why::Failed(_)) => "origin-failed",
    })
}
