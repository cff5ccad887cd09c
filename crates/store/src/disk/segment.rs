//! Segment header, contents table, trailer.
