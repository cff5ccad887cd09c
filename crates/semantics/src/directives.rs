//! Cache directives (RFC 9111 §5.2): the grammar of `Cache-Control`, and what a request or a response said by it.
//!
//! Nonsense is read to the restrictive side: a directive that limits holds whatever its argument looks like, a
//! lifetime that is no number is zero. Of a repeated directive the first counts (RFC 9111 §4.2.1). It does not
//! know what follows from a directive.

use crate::time::Seconds;
use wire::Fields;
use wire::fields::{list, unquote};

/// One directive: `name` or `name=argument`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive<'a> {
    /// The name, case as received.
    pub name: &'a [u8],
    /// The argument as received, maybe a quoted string.
    pub argument: Option<&'a [u8]>,
}

impl Directive<'_> {
    /// The argument as a span; both token and quoted form are accepted (RFC 9111 §5.2).
    #[must_use]
    pub fn seconds(&self) -> Option<Seconds> {
        let argument = self.argument?;
        Seconds::parse(argument).or_else(|| Seconds::parse(&unquote(argument)?))
    }
}

/// The directives of one `Cache-Control` value. A quoted string that never ends hides none: then every comma
/// separates.
pub fn directives(value: &[u8]) -> impl Iterator<Item = Directive<'_>> {
    let (well_formed, broken) = if quotes_end(value) { (value, &[][..]) } else { (&[][..], value) };
    let pieces = broken.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|piece| !piece.is_empty());
    list(well_formed).chain(pieces).map(directive)
}

fn directive(element: &[u8]) -> Directive<'_> {
    match element.iter().position(|&byte| byte == b'=') {
        Some(at) => Directive {
            name: element[..at].trim_ascii_end(),
            argument: Some(element[at + 1..].trim_ascii_start()),
        },
        None => Directive { name: element, argument: None },
    }
}

/// Whether every quoted string that begins also ends (RFC 9110 §5.6.4).
fn quotes_end(value: &[u8]) -> bool {
    let mut quoted = false;
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => drop(bytes.next()),
            _ => {}
        }
    }
    !quoted
}

/// How much staleness a request accepts (RFC 9111 §5.2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxStale {
    /// Any.
    Any,
    /// At most this much beyond the lifetime.
    UpTo(Seconds),
}

/// What a request's `Cache-Control` (or `Pragma`) says (RFC 9111 §5.2.1, §5.4; RFC 5861 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Only after validation.
    pub no_cache: bool,
    /// Nothing of this exchange may be stored.
    pub no_store: bool,
    /// A stored response, or 504.
    pub only_if_cached: bool,
    /// The oldest acceptable age; what is no number counts as zero.
    pub max_age: Option<Seconds>,
    /// The least acceptable remaining lifetime; what is no number counts as the longest.
    pub min_fresh: Option<Seconds>,
    /// The acceptable staleness; what is no number counts as none.
    pub max_stale: Option<MaxStale>,
    /// The acceptable staleness if the origin fails; what is no number counts as none.
    pub stale_if_error: Option<Seconds>,
}

impl RequestDirectives {
    /// Adds one `Cache-Control` line.
    pub fn read(&mut self, value: &[u8]) {
        directives(value).for_each(|directive| self.apply(&directive));
    }

    fn apply(&mut self, directive: &Directive<'_>) {
        match lower(directive.name, &mut [0; LONGEST_NAME]) {
            b"no-cache" => self.no_cache = true,
            b"no-store" => self.no_store = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => first(&mut self.max_age, directive.seconds().or(Some(Seconds::ZERO))),
            b"min-fresh" => first(&mut self.min_fresh, directive.seconds().or(Some(Seconds::MAX_DELTA))),
            b"max-stale" => first(&mut self.max_stale, max_stale(directive)),
            b"stale-if-error" => first(&mut self.stale_if_error, directive.seconds()),
            _ => {}
        }
    }
}

fn max_stale(directive: &Directive<'_>) -> Option<MaxStale> {
    match directive.argument {
        None => Some(MaxStale::Any),
        Some(_) => directive.seconds().map(MaxStale::UpTo),
    }
}

/// What a response's `Cache-Control` says (RFC 9111 §5.2.2; RFC 5861 §3, §4; RFC 8246).
///
/// `private` and `no-cache` with field names are read as without: allowed, and what most caches do (§5.2.2.4,
/// §5.2.2.7). A span that is no number is zero: invalid freshness information makes a response stale (§4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// May be stored although something else speaks against it.
    pub public: bool,
    /// For one user only.
    pub private: bool,
    /// Must not be stored.
    pub no_store: bool,
    /// Not without validation.
    pub no_cache: bool,
    /// Not when stale.
    pub must_revalidate: bool,
    /// Not when stale, for shared caches.
    pub proxy_revalidate: bool,
    /// Only if the status code is understood.
    pub must_understand: bool,
    /// Will not change while fresh.
    pub immutable: bool,
    /// Lifetime.
    pub max_age: Option<Seconds>,
    /// Lifetime for shared caches.
    pub s_maxage: Option<Seconds>,
    /// May be served this long after its lifetime while it is validated.
    pub stale_while_revalidate: Option<Seconds>,
    /// May be served this long after its lifetime if the origin fails.
    pub stale_if_error: Option<Seconds>,
}

impl ResponseDirectives {
    /// Reads every `Cache-Control` line.
    #[must_use]
    pub fn of(fields: &Fields<'_>) -> Self {
        let mut all = Self::default();
        let lines = fields.all("cache-control").flat_map(directives);
        lines.for_each(|directive| all.apply(&directive));
        all
    }

    /// Adds one directive.
    pub(crate) fn apply(&mut self, directive: &Directive<'_>) {
        let span = || directive.seconds().or(Some(Seconds::ZERO));
        match lower(directive.name, &mut [0; LONGEST_NAME]) {
            b"public" => self.public = true,
            b"private" => self.private = true,
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"immutable" => self.immutable = true,
            b"max-age" => first(&mut self.max_age, span()),
            b"s-maxage" => first(&mut self.s_maxage, span()),
            b"stale-while-revalidate" => first(&mut self.stale_while_revalidate, span()),
            b"stale-if-error" => first(&mut self.stale_if_error, span()),
            _ => {}
        }
    }
}

fn first<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// Bytes of `stale-while-revalidate`, the longest name known here.
const LONGEST_NAME: usize = 22;

/// The name in lower case; a name too long to be known is given back as none.
fn lower<'b>(name: &[u8], buffer: &'b mut [u8; LONGEST_NAME]) -> &'b [u8] {
    let Some(copy) = buffer.get_mut(..name.len()) else { return &[] };
    copy.copy_from_slice(name);
    copy.make_ascii_lowercase();
    copy
}

#[cfg(test)]
mod tests;
