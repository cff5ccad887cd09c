//! Where a head ends, found while its bytes trickle in. A [`HeadScan`] remembers how far it has looked, so each
//! byte is looked at once however the head is cut into reads, and the parse proper runs once per head.
//!
//! What must hold: every line it passes ends in CRLF, and a head over the limits is refused as soon as it is,
//! complete or not. The answer does not depend on how the bytes were cut.

use crate::limits::{FIELDS_MAX, Limits};
use crate::refusal::Refusal;

/// Empty lines before a request line that are skipped (RFC 9112 §2.2: at least one).
const EMPTY_LINES_MAX: usize = 4;

/// Bytes of a start line beside its request target: method, version, spaces. A status line gets as much as a
/// request line.
const START_LINE_EXTRA: usize = 128;

/// Bytes of a line end.
const CRLF: usize = 2;

/// Progress of the search for the end of one head. Make a new one for each head.
#[derive(Clone, Debug)]
pub struct HeadScan {
    /// Empty lines that may still be skipped.
    empty_lines_left: usize,
    /// What an over-long start line is refused as.
    start_line_refusal: Refusal,
    /// Where the start line begins.
    start: usize,
    /// Where the line being read begins.
    line: usize,
    /// Everything before this has been looked at.
    seen: usize,
    /// Complete lines, the start line among them.
    lines: usize,
}

/// The text of a head known to be complete, within its limits, and cut into CRLF lines. Only [`HeadScan`] makes
/// one; [`crate::parse`] reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadText<'a> {
    /// From the start line to the blank line, both included.
    text: &'a [u8],
    /// Bytes of skipped empty lines before it.
    skipped: usize,
    /// Field lines in it.
    field_lines: usize,
}

impl<'a> HeadText<'a> {
    /// Bytes from the front of the buffer to the end of the head, skipped empty lines included: what to drop
    /// from the buffer once the head is dealt with.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a head is never empty")]
    pub const fn len(&self) -> usize {
        self.skipped + self.text.len()
    }

    /// The start line without its line end, and the field section with its blank line.
    pub(crate) fn split(&self) -> (&'a [u8], &'a [u8]) {
        let end = memchr::memchr(b'\n', self.text).map_or(self.text.len(), |at| at + 1);
        let (line, section) = self.text.split_at(end);
        (line.strip_suffix(b"\r\n").unwrap_or(line), section)
    }

    pub(crate) const fn field_lines(&self) -> usize {
        self.field_lines
    }
}

impl HeadScan {
    /// For a request: a few empty lines may come before it (RFC 9112 §2.2).
    #[must_use]
    pub const fn request() -> Self {
        Self::new(EMPTY_LINES_MAX, Refusal::TargetTooLong)
    }

    /// For a response: nothing may come before the status line.
    #[must_use]
    pub const fn response() -> Self {
        Self::new(0, Refusal::BadStatusLine)
    }

    const fn new(empty_lines_left: usize, start_line_refusal: Refusal) -> Self {
        Self { empty_lines_left, start_line_refusal, start: 0, line: 0, seen: 0, lines: 0 }
    }

    /// Whether nothing but empty lines has come yet: the connection is idle, not in the middle of a head.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.lines == 0 && self.line == self.seen
    }

    /// Looks at what is new in `bytes`, which holds everything since the front of the head and only ever grows
    /// between calls. `None` while the head is not complete.
    pub fn advance<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Option<HeadText<'a>>, Refusal> {
        while let Some(distance) = memchr::memchr(b'\n', &bytes[self.seen..]) {
            let end = self.seen + distance + 1;
            if self.end_line(bytes, end, limits)? {
                let text = &bytes[self.start..end];
                return Ok(Some(HeadText { text, skipped: self.start, field_lines: self.lines - 1 }));
            }
        }
        self.seen = bytes.len();
        self.check_limits(bytes.len(), limits)?;
        Ok(None)
    }

    /// Takes note of the line that ends before `end`. `true` if it is the blank line that ends the head.
    fn end_line(&mut self, bytes: &[u8], end: usize, limits: &Limits) -> Result<bool, Refusal> {
        self.check_limits(end, limits)?;
        let content = bytes[self.line..end].strip_suffix(b"\r\n").ok_or(Refusal::BareLf)?;
        self.line = end;
        self.seen = end;
        if content.is_empty() {
            return self.end_empty_line();
        }
        self.lines += 1;
        if self.lines - 1 > limits.fields.min(FIELDS_MAX) {
            return Err(Refusal::TooManyFields);
        }
        Ok(false)
    }

    fn end_empty_line(&mut self) -> Result<bool, Refusal> {
        if self.lines > 0 {
            return Ok(true);
        }
        self.empty_lines_left = self.empty_lines_left.checked_sub(1).ok_or(Refusal::EmptyLine)?;
        self.start = self.line;
        Ok(false)
    }

    /// Whether a head that reaches to `end`, on the current line, is within the limits. Of two that are
    /// broken, the one that was broken by the earlier byte is named, so that the cut of the bytes is not seen.
    fn check_limits(&self, end: usize, limits: &Limits) -> Result<(), Refusal> {
        let (line_bytes, refusal) = match self.lines {
            0 => (limits.target_bytes.saturating_add(START_LINE_EXTRA), self.start_line_refusal),
            _ => (limits.field_line_bytes, Refusal::FieldLineTooLong),
        };
        let line_end = self.line.saturating_add(line_bytes).saturating_add(CRLF);
        let head_end = self.start.saturating_add(limits.head_bytes);
        if end <= line_end.min(head_end) {
            return Ok(());
        }
        Err(if line_end < head_end { refusal } else { Refusal::HeadTooLong })
    }
}

#[cfg(test)]
mod tests;
