//! Request smuggling and its like, in both directions (RFC 9112 §11.2): what is read in one way is never sent on
//! to be read in another.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod request_bodies;
mod requests;
mod response_bodies;
mod responses;
