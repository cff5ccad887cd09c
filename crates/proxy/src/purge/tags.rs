//! Tags: words that an origin puts on a response so that it can be purged with others (`Surrogate-Key`, `Cache-Tag`).
//!
//! Which fields carry them is a setting. In all of them tags are separated by commas and by spaces, so no tag has
//! either; upper and lower case differ. They are kept apart from the head's text, joined by single spaces.

use wire::Fields;

/// Bytes that the tags of one response may take, separators included. A response with more is not stored: a purge could
/// not find it.
pub const TAGS_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a tag that can be purged.
pub const TAG_BYTES_MAX: usize = 1024;

/// The response has more tags than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// The tags in `fields`, whose carriers are called `names`, in the form in which they are kept.
///
/// # Errors
/// [`TooMany`].
pub fn read(fields: &Fields<'_>, names: &[String]) -> Result<Box<[u8]>, TooMany> {
    let mut tags = Vec::new();
    for value in names.iter().flat_map(|name| fields.all(name)) {
        for tag in value.split(|byte| is_separator(*byte)).filter(|tag| !tag.is_empty()) {
            if !tags.is_empty() {
                tags.push(b' ');
            }
            tags.extend_from_slice(tag);
        }
    }
    if tags.len() > TAGS_BYTES_MAX { Err(TooMany) } else { Ok(tags.into()) }
}

/// The tags of a stored response whose head is brought up to date by these fields: theirs, or, where they have none or more
/// than are kept, those that it `had`.
#[must_use]
pub fn renewed(fields: &Fields<'_>, names: &[String], had: &[u8]) -> Box<[u8]> {
    match read(fields, names) {
        Ok(fresh) if !fresh.is_empty() => fresh,
        _ => had.into(),
    }
}

/// The tags in what [`read`] gave.
pub fn each(tags: &[u8]) -> impl Iterator<Item = &[u8]> {
    tags.split(|byte| *byte == b' ').filter(|tag| !tag.is_empty())
}

/// A tag that is to be purged.
///
/// # Errors
/// What is wrong with it.
pub fn parse(tag: &str) -> Result<Box<[u8]>, &'static str> {
    match tag.as_bytes() {
        b"" => Err("is empty"),
        tag if tag.iter().any(|byte| is_separator(*byte)) => {
            Err("holds a space or a comma, which separate tags: purge them one by one")
        }
        tag if tag.len() > TAG_BYTES_MAX => Err("is longer than 1024 bytes"),
        tag => Ok(tag.into()),
    }
}

/// Whether a field of this name carries tags.
#[must_use]
pub fn is_carrier(name: &str, names: &[String]) -> bool {
    names.iter().any(|carrier| carrier.eq_ignore_ascii_case(name))
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["Surrogate-Key".into(), "Cache-Tag".into()]
    }

    #[test]
    fn tags_are_separated_by_spaces_and_commas_in_every_field() {
        let rows: [(&[(&str, &str)], &str); 7] = [
            (&[("surrogate-key", "a b")], "a b"),
            (&[("Cache-Tag", "a,b, c")], "a b c"),
            (&[("cache-tag", "x"), ("Surrogate-Key", "y")], "y x"),
            (&[("Cache-Tag", "a"), ("Cache-Tag", "b")], "a b"),
            (&[("Cache-Tag", " ,\t, ")], ""),
            (&[("X-Tags", "a")], ""),
            (&[("Cache-Tag", "A-\u{e9}")], "A-\u{e9}"),
        ];
        for (lines, expected) in rows {
            let mut fields = Fields::new();
            lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
            assert_eq!(read(&fields, &names()).as_deref(), Ok(expected.as_bytes()), "{lines:?}");
            assert!(
                each(expected.as_bytes()).all(|tag| std::str::from_utf8(tag).is_ok_and(|t| parse(t).is_ok()))
            );
        }
    }

    #[test]
    fn more_tags_than_are_kept_are_told() {
        let long = "t".repeat(TAGS_BYTES_MAX);
        let mut fields = Fields::new();
        fields.push("Cache-Tag", long.as_bytes());
        assert!(read(&fields, &names()).is_ok());
        fields.push("Cache-Tag", b"u");
        assert_eq!(read(&fields, &names()), Err(TooMany));
    }

    #[test]
    fn new_tags_replace_those_that_there_were() {
        let long = "t".repeat(TAGS_BYTES_MAX + 1);
        for (new, expected) in [("a b", "a b"), (" , ", "old"), (long.as_str(), "old")] {
            let mut fields = Fields::new();
            fields.push("Cache-Tag", new.as_bytes());
            assert_eq!(&renewed(&fields, &names(), b"old")[..], expected.as_bytes(), "{new}");
        }
    }

    #[test]
    fn tags_that_no_response_can_have_are_refused() {
        let long = "t".repeat(TAG_BYTES_MAX + 1);
        for (tag, part) in [("", "empty"), ("a b", "space"), ("a,b", "comma"), (long.as_str(), "1024")] {
            assert!(parse(tag).is_err_and(|why| why.contains(part)), "{tag}");
        }
    }
}
