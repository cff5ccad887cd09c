//! The admin interface: health, readiness, metrics, status and purge, on a listener and a thread of its own.
//!
//! What holds: it is served while the workers are busy, draining or stuck, and takes nothing from them. Every answer
//! that is not metrics is JSON; every refusal has a word and a sentence. A page in somebody's browser cannot purge:
//! requests with a foreign `Origin` are refused.
//!
//! It refuses to know how anything is found out: the proxy hands in an [`AdminState`] of functions.

mod answer;
mod guard;
mod purge;
mod routes;
mod server;
mod status;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::metrics::Metrics;

pub use purge::{PurgeRequest, PurgeUrl, Purged, What};
pub use server::{AdminServer, serve};
pub use status::{
    DeviceStatus, ListenerStatus, OverloadStatus, RecoveryStatus, RequestCounts, Status, StoreStatus,
};

/// A function that purges, on whatever thread it must, and tells what it did.
pub type PurgeFn = Box<
    dyn Fn(PurgeRequest) -> Pin<Box<dyn Future<Output = Result<Purged, AdminError>> + Send>> + Send + Sync,
>;

/// Whom the admin interface asks.
pub struct AdminState {
    /// `Ok` when requests are served; otherwise why not, in a few words: `"recovering"`, `"draining"`.
    pub ready: Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    /// What `/metrics` tells.
    pub metrics: Arc<Metrics>,
    /// What `/api/v1/status` tells.
    pub status: Box<dyn Fn() -> Status + Send + Sync>,
    /// Purges.
    pub purge: PurgeFn,
}

/// Why the admin interface did not do what it was asked. Each has a word for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminError {
    /// No such path.
    NotFound,
    /// The path exists and takes only this method.
    Method(&'static str),
    /// The body is larger than 64 KiB.
    BodyTooLarge,
    /// The body did not arrive in time, or broke off.
    BodyIncomplete,
    /// The body is not what is expected here.
    BadRequest(String),
    /// Sent by a web page of another origin.
    ForeignOrigin,
    /// The `Host` field does not name this interface.
    ForeignHost,
    /// As many purge marks as can be kept are there.
    TooManyMarks(String),
    /// It was tried and failed.
    Failed(String),
}

impl AdminError {
    /// The word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::NotFound => "not-found",
            Self::Method(_) => "method-not-allowed",
            Self::BodyTooLarge => "body-too-large",
            Self::BodyIncomplete => "body-incomplete",
            Self::BadRequest(_) => "bad-request",
            Self::ForeignOrigin => "foreign-origin",
            Self::ForeignHost => "foreign-host",
            Self::TooManyMarks(_) => "too-many-marks",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => {
                write!(f, "here are /healthz, /readyz, /metrics, /api/v1/status and /api/v1/purge")
            }
            Self::Method(allowed) => write!(f, "this path takes {allowed}"),
            Self::BodyTooLarge => write!(f, "a body may have {} bytes here", routes::BODY_BYTES),
            Self::BodyIncomplete => write!(f, "the body did not arrive"),
            Self::BadRequest(why) | Self::TooManyMarks(why) | Self::Failed(why) => f.write_str(why),
            Self::ForeignOrigin => write!(f, "web pages may not use the admin interface"),
            Self::ForeignHost => write!(f, "ask by IP address or as localhost"),
        }
    }
}
