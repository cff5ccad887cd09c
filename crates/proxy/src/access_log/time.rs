//! Wall-clock time as the formats print it, always in UTC. The date is worked out once a second, not once a line.

/// Remembers the last second that was printed.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: Option<u64>,
    common: String,
    rfc3339: String,
}

impl Clock {
    /// `10/Oct/2000:13:55:36 +0000`, as web servers log it.
    pub(super) fn common(&mut self, millis: u64) -> &str {
        self.set(millis / 1000);
        &self.common
    }

    /// `2000-10-10T13:55:36`, without fraction and zone (RFC 3339 §5.6).
    pub(super) fn rfc3339(&mut self, millis: u64) -> &str {
        self.set(millis / 1000);
        &self.rfc3339
    }

    fn set(&mut self, second: u64) {
        if self.second == Some(second) {
            return;
        }
        let Civil { year, month, day } = civil(second / 86_400);
        let (hour, minute, sec) = (second / 3600 % 24, second / 60 % 60, second % 60);
        let name = MONTHS[month as usize - 1];
        self.second = Some(second);
        self.common = format!("{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{sec:02} +0000");
        self.rfc3339 = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{sec:02}");
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date of the Gregorian calendar.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
}

/// The date of a day counted from 1970-01-01. Years are counted from March here, so that the leap day ends one; an
/// era is the 400 years after which the calendar repeats.
fn civil(days: u64) -> Civil {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    Civil {
        year: era * 400 + year_of_era + u64::from(month <= 2),
        month,
        day: day_of_year - (153 * from_march + 2) / 5 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_others_worked_out() {
        let rows = [
            (0, "01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000", "2000-02-29T00:00:00"),
            (971_186_136, "10/Oct/2000:13:55:36 +0000", "2000-10-10T13:55:36"),
            (1_709_251_199, "29/Feb/2024:23:59:59 +0000", "2024-02-29T23:59:59"),
            (4_107_542_400, "01/Mar/2100:00:00:00 +0000", "2100-03-01T00:00:00"),
        ];
        let mut clock = Clock::default();
        for (second, common, rfc3339) in rows {
            assert_eq!(clock.common(second * 1000 + 999), common);
            assert_eq!(clock.rfc3339(second * 1000), rfc3339);
        }
    }

    #[test]
    fn days_follow_each_other_for_five_hundred_years() {
        let mut last = (1969, 12, 31);
        for day in 0..365 * 500 {
            let Civil { year, month, day } = civil(day);
            let next_day = (year, month, day) == (last.0, last.1, last.2 + 1);
            let next_month = (year, month, day) == (last.0, last.1 + 1, 1) && last.2 >= 28;
            let next_year = (year, month, day) == (last.0 + 1, 1, 1) && (last.1, last.2) == (12, 31);
            assert!(next_day || next_month || next_year, "{year}-{month}-{day} after {last:?}");
            last = (year, month, day);
        }
    }
}
