//! Moments and spans in whole seconds, the only unit of RFC 9111. Nothing here reads a clock, and no operation
//! can overflow or go below zero: a clock that was set back makes things look newer, never wraps.

/// A moment: whole seconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u64);

/// A span of whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seconds(pub u64);

/// When the exchange that brought a response took place (`request_time` and `response_time` of RFC 9111 §4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the request that led to the response was sent.
    pub requested_at: UnixSeconds,
    /// When the response head had arrived.
    pub received_at: UnixSeconds,
}

impl UnixSeconds {
    /// How long before `self` the moment `earlier` was; nothing if it was not before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Seconds {
        Seconds(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` before this one, no earlier than 1970.
    #[must_use]
    pub fn minus(self, span: Seconds) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Seconds {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// What a longer `delta-seconds` value counts as (RFC 9111 §1.2.2).
    pub const MAX_DELTA: Self = Self(1 << 31);

    /// The sum.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// The difference, or nothing.
    #[must_use]
    pub fn minus(self, less: Self) -> Self {
        Self(self.0.saturating_sub(less.0))
    }

    /// Reads `delta-seconds` (RFC 9111 §1.2.2): digits only, anything longer than [`Self::MAX_DELTA`] is that.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = digits.iter().fold(0u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')).min(Self::MAX_DELTA.0)
        });
        Some(Self(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_seconds_are_digits_and_bounded() {
        // RFC 9111 §1.2.2
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", Some(1 << 31)),
            ("99999999999999999999999999", Some(1 << 31)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            (" 1", None),
            ("1s", None),
        ] {
            assert_eq!(Seconds::parse(text.as_bytes()).map(|span| span.0), expected, "{text:?}");
        }
    }

    #[test]
    fn arithmetic_stops_at_the_ends() {
        assert_eq!(UnixSeconds(5).since(UnixSeconds(9)), Seconds::ZERO);
        assert_eq!(UnixSeconds(5).minus(Seconds(9)), UnixSeconds(0));
        assert_eq!(Seconds(u64::MAX).plus(Seconds(1)), Seconds(u64::MAX));
        assert_eq!(Seconds(1).minus(Seconds(2)), Seconds::ZERO);
    }
}
