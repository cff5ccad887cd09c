//! Tables, round trips and fuzz of the date forms, with a twin that counts days one by one.

use super::*;
use proptest::prelude::*;

/// 2026-11-21 00:00:00.
const NOW: u64 = 1_795_219_200;

#[test]
fn the_three_forms_of_the_rfc_are_one_time() {
    // RFC 9110 §5.6.7
    for text in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        assert_eq!(parse(text.as_bytes(), NOW), Some(784_111_777), "{text}");
    }
}

#[test]
fn known_times() {
    for (text, seconds) in [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
        ("Sat, 31 Dec 2016 23:59:59 GMT", 1_483_228_799),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LAST_WRITABLE),
    ] {
        assert_eq!(parse(text.as_bytes(), NOW), Some(seconds), "{text}");
        assert_eq!(core::str::from_utf8(&format(seconds)), Ok(text));
    }
}

#[test]
fn odd_but_readable() {
    for (text, seconds) in [
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800),
        ("Thu, 01 Jan 1900 00:00:00 GMT", 0),
        ("Sat, 01 Jan 0000 00:00:00 GMT", 0),
        ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Sun Nov 06 08:49:37 1994", 784_111_777),
        ("Sun Nov 16 08:49:37 1994", 784_975_777),
    ] {
        assert_eq!(parse(text.as_bytes(), NOW), Some(seconds), "{text}");
    }
}

#[test]
fn refuses_what_is_no_date() {
    for text in [
        "",
        "0",
        "-1",
        "Sun",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Xun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov +994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08-49-37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sonntag, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov   08:49:37 1994",
    ] {
        assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
    }
}

#[test]
fn two_digit_years_lie_at_most_fifty_years_ahead() {
    // RFC 9110 §5.6.7, last paragraph but one; NOW is in 2026
    for (digits, year) in [("94", 1994), ("26", 2026), ("76", 2076), ("77", 1977), ("00", 2000)] {
        let text = alloc::format!("Friday, 01-Jan-{digits} 00:00:00 GMT");
        let full = alloc::format!("Fri, 01 Jan {year} 00:00:00 GMT");
        assert_eq!(parse(text.as_bytes(), NOW), parse(full.as_bytes(), NOW), "{text}");
    }
}

#[test]
fn every_day_follows_the_one_before() {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    for days in 0..200_000_u64 {
        assert_eq!(civil(days), (year as u64, month as u64, day as u64));
        assert_eq!(days_since_epoch(year, month, day), Some(days as i64));
        day += 1;
        if day > days_in_month(year, month) {
            (month, day) = (month + 1, 1);
        }
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(seconds in 0..=LAST_WRITABLE) {
        prop_assert_eq!(parse(&format(seconds), NOW), Some(seconds));
    }

    #[test]
    fn beyond_the_last_is_the_last(seconds in LAST_WRITABLE..) {
        prop_assert_eq!(format(seconds), format(LAST_WRITABLE));
    }
}

#[test]
fn fuzz_parse() {
    bolero::check!()
        .with_test_time(crate::testing::fuzz_time())
        .with_type::<(alloc::vec::Vec<u8>, u64)>()
        .for_each(|(text, now)| {
            if let Some(seconds) = parse(text, *now) {
                assert_eq!(parse(&format(seconds), *now), Some(seconds.min(LAST_WRITABLE)));
            }
        });
}
