//! Clients and origins that are slow, rude or broken: bounded time, bounded memory, nobody else disturbed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod chaos;
mod crowds;
mod floods;
mod garbage;
mod slow_clients;
mod slow_origins;
