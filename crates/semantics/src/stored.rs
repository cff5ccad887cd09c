//! What a stored response is to the questions asked about it: plain data, computed once from its head and the
//! times of its exchange, so that a hit parses nothing again. It holds no reference to the head and can be built
//! from it anew at any time ([`Stored::from_head`]).

use crate::age::initial_age;
use crate::directives::ResponseDirectives;
use crate::freshness::{Basis, Source, lifetime};
use crate::policy::Policy;
use crate::targeted::Control;
use crate::time::{Seconds, Times, UnixSeconds};
use crate::vary::varies_on_everything;
use smallvec::SmallVec;
use wire::etag::EntityTag;
use wire::{Fields, ResponseHead, date};

/// A `Last-Modified` this much before `Date` is a strong validator (RFC 9110 §8.8.2.2): no second change can
/// have been made in the same second, even if two clocks were read.
const STRONG_AFTER: Seconds = Seconds(60);

/// One stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The status code.
    pub status: u16,
    /// Whether it may be used only after validation (`no-cache`).
    pub no_cache: bool,
    /// Whether the origin forbids serving it stale: `must-revalidate`, `proxy-revalidate`, `s-maxage`
    /// (RFC 9111 §4.2.4).
    pub must_revalidate: bool,
    /// Whether it will not change while it is fresh (RFC 8246).
    pub immutable: bool,
    /// Whether `Vary: *` keeps it from matching any request (RFC 9111 §4.1).
    pub varies_on_everything: bool,
    /// Where its lifetime came from.
    pub source: Source,
    /// How long it is fresh, counted from age zero.
    pub lifetime: Seconds,
    /// How long after that it may be served while it is validated (RFC 5861 §3).
    pub stale_while_revalidate: Seconds,
    /// How long after its lifetime it may be served if the origin fails (RFC 5861 §4).
    pub stale_if_error: Seconds,
    /// When it was received or last validated.
    pub received_at: UnixSeconds,
    /// Its age at that moment.
    pub initial_age: Seconds,
    /// Its `Date`, or when it was received if it has none (RFC 9110 §6.6.1).
    pub date: UnixSeconds,
    /// Its `Last-Modified`, if that is a date.
    pub last_modified: Option<UnixSeconds>,
    /// Its `Content-Length`, if it has one.
    pub content_length: Option<u64>,
    etag: SmallVec<[u8; 32]>,
}

/// What is the same only for the same bytes of the same representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrongValidator<'a> {
    /// An entity tag that is not weak.
    Tag(EntityTag<'a>),
    /// A `Last-Modified` well before its `Date`.
    Date(UnixSeconds),
}

impl Stored {
    /// Reads a response head. `times` are those of the exchange that brought it; the head must still have the
    /// `Age` it came with. Who removes `Age` from the stored head keeps [`Stored::times_without_age`] beside it.
    #[must_use]
    pub fn from_head(head: &ResponseHead<'_>, times: Times, policy: &Policy) -> Self {
        Self::read(head.status, &head.fields, &Control::of(&head.fields, policy), times, policy)
    }

    /// [`Stored::from_head`] with the cache control already read.
    pub(crate) fn read(
        status: u16,
        fields: &Fields<'_>,
        control: &Control,
        times: Times,
        policy: &Policy,
    ) -> Self {
        let received_at = times.received_at;
        let moment = |name| Some(UnixSeconds(date::parse(fields.get(name)?, received_at.0)?));
        let date = moment("date").unwrap_or(received_at);
        let last_modified = moment("last-modified");
        let (lifetime, source) = lifetime(&Basis { status, control, fields, date, last_modified }, policy);
        let directives = &control.directives;
        Self {
            status,
            no_cache: directives.no_cache,
            must_revalidate: forbids_stale(directives, policy),
            immutable: directives.immutable,
            varies_on_everything: varies_on_everything(fields),
            source,
            lifetime,
            stale_while_revalidate: directives.stale_while_revalidate.unwrap_or_default(),
            stale_if_error: directives.stale_if_error.unwrap_or_default(),
            received_at,
            initial_age: initial_age(fields, date, times),
            date,
            last_modified,
            content_length: fields.get("content-length").and_then(content_length),
            etag: entity_tag(fields),
        }
    }

    /// `current_age` (RFC 9111 §4.2.3), also the value of the `Age` field to send (§5.1).
    #[must_use]
    pub fn age(&self, now: UnixSeconds) -> Seconds {
        self.initial_age.plus(now.since(self.received_at)).min(Seconds::MAX_DELTA)
    }

    /// How long it stays fresh (RFC 9111 §4.2); nothing when it is stale.
    #[must_use]
    pub fn ttl(&self, now: UnixSeconds) -> Seconds {
        self.lifetime.minus(self.age(now))
    }

    /// The entity tag, if the response had exactly one that is well-formed.
    #[must_use]
    pub fn etag(&self) -> Option<EntityTag<'_>> {
        EntityTag::parse(&self.etag)
    }

    /// Whether `Last-Modified` is a strong validator (RFC 9110 §8.8.2.2).
    #[must_use]
    pub fn last_modified_is_strong(&self) -> bool {
        self.last_modified.is_some_and(|at| self.date.since(at) >= STRONG_AFTER)
    }

    /// The validator that tells equal bytes (RFC 9110 §8.8.1): a strong entity tag, or a strong date where there is no tag
    /// at all.
    #[must_use]
    pub fn strong_validator(&self) -> Option<StrongValidator<'_>> {
        match self.etag() {
            Some(tag) if tag.weak => None,
            Some(tag) => Some(StrongValidator::Tag(tag)),
            None => self.last_modified.filter(|_| self.last_modified_is_strong()).map(StrongValidator::Date),
        }
    }

    /// The response as it is when it was declared stale at `at`, whatever its origin had said: what may be done with
    /// it from then on is what may be done with a stale one.
    #[must_use]
    pub fn stale_from(self, at: UnixSeconds) -> Self {
        Self { lifetime: self.lifetime.min(self.age(at)), ..self }
    }

    /// Whether the origin can be asked about it with a condition (RFC 9111 §4.3.1).
    #[must_use]
    pub fn has_validator(&self) -> bool {
        !self.etag.is_empty() || self.last_modified.is_some()
    }

    /// Times that give the same ages when the head is read again *without* its `Age` field: the age at reception
    /// is written as a delay of the response.
    #[must_use]
    pub fn times_without_age(&self) -> Times {
        Times { requested_at: self.received_at.minus(self.initial_age), received_at: self.received_at }
    }
}

/// RFC 9111 §4.2.4: what prohibits stale responses; `s-maxage` does as `proxy-revalidate` would (§5.2.2.10).
fn forbids_stale(directives: &ResponseDirectives, policy: &Policy) -> bool {
    let by_s_maxage = directives.s_maxage.is_some() && !policy.stale_beside_s_maxage;
    directives.must_revalidate || directives.proxy_revalidate || by_s_maxage
}

/// The value of a lone, well-formed `ETag`, else nothing: what cannot be compared is no validator.
fn entity_tag(fields: &Fields<'_>) -> SmallVec<[u8; 32]> {
    let mut lines = fields.all("etag");
    match (lines.next(), lines.next()) {
        (Some(tag), None) if EntityTag::parse(tag).is_some() => SmallVec::from_slice(tag),
        _ => SmallVec::new(),
    }
}

fn content_length(value: &[u8]) -> Option<u64> {
    core::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{T0, T0_DATE, response, stored};
    use proptest::prelude::*;

    #[test]
    fn it_is_small() {
        assert!(size_of::<Stored>() <= 176, "{}", size_of::<Stored>());
    }

    #[test]
    fn stale_is_forbidden_by_three_directives() {
        // RFC 9111 §4.2.4, §5.2.2.2, §5.2.2.8, §5.2.2.10
        for (value, expected) in [
            ("max-age=1", false),
            ("max-age=1, must-revalidate", true),
            ("max-age=1, proxy-revalidate", true),
            ("s-maxage=1", true),
        ] {
            assert_eq!(stored(&std::format!("Cache-Control: {value}")).must_revalidate, expected, "{value}");
        }
        let policy = Policy { stale_beside_s_maxage: true, ..Policy::default() };
        let head = response(200, "Cache-Control: s-maxage=1");
        assert!(!Stored::from_head(&head, crate::testing::times(T0), &policy).must_revalidate);
    }

    #[test]
    fn validators_are_what_can_be_compared() {
        // RFC 9110 §8.8; (fields, has a validator, has an entity tag)
        for (lines, validator, etag) in [
            ("ETag: \"a\"", true, true),
            ("ETag: W/\"a\"", true, true),
            ("ETag: a", false, false),
            ("ETag: \"a\"\nETag: \"b\"", false, false),
            ("Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT", true, false),
            ("Last-Modified: recently", false, false),
        ] {
            let stored = stored(lines);
            assert_eq!((stored.has_validator(), stored.etag().is_some()), (validator, etag), "{lines}");
        }
    }

    #[test]
    fn a_date_a_minute_after_the_change_makes_it_strong() {
        // RFC 9110 §8.8.2.2
        for (changed, expected) in [
            ("Sun, 09 Sep 2001 01:45:40 GMT", true),
            ("Sun, 09 Sep 2001 01:45:41 GMT", false),
            ("Sun, 09 Sep 2001 01:50:40 GMT", false),
        ] {
            let lines = std::format!("Date: {T0_DATE}\nLast-Modified: {changed}");
            assert_eq!(stored(&lines).last_modified_is_strong(), expected, "{changed}");
        }
    }

    #[test]
    fn content_length_is_digits() {
        for (value, expected) in [("12", Some(12)), ("+12", None), ("99999999999999999999", None), ("", None)]
        {
            assert_eq!(stored(&std::format!("Content-Length: {value}")).content_length, expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn age_never_decreases_and_ttl_never_grows(
            age in 0..u64::MAX, delay in 0..100u64, lifetime in 0..u64::MAX, a in 0..u64::MAX, b in 0..u64::MAX,
        ) {
            let lines = std::format!("Age: {age}\nCache-Control: max-age={lifetime}");
            let times = Times { requested_at: UnixSeconds(T0 - delay), received_at: UnixSeconds(T0) };
            let stored = Stored::from_head(&response(200, &lines), times, &Policy::default());
            let (earlier, later) = (UnixSeconds(a.min(b)), UnixSeconds(a.max(b)));
            prop_assert!(stored.age(earlier) <= stored.age(later));
            prop_assert!(stored.ttl(earlier) >= stored.ttl(later));
            prop_assert!(stored.age(earlier) >= age_bound(age, delay));
            prop_assert!(stored.age(later) <= Seconds::MAX_DELTA);
        }

        #[test]
        fn a_head_without_age_reads_the_same_with_adjusted_times(
            age in 0..1000u64, delay in 0..100u64, date in T0 - 1000..T0 + 1000, later in 0..10_000u64,
        ) {
            let date = date::format(date);
            let date = core::str::from_utf8(&date).unwrap();
            let with_age = std::format!("Date: {date}\nCache-Control: max-age=50\nAge: {age}");
            let without = std::format!("Date: {date}\nCache-Control: max-age=50");
            let times = Times { requested_at: UnixSeconds(T0 - delay), received_at: UnixSeconds(T0) };
            let policy = Policy::default();
            let first = Stored::from_head(&response(200, &with_age), times, &policy);
            let again = Stored::from_head(&response(200, &without), first.times_without_age(), &policy);
            let now = UnixSeconds(T0 + later);
            prop_assert_eq!((again.age(now), again.ttl(now)), (first.age(now), first.ttl(now)));
        }
    }

    fn age_bound(age: u64, delay: u64) -> Seconds {
        Seconds(age.saturating_add(delay)).min(Seconds::MAX_DELTA)
    }
}
