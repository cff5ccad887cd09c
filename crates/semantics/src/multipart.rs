//! `multipart/byteranges` (RFC 9110 §14.6): the text between the parts, and the length of it all, known before the
//! first byte is sent. The bytes of the parts are not seen here.

use crate::ranges::{ByteRange, write_content_range};
use alloc::vec::Vec;

/// Bytes of a boundary.
pub const BOUNDARY_BYTES: usize = 32;

/// The frame of one multipart response.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    boundary: [u8; BOUNDARY_BYTES],
    content_type: Option<&'a [u8]>,
    length: u64,
}

impl<'a> Multipart<'a> {
    /// A frame for parts of a representation `length` bytes long. `content_type` is the representation's own.
    /// `seed` makes the boundary: random, so that no stored content can hold it on purpose.
    #[must_use]
    pub fn new(seed: u128, content_type: Option<&'a [u8]>, length: u64) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digit = |at: usize| HEX[(seed >> (4 * at)) as usize & 15];
        Self { boundary: core::array::from_fn(digit), content_type, length }
    }

    /// Appends the value of the response's own `Content-Type`.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        write_text(out, "multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary);
    }

    /// Appends what stands before the bytes of a part.
    pub fn write_part_head(&self, out: &mut Vec<u8>, part: ByteRange) {
        self.write_delimiter(out);
        if let Some(content_type) = self.content_type {
            write_text(out, "\r\nContent-Type: ");
            out.extend_from_slice(content_type);
        }
        write_text(out, "\r\nContent-Range: ");
        write_content_range(out, part, self.length);
        write_text(out, "\r\n\r\n");
    }

    /// Appends what stands after the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        self.write_delimiter(out);
        write_text(out, "--\r\n");
    }

    /// The length of the whole multipart content: the response's `Content-Length`.
    #[must_use]
    pub fn total_len(&self, parts: &[ByteRange]) -> u64 {
        let mut text = Vec::new();
        parts.iter().for_each(|part| self.write_part_head(&mut text, *part));
        self.write_end(&mut text);
        parts.iter().fold(text.len() as u64, |sum, part| sum.saturating_add(part.len()))
    }

    /// The line break before a delimiter belongs to it, not to the part (RFC 2046 §5.1.1); before the first it
    /// ends an empty preamble.
    fn write_delimiter(&self, out: &mut Vec<u8>) {
        write_text(out, "\r\n--");
        out.extend_from_slice(&self.boundary);
    }
}

pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    const PARTS: [ByteRange; 2] = [ByteRange { start: 0, end: 2 }, ByteRange { start: 5, end: 9 }];

    fn content(frame: &Multipart<'_>, body: &[u8], parts: &[ByteRange]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            frame.write_part_head(&mut out, *part);
            out.extend_from_slice(&body[part.start as usize..part.end as usize]);
        }
        frame.write_end(&mut out);
        out
    }

    #[test]
    fn parts_are_framed_as_the_rfc_shows() {
        // RFC 9110 §14.6
        let frame = Multipart::new(0x1f, Some(b"text/plain"), 10);
        let boundary = "f1000000000000000000000000000000";
        let expected = std::format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01\
             \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-8/10\r\n\r\n5678\
             \r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(content(&frame, b"0123456789", &PARTS)).unwrap(), expected);
        let mut content_type = Vec::new();
        frame.write_content_type(&mut content_type);
        assert_eq!(content_type, std::format!("multipart/byteranges; boundary={boundary}").as_bytes());
    }

    #[test]
    fn a_representation_without_type_gives_parts_without() {
        let text = content(&Multipart::new(7, None, 10), b"0123456789", &PARTS);
        assert!(!String::from_utf8(text).unwrap().contains("Content-Type"));
    }

    proptest! {
        #[test]
        fn the_length_is_known_beforehand(seed: u128, cuts in prop::collection::vec((0..90u64, 1..10u64), 1..9)) {
            let parts: Vec<_> = cuts.iter().map(|(start, len)| ByteRange { start: *start, end: start + len }).collect();
            let frame = Multipart::new(seed, Some(b"a/b"), 100);
            prop_assert_eq!(frame.total_len(&parts), content(&frame, &[0; 100], &parts).len() as u64);
        }
    }
}
