//! Storing responses in caches (RFC 9111 §3): may this response be kept for others?
//!
//! What must hold: whatever is stored here may be served to any client whose request has the same key. It does
//! not know whether there is room, nor whether the body arrives whole: an incomplete body is stored only as what it
//! is (§3.3), which is the caller's to see to. A 206 is judged by [`crate::parts`].

use crate::directives::ResponseDirectives;
use crate::freshness::is_heuristically_cacheable;
use crate::policy::Policy;
use crate::request::{Method, RequestTraits};
use crate::stored::Stored;
use crate::targeted::Control;
use crate::time::{Seconds, Times};
use wire::{Fields, ResponseHead};

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoStore {
    /// The request was not a `GET`. `POST` responses could be stored for later `GET`s (RFC 9110 §9.3.3); they are
    /// not.
    Method,
    /// The client forbade it (RFC 9111 §5.2.1.5).
    RequestNoStore,
    /// The request had content, on which the response may depend while the key does not.
    RequestContent,
    /// The status code is not final, not understood, or describes no representation of its own (1xx, 304).
    Status,
    /// 206, and which bytes of how many it has is not said, or there are several parts.
    Partial,
    /// 206 without a strong validator: it could never be combined with another part (RFC 9111 §3.4).
    WeakValidator,
    /// The origin forbade it (RFC 9111 §5.2.2.5).
    NoStore,
    /// It is for one user (RFC 9111 §5.2.2.7).
    Private,
    /// The request was authenticated and the response does not allow sharing (RFC 9111 §3.5).
    Authorization,
    /// `Vary: *`: no request would ever match it (RFC 9111 §4.1).
    VaryStar,
    /// Nothing gives it a lifetime, and its status code allows no guess (RFC 9111 §3).
    NotCacheable,
    /// It sets a cookie, and neither the origin nor the policy says that all may have it (RFC 9111 §7.3).
    SetCookie,
    /// It is stale at once, and there is no validator to ask the origin about it: storing would be waste.
    Useless,
}

impl NoStore {
    /// The word for the access log and `Cache-Status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::RequestNoStore => "request-no-store",
            Self::RequestContent => "request-content",
            Self::Status => "status",
            Self::Partial => "partial",
            Self::WeakValidator => "part-without-strong-validator",
            Self::NoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::VaryStar => "vary-star",
            Self::NotCacheable => "no-explicit-or-heuristic-freshness",
            Self::SetCookie => "set-cookie",
            Self::Useless => "stale-without-validator",
        }
    }

    /// Whether the reason lies in the request: another request for the same resource may have its response stored. (A part
    /// is what was asked for.)
    #[must_use]
    pub fn is_about_request(self) -> bool {
        let of_part = matches!(self, Self::Partial | Self::WeakValidator);
        of_part
            || matches!(
                self,
                Self::Method | Self::RequestNoStore | Self::RequestContent | Self::Authorization
            )
    }
}

/// May the response be stored, and as what?
///
/// # Errors
/// The first reason against it, in the order of [`NoStore`].
pub fn may_store(
    request: &RequestTraits<'_>,
    response: &ResponseHead<'_>,
    times: Times,
    policy: &Policy,
) -> Result<Stored, NoStore> {
    request_allows(request)?;
    let control = Control::of(&response.fields, policy);
    let stored = Stored::read(response.status, &response.fields, &control, times, policy);
    response_allows(&stored, &response.fields, &control.directives, policy)?;
    authorization_allows(request, &control.directives)?;
    Ok(stored)
}

pub(crate) fn request_allows(request: &RequestTraits<'_>) -> Result<(), NoStore> {
    if request.method != Method::Get {
        return Err(NoStore::Method);
    }
    if request.directives.no_store {
        return Err(NoStore::RequestNoStore);
    }
    if request.content {
        return Err(NoStore::RequestContent);
    }
    Ok(())
}

/// RFC 9111 §3.5: `public`, `must-revalidate` and `s-maxage` allow sharing what an authenticated request got.
pub(crate) fn authorization_allows(
    request: &RequestTraits<'_>,
    directives: &ResponseDirectives,
) -> Result<(), NoStore> {
    let shared = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    if request.authorization && !shared { Err(NoStore::Authorization) } else { Ok(()) }
}

/// What the response itself says, whoever asked for it.
pub(crate) fn response_allows(
    stored: &Stored,
    fields: &Fields<'_>,
    directives: &ResponseDirectives,
    policy: &Policy,
) -> Result<(), NoStore> {
    status_allows(stored.status)?;
    // RFC 9111 §5.2.2.3: with `must-understand`, `no-store` is for caches that do not know the status code.
    if directives.no_store && !directives.must_understand {
        return Err(NoStore::NoStore);
    }
    if directives.private {
        return Err(NoStore::Private);
    }
    if stored.varies_on_everything {
        return Err(NoStore::VaryStar);
    }
    let cacheable =
        stored.source.is_explicit() || directives.public || is_heuristically_cacheable(stored.status);
    if !cacheable {
        return Err(NoStore::NotCacheable);
    }
    let shared = directives.public || directives.s_maxage.is_some() || policy.store_set_cookie;
    if !shared && fields.contains("set-cookie") {
        return Err(NoStore::SetCookie);
    }
    if is_useless(stored) { Err(NoStore::Useless) } else { Ok(()) }
}

/// RFC 9111 §3: final, and understood if it is 206, 304 or marked `must-understand`. Codes that nobody understands
/// are not stored at all, which covers the third.
fn status_allows(status: u16) -> Result<(), NoStore> {
    match status {
        206 => Err(NoStore::Partial),
        _ if is_understood(status) => Ok(()),
        _ => Err(NoStore::Status),
    }
}

/// Status codes whose caching rules are known here: those of RFC 9110 §15 that are final and stand for a whole
/// response, and 451 (RFC 7725). Not 412 and 416: they speak of the request's conditions and ranges, which are not part of
/// the key.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 400..=411 | 413..=415 | 417)
        || matches!(status, 421 | 422 | 426 | 451 | 500..=505)
}

fn is_useless(stored: &Stored) -> bool {
    let spans = [stored.lifetime, stored.stale_while_revalidate, stored.stale_if_error];
    !stored.has_validator() && (stored.no_cache || spans.iter().all(|span| *span == Seconds::ZERO))
}

#[cfg(test)]
mod tests;
