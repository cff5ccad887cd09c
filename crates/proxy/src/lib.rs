//! The life of a request through the proxy.
//!
//! Reading order is execution order: [`listener`] accepts, [`connection`] reads a head, [`exchange`] answers one
//! request from top to bottom and calls all the rest: [`request`] (what is asked, and may it be), [`lookup`] (memory,
//! then store), [`hit`] (from what is stored), [`collapse`] (who fetches), [`fetch`] and [`origin`] (asking), [`fill`]
//! (receiving and storing), [`stream`] (sending along), [`outbound`] (writing a message), [`tunnel`]. Around them:
//! [`server`] and [`worker`] (threads), [`cache`], [`memory`] and [`disk`] (where objects are), [`purge`] (what may
//! not be used any more), [`admin`],
//! [`access_log`], [`metrics`], [`settings`].
#![forbid(unsafe_code)]

pub mod access_log;
pub mod admin;
pub mod admission;
pub mod body;
pub mod buffers;
pub mod cache;
pub mod collapse;
pub mod connection;
pub mod crowd;
pub mod disk;
pub mod exchange;
pub mod fetch;
pub mod fill;
pub mod hit;
pub mod invalidate;
pub mod listener;
pub mod lookup;
pub mod memory;
pub mod metrics;
pub mod object;
pub mod origin;
pub mod outbound;
pub mod purge;
pub mod reload;
pub mod request;
pub mod respond;
pub mod server;
pub mod settings;
pub mod site;
pub mod stream;
#[cfg(test)]
mod testing;
pub mod tunnel;
pub mod unread;
pub mod worker;

pub use server::{RunError, Started, run};
