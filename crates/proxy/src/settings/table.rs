//! The scalar settings, each defined once: name, kind, bounds, default and meaning.
//!
//! From an entry come its place in the configuration file (the dots are TOML tables), its flag on the command line
//! (dots and underscores become dashes, unless it has a shorter name), its row in `docs/settings.md`, and the error
//! messages for values that it does not take. The lists (`listen`, `site`, `store.device`) are in [`super::lists`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::field::{CountDefault, Field};
use super::{LogFormat, Settings, Shedding, StoreAdmission, StoreIo};

/// One scalar setting.
pub struct Setting {
    /// Its dotted name.
    pub name: &'static str,
    /// What it decides, one line.
    pub help: &'static str,
    /// When a change takes effect.
    pub applies: Applies,
    pub(super) flag: Option<&'static str>,
    pub(super) field: Field,
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// At the next start.
    AtStart,
    /// On SIGHUP.
    OnReload,
}

impl Setting {
    /// The long flag without dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.flag.map_or_else(|| self.name.replace(['.', '_'], "-"), str::to_owned)
    }

    /// The value as the configuration file would have it.
    #[must_use]
    pub fn show(&self, settings: &Settings) -> String {
        self.field.show(settings)
    }

    /// The accepted forms, in words.
    #[must_use]
    pub fn forms(&self) -> String {
        self.field.forms()
    }

    /// The default, in words that hold on every machine.
    #[must_use]
    pub fn default_words(&self) -> String {
        self.field.default_words()
    }

    /// What the flag takes, in one word.
    #[must_use]
    pub fn value_name(&self) -> &'static str {
        self.field.value_name()
    }

    /// Whether the command line names it without its section.
    #[must_use]
    pub fn has_own_flag(&self) -> bool {
        self.flag.is_some()
    }

    const fn at_start(mut self) -> Self {
        self.applies = Applies::AtStart;
        self
    }

    const fn flagged(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }
}

/// The setting of this dotted name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const LOOPBACK: &[IpNet] = &[
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3129);

/// What a timeout may be.
const PATIENCE: RangeInclusive<Duration> = ms(1)..=secs(24 * 3600);

/// How a number of any width is reached; the bounds keep it within that width.
macro_rules! count {
    ($name:literal, $($place:ident).+, $bounds:expr, $default:expr, $help:literal) => {
        setting($name, $help, Field::Count {
            get: |s| s.$($place).+ as u64,
            set: |s, n| s.$($place).+ = n as _,
            bounds: $bounds,
            default: $default,
        })
    };
}

macro_rules! timeout {
    ($name:ident, $default:expr, $help:literal) => {
        setting(
            concat!("timeouts.", stringify!($name)),
            $help,
            Field::Span { at: |s| &mut s.timeouts.$name, bounds: PATIENCE, default: $default },
        )
    };
}

/// Every scalar setting, in the order of the documents.
pub static SETTINGS: &[Setting] = &[
    count!(
        "workers", workers, 1..=1024, CountDefault::PerCpu,
        "Worker threads, each with its own listeners, runtime and disk ring"
    )
    .flagged("workers")
    .at_start(),
    setting(
        "memory.size",
        "Memory for hot objects, overhead included; \"0B\" turns the memory tier off",
        Field::Size { at: |s| &mut s.memory.size, bounds: 0..=16 * TIB, default: 256 * MIB },
    )
    .flagged("memory")
    .at_start(),
    setting(
        "admin.listen",
        "Where health, metrics, status and purge are served; anyone who reaches it may purge",
        Field::Address { at: |s| &mut s.admin, default: ADMIN },
    )
    .flagged("admin")
    .at_start(),
    setting(
        "forward.allow",
        "Clients that may use the forward proxy; all others get 403",
        Field::Nets { at: |s| &mut s.forward.allow, default: LOOPBACK },
    ),
    setting(
        "forward.connect_ports",
        "Ports that CONNECT may reach",
        Field::Ports { at: |s| &mut s.forward.connect_ports, default: &[443] },
    ),
    setting(
        "store.io",
        "Who keeps the stored bodies that are warm: the kernel in its page cache, or this process in memory of its own (store.warm)",
        Field::Word {
            get: |s| s.store.io as usize,
            choices: &[
                ("page-cache", |s| s.store.io = StoreIo::PageCache),
                ("direct", |s| s.store.io = StoreIo::Direct),
            ],
        },
    )
    .at_start(),
    setting(
        "store.admission",
        "What earns a write once the store is full: what was asked for more often than what leaves for it, or everything",
        Field::Word {
            get: |s| s.store.admission as usize,
            choices: &[
                ("frequency", |s| s.store.admission = StoreAdmission::Frequency),
                ("all", |s| s.store.admission = StoreAdmission::All),
            ],
        },
    )
    .at_start(),
    setting(
        "store.checkpoint",
        "A crash loses at most this much of what was stored last",
        Field::Span { at: |s| &mut s.store.checkpoint, bounds: ms(100)..=secs(3600), default: secs(2) },
    )
    .at_start(),
    setting(
        "store.buffers",
        "Memory for bodies on their way to a device; when it is used up, new bodies are passed on unstored",
        Field::Size { at: |s| &mut s.store.buffers, bounds: 4 * MIB..=TIB, default: 64 * MIB },
    )
    .at_start(),
    count!(
        "store.queue_depth", store.queue_depth, 1..=1024, CountDefault::Fixed(32),
        "Reads that each worker keeps under way at each device; also the writes of all workers while nobody reads"
    )
    .at_start(),
    setting(
        "store.write_share",
        "The part of the queue depth that writes may take at a device that is being read from",
        Field::Share { at: |s| &mut s.store.write_share, default: 0.25 },
    )
    .at_start(),
    setting(
        "store.read_timeout",
        "A device that does not answer a read for so long makes it a miss",
        Field::Span { at: |s| &mut s.store.read_timeout, bounds: PATIENCE, default: secs(1) },
    )
    .at_start(),
    setting(
        "store.device_timeout",
        "A device that leaves any request without an answer for so long is retired until the next start",
        Field::Span { at: |s| &mut s.store.device_timeout, bounds: PATIENCE, default: secs(10) },
    )
    .at_start(),
    setting(
        "store.warm",
        "With \"direct\": memory for stored bodies that are warm. With \"page-cache\" at most 64 MiB of it: bodies used once pass through",
        Field::Size { at: |s| &mut s.store.warm, bounds: 8 * MIB..=TIB, default: 256 * MIB },
    )
    .at_start(),
    setting(
        "store.scrub",
        "How fast stored bytes are read again in the background, a second and over all devices, to find damage before a request does; waits while devices are busy",
        Field::Pace { at: |s| &mut s.store.scrub, bounds: 64 * KIB..=16 * GIB, default: 8 * MIB },
    )
    .at_start(),
    timeout!(client_head, secs(10), "From the first byte of a request head to its last, then 408; also the wait for the first byte of a new connection"),
    timeout!(client_body, secs(30), "Idle time inside a request body; limits.client_rate bounds it as a whole"),
    timeout!(client_send, secs(60), "Idle time while a client does not take what is sent to it; limits.client_rate bounds it as a whole"),
    timeout!(keep_alive, secs(60), "Idle time of a client connection between requests"),
    timeout!(origin_wait, secs(1), "How long a request waits for a connection while its origin has all of limits.origin_connections, then 503"),
    timeout!(origin_connect, secs(5), "For a TCP connection to an origin, then 504"),
    timeout!(origin_first_byte, secs(60), "From the end of a request to the end of the origin's response head, then 504"),
    timeout!(origin_body, secs(60), "Idle time inside a response body, and while an origin does not take a request body"),
    timeout!(origin_keep_alive, secs(15), "How long an idle connection to an origin is kept for reuse"),
    timeout!(tunnel_idle, secs(600), "Idle time of a tunnel in both directions"),
    timeout!(drain, secs(30), "How long requests in flight may go on after SIGTERM"),
    count!("limits.head_bytes", limits.head_bytes, KIB..=MIB, CountDefault::Fixed(64 * KIB), "Bytes of a message head, start line included; longer requests get 431"),
    count!("limits.fields", limits.fields, 8..=10_000, CountDefault::Fixed(128), "Field lines in a head or trailer section; more get 431"),
    count!("limits.target_bytes", limits.target_bytes, 256..=MIB, CountDefault::Fixed(16 * KIB), "Bytes of a request target; longer ones get 414"),
    count!("limits.backlog", limits.backlog, 1..=65_535, CountDefault::Fixed(4096), "Connections that may wait for a worker on one listening socket (the kernel's somaxconn bounds it too)")
        .at_start(),
    count!("limits.connections", limits.connections, 1..=100_000_000, CountDefault::Fixed(1_000_000), "Client connections open at a time, all workers together; a client may hold at most eight times what is left, others of its are closed at once"),
    count!("limits.origin_connections", limits.origin_connections, 1..=65_535, CountDefault::Fixed(1024), "Connections to one origin that each worker has in use at a time; as many requests may wait for one"),
    count!("limits.connections_per_origin", limits.connections_per_origin, 0..=65_535, CountDefault::Fixed(256), "Idle connections kept for one origin by each worker"),
    setting(
        "limits.object_bytes",
        "The largest response body that is stored",
        Field::Size { at: |s| &mut s.limits.object_bytes, bounds: 0..=16 * TIB, default: 16 * GIB },
    ),
    setting(
        "limits.client_rate",
        "What a client has to bring of a request body or take of a response, a second: each second of waiting uses up its idle time, each so many bytes earn one back",
        Field::Pace { at: |s| &mut s.limits.client_rate, bounds: 1..=GIB, default: 512 },
    ),
    setting(
        "limits.head_memory",
        "Memory for request heads over 2 KiB and response heads over 17 KiB while they are in use, over all workers; a request for which there is none left gets 503",
        Field::Size { at: |s| &mut s.limits.head_memory, bounds: MIB..=TIB, default: 64 * MIB },
    ),
    setting(
        "fill.finish_without_client",
        "Whether a fetch goes on for the cache when the client that caused it has left",
        Field::Switch { at: |s| &mut s.fill.finish_without_client, default: true },
    ),
    setting(
        "purge.tag_fields",
        "Response fields whose words, separated by commas or spaces, are tags to purge by",
        Field::Names { at: |s| &mut s.purge.tag_fields, default: &["Surrogate-Key", "Cache-Tag"] },
    ),
    setting(
        "purge.show_tags",
        "Whether clients of reverse listeners see the fields that carry tags; those of forward listeners do",
        Field::Switch { at: |s| &mut s.purge.show_tags, default: false },
    ),
    setting(
        "log.access",
        "Where the access log goes",
        Field::Target { at: |s| &mut s.log.access },
    )
    .at_start(),
    setting(
        "log.format",
        "How a line of the access log looks",
        Field::Word {
            get: |s| s.log.format as usize,
            choices: &[
                ("combined", |s| s.log.format = LogFormat::Combined),
                ("json", |s| s.log.format = LogFormat::Json),
                ("squid", |s| s.log.format = LogFormat::Squid),
            ],
        },
    )
    .at_start(),
    setting(
        "overload.shedding",
        "Whether new work is refused under overload: connections before they are accepted, then the dearest requests",
        Field::Word {
            get: |s| s.overload.shedding as usize,
            choices: &[
                ("on", |s| s.overload.shedding = Shedding::On),
                ("off", |s| s.overload.shedding = Shedding::Off),
            ],
        },
    ),
    setting(
        "overload.xdp",
        "Interfaces on which an XDP program drops new connections under overload, before the filters of the listeners; \"auto\" tries those with the address of a listener; without privilege there is none",
        Field::Interfaces { at: |s| &mut s.overload.xdp },
    )
    .at_start(),
    setting(
        "overload.loop_delay",
        "How long what is ready may wait for its worker; where it lasts, the dearest requests are refused until it is no longer",
        Field::Span { at: |s| &mut s.overload.loop_delay, bounds: PATIENCE, default: ms(50) },
    ),
    setting(
        "overload.kernel_cpu",
        "Share of CPU time in the kernel above which new connections and the dearest requests are refused; 1 is off",
        Field::Share { at: |s| &mut s.overload.kernel_cpu, default: 1.0 },
    ),
    setting(
        "overload.memory",
        "Share of the memory limit (the control group's, else the machine's), page cache aside, above which the same happens; 1 is off",
        Field::Share { at: |s| &mut s.overload.memory, default: 0.95 },
    ),
];

const fn setting(name: &'static str, help: &'static str, field: Field) -> Setting {
    Setting { name, help, applies: Applies::OnReload, flag: None, field }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
