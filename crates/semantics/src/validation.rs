//! Validation (RFC 9111 §4.3): asking the origin about a stored response, and what its answer does to it.
//!
//! What must hold: a stored head is never updated from a 304 that speaks of something else (§4.3.4), and never in
//! the fields that describe the bytes that stay (§3.2).

use crate::policy::Policy;
use crate::request::RequestTraits;
use crate::reuse::is_origin_error;
use crate::stored::Stored;
use crate::storing::{NoStore, authorization_allows, response_allows};
use crate::targeted::Control;
use crate::time::Times;
use alloc::boxed::Box;
use wire::etag::EntityTag;
use wire::fields::end_to_end;
use wire::{Field, Fields, ResponseHead, date};

/// What the origin's answer to a validating request means.
#[derive(Debug)]
pub enum AfterValidation<'o> {
    /// The stored response is still good; this is its new head.
    Freshened(Box<Freshened<'o>>),
    /// A 304 about some other representation: ask again without conditions (RFC 9111 §4.3.4).
    NotOurs(Mismatch),
    /// A full response: send it on, and store it in place of the old one if it may be stored (§4.3.3).
    Replaced,
    /// The origin failed: send the error on, or the stored response where [`crate::may_serve_on_error`] lets it
    /// (§4.3.3).
    Failed,
}

/// A stored response after a 304.
#[derive(Debug)]
pub struct Freshened<'o> {
    /// The fields to serve and to store from now on.
    pub fields: Fields<'o>,
    /// What they mean; its times are those of the validation.
    pub stored: Stored,
    /// What to do with the stored response beyond answering this request.
    pub keep: Keep,
}

/// What to do with the stored response after a 304.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Write the new head.
    Update,
    /// Leave the old head: this request's answer is not for others.
    Leave(NoStore),
    /// Drop it: the origin took back the leave to store it.
    Drop(NoStore),
}

/// Why a 304 does not speak of the stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The entity tags differ.
    EntityTag,
    /// The modification dates differ.
    LastModified,
}

impl Mismatch {
    /// The word for the access log and `Cache-Status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::EntityTag => "304-other-etag",
            Self::LastModified => "304-other-last-modified",
        }
    }
}

/// The precondition fields for a validating request (RFC 9111 §4.3.1), with the validators exactly as the origin
/// wrote them. Send them in place of the client's own ([`is_condition`]).
pub fn conditions<'a>(stored: &Fields<'a>) -> impl Iterator<Item = Field<'a>> {
    let etag = stored.get("etag").map(|value| Field { name: "If-None-Match", value });
    let last_modified = stored.get("last-modified").map(|value| Field { name: "If-Modified-Since", value });
    etag.into_iter().chain(last_modified).filter(|field| !field.value.is_empty())
}

/// Whether a request field is a precondition or asks for a part: not to be sent on when the cache validates, or
/// fetches a whole response to store it.
#[must_use]
pub fn is_condition(name: &str) -> bool {
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"]
        .into_iter()
        .any(|condition| name.eq_ignore_ascii_case(condition))
}

/// What does the answer to a validating request mean for the stored response? `stored_fields` are the fields it
/// is stored with, `times` those of the validating exchange.
#[must_use]
pub fn after_validation<'o>(
    request: &RequestTraits<'_>,
    stored: &Stored,
    stored_fields: &Fields<'o>,
    response: &ResponseHead<'o>,
    times: Times,
    policy: &Policy,
) -> AfterValidation<'o> {
    match response.status {
        304 => match mismatch(stored_fields, &response.fields, times) {
            Some(why) => AfterValidation::NotOurs(why),
            None => freshened(request, stored, stored_fields, &response.fields, times, policy),
        },
        status if is_origin_error(status) => AfterValidation::Failed,
        _ => AfterValidation::Replaced,
    }
}

/// RFC 9111 §4.3.4: a strong entity tag must be the same; a weak one, or a date where there is no tag, must
/// correspond. A 304 without any validator answers the one response that the request named.
fn mismatch(stored: &Fields<'_>, new: &Fields<'_>, times: Times) -> Option<Mismatch> {
    if let Some(tag) = new.get("etag") {
        let same = stored.get("etag").is_some_and(|own| corresponds(own, tag));
        return (!same).then_some(Mismatch::EntityTag);
    }
    let changed_at = new.get("last-modified")?;
    let same = stored.get("last-modified").is_some_and(|own| same_date(own, changed_at, times));
    (!same).then_some(Mismatch::LastModified)
}

/// Malformed tags are compared as bytes: origins that send them send the same ones again.
fn corresponds(own: &[u8], tag: &[u8]) -> bool {
    match (EntityTag::parse(own), EntityTag::parse(tag)) {
        (Some(own), Some(tag)) if tag.weak => own.weak_eq(&tag),
        (Some(own), Some(tag)) => own.strong_eq(&tag),
        _ => own == tag,
    }
}

fn same_date(own: &[u8], other: &[u8], times: Times) -> bool {
    let read = |value| date::parse(value, times.received_at.0);
    own == other || read(own).is_some_and(|at| read(other) == Some(at))
}

fn freshened<'o>(
    request: &RequestTraits<'_>,
    stored: &Stored,
    stored_fields: &Fields<'o>,
    new_fields: &Fields<'o>,
    times: Times,
    policy: &Policy,
) -> AfterValidation<'o> {
    let fields = merge_fields(stored_fields, new_fields);
    let control = Control::of(&fields, policy);
    let stored = Stored::read(stored.status, &fields, &control, times, policy);
    let keep = match response_allows(&stored, &fields, &control.directives, policy) {
        Err(why) => Keep::Drop(why),
        Ok(()) => match update_allowed(request, &control) {
            Err(why) => Keep::Leave(why),
            Ok(()) => Keep::Update,
        },
    };
    AfterValidation::Freshened(Box::new(Freshened { fields, stored, keep }))
}

/// What this client's 304 says may only reach others under the conditions of storing (RFC 9111 §3.5, §5.2.1.5).
fn update_allowed(request: &RequestTraits<'_>, control: &Control) -> Result<(), NoStore> {
    if request.directives.no_store {
        return Err(NoStore::RequestNoStore);
    }
    authorization_allows(request, &control.directives)
}

/// Updating stored header fields (RFC 9111 §3.2): each field of the 304 replaces all stored lines of its name,
/// except fields of the connection (§3.1), those that describe the stored bytes, and `Set-Cookie`.
///
/// The old `Age` and `Date` go in any case: they spoke of the old exchange. Without a new `Date` the time of
/// reception stands in ([`Stored::date`]), and whoever sends the head adds it (RFC 9110 §6.6.1).
#[must_use]
pub fn merge_fields<'o>(stored: &Fields<'o>, new: &Fields<'o>) -> Fields<'o> {
    let mut merged = Fields::new();
    let mut add = |field: &Field<'o>| merged.push(field.name, field.value);
    stored.iter().filter(|field| !is_superseded(field.name, new)).for_each(&mut add);
    end_to_end(new).filter(|field| !is_kept(field.name)).for_each(&mut add);
    merged
}

fn is_superseded(name: &str, new: &Fields<'_>) -> bool {
    let of_exchange = ["age", "date"].into_iter().any(|own| name.eq_ignore_ascii_case(own));
    of_exchange || !is_kept(name) && end_to_end(new).any(|field| field.name.eq_ignore_ascii_case(name))
}

/// Fields of a stored head that no 304 changes: they describe the stored bytes (RFC 9111 §3.2), or were decided
/// upon when the response was stored (`Set-Cookie`: a 304's is for the client it was sent to).
fn is_kept(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "content-length",
        "content-encoding",
        "content-range",
        "content-digest",
        "repr-digest",
        "transfer-encoding",
        "set-cookie",
    ];
    KEPT.into_iter().any(|kept| name.eq_ignore_ascii_case(kept))
}

/// What a response to a forwarded `HEAD` says about the response stored for `GET` (RFC 9111 §4.3.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterHead {
    /// Nothing: it is no 200.
    Unrelated,
    /// It is the same representation: [`merge_fields`] may bring the stored head up to date.
    Same,
    /// It has changed: the stored response is to be considered stale.
    Changed,
}

/// Compares the validators and the length that a 200 (OK) to `HEAD` has with the stored ones; what it does not
/// have is not compared.
#[must_use]
pub fn after_head(stored_fields: &Fields<'_>, response: &ResponseHead<'_>) -> AfterHead {
    if response.status != 200 {
        return AfterHead::Unrelated;
    }
    let same = |name| response.fields.get(name).is_none_or(|value| stored_fields.get(name) == Some(value));
    if ["etag", "last-modified", "content-length"].into_iter().all(same) {
        AfterHead::Same
    } else {
        AfterHead::Changed
    }
}

#[cfg(test)]
mod tests;
