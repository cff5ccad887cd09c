//! HTTP/1.1 on both sides: connections, bodies, tunnels, and what a proxy may and must change (RFC 9110, 9112).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bodies;
mod errors;
mod fields;
mod interim;
mod mixed;
mod persistence;
mod retry;
mod targets;
mod tunnels;
