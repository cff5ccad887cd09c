//! What a request says that matters to a cache, read in one pass over its fields. Most requests say none of
//! it, so a field is dismissed by the length of its name before its bytes are compared.
//!
//! It does not know what follows from any of this; it only never loses that a field was there.

use crate::directives::{MaxStale, RequestDirectives};
use crate::time::Seconds;
use alloc::vec::Vec;
use wire::fields::list;
use wire::{Field, RequestHead};

/// A method as a cache sees it (RFC 9110 §9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`.
    Head,
    /// Safe, but its responses are never stored here: `OPTIONS`, `TRACE`.
    OtherSafe,
    /// All others, known or not: may change what is stored (RFC 9111 §4.4).
    Unsafe,
}

impl Method {
    /// Classifies a method token; methods are case-sensitive (RFC 9110 §9.1).
    #[must_use]
    pub fn of(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" | "TRACE" => Self::OtherSafe,
            _ => Self::Unsafe,
        }
    }

    /// Whether a stored response can answer it (RFC 9111 §4): a stored `GET` answers both.
    #[must_use]
    pub fn may_use_stored(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

/// A field that must not appear twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Once<'a> {
    /// It is not there.
    #[default]
    Absent,
    /// Its value.
    Value(&'a [u8]),
    /// It is there more than once: whoever asks decides what that means.
    Repeated,
}

impl<'a> Once<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = if *self == Self::Absent { Self::Value(value) } else { Self::Repeated };
    }

    /// The value, if there is exactly one.
    #[must_use]
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Repeated => None,
        }
    }
}

/// The lines of a list field; nearly always none or one. A plain vector, because that is covariant.
pub type Lines<'a> = Vec<&'a [u8]>;

/// The preconditions of a request (RFC 9110 §13.1), as received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions<'a> {
    /// `If-Match`.
    pub if_match: Lines<'a>,
    /// `If-None-Match`.
    pub if_none_match: Lines<'a>,
    /// `If-Modified-Since`.
    pub if_modified_since: Once<'a>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Once<'a>,
    any: bool,
}

impl Conditions<'_> {
    /// Whether the request has no precondition.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.any
    }
}

/// What the request says that matters to a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTraits<'a> {
    /// The method's kind.
    pub method: Method,
    /// `Cache-Control`, or `Pragma: no-cache` where there is none.
    pub directives: RequestDirectives,
    /// Whether it carries `Authorization` (RFC 9111 §3.5).
    pub authorization: bool,
    /// Whether it has content (RFC 9110 §6.4): its response depends on more than the key says.
    pub content: bool,
    /// The preconditions.
    pub conditions: Conditions<'a>,
    /// `Range`.
    pub range: Once<'a>,
    /// `If-Range`.
    pub if_range: Once<'a>,
}

impl<'a> RequestTraits<'a> {
    /// Reads the whole head once.
    #[must_use]
    pub fn of(head: &RequestHead<'a>) -> Self {
        let mut reader = Reader { traits: Self::nothing(Method::of(head.method)), ..Reader::default() };
        head.fields.iter().for_each(|field| reader.read(field));
        reader.finish()
    }

    /// The same request as if it had no cache directives: they are advice (RFC 9111 §5.2.1), and a reverse proxy
    /// may not want to let its clients push work to the origin.
    #[must_use]
    pub fn without_directives(mut self) -> Self {
        self.directives = RequestDirectives::default();
        self
    }

    /// Whether the client wants 504 (Gateway Timeout) instead of a forwarded request (RFC 9111 §5.2.1.7). The
    /// caller answers 504 wherever it would otherwise go to the origin for this client.
    #[must_use]
    pub fn only_if_cached(&self) -> bool {
        self.directives.only_if_cached
    }

    /// Whether `max-stale` covers this much staleness (RFC 9111 §5.2.1.2).
    #[must_use]
    pub fn accepts_staleness(&self, staleness: Seconds) -> bool {
        match self.directives.max_stale {
            None => false,
            Some(MaxStale::Any) => true,
            Some(MaxStale::UpTo(bound)) => staleness <= bound,
        }
    }

    /// Whether the client set a bound on age or freshness without tolerating staleness: then it is not willing to
    /// take a stale response, whatever the origin allows (RFC 9111 §5.2.1.1, §5.2.1.3).
    #[must_use]
    pub fn refuses_stale(&self) -> bool {
        let bounded = self.directives.max_age.is_some() || self.directives.min_fresh.is_some();
        bounded && self.directives.max_stale.is_none()
    }

    fn nothing(method: Method) -> Self {
        Self {
            method,
            directives: RequestDirectives::default(),
            authorization: false,
            content: false,
            conditions: Conditions::default(),
            range: Once::Absent,
            if_range: Once::Absent,
        }
    }
}

/// The pass over the fields. `Pragma` counts only if no `Cache-Control` comes (RFC 9111 §5.4).
struct Reader<'a> {
    traits: RequestTraits<'a>,
    cache_control: bool,
    pragma_no_cache: bool,
}

impl Default for Reader<'_> {
    fn default() -> Self {
        Self { traits: RequestTraits::nothing(Method::Unsafe), cache_control: false, pragma_no_cache: false }
    }
}

impl<'a> Reader<'a> {
    fn read(&mut self, field: &Field<'a>) {
        match field.name.len() {
            5 | 6 | 8 => self.read_short(field),
            13 => self.read_13(field),
            14 | 17 | 19 => self.read_long(field),
            _ => {}
        }
    }

    fn read_short(&mut self, field: &Field<'a>) {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("range") {
            self.traits.range.add(field.value);
        } else if is("if-range") {
            self.traits.if_range.add(field.value);
        } else if is("if-match") {
            self.conditions().if_match.push(field.value);
        } else if is("pragma") {
            self.pragma_no_cache |= list(field.value).any(|word| word.eq_ignore_ascii_case(b"no-cache"));
        }
    }

    fn read_13(&mut self, field: &Field<'a>) {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("cache-control") {
            self.cache_control = true;
            self.traits.directives.read(field.value);
        } else if is("authorization") {
            self.traits.authorization = true;
        } else if is("if-none-match") {
            self.conditions().if_none_match.push(field.value);
        }
    }

    fn read_long(&mut self, field: &Field<'a>) {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            self.traits.content |= field.value != b"0";
        } else if is("transfer-encoding") {
            self.traits.content = true;
        } else if is("if-modified-since") {
            self.conditions().if_modified_since.add(field.value);
        } else if is("if-unmodified-since") {
            self.conditions().if_unmodified_since.add(field.value);
        }
    }

    fn conditions(&mut self) -> &mut Conditions<'a> {
        self.traits.conditions.any = true;
        &mut self.traits.conditions
    }

    fn finish(mut self) -> RequestTraits<'a> {
        self.traits.directives.no_cache |= self.pragma_no_cache && !self.cache_control;
        self.traits
    }
}

#[cfg(test)]
mod tests;
