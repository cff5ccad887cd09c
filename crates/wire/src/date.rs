//! HTTP-date (RFC 9110 §5.6.7) to seconds since 1970-01-01 UTC and back. Reads all three forms, writes the
//! first. Total: any bytes in, a time or `None` out; any time in, 29 bytes out. Reads no clock: the one form
//! that needs to know the century is given `now`.
//!
//! Weekday names must be weekday names, but need not be the day's own: nothing is decided by them.

/// The last second that four digits of a year can write: 9999-12-31 23:59:59.
pub const LAST_WRITABLE: u64 = 253_402_300_799;

/// Bytes of an IMF-fixdate.
pub const DATE_BYTES: usize = 29;

const SECONDS_PER_DAY: u64 = 86_400;
const WEEKDAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const WEEKDAYS_LONG: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Reads an HTTP-date in any of its three forms. A time before 1970 reads as 0; a leap second as the second
/// after it. `now` (seconds since 1970) places the two-digit year of the RFC 850 form: never more than 50 years
/// ahead of it.
#[must_use]
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    match text.get(3)? {
        b',' => imf_fixdate(text),
        b' ' => asctime(text),
        _ => rfc850(text, now),
    }
}

/// Writes `seconds` since 1970 as an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`. Later than
/// [`LAST_WRITABLE`] is written as that.
#[must_use]
pub fn format(seconds: u64) -> [u8; DATE_BYTES] {
    let seconds = seconds.min(LAST_WRITABLE);
    let (days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(WEEKDAYS[((days + 3) % 7) as usize]);
    put_two(&mut out, 5, day);
    out[8..11].copy_from_slice(MONTHS[(month - 1) as usize]);
    put_two(&mut out, 12, year / 100);
    put_two(&mut out, 14, year % 100);
    put_two(&mut out, 17, of_day / 3600);
    put_two(&mut out, 20, of_day / 60 % 60);
    put_two(&mut out, 23, of_day % 60);
    out
}

fn put_two(out: &mut [u8; DATE_BYTES], at: usize, number: u64) {
    out[at] = b'0' + (number / 10) as u8;
    out[at + 1] = b'0' + (number % 10) as u8;
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(text: &[u8]) -> Option<u64> {
    let text: &[u8; DATE_BYTES] = text.try_into().ok()?;
    let shape = &text[4..5] == b" "
        && text[7] == b' '
        && text[11] == b' '
        && text[16] == b' '
        && &text[25..] == b" GMT"
        && WEEKDAYS.iter().any(|name| text[..3] == name[..]);
    let year = two(&text[12..14])? * 100 + two(&text[14..16])?;
    let days = days_since_epoch(year, month(&text[8..11])?, two(&text[5..7])?)?;
    shape.then_some(at_time(days, time_of_day(&text[17..25])?))
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(text: &[u8], now: u64) -> Option<u64> {
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (weekday, rest) = text.split_at(comma);
    let rest: &[u8; 24] = rest.try_into().ok()?;
    let shape = &rest[..2] == b", "
        && rest[4] == b'-'
        && rest[8] == b'-'
        && rest[11] == b' '
        && &rest[20..] == b" GMT"
        && WEEKDAYS_LONG.contains(&weekday);
    let year = year_near(two(&rest[9..11])?, now);
    let days = days_since_epoch(year, month(&rest[5..8])?, two(&rest[2..4])?)?;
    shape.then_some(at_time(days, time_of_day(&rest[12..20])?))
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<u64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let shape = text[7] == b' '
        && text[10] == b' '
        && text[19] == b' '
        && WEEKDAYS.iter().any(|name| text[..3] == name[..]);
    let day = if text[8] == b' ' { two(&[b'0', text[9]])? } else { two(&text[8..10])? };
    let year = two(&text[20..22])? * 100 + two(&text[22..24])?;
    let days = days_since_epoch(year, month(&text[4..7])?, day)?;
    shape.then_some(at_time(days, time_of_day(&text[11..19])?))
}

/// The year ending in `two_digits` that lies in the 100 years up to 50 years after `now` (RFC 9110 §5.6.7).
fn year_near(two_digits: i64, now: u64) -> i64 {
    let (year_now, _, _) = civil(now.min(LAST_WRITABLE) / SECONDS_PER_DAY);
    let newest = year_now as i64 + 50;
    newest - (newest - two_digits).rem_euclid(100)
}

fn two(digits: &[u8]) -> Option<i64> {
    match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
            Some(i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        }
        _ => None,
    }
}

fn month(name: &[u8]) -> Option<i64> {
    MONTHS.iter().position(|month| name == month.as_slice()).map(|at| at as i64 + 1)
}

/// `08:49:37` to seconds; 60 seconds are a leap second.
fn time_of_day(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = text else { return None };
    let (hours, minutes, seconds) = (two(&[*h1, *h2])?, two(&[*m1, *m2])?, two(&[*s1, *s2])?);
    (hours < 24 && minutes < 60 && seconds <= 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

fn at_time(days: i64, of_day: i64) -> u64 {
    u64::try_from(days * SECONDS_PER_DAY as i64 + of_day).unwrap_or(0)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar, `None` if the month has no such day.
/// Years are counted from March, so that the leap day is the last of its year and months follow a linear rule.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    if day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let march_year = year - i64::from(month <= 2);
    let march_month = (month + 9) % 12;
    let leap_days = march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    Some(march_year * 365 + leap_days + day_of_year - DAYS_TO_EPOCH)
}

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;

/// The inverse of [`days_since_epoch`] for days from 1970 on: year, month, day.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_EPOCH as u64;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
