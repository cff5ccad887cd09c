//! Entity tags (RFC 9110 §8.8.3): their grammar, the lists of `If-Match` and `If-None-Match`, and the two ways
//! of comparing. It does not know which comparison a condition needs.
//!
//! An opaque tag is not a quoted-string: a backslash is an ordinary byte in it, and a comma too, so these lists
//! have their own reader.

use crate::chars::is_ows;

/// One entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntityTag<'a> {
    /// Whether it was written with `W/`.
    pub weak: bool,
    /// The bytes between the quotation marks.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads a whole field value, as `ETag` and `If-Range` have it. `None` if it is not exactly one entity tag.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        match Self::first(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// Strong comparison: equal, and neither is weak (RFC 9110 §8.8.3.2).
    #[must_use]
    pub fn strong_eq(&self, other: &EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison: the opaque parts are equal (RFC 9110 §8.8.3.2).
    #[must_use]
    pub fn weak_eq(&self, other: &EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }

    /// The tag at the front of `bytes`, and what follows it.
    fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (weak, quoted) = match bytes {
            [b'W', b'/', rest @ ..] => (true, rest),
            _ => (false, bytes),
        };
        let text = quoted.strip_prefix(b"\"")?;
        let end = text.iter().position(|&byte| !is_etagc(byte))?;
        let rest = text[end..].strip_prefix(b"\"")?;
        Some((Self { weak, opaque: &text[..end] }, rest))
    }
}

/// `etagc`: VCHAR except the quotation mark, and obs-text.
fn is_etagc(byte: u8) -> bool {
    byte == 0x21 || (0x23..=0x7e).contains(&byte) || byte >= 0x80
}

/// Whether a field value is `*` (RFC 9110 §13.1.1, §13.1.2): any current representation will do.
#[must_use]
pub fn is_any(value: &[u8]) -> bool {
    value == b"*"
}

/// Reads a list of entity tags (one field line's value). Empty elements are skipped (RFC 9110 §5.6.1.2); the
/// first malformed element ends the list with `None` as its last item, so that the caller decides what a broken
/// condition means.
#[must_use]
pub fn list(value: &[u8]) -> EntityTags<'_> {
    EntityTags { rest: value }
}

/// The iterator of [`list`].
#[derive(Clone, Debug)]
pub struct EntityTags<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for EntityTags<'a> {
    type Item = Option<EntityTag<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest = after_separators(self.rest);
        if self.rest.is_empty() {
            return None;
        }
        let element = EntityTag::first(self.rest).filter(|(_, rest)| ends_element(rest));
        self.rest = element.map_or(&[], |(_, rest)| rest);
        Some(element.map(|(tag, _)| tag))
    }
}

fn after_separators(bytes: &[u8]) -> &[u8] {
    let skipped = bytes.iter().take_while(|&&byte| is_ows(byte) || byte == b',').count();
    &bytes[skipped..]
}

fn ends_element(rest: &[u8]) -> bool {
    matches!(rest.iter().find(|&&byte| !is_ows(byte)), None | Some(b','))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn tag(weak: bool, opaque: &str) -> EntityTag<'_> {
        EntityTag { weak, opaque: opaque.as_bytes() }
    }

    #[test]
    fn a_tag_is_quoted_and_may_be_weak() {
        // RFC 9110 §8.8.3
        for (text, expected) in [
            ("\"xyzzy\"", Some(tag(false, "xyzzy"))),
            ("W/\"xyzzy\"", Some(tag(true, "xyzzy"))),
            ("\"\"", Some(tag(false, ""))),
            ("\"a\\\"", Some(tag(false, "a\\"))),
            ("\"a,b\"", Some(tag(false, "a,b"))),
            ("\"\u{e9}\"", Some(tag(false, "\u{e9}"))),
            ("w/\"a\"", None),
            ("W/ \"a\"", None),
            ("xyzzy", None),
            ("\"a", None),
            ("a\"", None),
            ("\"a b\"", None),
            ("\"a\" ", None),
            ("\"a\"\"b\"", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(EntityTag::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn comparison_follows_the_table() {
        // RFC 9110 §8.8.3.2, the table at its end: first, second, strong, weak
        for (first, second, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            let [a, b] = [first, second].map(|text| EntityTag::parse(text.as_bytes()).unwrap());
            assert_eq!((a.strong_eq(&b), a.weak_eq(&b)), (strong, weak), "{first} {second}");
            assert_eq!((b.strong_eq(&a), b.weak_eq(&a)), (strong, weak), "{second} {first}");
        }
    }

    #[test]
    fn lists_skip_empty_elements_and_stop_at_nonsense() {
        for (text, expected) in [
            ("", alloc::vec![]),
            (" , ,", alloc::vec![]),
            ("\"a\"", alloc::vec![Some(tag(false, "a"))]),
            ("\"a\",\"b\"", alloc::vec![Some(tag(false, "a")), Some(tag(false, "b"))]),
            (",\"a\" ,\t, W/\"b,c\",", alloc::vec![Some(tag(false, "a")), Some(tag(true, "b,c"))]),
            ("\"a\" \"b\"", alloc::vec![None]),
            ("\"a\", b, \"c\"", alloc::vec![Some(tag(false, "a")), None]),
            ("*", alloc::vec![None]),
        ] {
            assert_eq!(list(text.as_bytes()).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn any_is_a_lone_star() {
        assert!(is_any(b"*"));
        assert!(!is_any(b"\"*\"") && !is_any(b"*, \"a\"") && !is_any(b""));
    }
}
