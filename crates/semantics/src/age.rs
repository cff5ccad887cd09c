//! Calculating age (RFC 9111 §4.2.3): how long ago the origin made or validated a response, as well as can be
//! told from here. Clocks that disagree make a response older, never younger.

use crate::time::{Seconds, Times, UnixSeconds};
use wire::Fields;
use wire::fields::list_of;

/// `age_value`: the `Age` field. Of several members the first counts; what is no number counts as zero, as if
/// the field were not there (RFC 9111 §5.1).
#[must_use]
pub fn age_value(fields: &Fields<'_>) -> Seconds {
    list_of(fields, "age").next().and_then(Seconds::parse).unwrap_or(Seconds::ZERO)
}

/// `corrected_initial_age`: the age at [`Times::received_at`].
#[must_use]
pub fn initial_age(fields: &Fields<'_>, date: UnixSeconds, times: Times) -> Seconds {
    let apparent_age = times.received_at.since(date);
    let response_delay = times.received_at.since(times.requested_at);
    let corrected_age_value = age_value(fields).plus(response_delay);
    apparent_age.max(corrected_age_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    #[test]
    fn the_first_member_counts_and_nonsense_is_ignored() {
        // RFC 9111 §5.1
        for (lines, expected) in [
            ("Age: 7", 7),
            ("X: y", 0),
            ("Age: 7, 9", 7),
            ("Age: 7\nAge: 9", 7),
            ("Age: -7", 0),
            ("Age: seven, 9", 0),
            ("Age: 1.5", 0),
            ("Age: 99999999999999999999", 1 << 31),
        ] {
            assert_eq!(age_value(&fields(lines)), Seconds(expected), "{lines}");
        }
    }

    #[test]
    fn the_oldest_estimate_wins() {
        // RFC 9111 §4.2.3: (Age, Date, requested at, received at, corrected initial age)
        for (age, date, requested_at, received_at, expected) in [
            (0, 100, 100, 100, 0),
            (0, 90, 100, 100, 10),
            (0, 110, 100, 100, 0),
            (0, 100, 100, 104, 4),
            (20, 100, 100, 104, 24),
            (3, 90, 100, 104, 14),
            (3, 100, 104, 100, 3),
        ] {
            let text = std::format!("Age: {age}");
            let times =
                Times { requested_at: UnixSeconds(requested_at), received_at: UnixSeconds(received_at) };
            let initial = initial_age(&fields(&text), UnixSeconds(date), times);
            assert_eq!(initial, Seconds(expected), "{age} {date} {requested_at} {received_at}");
        }
    }
}
