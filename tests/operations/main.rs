//! Running it: settings and their mistakes, the admin interface, the access log, signals.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod access_log;
mod admin;
mod configuration;
mod doctor;
mod load;
mod purge;
mod signals;
