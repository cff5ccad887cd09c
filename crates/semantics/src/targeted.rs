//! Which field controls this cache: `Cache-Control` (RFC 9111 §5.2), or `CDN-Cache-Control` where the policy
//! listens to it (RFC 9213). The latter is a dictionary of structured fields: one that does not parse, or is
//! empty, is as if it were not there (RFC 9213 §2.1, §2.2).

use crate::directives::{ResponseDirectives, directives};
use crate::policy::Policy;
use wire::Fields;
use wire::fields::unquote;

/// The directives that hold, and where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// What the response says.
    pub directives: ResponseDirectives,
    /// Whether a targeted field said it; then `Cache-Control` and `Expires` are not looked at.
    pub targeted: bool,
}

impl Control {
    /// Reads the field that holds.
    #[must_use]
    pub fn of(fields: &Fields<'_>, policy: &Policy) -> Self {
        match policy.targeted.then(|| targeted(fields)).flatten() {
            Some(directives) => Self { directives, targeted: true },
            None => Self { directives: ResponseDirectives::of(fields), targeted: false },
        }
    }
}

fn targeted(fields: &Fields<'_>) -> Option<ResponseDirectives> {
    let mut all = ResponseDirectives::default();
    let mut members = 0usize;
    for directive in fields.all("cdn-cache-control").flat_map(directives) {
        if !is_key(directive.name) || !directive.argument.is_none_or(is_bare_item) {
            return None;
        }
        if directive.argument != Some(b"?0") {
            all.apply(&directive);
        }
        members += 1;
    }
    (members > 0).then_some(all)
}

/// `key` (RFC 9651 §3.1.2).
fn is_key(name: &[u8]) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'*';
    let is_next = |byte: &u8| is_first(byte) || byte.is_ascii_digit() || b"_-.".contains(byte);
    name.first().is_some_and(is_first) && name.iter().all(is_next)
}

/// Whether an argument is a bare item of a kind that a directive can have: integer, string, token, boolean
/// (RFC 9651 §3.3).
fn is_bare_item(argument: &[u8]) -> bool {
    match argument {
        [b'"', ..] => unquote(argument).is_some(),
        [b'?', value] => matches!(value, b'0' | b'1'),
        [b'-' | b'0'..=b'9', ..] => is_number(argument),
        [b'a'..=b'z' | b'A'..=b'Z' | b'*', rest @ ..] => rest.iter().all(|byte| !b" \t\",;=".contains(byte)),
        _ => false,
    }
}

fn is_number(argument: &[u8]) -> bool {
    let digits = argument.strip_prefix(b"-").unwrap_or(argument);
    (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::Source;
    use crate::stored::Stored;
    use crate::testing::{T0, fields, response, times};

    fn listening() -> Policy {
        Policy { targeted: true, ..Policy::default() }
    }

    #[test]
    fn a_valid_targeted_field_replaces_the_others() {
        // RFC 9213 §2.1: (fields, lifetime, no-store)
        for (lines, lifetime, no_store) in [
            ("CDN-Cache-Control: max-age=60\nCache-Control: max-age=5, no-store", 60, false),
            ("CDN-Cache-Control: no-store\nCache-Control: max-age=5", 0, true),
            ("CDN-Cache-Control: must-revalidate\nExpires: Sun, 09 Sep 2001 01:47:40 GMT", 0, false),
            ("CDN-Cache-Control: no-store=?0, max-age=7", 7, false),
            ("CDN-Cache-Control:\nCache-Control: max-age=5", 5, false),
            ("CDN-Cache-Control: Max-Age=60\nCache-Control: max-age=5", 5, false),
            ("CDN-Cache-Control: max-age=&\nCache-Control: max-age=5", 5, false),
            ("CDN-Cache-Control: max-age=\nCache-Control: max-age=5", 5, false),
            ("Cache-Control: max-age=5", 5, false),
        ] {
            let control = Control::of(&fields(lines), &listening());
            let stored = Stored::from_head(&response(200, lines), times(T0), &listening());
            assert_eq!((stored.lifetime.0, control.directives.no_store), (lifetime, no_store), "{lines}");
        }
    }

    #[test]
    fn a_policy_that_does_not_listen_reads_cache_control() {
        let lines = "CDN-Cache-Control: max-age=60\nCache-Control: s-maxage=5";
        let stored = Stored::from_head(&response(200, lines), times(T0), &Policy::default());
        assert_eq!((stored.lifetime.0, stored.source), (5, Source::SMaxage));
    }
}
