//! The character classes of RFC 9110 §5 and §2.1 of RFC 5234, as one table of bits. Everything in this crate
//! that asks "may this byte stand here?" asks here, so that two modules cannot disagree.

const TCHAR: u8 = 1;
const FIELD: u8 = 2;
const VISIBLE: u8 = 4;
const HOST: u8 = 8;

/// What each byte may be: a bit per class.
static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = class_of(byte as u8);
        byte += 1;
    }
    table
}

const fn class_of(byte: u8) -> u8 {
    let mut class = 0;
    if byte.is_ascii_alphanumeric() || is_one_of(byte, b"!#$%&'*+-.^_`|~") {
        class |= TCHAR;
    }
    if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
        class |= FIELD;
    }
    if byte.is_ascii_graphic() {
        class |= VISIBLE;
    }
    if byte.is_ascii_alphanumeric() || is_one_of(byte, b"-._~") {
        class |= HOST;
    }
    class
}

const fn is_one_of(byte: u8, set: &[u8]) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

fn all(bytes: &[u8], class: u8) -> bool {
    bytes.iter().all(|&byte| CLASSES[byte as usize] & class != 0)
}

/// `token` of RFC 9110 §5.6.2: one tchar or more.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TCHAR)
}

/// Whether every byte may stand in a field value or reason phrase: HTAB, SP, VCHAR, obs-text (RFC 9110 §5.5).
pub(crate) fn is_field_content(bytes: &[u8]) -> bool {
    all(bytes, FIELD)
}

/// Whether every byte is VCHAR (0x21–0x7E).
pub(crate) fn is_visible(bytes: &[u8]) -> bool {
    all(bytes, VISIBLE)
}

/// Whether every byte is `unreserved` of RFC 3986 §2.3.
pub(crate) fn is_unreserved(bytes: &[u8]) -> bool {
    all(bytes, HOST)
}

/// Optional whitespace of RFC 9110 §5.6.3.
pub(crate) fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without the optional whitespace around them.
pub(crate) fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_ows(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_ows(*last)
    {
        bytes = rest;
    }
    bytes
}

/// Decimal digits only (at least one) to a number; `None` for anything else, and for what does not fit.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_the_grammar() {
        for byte in 0..=255_u8 {
            let delimiter = b"\"(),/:;<=>?@[\\]{}".contains(&byte);
            let expected = (0x21..0x7f).contains(&byte) && !delimiter;
            assert_eq!(is_token(&[byte]), expected, "byte {byte:#x}");
        }
        assert!(!is_token(b""));
    }

    #[test]
    fn field_content_is_tab_space_visible_and_obs_text() {
        for byte in 0..=255_u8 {
            let expected = byte == 9 || (byte >= 32 && byte != 127);
            assert_eq!(is_field_content(&[byte]), expected, "byte {byte:#x}");
        }
    }

    #[test]
    fn trims_only_blanks_and_tabs() {
        for (text, expected) in [("", ""), (" \t ", ""), (" a b\t", "a b"), ("\x0ba", "\x0ba")] {
            assert_eq!(trim_ows(text.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn decimal_takes_digits_that_fit() {
        assert_eq!(decimal(b"0018446744073709551615"), Some(u64::MAX));
        for text in ["", "+1", "-1", " 1", "1 ", "0x1", "1_0", "18446744073709551616", "\u{661}"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text:?}");
        }
    }
}
