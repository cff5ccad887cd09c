//! Heads of responses that are made of a stored one: as it is, or for parts of it (RFC 9110 §14.4, §15.3.7).

use semantics::multipart::Multipart;
use semantics::ranges::{ByteRange, write_content_range};
use semantics::{CacheStatus, Seconds};
use wire::Version;

use crate::exchange::Exchange;
use crate::object::Head;
use crate::outbound::Outgoing;
use crate::respond::{self, Persistence};
use crate::worker::Worker;

/// Appends the head of a stored response as it goes out now.
pub(super) fn write_head(
    worker: &Worker,
    out: &mut Vec<u8>,
    head: &Head,
    age: Seconds,
    status: &CacheStatus<'_>,
    persistence: Persistence,
) {
    out.extend_from_slice(&head.text);
    write_age(out, age);
    write_via(worker, out);
    respond::finish_head(out, status, Outgoing::None, persistence);
}

/// What a 206 has.
#[derive(Clone, Copy)]
pub enum PartKind<'p> {
    /// These bytes of so many.
    One(ByteRange, u64),
    /// Several parts, framed so.
    Several(&'p Multipart<'p>),
}

/// The head of a 206 whose content has `length` bytes.
#[must_use]
pub fn part_head(
    x: &Exchange<'_>,
    stored: &Head,
    kind: PartKind<'_>,
    length: u64,
    status: &CacheStatus<'_>,
    persistence: Persistence,
) -> Vec<u8> {
    let complete = stored.complete();
    let mut head = Vec::with_capacity(stored.text.len() + 256);
    wire::write::status_line(&mut head, 206, b"Partial Content");
    let fields = stored.parsed(&complete).map(|parsed| parsed.fields).unwrap_or_default();
    for field in fields.iter().filter(|field| !is_replaced(field.name, kind)) {
        wire::write::field(&mut head, field.name, field.value);
    }
    let mut value = Vec::with_capacity(80);
    match kind {
        PartKind::One(range, of) => {
            write_content_range(&mut value, range, of);
            wire::write::field(&mut head, "Content-Range", &value);
        }
        PartKind::Several(frame) => {
            frame.write_content_type(&mut value);
            wire::write::field(&mut head, "Content-Type", &value);
        }
    }
    wire::write::field_decimal(&mut head, "Content-Length", length);
    write_age(&mut head, stored.stored.age(x.request.now));
    write_via(x.worker, &mut head);
    respond::finish_head(&mut head, status, Outgoing::None, persistence);
    head
}

fn is_replaced(name: &str, kind: PartKind<'_>) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    is("content-length") || matches!(kind, PartKind::Several(_)) && is("content-type")
}

/// Appends our `Via`. What is stored came by HTTP/1.1, or is told as if it had.
pub fn write_via(worker: &Worker, out: &mut Vec<u8>) {
    respond::write_via(out, Version::Http11, &worker.shared.pseudonym);
}

/// Appends `Age` (RFC 9111 §5.1).
pub fn write_age(out: &mut Vec<u8>, age: Seconds) {
    out.extend_from_slice(b"Age: ");
    wire::write::decimal(out, age.0);
    out.extend_from_slice(b"\r\n");
}
