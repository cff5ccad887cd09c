//! The shape of `GET /api/v1/status`. Names here are a promise to other programs; units are in the names.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metrics::{RequestResult, ShedStage, Totals};

/// How the proxy is doing.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// The release.
    pub version: &'static str,
    /// Seconds since start.
    pub uptime_seconds: u64,
    /// `ready`, or why not.
    pub state: &'static str,
    /// Worker threads.
    pub workers: usize,
    /// Client connections open now.
    pub connections: u64,
    /// Where clients are awaited.
    pub listeners: Vec<ListenerStatus>,
    /// Requests since start, by result.
    pub requests: RequestCounts,
    /// What is refused, and by how much there is too much.
    pub overload: OverloadStatus,
    /// Requests sent to origins since start.
    pub origin_requests: u64,
    /// The store.
    pub store: StoreStatus,
    /// Bytes in the memory tier and how many it may hold.
    pub memory_bytes: u64,
    /// The bound of the memory tier.
    pub memory_limit_bytes: u64,
}

/// One listener.
#[derive(Clone, Debug, Serialize)]
pub struct ListenerStatus {
    /// The bound address, the port being the real one.
    pub address: String,
    /// `forward` or `reverse`.
    pub mode: &'static str,
}

/// Requests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are those of RequestResult")]
pub struct RequestCounts {
    pub total: u64,
    pub hit: u64,
    pub miss: u64,
    pub revalidated: u64,
    pub stale: u64,
    pub collapsed: u64,
    pub pass: u64,
    pub tunnel: u64,
    pub error: u64,
    pub shed: u64,
}

impl RequestCounts {
    /// The counts as the metrics have them.
    #[must_use]
    pub fn of(totals: &Totals) -> Self {
        let count = |result| totals.requests(result);
        Self {
            total: RequestResult::ALL.into_iter().map(count).sum(),
            hit: count(RequestResult::Hit),
            miss: count(RequestResult::Miss),
            revalidated: count(RequestResult::Revalidated),
            stale: count(RequestResult::Stale),
            collapsed: count(RequestResult::Collapsed),
            pass: count(RequestResult::Pass),
            tunnel: count(RequestResult::Tunnel),
            error: count(RequestResult::Error),
            shed: count(RequestResult::Shed),
        }
    }
}

/// How far the load is beyond what can be served, as the metrics of the same names have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OverloadStatus {
    /// Whether anything is refused now.
    pub overloaded: bool,
    /// Which requests are, at the worker where most are: see `tidegate_overload_level`.
    pub level: f64,
    /// How long what is ready waits for its worker.
    pub loop_delay_seconds: f64,
    /// How long connections wait to be accepted.
    pub accept_delay_seconds: f64,
    /// How long reads wait for their turn at a device.
    pub disk_wait_seconds: f64,
    /// Connections and requests refused since start.
    pub shed: ShedCounts,
}

/// Refusals since start, by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are those of ShedStage")]
pub struct ShedCounts {
    pub syn: u64,
    pub accept: u64,
    pub request: u64,
}

impl OverloadStatus {
    /// The figures as the metrics have them.
    #[must_use]
    pub fn of(totals: &Totals) -> Self {
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let count = |stage| totals.shed[stage as usize];
        Self {
            overloaded: totals.is_overloaded(),
            level: totals.level as f64 / 1e3,
            loop_delay_seconds: seconds(totals.loop_nanos),
            accept_delay_seconds: seconds(totals.accept_nanos),
            disk_wait_seconds: seconds(totals.disk_nanos),
            shed: ShedCounts {
                syn: count(ShedStage::Syn),
                accept: count(ShedStage::Accept),
                request: count(ShedStage::Request),
            },
        }
    }
}

/// The store.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StoreStatus {
    /// Objects in the index.
    pub objects: u64,
    /// Bytes of their heads and bodies on the devices.
    pub bytes: u64,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Bytes of keys, heads and bodies that were stored since start.
    pub admitted_bytes: u64,
    /// Bytes written to devices since start.
    pub written_bytes: u64,
    /// Bytes written again since start to carry used objects forward.
    pub carried_bytes: u64,
    /// Objects dropped since start because their segment was taken back.
    pub evicted: u64,
    /// How often something was not stored since start, by reason.
    /// Queue: what there is a fixed number of.
    pub declined: BTreeMap<&'static str, u64>,
    /// Whether the index is whole again since the start.
    pub recovery: RecoveryStatus,
    /// The devices.
    pub devices: Vec<DeviceStatus>,
}

/// Bringing back the index after a start, while requests are served.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RecoveryStatus {
    /// Whether every object that was there can be found.
    pub complete: bool,
    /// Segments with contents at the start.
    pub segments: u64,
    /// Of these, those whose contents are in the index.
    pub segments_merged: u64,
    /// Contents tables that were lost; what they listed and all that is older on their devices became misses.
    pub segments_lost: u64,
}

/// One device of the store.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceStatus {
    /// Its path.
    pub path: String,
    /// Its identity, 32 hexadecimal digits.
    pub id: String,
    /// Its size.
    pub size_bytes: u64,
    /// Segments without live content.
    pub segments_free: u64,
    /// Segments being written.
    pub segments_open: u64,
    /// Segments with a contents table.
    pub segments_sealed: u64,
    /// Segments being emptied.
    pub segments_reclaiming: u64,
    /// I/O errors since start.
    pub errors: u64,
    /// Whether it was taken out of service.
    pub retired: bool,
}
