//! Receives a large body from its origin, once, straight into the aligned buffers that its followers send from and that
//! are written to the log.
//!
//! What must hold: memory for bodies on their way is bounded by the budget, and for one fill by [`PIECES_IN_MEMORY`];
//! the object is stored only when all of it is on its devices; a purge meanwhile wins.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use store::{At, Crc32c, Declined, WrittenExtent};
use sys::aligned::{AlignedBuffer, Reader, Writer};

use super::{Owner, Promised, keeper};
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

/// Prepares to receive. The ticket's fill is in state Waiting.
pub fn start(
    worker: &Rc<Worker>,
    ticket: Ticket,
    promised: Arc<Promised>,
    inbound: Inbound,
    connection: Connection,
    reusable: bool,
) -> Work {
    let occupied = worker.occupied();
    let filling = Filling {
        worker: Rc::clone(worker),
        promised,
        inbound,
        connection,
        watch: worker.timers.watch(),
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

/// A body being received.
struct Filling {
    worker: Rc<Worker>,
    promised: Arc<Promised>,
    inbound: Inbound,
    connection: Connection,
    watch: pump::Watch,
    received: u64,
    /// Pieces on their way to a device, oldest first.
    writes: Vec<tokio::task::JoinHandle<Written>>,
    extents: Vec<WrittenExtent>,
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
        let whole = outcome.is_ok();
        match outcome {
            Ok(()) => self.keep(owner),
            Err(GivenUp(word)) => {
                tracing::info!(reason = word, received = self.received, "fill ended without an object");
            }
        }
        let Self { worker, inbound, connection, .. } = self;
        if whole && reusable && inbound.is_done() && inbound.window.filled().is_empty() {
            worker.origins.give_back(connection, Instant::now());
        }
        ticket.end(|owner| match whole {
            true => owner.done(None),
            false => owner.fail("fill-failed"),
        });
    }

    /// Until the body has ended and all of it is on its devices, or the store has declined it.
    async fn receive_all(&mut self, owner: &Owner) -> Result<(), GivenUp> {
        loop {
            let Some(more) = self.next_span(owner).await? else { break };
            let size = self.piece_size(more);
            let (mut writer, reader) = self.buffer(owner, size).await?.split();
            let start = self.received;
            owner.piece(start, reader.clone());
            self.crc = Crc32c::new();
            self.fill_piece(owner, &mut writer).await?;
            writer.finish();
            self.piece_is_full(owner, start, reader).await?;
        }
        owner.ended(self.received);
        while !self.writes.is_empty() {
            self.oldest_write(owner).await;
        }
        Ok(())
    }

    /// What comes next of the body; `None` at its end.
    async fn next_span(&mut self, owner: &Owner) -> Result<Option<Span>, GivenUp> {
        self.check_wanted(owner)?;
        let limit = self.worker.shared.settings.timeouts.origin_body;
        let span = self.inbound.next(&self.connection.socket, &self.watch, limit).await.map_err(broken)?;
        Ok(Some(span).filter(|span| *span != Span::End))
    }

    /// A fill that nobody follows goes on for the cache's sake, unless told otherwise or the cache will not have it.
    fn check_wanted(&self, owner: &Owner) -> Result<(), GivenUp> {
        let for_cache = self.worker.shared.settings.fill.finish_without_client && self.declined.is_none();
        if owner.followers() == 0 && !for_cache {
            return Err(GivenUp("no-client-left"));
        }
        if self.received > self.worker.shared.settings.limits.object_bytes && owner.followers() == 0 {
            return Err(GivenUp("too-large"));
        }
        Ok(())
    }

    fn piece_size(&self, span: Span) -> u64 {
        let known = self.inbound.remaining();
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
        let limit = self.worker.shared.settings.timeouts.origin_body;
        while writer.remaining() > 0 {
            let span =
                self.inbound.next(&self.connection.socket, &self.watch, limit).await.map_err(broken)?;
            let n = match span {
                Span::End => return Ok(()),
                Span::InWindow(n) => {
                    let n = writer.put(&self.inbound.window.filled()[..n]);
                    self.crc.update(&self.inbound.window.filled()[..n]);
                    self.inbound.used(n);
                    n
                }
                Span::OnSocket(left) => match self.receive_into(writer, left).await? {
                    0 => return Ok(()),
                    n => n,
                },
            };
            self.worker.metrics.user_copied(n as u64);
            self.received += n as u64;
            owner.progressed();
        }
        Ok(())
    }

    /// Receives payload from the socket straight into the piece; 0 at the end of a body that ends with its connection.
    async fn receive_into(&mut self, writer: &mut Writer, left: u64) -> Result<usize, GivenUp> {
        let limit = self.worker.shared.settings.timeouts.origin_body;
        let room = writer.unfilled();
        let most = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let socket = &self.connection.socket;
        match pump::copy::receive(socket, &mut room[..most], &self.watch, limit).await {
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
        if start == 0 && length as u64 <= keeper::SMALL_BYTES && self.inbound.is_done() {
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
                self.extents.push(extent);
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

    /// All of the body is here: it becomes an object.
    fn keep(&mut self, owner: &Owner) {
        if self.declined.is_some() || owner.is_unwanted() {
            return;
        }
        let text = self.text_with_length();
        match self.small.take() {
            Some(reader) => {
                keeper::keep_small_text(&self.worker, &self.promised, &text, reader.filled());
            }
            None => keeper::keep_large(&self.worker, &self.promised, &text, &self.extents),
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
