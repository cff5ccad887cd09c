//! The `Via` field (RFC 9110 §7.6.3): every message sent on carries one more member, in both directions. Finding
//! a loop is `wire::fields::via_contains`.

use alloc::vec::Vec;
use wire::Version;

/// Appends the member for a message received in `version` by the intermediary called `pseudonym`.
pub fn write_via(out: &mut Vec<u8>, version: Version, pseudonym: &str) {
    out.extend_from_slice(match version {
        Version::Http10 => b"1.0 ",
        Version::Http11 => b"1.1 ",
    });
    out.extend_from_slice(pseudonym.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_again_as_a_loop() {
        // RFC 9110 §7.6.3
        for (version, expected) in [(Version::Http10, "1.0 tidegate-7"), (Version::Http11, "1.1 tidegate-7")]
        {
            let mut out = Vec::new();
            write_via(&mut out, version, "tidegate-7");
            assert_eq!(out, expected.as_bytes());
            let mut fields = wire::Fields::new();
            fields.push("Via", &out);
            assert!(wire::fields::via_contains(&fields, "tidegate-7"));
        }
    }
}
