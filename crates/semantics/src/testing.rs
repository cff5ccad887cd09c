//! Heads written as text, and a short fuzz run, for the tests of this crate.

use crate::policy::Policy;
use crate::request::RequestTraits;
use crate::stored::Stored;
use crate::time::{Times, UnixSeconds};
use core::time::Duration;
use wire::{Fields, RequestHead, ResponseHead, Version};

/// A round moment for tests: 2001-09-09 01:46:40 UTC, a Sunday.
pub(crate) const T0: u64 = 1_000_000_000;
/// [`T0`] as an HTTP-date.
pub(crate) const T0_DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";

/// Fields from lines of `Name: value`.
pub(crate) fn fields(lines: &str) -> Fields<'_> {
    let mut all = Fields::new();
    for line in lines.lines() {
        let (name, value) = line.split_once(':').unwrap();
        all.push(name, value.trim_ascii().as_bytes());
    }
    all
}

pub(crate) fn request<'a>(method: &'a str, lines: &'a str) -> RequestHead<'a> {
    RequestHead { method, target: "/", version: Version::Http11, fields: fields(lines) }
}

pub(crate) fn traits(lines: &str) -> RequestTraits<'_> {
    RequestTraits::of(&request("GET", lines))
}

pub(crate) fn response(status: u16, lines: &str) -> ResponseHead<'_> {
    ResponseHead { version: Version::Http11, status, reason: b"", fields: fields(lines) }
}

/// An exchange that took no time at `at`.
pub(crate) fn times(at: u64) -> Times {
    Times { requested_at: UnixSeconds(at), received_at: UnixSeconds(at) }
}

/// A 200 received at [`T0`] under the default policy.
pub(crate) fn stored(lines: &str) -> Stored {
    Stored::from_head(&response(200, lines), times(T0), &Policy::default())
}

/// Two seconds of fuzzing, or as many as `TIDEGATE_FUZZ_SECONDS` says, ten at most.
pub(crate) fn fuzz(test: impl Fn(&[u8]) + core::panic::RefUnwindSafe) {
    let seconds =
        std::env::var("TIDEGATE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2u64);
    bolero::check!().with_test_time(Duration::from_secs(seconds.min(10))).for_each(test);
}
