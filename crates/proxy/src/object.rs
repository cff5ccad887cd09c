//! A stored response, ready to be sent again: its head with what the caching rules need to know of it, and where its
//! body is. Also the form in which the head rests in the store.
//!
//! What must hold: the head's text is what a client receives, except for the fields that change with each response
//! (`Age`, `Via`, `Cache-Status`, `Connection`) and the blank line, which are added when it is sent.

mod body;

use std::sync::Arc;

use semantics::{Policy, Stored, Times, UnixSeconds};
use store::Place;
use wire::{Fields, Parsed, ResponseHead};

use crate::purge::{Epoch, Seen, tags};
pub use body::{Body, DeviceBody, DeviceExtent, Once, Spot};

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

/// A stored head brought up to date by the fields of a newer response for the same bytes (RFC 9111 §3.2, §3.4), received at
/// `times`; its tags and epoch stay. `None` where the stored text cannot be read, which no head that was stored here is.
#[must_use]
pub fn updated(
    stored: &Head,
    new: &Fields<'_>,
    times: Times,
    policy: &Policy,
    left_out: &[String],
) -> Option<Head> {
    let complete = stored.complete();
    let parsed = stored.parsed(&complete)?;
    let fields = semantics::validation::merge_fields(&parsed.fields, new);
    let head = ResponseHead { fields, ..parsed };
    let fresh = Stored::from_head(&head, times, policy);
    let length = stored.stored.content_length;
    let received_at = times.received_at.0;
    let text = stored_text(head.status, head.reason, &head.fields, length, received_at, left_out);
    Some(Head { stored: fresh, text: text.into(), tags: stored.tags.clone(), epoch: stored.epoch })
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

/// Fields that are written anew with each response. `Content-Range` speaks of the part that came, not of the whole that is
/// stored.
fn is_per_response(name: &str) -> bool {
    ["age", "content-length", "content-range"].into_iter().any(|own| name.eq_ignore_ascii_case(own))
}
