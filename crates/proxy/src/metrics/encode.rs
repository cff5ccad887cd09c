//! Every metric's name, kind, label, help and source in one table; the scrape and `docs/metrics.md` both walk it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use pump::Route;

use super::worker::{DurationTotals, RequestResult, ShedStage, Totals};
use super::{DeviceReading, FrontReading, MachineReading, Metrics, StoreReading, histogram};
use crate::disk::WarmUse;

/// One metric family.
pub struct MetricInfo {
    /// The family name, without the suffixes that the format adds.
    name: &'static str,
    /// The label's name and the values it may take, in words.
    label: Option<(&'static str, &'static str)>,
    help: &'static str,
    read: Read,
}

/// What a family is and where its samples come from.
enum Read {
    Counter(fn(&Snapshot) -> u64),
    Counters(fn(&Snapshot) -> Vec<(String, u64)>),
    Gauge(fn(&Snapshot) -> u64),
    Gauges(fn(&Snapshot) -> Vec<(String, u64)>),
    /// A gauge of thousandths, told as a fraction.
    Thousandths(fn(&Snapshot) -> u64),
    /// A gauge of nanoseconds, told as seconds.
    Delay(fn(&Snapshot) -> u64),
    /// Counters of nanoseconds, told as seconds.
    Seconds(fn(&Snapshot) -> Vec<(String, u64)>),
    Durations(fn(&Snapshot) -> Vec<(&'static str, &DurationTotals)>),
    Info(&'static str),
}

/// All figures of one scrape, so that its lines agree with each other.
struct Snapshot {
    totals: Totals,
    store: StoreReading,
    machine: MachineReading,
    log_dropped: u64,
    front: FrontReading,
    started: u64,
}

/// Every metric that `/metrics` tells.
pub static METRICS: &[MetricInfo] = &[
    MetricInfo {
        name: "tidegate_requests",
        label: Some(("result", "hit, miss, revalidated, stale, collapsed, pass, tunnel, error, shed")),
        help: "Requests that ended, by how they ended",
        read: Read::Counters(|s| {
            RequestResult::ALL.iter().map(|&r| (r.word().into(), s.totals.requests(r))).collect()
        }),
    },
    MetricInfo {
        name: "tidegate_request_seconds",
        label: Some(("result", "as tidegate_requests")),
        help: "Time from the first byte of a request head to the last byte of the response",
        read: Read::Durations(|s| {
            RequestResult::ALL.iter().map(|&r| (r.word(), &s.totals.durations[r as usize])).collect()
        }),
    },
    MetricInfo {
        name: "tidegate_origin_requests",
        label: None,
        help: "Requests sent to origins, retries and validations included",
        read: Read::Counter(|s| s.totals.origin_requests),
    },
    MetricInfo {
        name: "tidegate_response_body_bytes",
        label: Some(("route", "memory, sendfile, splice, copy")),
        help: "Response body bytes sent to clients, by the way they took",
        read: Read::Counters(|s| zip(&Route::ALL.map(Route::word), &s.totals.body_bytes)),
    },
    MetricInfo {
        name: "tidegate_user_copied_body_bytes",
        label: None,
        help: "Body bytes that were received into user memory",
        read: Read::Counter(|s| s.totals.user_copied),
    },
    MetricInfo {
        name: "tidegate_connections",
        label: None,
        help: "Client connections open now",
        read: Read::Gauge(|s| s.totals.connections),
    },
    MetricInfo {
        name: "tidegate_connections_accepted",
        label: None,
        help: "Client connections accepted",
        read: Read::Counter(|s| s.totals.accepted),
    },
    MetricInfo {
        name: "tidegate_overloaded",
        label: None,
        help: "1 while load is being shed, else 0",
        read: Read::Gauge(|s| u64::from(s.totals.is_overloaded())),
    },
    MetricInfo {
        name: "tidegate_overload_level",
        label: None,
        help: "What requests are refused, at the worker where most are: up to 1 a share of those that need a new connection to an origin, up to 2 of all misses, up to 3 of disk hits",
        read: Read::Thousandths(|s| s.totals.level),
    },
    MetricInfo {
        name: "tidegate_loop_delay_seconds",
        label: None,
        help: "How long what is ready waits for its worker, at the worker where it is longest",
        read: Read::Delay(|s| s.totals.loop_nanos),
    },
    MetricInfo {
        name: "tidegate_accept_delay_seconds",
        label: None,
        help: "How long connections wait to be accepted while they are many, at the worker where it is longest",
        read: Read::Delay(|s| s.totals.accept_nanos),
    },
    MetricInfo {
        name: "tidegate_disk_wait_seconds",
        label: None,
        help: "How long the read has waited that has waited longest for its turn at a device",
        read: Read::Delay(|s| s.totals.disk_nanos),
    },
    MetricInfo {
        name: "tidegate_kernel_cpu_ratio",
        label: None,
        help: "Share of the time of the processors in use that the kernel takes, system calls and interrupts",
        read: Read::Thousandths(|s| s.machine.kernel_cpu),
    },
    MetricInfo {
        name: "tidegate_memory_used_ratio",
        label: None,
        help: "Share of the memory limit (the control group's, else the machine's) in use, page cache aside",
        read: Read::Thousandths(|s| s.machine.memory),
    },
    MetricInfo {
        name: "tidegate_requests_in_flight",
        label: None,
        help: "Requests under way that were not answered at once from memory",
        read: Read::Gauge(|s| s.machine.requests),
    },
    MetricInfo {
        name: "tidegate_shed",
        label: Some(("stage", "syn, accept, request")),
        help: "Connections and requests refused to protect the others",
        read: Read::Counters(|s| zip(&ShedStage::ALL.map(ShedStage::word), &s.shed())),
    },
    MetricInfo {
        name: "tidegate_xdp_interfaces",
        label: None,
        help: "Network interfaces on which an XDP program drops new connections when they are to be shed",
        read: Read::Gauge(|s| s.front.interfaces),
    },
    MetricInfo {
        name: "tidegate_xdp_dropped",
        label: None,
        help: "New connections that the XDP program dropped; part of tidegate_shed_total{stage=\"syn\"}, whose rest the filters of the listeners dropped",
        read: Read::Counter(|s| s.front.dropped),
    },
    MetricInfo {
        name: "tidegate_store_objects",
        label: None,
        help: "Objects in the store's index",
        read: Read::Gauge(|s| s.store.objects),
    },
    MetricInfo {
        name: "tidegate_store_recovering",
        label: None,
        help: "1 after a start until every object from before can be found, else 0; others are misses meanwhile",
        read: Read::Gauge(|s| u64::from(s.store.recovering)),
    },
    MetricInfo {
        name: "tidegate_store_bytes",
        label: None,
        help: "Bytes of stored heads and bodies on the devices",
        read: Read::Gauge(|s| s.store.bytes),
    },
    MetricInfo {
        name: "tidegate_store_admitted_bytes",
        label: None,
        help: "Bytes of keys, heads and bodies that were stored",
        read: Read::Counter(|s| s.store.admitted_bytes),
    },
    MetricInfo {
        name: "tidegate_store_written_bytes",
        label: None,
        help: "Bytes written to devices: what was stored, tables, checkpoints, what was carried forward. Divided by tidegate_store_admitted_bytes_total this is the write amplification",
        read: Read::Counter(|s| s.store.written_bytes),
    },
    MetricInfo {
        name: "tidegate_store_carried",
        label: None,
        help: "Objects that were carried forward when their segment was taken back, because they had been used",
        read: Read::Counter(|s| s.store.carried),
    },
    MetricInfo {
        name: "tidegate_store_carried_bytes",
        label: None,
        help: "Bytes that were written again to carry objects forward",
        read: Read::Counter(|s| s.store.carried_bytes),
    },
    MetricInfo {
        name: "tidegate_store_evicted",
        label: None,
        help: "Objects that were dropped when their segment was taken back",
        read: Read::Counter(|s| s.store.evicted),
    },
    MetricInfo {
        name: "tidegate_store_declined",
        label: Some((
            "reason",
            "no-space, writes-behind, too-large, device-retired, body-gone, superseded, too-fragmented, not-admitted, closed",
        )),
        help: "Writes that the store declined; the responses went on unstored",
        read: Read::Counters(|s| s.store.declined.clone()),
    },
    MetricInfo {
        name: "tidegate_store_read_errors",
        label: DEVICE,
        help: "Requests to the device that failed, and stalls; too many retire it",
        read: Read::Counters(|s| of_devices(s, |d| d.read_errors)),
    },
    MetricInfo {
        name: "tidegate_store_device_retired",
        label: DEVICE,
        help: "1 where the device failed too often or did not answer and is not used any more, else 0",
        read: Read::Gauges(|s| of_devices(s, |d| u64::from(d.retired))),
    },
    MetricInfo {
        name: "tidegate_store_queue",
        label: DEVICE,
        help: "Reads and writes that the device has not answered now",
        read: Read::Gauges(|s| of_devices(s, |d| d.traffic.under_way)),
    },
    MetricInfo {
        name: "tidegate_store_writes_waiting",
        label: DEVICE,
        help: "Writes that wait for those under way, to go out with their neighbours",
        read: Read::Gauges(|s| of_devices(s, |d| d.traffic.waiting)),
    },
    MetricInfo {
        name: "tidegate_store_device_reads",
        label: DEVICE,
        help: "Reads that the device answered; those of resident pages do not reach it",
        read: Read::Counters(|s| of_devices(s, |d| d.traffic.reads)),
    },
    MetricInfo {
        name: "tidegate_store_device_read_bytes",
        label: DEVICE,
        help: "Bytes that were asked for by these reads",
        read: Read::Counters(|s| of_devices(s, |d| d.traffic.read_bytes)),
    },
    MetricInfo {
        name: "tidegate_store_device_read_seconds",
        label: DEVICE,
        help: "Time that these reads took, summed",
        read: Read::Seconds(|s| of_devices(s, |d| d.traffic.read_nanos)),
    },
    MetricInfo {
        name: "tidegate_store_reads_unanswered",
        label: DEVICE,
        help: "Reads that became misses because the device did not answer in time",
        read: Read::Counters(|s| of_devices(s, |d| d.traffic.unanswered)),
    },
    MetricInfo {
        name: "tidegate_store_device_writes",
        label: DEVICE,
        help: "Writes that the device answered; neighbours that went out as one count once",
        read: Read::Counters(|s| of_devices(s, |d| d.traffic.writes)),
    },
    MetricInfo {
        name: "tidegate_store_device_written_bytes",
        label: DEVICE,
        help: "Bytes of these writes",
        read: Read::Counters(|s| of_devices(s, |d| d.traffic.written_bytes)),
    },
    MetricInfo {
        name: "tidegate_checksum_failures",
        label: None,
        help: "Stored heads, bodies and contents tables that did not match their checksum, met by requests or found by scrubbing; objects among them became misses",
        read: Read::Counter(|s| s.store.checksum_failures),
    },
    MetricInfo {
        name: "tidegate_store_warm_bytes",
        label: None,
        help: "Memory in use for stored bodies that are read past the page cache, kept or on their way to clients",
        read: Read::Gauge(|s| s.store.warm.bytes),
    },
    MetricInfo {
        name: "tidegate_store_warm_lookups",
        label: Some((
            "outcome",
            "kept: it was there; shared: another request was reading it; read: it was read",
        )),
        help: "Pieces of stored bodies that were wanted in that memory",
        read: Read::Counters(|s| {
            let WarmUse { found, shared, read, .. } = s.store.warm;
            zip(&["kept", "shared", "read"], &[found, shared, read])
        }),
    },
    MetricInfo {
        name: "tidegate_store_purge_marks",
        label: None,
        help: "Purges by prefix, tag or of stale responses that stored objects are still compared with",
        read: Read::Gauge(|s| s.store.purge_marks),
    },
    MetricInfo {
        name: "tidegate_store_purged",
        label: None,
        help: "Objects taken out of the store because such a purge named them",
        read: Read::Counter(|s| s.store.purged),
    },
    MetricInfo {
        name: "tidegate_store_checkpoints",
        label: None,
        help: "Checkpoints completed; what was stored or purged before the one but last ended outlives a crash",
        read: Read::Counter(|s| s.store.checkpoints),
    },
    MetricInfo {
        name: "tidegate_store_scrubbed_bytes",
        label: None,
        help: "Bytes read again in the background to find damage",
        read: Read::Counter(|s| s.store.scrubbed_bytes),
    },
    MetricInfo {
        name: "tidegate_store_scrub_passes",
        label: None,
        help: "Times that all sealed segments of all devices have been read in the background",
        read: Read::Counter(|s| s.store.scrub_passes),
    },
    MetricInfo {
        name: "tidegate_index_bytes",
        label: None,
        help: "Bytes of memory taken by the store's index",
        read: Read::Gauge(|s| s.store.index_bytes),
    },
    MetricInfo {
        name: "tidegate_memory_bytes",
        label: None,
        help: "Bytes taken by the memory tier, overhead included",
        read: Read::Gauge(|s| s.store.memory_bytes),
    },
    MetricInfo {
        name: "tidegate_buffer_pool_hits",
        label: None,
        help: "Buffers that a pool had ready",
        read: Read::Counter(|s| s.totals.pool_hits),
    },
    MetricInfo {
        name: "tidegate_buffer_pool_misses",
        label: None,
        help: "Buffers that had to be allocated",
        read: Read::Counter(|s| s.totals.pool_misses),
    },
    MetricInfo {
        name: "tidegate_access_log_dropped",
        label: None,
        help: "Access log lines dropped because the log's reader was too slow or its file could not be written",
        read: Read::Counter(|s| s.log_dropped),
    },
    MetricInfo {
        name: "tidegate_start_time_seconds",
        label: None,
        help: "When this process began to count, in seconds since 1970",
        read: Read::Gauge(|s| s.started),
    },
    MetricInfo {
        name: "tidegate_build",
        label: Some(("version", "the release")),
        help: "What is running",
        read: Read::Info(env!("CARGO_PKG_VERSION")),
    },
];

impl Snapshot {
    /// In the order of [`ShedStage::ALL`].
    fn shed(&self) -> [u64; ShedStage::ALL.len()] {
        let mut shed = self.totals.shed;
        shed[ShedStage::Syn as usize] += self.front.dropped;
        shed
    }
}

const DEVICE: Option<(&str, &str)> = Some(("device", "the path of the device"));

fn of_devices(snapshot: &Snapshot, figure: fn(&DeviceReading) -> u64) -> Vec<(String, u64)> {
    snapshot.store.devices.iter().map(|device| (device.device.clone(), figure(device))).collect()
}

fn zip<const N: usize>(words: &[&'static str; N], values: &[u64; N]) -> Vec<(String, u64)> {
    words.iter().zip(values).map(|(word, value)| ((*word).to_owned(), *value)).collect()
}

pub(super) fn encode(metrics: &Arc<Metrics>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Arc::clone(metrics)));
    let mut out = String::with_capacity(32 * 1024);
    text::encode(&mut out, &registry)?;
    Ok(out)
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = Snapshot {
            totals: self.totals(),
            store: self.store(),
            machine: self.machine(),
            log_dropped: self.log_dropped(),
            front: self.front(),
            started: self.started_seconds(),
        };
        METRICS.iter().try_for_each(|info| info.encode(&snapshot, &mut encoder))
    }
}

impl MetricInfo {
    fn encode(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = encoder.encode_descriptor(self.name, self.help, None, self.read.kind())?;
        let label = self.label.map_or("", |(name, _)| name);
        match &self.read {
            Read::Counter(read) => encode_counter(&mut out, read(snapshot)),
            Read::Gauge(read) => out.encode_gauge(&read(snapshot)),
            Read::Thousandths(read) => out.encode_gauge(&(read(snapshot) as f64 / 1e3)),
            Read::Delay(read) => out.encode_gauge(&(read(snapshot) as f64 / 1e9)),
            Read::Gauges(read) => read(snapshot).iter().try_for_each(|(value, count)| {
                out.encode_family(&[(label, value.as_str())])?.encode_gauge(count)
            }),
            Read::Seconds(read) => read(snapshot).iter().try_for_each(|(value, nanos)| {
                let (labels, seconds) = ([(label, value.as_str())], *nanos as f64 / 1e9);
                out.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&seconds, None)
            }),
            Read::Info(value) => out.encode_info(&[(label, *value)]),
            Read::Counters(read) => read(snapshot).iter().try_for_each(|(value, count)| {
                encode_counter(&mut out.encode_family(&[(label, value.as_str())])?, *count)
            }),
            Read::Durations(read) => read(snapshot).iter().try_for_each(|(value, durations)| {
                encode_durations(&mut out.encode_family(&[(label, *value)])?, durations)
            }),
        }
    }

    /// The name as it appears on a sample line, for the documents.
    fn sample_name(&self) -> String {
        let suffix = match self.read {
            Read::Counter(_) | Read::Counters(_) | Read::Seconds(_) => "_total",
            Read::Info(_) => "_info",
            Read::Gauge(_) | Read::Gauges(_) | Read::Thousandths(_) | Read::Delay(_) | Read::Durations(_) => {
                ""
            }
        };
        format!("{}{suffix}", self.name)
    }
}

impl Read {
    const fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::Counters(_) | Self::Seconds(_) => MetricType::Counter,
            Self::Gauge(_) | Self::Gauges(_) | Self::Thousandths(_) | Self::Delay(_) => MetricType::Gauge,
            Self::Durations(_) => MetricType::Histogram,
            Self::Info(_) => MetricType::Info,
        }
    }
}

fn encode_counter(out: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    out.encode_counter::<NoLabelSet, u64, f64>(&count, None)
}

fn encode_durations(out: &mut MetricEncoder<'_>, durations: &DurationTotals) -> fmt::Result {
    let buckets: Vec<(f64, u64)> =
        durations.buckets.iter().enumerate().map(|(i, count)| (histogram::bound(i), *count)).collect();
    let seconds = durations.nanos as f64 / 1e9;
    out.encode_histogram::<NoLabelSet>(seconds, durations.count(), &buckets, None)
}

/// The text of `docs/metrics.md`.
#[must_use]
pub fn document() -> String {
    let mut out = String::from(concat!(
        "# Metrics\n\n",
        "`GET /metrics` on the admin interface, in the OpenMetrics text format. ",
        "This file is generated from `crates/proxy/src/metrics/encode.rs`: run `make docs` after a change there.\n\n",
        "| name | kind | label | meaning |\n|---|---|---|---|\n",
    ));
    for info in METRICS {
        let label = info.label.map_or_else(|| "–".to_owned(), |(name, values)| format!("`{name}`: {values}"));
        let kind = info.read.kind();
        out += &format!("| `{}` | {} | {label} | {} |\n", info.sample_name(), kind.as_str(), info.help);
    }
    out += concat!(
        "\nThe buckets of `tidegate_request_seconds` are powers of two, from 2.048 µs to 68.7 s. ",
        "Counters begin at zero when the process starts.\n"
    );
    out
}
