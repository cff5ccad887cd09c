//! The parsed forms of a message head. They borrow the bytes they were parsed from; nothing here allocates for
//! a message with up to [`INLINE_FIELDS`] fields.
//!
//! What must hold: a [`Fields`] made by this crate's parsers holds only field names that are RFC 9110 §5.6.2
//! tokens and values without CR, LF or NUL, with the optional whitespace around them removed (RFC 9112 §5.1).

use alloc::vec::Vec;
use arrayvec::ArrayVec;

/// Fields of one head that fit without an allocation.
pub const INLINE_FIELDS: usize = 16;

/// The protocol version of a message. Only major version 1 reaches this crate's users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0 (RFC 1945).
    Http10,
    /// HTTP/1.1 (RFC 9112), and what any later HTTP/1.x minor version is treated as (RFC 9110 §6.2).
    Http11,
}

/// One field line: a name as it was received (compare without case) and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, a token, case as received.
    pub name: &'a str,
    /// The value without surrounding whitespace; may hold obs-text (0x80–0xFF).
    pub value: &'a [u8],
}

/// The fields of a head (or trailer section), in the order received.
///
/// Covariant in `'a`, unlike a `SmallVec` of fields: a head can be lent to a function that borrows more briefly.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    list: List<'a>,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one, and is not moved")]
enum List<'a> {
    Inline(ArrayVec<Field<'a>, INLINE_FIELDS>),
    Heap(Vec<Field<'a>>),
}

impl Default for List<'_> {
    fn default() -> Self {
        Self::Inline(ArrayVec::new_const())
    }
}

impl<'a> Fields<'a> {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a field line.
    pub fn push(&mut self, name: &'a str, value: &'a [u8]) {
        let field = Field { name, value };
        match &mut self.list {
            List::Heap(list) => list.push(field),
            List::Inline(list) => {
                if list.try_push(field).is_err() {
                    let mut heap = Vec::with_capacity(2 * INLINE_FIELDS);
                    heap.extend_from_slice(list);
                    heap.push(field);
                    self.list = List::Heap(heap);
                }
            }
        }
    }

    fn as_slice(&self) -> &[Field<'a>] {
        match &self.list {
            List::Inline(list) => list,
            List::Heap(list) => list,
        }
    }

    /// All field lines in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Field<'a>> {
        self.as_slice().iter()
    }

    /// The values of every line called `name`, in order (RFC 9110 §5.3).
    pub fn all<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'a [u8]> + 's {
        self.iter().filter(move |f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value)
    }

    /// The value of the first line called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        self.iter().find(|f| f.name.eq_ignore_ascii_case(name)).map(|f| f.value)
    }

    /// Whether any line is called `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// How many field lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}

/// A request head (RFC 9112 §3): request line and fields.
#[derive(Clone, Debug)]
pub struct RequestHead<'a> {
    /// The method, a token, case-sensitive (RFC 9110 §9.1).
    pub method: &'a str,
    /// The request target as received; [`crate::target`] tells its form apart.
    pub target: &'a str,
    /// The version in the request line.
    pub version: Version,
    /// The field section.
    pub fields: Fields<'a>,
}

/// A response head (RFC 9112 §4): status line and fields.
#[derive(Clone, Debug)]
pub struct ResponseHead<'a> {
    /// The version in the status line.
    pub version: Version,
    /// Three digits, 100–999 as received (RFC 9110 §15).
    pub status: u16,
    /// The reason phrase, possibly empty.
    pub reason: &'a [u8],
    /// The field section.
    pub fields: Fields<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_inline_ones_keep_their_order() {
        let values: Vec<[u8; 1]> = (0..3 * INLINE_FIELDS as u8).map(|n| [n]).collect();
        let mut fields = Fields::new();
        for value in &values {
            fields.push("x", value);
        }
        assert!(fields.all("X").eq(values.iter().map(|v| &v[..])));
        assert_eq!(fields.len(), values.len());
    }

    /// Compiles only while a long-lived head can be lent where a shorter life is asked for.
    #[test]
    fn a_head_is_covariant() {
        fn shorter<'a>(long: Fields<'static>, _brief: &'a [u8]) -> Fields<'a> {
            long
        }
        let brief = [1];
        assert!(shorter(Fields::new(), &brief).is_empty());
    }
}
