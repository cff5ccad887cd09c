//! HTTP bytes to messages and back (RFC 9112, and the field grammar of RFC 9110).
//!
//! | question | module |
//! |---|---|
//! | Is a head complete, and what does it say? | [`scan`], [`parse`], [`head`] |
//! | Where does this body end? May the connection go on? | [`framing`] |
//! | Which of these bytes are payload? | [`chunked`] |
//! | Who is asked for what? | [`target`] |
//! | Which fields go on to the next hop? What is in a list? | [`fields`] |
//! | Entity tags, dates | [`etag`], [`date`] |
//! | How is it written? | [`mod@write`] |
//! | Why not? | [`refusal`], [`limits`] |
//!
//! Everything here is a function of its arguments: no sockets, no clocks, no threads. What does not follow the
//! grammar is refused by name, never repaired, so that a message sent on means to the next hop what it meant here.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod chars;
pub mod chunked;
pub mod date;
pub mod etag;
pub mod fields;
pub mod framing;
pub mod head;
pub mod limits;
pub mod parse;
pub mod refusal;
pub mod scan;
pub mod target;
#[cfg(test)]
mod testing;
pub mod write;

pub use head::{Field, Fields, RequestHead, ResponseHead, Version};
pub use limits::Limits;
pub use parse::Parsed;
pub use refusal::Refusal;
pub use scan::{HeadScan, HeadText};
