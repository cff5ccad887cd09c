//! proxy
#![forbid(unsafe_code)]

pub mod access_log;
pub mod admin;
pub mod metrics;
pub mod settings;
