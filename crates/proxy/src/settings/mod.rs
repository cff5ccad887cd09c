//! What the operator may decide, as one plain value that is handed to the constructors that need it.
//!
//! What holds: a [`Settings`] that came from [`load`] has every number inside its bounds, at least one listener,
//! no two listeners on one address, and a site for every reverse listener to serve. Each scalar setting is
//! defined once, in [`table`]; the configuration file, the command line and `docs/settings.md` all come from it.
//!
//! It refuses to know what the settings are for: it opens no socket and no device.

mod check;
pub mod docs;
mod field;
mod file;
mod given;
pub mod lists;
mod load;
mod mistake;
mod nearest;
pub mod table;
pub mod units;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

pub use load::{ConfigFile, Environment, Sources, load, reload};
pub use mistake::{Mistake, Place};

/// Everything that can be set, checked and with the defaults filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Worker threads, each with its own listeners, runtime and rings. At least 1.
    pub workers: usize,
    /// Where clients are awaited. Never empty.
    pub listen: Vec<Listen>,
    /// Whom the reverse listeners speak for.
    pub sites: Vec<Site>,
    /// Whom the forward listeners serve, and how far `CONNECT` may reach.
    pub forward: Forward,
    /// The log-structured store on devices.
    pub store: StoreSettings,
    /// The memory tier.
    pub memory: MemorySettings,
    /// How long each party may take.
    pub timeouts: Timeouts,
    /// How much each party may send or hold.
    pub limits: Limits,
    /// How a cacheable response reaches the store.
    pub fill: Fill,
    /// How stored responses are named for a purge.
    pub purge: Purge,
    /// The access log.
    pub log: Log,
    /// Where the admin interface listens; `None` is off.
    pub admin: Option<SocketAddr>,
    /// When the machine counts as overloaded.
    pub overload: Overload,
}

/// One address that clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and TCP port; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// What is spoken there.
    pub mode: Mode,
}

/// What a listener is to its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A proxy that the client chose (RFC 9110 §3.7): absolute-form targets and `CONNECT`.
    #[default]
    Forward,
    /// A gateway that stands for the origin (RFC 9110 §3.7): origin-form targets and `Host`.
    Reverse,
}

impl Mode {
    /// The word used in the configuration file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// Hosts that are served from the same origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Lower-case host names without port: `www.example.com`, `*.example.com` or `*` for every host.
    pub hosts: Vec<String>,
    /// Where misses go. Never empty.
    pub origins: Vec<OriginUrl>,
}

/// An origin server, reached by plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginUrl {
    /// Host name in lower case, or an IP address (IPv6 without brackets).
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl OriginUrl {
    /// `host:port`, as a `Host` field or a connect call writes it (IPv6 in brackets).
    #[must_use]
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The rules of the forward proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    /// Client networks that may use it; all others are refused.
    pub allow: Vec<IpNet>,
    /// Ports that `CONNECT` may reach.
    pub connect_ports: Vec<u16>,
}

/// The store on devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreSettings {
    /// Raw devices and preallocated files, striped. Never empty.
    pub devices: Vec<DeviceSpec>,
    /// How bodies are read from the devices.
    pub io: StoreIo,
    /// The longest stretch of admitted work that a crash may lose.
    pub checkpoint: Duration,
    /// What earns a write.
    pub admission: StoreAdmission,
    /// Bytes of aligned buffers that bodies on their way to a device may hold.
    pub buffers: u64,
    /// Operations that one thread keeps under way at one device.
    pub queue_depth: usize,
    /// The part of that depth that writes may take while somebody reads.
    pub write_share: f64,
    /// How long a client waits for an answer of a device.
    pub read_timeout: Duration,
    /// How long a device may leave a request without an answer before it is retired.
    pub device_timeout: Duration,
    /// Bytes of memory for bodies that are read past the page cache, and with [`StoreIo::Direct`] kept there.
    pub warm: u64,
    /// Bytes a second that are read again in the background to find damage; `None` is off.
    pub scrub: Option<u64>,
}

/// One device of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// A block device or a regular file.
    pub path: PathBuf,
    /// For a file: its size in bytes, at which it is created and formatted at first use. `None`: it must exist
    /// and be formatted already.
    pub size: Option<u64>,
}

/// What earns a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreAdmission {
    /// Once the store is full, what was asked for more often than what leaves for it.
    #[default]
    Frequency,
    /// Everything that may be stored.
    All,
}

/// How the store reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreIo {
    /// The kernel keeps the warm set; `sendfile` lends its pages.
    #[default]
    PageCache,
    /// Past the page cache, into buffers of our own.
    Direct,
}

/// The memory tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySettings {
    /// Bytes that stored objects may occupy in memory, their overhead included. 0 is off.
    pub size: u64,
}

/// How long each party may take. Idle times count from the last byte that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request head to its last.
    pub client_head: Duration,
    /// Idle time inside a request body.
    pub client_body: Duration,
    /// Idle time while a client does not take what is sent to it.
    pub client_send: Duration,
    /// Idle time of a client connection between requests.
    pub keep_alive: Duration,
    /// How long a request waits for one of the connections that its origin may have.
    pub origin_wait: Duration,
    /// TCP connection to an origin.
    pub origin_connect: Duration,
    /// From the end of the request to the end of the response head.
    pub origin_first_byte: Duration,
    /// Idle time inside a response body, and while an origin does not take a request body.
    pub origin_body: Duration,
    /// How long an idle connection to an origin is kept for reuse.
    pub origin_keep_alive: Duration,
    /// Idle time of a tunnel (`CONNECT`, `Upgrade`) in both directions.
    pub tunnel_idle: Duration,
    /// How long requests in flight may go on after SIGTERM.
    pub drain: Duration,
}

/// How much each party may send or hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message head, start line included.
    pub head_bytes: usize,
    /// Field lines in a head or trailer section.
    pub fields: usize,
    /// Bytes of a request target.
    pub target_bytes: usize,
    /// Connections that may wait for `accept` on one listening socket.
    pub backlog: u32,
    /// Client connections open at a time, all workers together.
    pub connections: u64,
    /// Idle connections kept for one origin, per worker.
    pub connections_per_origin: usize,
    /// Connections to one origin in use at a time, per worker.
    pub origin_connections: usize,
    /// Bytes of the largest response body that is stored.
    pub object_bytes: u64,
    /// Bytes a second that a client has to move in a body, averaged beyond its idle time; `None` is any.
    pub client_rate: Option<u64>,
    /// Bytes that heads may take which do not fit a buffer of the usual size, over all workers.
    pub head_memory: u64,
}

/// How a cacheable response reaches the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Whether a fill goes on when the client that caused it has left.
    pub finish_without_client: bool,
}

/// How stored responses are named for a purge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purge {
    /// Response fields that carry tags.
    pub tag_fields: Vec<String>,
    /// Whether clients of reverse listeners see these fields.
    pub show_tags: bool,
}

/// The access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Where lines go; `None` is off.
    pub access: Option<LogTarget>,
    /// How a line looks.
    pub format: LogFormat,
}

/// Where access log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// The standard output.
    Stdout,
    /// A file that is appended to, and opened anew on SIGHUP.
    Path(PathBuf),
}

/// How an access log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The Combined Log Format of web servers, with result, reason and seconds appended.
    #[default]
    Combined,
    /// One JSON object a line.
    Json,
    /// Squid's native format.
    Squid,
}

/// When the machine counts as overloaded, and whether that has consequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overload {
    /// Whether new work is refused.
    pub shedding: Shedding,
    /// Where an XDP program drops new connections.
    pub xdp: XdpUse,
    /// How long what is ready may wait for its worker.
    pub loop_delay: Duration,
    /// Share of CPU time spent in the kernel, 0 to 1; 1 is off.
    pub kernel_cpu: f64,
    /// Share of the memory limit in use, 0 to 1; 1 is off.
    pub memory: f64,
}

/// On which interfaces an XDP program drops new connections, once that is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum XdpUse {
    /// On all that carry the address of a listener, loopback excepted, where driver and privileges allow it.
    #[default]
    Auto,
    /// On none.
    Off,
    /// On those with these names.
    On(Vec<String>),
}

/// Whether new work is refused under overload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shedding {
    /// As early and as much as it takes.
    #[default]
    On,
    /// Never: for comparison, and where something in front of us does it.
    Off,
}
