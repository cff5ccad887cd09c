//! The bounds of a message head, in one value that the caller hands in. Nothing in this crate grows past them.

/// The most field lines that [`Limits::fields`] can allow; larger settings count as this.
pub const FIELDS_MAX: usize = 256;

/// What a message head may cost. Each bound has its own refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole head, start line and blank line included (431).
    pub head_bytes: usize,
    /// Field lines of one head or trailer section (431); at most [`FIELDS_MAX`].
    pub fields: usize,
    /// Bytes of a request target (414).
    pub target_bytes: usize,
    /// Bytes of one field line without its line end (431).
    pub field_line_bytes: usize,
    /// Bytes of a chunked body's trailer section.
    pub trailer_bytes: usize,
    /// Bytes of chunk extensions not yet paid for by payload that followed them.
    pub extension_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 65_536,
            fields: 128,
            target_bytes: 8_192,
            field_line_bytes: 16_384,
            trailer_bytes: 8_192,
            extension_bytes: 4_096,
        }
    }
}
