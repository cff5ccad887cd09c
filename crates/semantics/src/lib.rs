//! What a shared cache may do: RFC 9111 by section, with what it needs of RFC 9110 (validators, conditional
//! requests, ranges), RFC 5861 (stale responses), RFC 8246 (`immutable`), RFC 9211 (`Cache-Status`) and RFC 9213
//! (targeted cache control).
//!
//! Values and `now` go in, a decision comes out; there are no clocks, sockets or stores here. The three
//! questions a proxy asks are [`may_store`], [`may_reuse`] and [`after_validation`]; each "no" is a variant with
//! a printable word for the access log and `Cache-Status`. All functions are total: a nonsense field gives the
//! answer that the RFC prescribes, never an error. `docs/rfc9111.md` maps each requirement to its function and
//! test.
//!
//! On the path of a hit nothing stored is parsed again: [`Stored`] is computed once per response,
//! [`RequestTraits`] once per request, in one pass over its fields.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod age;
pub mod cache_status;
pub mod directives;
pub mod freshness;
pub mod invalidation;
pub mod key;
pub mod multipart;
pub mod parts;
pub mod policy;
pub mod preconditions;
pub mod ranges;
mod reference;
pub mod request;
pub mod reuse;
pub mod stored;
pub mod storing;
pub mod targeted;
pub mod time;
pub mod validation;
pub mod vary;
pub mod via;

#[cfg(test)]
mod testing;

pub use cache_status::CacheStatus;
pub use parts::{Part, may_store_part};
pub use policy::Policy;
pub use request::{Method, Once, RequestTraits};
pub use reuse::{Reuse, may_reuse, may_serve_on_error};
pub use stored::Stored;
pub use storing::{NoStore, may_store};
pub use time::{Seconds, Times, UnixSeconds};
pub use validation::{AfterValidation, after_validation};
pub use vary::VaryNames;
