//! HTTP bytes to messages and back (RFC 9112, and the field grammar of RFC 9110).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod head;

pub use head::{Field, Fields, RequestHead, ResponseHead, Version};
