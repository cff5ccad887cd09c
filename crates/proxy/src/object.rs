//! A stored response, ready to be sent again: its head with what the caching rules need to know of it, and where its
//! body is. Also the form in which the head rests in the store.
//!
//! What must hold: the head's text is what a client receives, except for the fields that change with each response
//! (`Age`, `Via`, `Cache-Status`, `Connection`) and the blank line, which are added when it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semantics::{Policy, Stored, Times, UnixSeconds};
use store::{ExtentRef, Place};
use wire::{Fields, Parsed, ResponseHead};

use crate::purge::{Epoch, Seen, tags};

/// What a key leads to.
pub struct Object {
    /// The whole cache key, with the variant where there is one.
    pub key: Box<[u8]>,
    /// The content.
    pub content: Content,
    /// Where the store keeps it; `None` where it does not.
    pub place: Option<Place>,
    /// Up to which epoch no purge mark names it.
    pub seen: Seen,
}

/// Either a response, or the note that the resource has several.
pub enum Content {
    /// A response.
    Response(Arc<Head>, Body),
    /// The resource varies: which stored response fits depends on these request fields (RFC 9111 §4.1).
    Variants(Variants),
}

/// A stored response head.
pub struct Head {
    /// What the caching rules know of it.
    pub stored: Stored,
    /// Status line and field lines, each with its CRLF, without the blank line.
    pub text: Box<[u8]>,
    /// Its tags, as [`tags::read`] gave them.
    pub tags: Box<[u8]>,
    /// When its origin was asked for it, or the last time that it was compared with all purge marks.
    pub epoch: Epoch,
}

/// Where a stored body is.
pub enum Body {
    /// In memory.
    Memory(Box<[u8]>),
    /// On devices.
    Device(DeviceBody),
}

/// A body in extents.
pub struct DeviceBody {
    /// Its length in bytes.
    pub length: u64,
    /// Its pieces in order.
    pub extents: Box<[DeviceExtent]>,
    /// Whether the store has been told that all of them are good.
    pub noted: Once,
}

/// A fact that turns true once.
#[derive(Default)]
pub struct Once(AtomicBool);

impl Once {
    /// One that already has, or has not yet.
    #[must_use]
    pub fn new(already: bool) -> Self {
        Self(AtomicBool::new(already))
    }

    /// Whether it has.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// It does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// It does; says whether it had already.
    pub fn replace(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }
}

impl DeviceBody {
    /// The extent that holds the byte at `offset`, and where in it that is.
    #[must_use]
    pub fn extent_at(&self, offset: u64) -> Option<(usize, u64)> {
        let mut start = 0;
        for (i, extent) in self.extents.iter().enumerate() {
            let end = start + u64::from(extent.at.len);
            if offset < end {
                return Some((i, offset - start));
            }
            start = end;
        }
        None
    }

    /// The same body, for another head.
    #[must_use]
    pub fn again(&self) -> Self {
        let extents =
            self.extents.iter().map(|e| DeviceExtent::new(e.at, e.is_verified(), e.seen.get())).collect();
        Self { length: self.length, extents, noted: Once::new(self.noted.get()) }
    }

    /// Whether every extent is known to be good.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.extents.iter().all(DeviceExtent::is_verified)
    }
}

/// A piece of a body.
pub struct DeviceExtent {
    /// Where it is, and its checksum.
    pub at: ExtentRef,
    /// Whether its bytes were written or checked by this process.
    pub verified: Once,
    /// Whether they were asked for before.
    pub seen: Once,
}

/// The request fields that a resource's responses depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variants {
    /// Field names, lower case, sorted.
    pub names: semantics::VaryNames,
    /// Part of the key of each variant; new with each note, so that variants of a purged resource stay unreachable.
    pub generation: u64,
}

impl Object {
    /// Bytes of memory that the object occupies, beside the fixed overhead of an entry.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Response(head, body) => head.memory_bytes() + body.memory_bytes(),
            Content::Variants(variants) => variants.names.as_str().len(),
        };
        size_of::<Self>() + self.key.len() + content
    }
}

impl Head {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.tags.len()
    }

    /// The head of a response that was declared stale from `at` on.
    #[must_use]
    pub fn stale_from(&self, at: UnixSeconds) -> Self {
        let stored = self.stored.clone().stale_from(at);
        Self { stored, text: self.text.clone(), tags: self.tags.clone(), epoch: self.epoch }
    }

    /// The head as parsed again from its text, for the rarer questions.
    #[must_use]
    pub fn parsed<'a>(&self, complete: &'a [u8]) -> Option<ResponseHead<'a>> {
        match wire::parse::response(complete, &STORED_LIMITS) {
            Ok(Parsed::Complete { head, .. }) => Some(head),
            _ => None,
        }
    }

    /// The text with its blank line, for [`Self::parsed`].
    #[must_use]
    pub fn complete(&self) -> Vec<u8> {
        let mut complete = Vec::with_capacity(self.text.len() + 2);
        complete.extend_from_slice(&self.text);
        complete.extend_from_slice(b"\r\n");
        complete
    }
}

impl Body {
    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Device(body) => body.length,
        }
    }

    /// The same body, for another head.
    #[must_use]
    pub fn again(&self) -> Self {
        match self {
            Self::Memory(bytes) => Self::Memory(bytes.clone()),
            Self::Device(body) => Self::Device(body.again()),
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Device(body) => body.extents.len() * size_of::<DeviceExtent>(),
        }
    }
}

impl DeviceExtent {
    /// The extent at that place; `again`: it was asked for before.
    #[must_use]
    pub fn new(at: ExtentRef, verified: bool, again: bool) -> Self {
        Self { at, verified: Once::new(verified), seen: Once::new(again) }
    }

    /// Whether its bytes are known to be good.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.verified.get()
    }

    /// Notes that its bytes are asked for, and says whether they were before.
    pub fn used(&self) -> bool {
        self.seen.replace()
    }

    /// Notes that they are.
    pub fn set_verified(&self) {
        self.verified.set();
    }
}

/// Heads that were accepted once are accepted again, whatever the limits have become.
const STORED_LIMITS: wire::Limits = wire::Limits {
    head_bytes: 1 << 20,
    fields: wire::limits::FIELDS_MAX,
    target_bytes: 1 << 20,
    field_line_bytes: 1 << 20,
    trailer_bytes: 0,
    extension_bytes: 0,
};

/// First byte of a head in the store.
const FORM: u8 = 2;
const RESPONSE: u8 = b'R';
const VARIANTS: u8 = b'V';
/// Form, kind, two moments (or a generation and nothing), the purge epoch, bytes of the tags.
const PREFIX_BYTES: usize = 2 + 8 + 8 + 8 + 4;

/// The head of a response as it rests in the store, with the text that it has in the end and the epoch up to which no
/// purge mark names it.
#[must_use]
pub fn encode_response(head: &Head, text: &[u8], epoch: Epoch) -> Vec<u8> {
    let times = head.stored.times_without_age();
    encode(RESPONSE, [times.requested_at.0, times.received_at.0, epoch], &head.tags, text)
}

/// The note that a resource varies, as it rests in the store.
#[must_use]
pub fn encode_variants(variants: &Variants) -> Vec<u8> {
    encode(VARIANTS, [variants.generation, 0, 0], &[], variants.names.as_str().as_bytes())
}

fn encode(kind: u8, numbers: [u64; 3], tags: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + tags.len() + rest.len());
    out.extend_from_slice(&[FORM, kind]);
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out.extend_from_slice(&(tags.len() as u32).to_le_bytes());
    out.extend_from_slice(tags);
    out.extend_from_slice(rest);
    out
}

/// A stored head, read back.
pub enum Decoded {
    /// A response's.
    Response(Head),
    /// The note that a resource varies.
    Variants(Variants),
}

/// Reads a head from the store; `None` when it is of a form that this version does not know.
#[must_use]
pub fn decode(bytes: &[u8], policy: &Policy) -> Option<Decoded> {
    let (prefix, rest) = bytes.split_at_checked(PREFIX_BYTES)?;
    let number = |at: usize| prefix.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let (first, second, epoch) = (number(2)?, number(10)?, number(18)?);
    let tags_len = u32::from_le_bytes(prefix.get(26..30)?.try_into().ok()?);
    let (tags, rest) = rest.split_at_checked(tags_len as usize)?;
    match prefix {
        [FORM, RESPONSE, ..] => {
            let times = Times { requested_at: UnixSeconds(first), received_at: UnixSeconds(second) };
            Some(Decoded::Response(Head {
                tags: tags.into(),
                epoch,
                ..Head::from_text(rest, times, policy)?
            }))
        }
        [FORM, VARIANTS, ..] => {
            let names = semantics::VaryNames::parse(std::str::from_utf8(rest).ok()?);
            Some(Decoded::Variants(Variants { names, generation: first }))
        }
        _ => None,
    }
}

impl Head {
    /// The head with this text, received at `times`; without tags, of the first epoch.
    #[must_use]
    pub fn from_text(text: &[u8], times: Times, policy: &Policy) -> Option<Self> {
        let complete = [text, b"\r\n"].concat();
        let parsed = wire::parse::response(&complete, &STORED_LIMITS);
        let Ok(Parsed::Complete { head, .. }) = parsed else { return None };
        let stored = Stored::from_head(&head, times, policy);
        Some(Self { stored, text: text.into(), tags: Box::default(), epoch: 0 })
    }
}

/// Writes the text of a head that is to be stored: everything end-to-end, the length where it is known, and a `Date`
/// where the origin sent none (RFC 9110 §6.6.1). `left_out`: names of fields that clients are not to see.
#[must_use]
pub fn stored_text(
    status: u16,
    reason: &[u8],
    fields: &Fields<'_>,
    length: Option<u64>,
    received_at: u64,
    left_out: &[String],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    wire::write::status_line(&mut out, status, reason);
    for field in wire::fields::end_to_end(fields).filter(|field| !is_per_response(field.name)) {
        if tags::is_carrier(field.name, left_out) {
            continue;
        }
        wire::write::field(&mut out, field.name, field.value);
    }
    if !fields.contains("date") {
        wire::write::field(&mut out, "Date", &wire::date::format(received_at));
    }
    if let Some(length) = length {
        wire::write::field_decimal(&mut out, "Content-Length", length);
    }
    out
}

/// Fields that are written anew with each response.
fn is_per_response(name: &str) -> bool {
    name.eq_ignore_ascii_case("age") || name.eq_ignore_ascii_case("content-length")
}
