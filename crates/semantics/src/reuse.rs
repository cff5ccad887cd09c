//! Constructing responses from caches (RFC 9111 §4): may this stored response answer this request, now?
//!
//! The caller has matched key and variant (§4.1). Request directives are honoured although RFC 9111 §5.2.1 makes
//! them advice; [`RequestTraits::without_directives`] sets them aside. `Pragma: no-cache` is `no-cache` where the
//! request has no `Cache-Control` (§5.4). `no-store` in a request does not keep a stored response from answering
//! it (§5.2.1.5).

use crate::cache_status::Forward;
use crate::request::RequestTraits;
use crate::stored::Stored;
use crate::time::{Seconds, UnixSeconds};

/// What to do with the stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Serve it.
    Fresh {
        /// Its age, for the `Age` field.
        age: Seconds,
        /// How long it stays fresh; never zero.
        ttl: Seconds,
    },
    /// Serve it although it is stale (RFC 9111 §4.2.4).
    Stale {
        /// Its age, for the `Age` field.
        age: Seconds,
        /// How far beyond its lifetime it is.
        staleness: Seconds,
        /// Who allows that.
        why: Permission,
        /// Whether to validate it in the background (RFC 5861 §3).
        revalidate: bool,
    },
    /// Do not serve it before the origin validated it (RFC 9111 §4.3).
    Validate {
        /// Why not.
        why: Obstacle,
    },
}

/// Who allows serving a stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The origin: `stale-while-revalidate`.
    WhileRevalidate,
    /// The client: `max-stale`.
    MaxStale,
}

impl Permission {
    /// The word for the access log and `Cache-Status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::WhileRevalidate => "stale-while-revalidate",
            Self::MaxStale => "max-stale",
        }
    }
}

/// Why a stored response needs validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The method is neither `GET` nor `HEAD`: nothing stored answers it.
    Method,
    /// The response says `Vary: *`.
    VaryStar,
    /// The response says `no-cache`.
    NoCache,
    /// The client says `no-cache`.
    RequestNoCache,
    /// It is older than the client's `max-age`.
    RequestMaxAge,
    /// It does not stay fresh for the client's `min-fresh`.
    RequestMinFresh,
    /// It is stale, and the origin forbids serving it so.
    MustRevalidate,
    /// It is stale.
    Stale,
}

impl Obstacle {
    /// The word for the access log and `Cache-Status`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::VaryStar => "vary-star",
            Self::NoCache => "no-cache",
            Self::RequestNoCache => "request-no-cache",
            Self::RequestMaxAge => "request-max-age",
            Self::RequestMinFresh => "request-min-fresh",
            Self::MustRevalidate => "must-revalidate",
            Self::Stale => "stale",
        }
    }

    /// The `fwd` of RFC 9211 §2.2 for it.
    #[must_use]
    pub fn forward(self) -> Forward {
        match self {
            Self::Method => Forward::Method,
            Self::VaryStar => Forward::VaryMiss,
            Self::RequestNoCache | Self::RequestMaxAge | Self::RequestMinFresh => Forward::Request,
            Self::NoCache | Self::MustRevalidate | Self::Stale => Forward::Stale,
        }
    }
}

/// May the stored response answer the request at `now`?
#[must_use]
pub fn may_reuse(request: &RequestTraits<'_>, stored: &Stored, now: UnixSeconds) -> Reuse {
    let age = stored.age(now);
    let ttl = stored.lifetime.minus(age);
    match obstacle(request, stored, age, ttl) {
        Some(why) => Reuse::Validate { why },
        None if ttl > Seconds::ZERO => Reuse::Fresh { age, ttl },
        None => when_stale(request, stored, age),
    }
}

/// What stands against it, fresh or stale.
fn obstacle(request: &RequestTraits<'_>, stored: &Stored, age: Seconds, ttl: Seconds) -> Option<Obstacle> {
    let directives = &request.directives;
    let too_old = directives.max_age.is_some_and(|bound| age > bound || bound == Seconds::ZERO);
    let too_short = directives.min_fresh.is_some_and(|bound| ttl < bound);
    let fresh = ttl > Seconds::ZERO;
    if !request.method.may_use_stored() {
        Some(Obstacle::Method)
    } else if stored.varies_on_everything {
        Some(Obstacle::VaryStar)
    } else if stored.no_cache {
        Some(Obstacle::NoCache)
    } else if directives.no_cache {
        Some(Obstacle::RequestNoCache)
    } else if too_old && !(fresh && stored.immutable) {
        // RFC 8246 §2: what cannot have changed is not worth a reload's `max-age=0`; `no-cache` still is heard.
        // RFC 9111 §5.2.1.1: zero asks for a response made now, and a second is too coarse to call one that.
        Some(Obstacle::RequestMaxAge)
    } else if fresh && too_short {
        Some(Obstacle::RequestMinFresh)
    } else {
        None
    }
}

/// RFC 9111 §4.2.4: only if nobody forbids it and somebody allows it.
fn when_stale(request: &RequestTraits<'_>, stored: &Stored, age: Seconds) -> Reuse {
    let staleness = age.minus(stored.lifetime);
    if stored.must_revalidate {
        Reuse::Validate { why: Obstacle::MustRevalidate }
    } else if staleness < stored.stale_while_revalidate && !request.refuses_stale() {
        Reuse::Stale { age, staleness, why: Permission::WhileRevalidate, revalidate: true }
    } else if request.accepts_staleness(staleness) {
        Reuse::Stale { age, staleness, why: Permission::MaxStale, revalidate: false }
    } else {
        Reuse::Validate { why: Obstacle::Stale }
    }
}

/// May the stored response stand in for an origin that cannot be reached or answered with an error
/// ([`is_origin_error`])? RFC 5861 §4: within `stale-if-error` of the response or the request, unless staleness is
/// forbidden (RFC 9111 §4.2.4). What is still fresh may too: only the client's wish for a newer one sent the
/// request to the origin, and `no-cache` is the wish that is not overridden.
#[must_use]
pub fn may_serve_on_error(request: &RequestTraits<'_>, stored: &Stored, now: UnixSeconds) -> bool {
    let forbidden = stored.no_cache || stored.varies_on_everything || request.directives.no_cache;
    if forbidden || !request.method.may_use_stored() {
        return false;
    }
    let age = stored.age(now);
    if age < stored.lifetime {
        return true;
    }
    let asked = request.directives.stale_if_error.unwrap_or_default();
    let staleness = age.minus(stored.lifetime);
    let tolerated = staleness < stored.stale_if_error.max(asked) || request.accepts_staleness(staleness);
    tolerated && !stored.must_revalidate
}

/// The status codes for which RFC 5861 §4 lets a stale response stand in.
#[must_use]
pub fn is_origin_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests;
