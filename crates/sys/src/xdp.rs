//! Refusing new connections before a packet buffer is spent on them: an XDP program on the interfaces that bring them.
//!
//! Owns the program (`bpf/syn_gate.c`, built by `bpf/build.sh`) and its maps. What must hold: only frames that ask for a
//! *new* TCP connection to a [target](SynGate::guard) are ever dropped; nothing is, until a [`Rule`] says so; an attachment
//! ends with the value, and with the process, however it dies; another program on an interface is never replaced. Needs
//! privilege (`CAP_BPF` with `CAP_NET_ADMIN`) and a driver that runs such programs itself: elsewhere the frame has its
//! buffer already, and [`crate::syn_filter`] does the same for less trouble.
//!
//! Refuses to know when to shed, how much, and which interfaces are worth it.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::programs::{TestRun, TestRunOptions, Xdp, XdpMode};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

use crate::interfaces::Interface;

static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/syn_gate.o"));

/// Listeners that one program tells apart.
pub const LISTENERS: usize = 64;

/// Addresses with a port that one program guards.
pub const TARGETS: usize = 4096;

/// How long the program remembers how often a source asked, in seconds.
pub const WINDOW_SECONDS: f64 = (1_u64 << 26) as f64 / 1e9;

/// Why there is no such gate, or not there.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// This process may not load or attach programs.
    #[error("not permitted (it takes CAP_BPF and CAP_NET_ADMIN)")]
    NoPrivilege,
    /// No interface has that name.
    #[error("there is no such interface")]
    NoInterface,
    /// The kernel takes no such program.
    #[error("the kernel does not take the program: {0}")]
    Kernel(String),
    /// The driver of the interface runs no such programs, or not as the interface is set up now.
    #[error("its driver runs no XDP programs as it is set up")]
    NotNative,
    /// Somebody else's program is there.
    #[error("another XDP program is attached")]
    Taken,
    /// More addresses and ports than fit.
    #[error("more than {TARGETS} addresses with a port, or more than {LISTENERS} listeners")]
    TooMany,
    /// Anything else that the kernel says about an attachment or a map.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What may enter through one listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Everything.
    Open,
    /// Of all that ask this share, 0 to 1, whoever asks.
    Share(f64),
    /// Of each source so many within [`WINDOW_SECONDS`]: of one that asks more often as large a share as makes that. A
    /// level below one is a share of those who ask once.
    Level(f64),
}

impl Rule {
    const BY_SOURCE: u64 = 1 << 63;
    const ONE: f64 = (1_u64 << 32) as f64;
    /// No cell of the sketch counts further.
    const LEVEL_MAX: f64 = (1_u64 << 25) as f64;

    /// As `may_enter` in the program reads it. What is not a number enters nowhere; 1 is the least that is a rule.
    fn word(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::Share(share) => ((share.clamp(0.0, 1.0) * Self::ONE) as u64).max(1),
            Self::Level(level) => {
                Self::BY_SOURCE | ((level.clamp(0.0, Self::LEVEL_MAX) * Self::ONE) as u64).max(1)
            }
        }
    }
}

/// What one listener was asked for since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// New connections that were asked for.
    pub seen: u64,
    /// The sum over these of how often their source had asked within [`WINDOW_SECONDS`].
    pub crowd: u64,
    /// Those that were dropped.
    pub dropped: u64,
}

/// What the program made of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// Whether the last one was dropped; else it was passed on.
    pub dropped: bool,
    /// How long each took, on average.
    pub took: Duration,
}

/// An address and port as the program looks it up: `struct target`.
type Key = [u8; 20];

/// The program, loaded. See the module.
pub struct SynGate {
    program: Ebpf,
    /// Queue: addresses that the gate in front guards.
    targets: HashMap<MapData, Key, u32>,
    rules: Array<MapData, u64>,
    tallies: PerCpuArray<MapData, [u64; 3]>,
    /// Queue: addresses that the gate in front guards.
    guarded: HashSet<(Key, u32)>,
}

impl SynGate {
    /// Loads the program, which changes nothing yet.
    ///
    /// # Errors
    /// [`Refused::NoPrivilege`] or [`Refused::Kernel`].
    pub fn load() -> Result<Self, Refused> {
        let seed = random();
        let mut loader = EbpfLoader::new();
        // The program looks at nothing of the kernel's own, so the description of the kernel need not be read.
        let loader = loader.btf(None).override_global("seed", &seed, true);
        let mut program = loader.load(OBJECT).map_err(|error| refused(&error))?;
        xdp(&mut program)?.load().map_err(|error| refused(&error))?;
        Ok(Self {
            targets: HashMap::try_from(map(&mut program, "targets")?).map_err(|error| refused(&error))?,
            rules: Array::try_from(map(&mut program, "rules")?).map_err(|error| refused(&error))?,
            tallies: PerCpuArray::try_from(map(&mut program, "tallies")?).map_err(|error| refused(&error))?,
            program,
            guarded: HashSet::new(),
        })
    }

    /// Attaches to an interface until this value is dropped.
    ///
    /// # Errors
    /// Any [`Refused`] but the one about targets; nothing is attached then.
    pub fn attach(&mut self, interface: &Interface) -> Result<(), Refused> {
        // A kernel that takes the program (5.12) has links (5.9): the attachment is a descriptor, kept by the program.
        let attached = xdp(&mut self.program)?.attach_to_if_index(interface.index, XdpMode::Driver);
        attached.map(|_| ()).map_err(|error| refused_there(&error))
    }

    /// Guards these targets from now on, each for the listener of that number, and no others.
    ///
    /// # Errors
    /// [`Refused::TooMany`] before anything is changed, or the kernel's.
    pub fn guard(&mut self, wanted: &[(SocketAddr, usize)]) -> Result<(), Refused> {
        if wanted.len() > TARGETS || wanted.iter().any(|(_, listener)| *listener >= LISTENERS) {
            return Err(Refused::TooMany);
        }
        let wanted: HashSet<_> = wanted.iter().map(|(to, listener)| (key(*to), *listener as u32)).collect();
        for (key, _) in self.guarded.difference(&wanted) {
            self.targets.remove(key).map_err(|error| failed(&error))?;
        }
        for (key, listener) in wanted.difference(&self.guarded) {
            self.targets.insert(key, listener, 0).map_err(|error| failed(&error))?;
        }
        self.guarded = wanted;
        Ok(())
    }

    /// Says what may enter through this listener from now on. A number from [`LISTENERS`] on has no rule.
    ///
    /// # Errors
    /// The kernel's.
    pub fn rule(&mut self, listener: usize, rule: Rule) -> io::Result<()> {
        self.rules.set(listener as u32, rule.word(), 0).map_err(|error| failed(&error))
    }

    /// Lets the program judge a frame that comes so many times, without a network (`BPF_PROG_TEST_RUN`). It counts as if it
    /// had come.
    ///
    /// # Errors
    /// The kernel's, such as `InvalidInput` for a frame that is shorter than an Ethernet header.
    pub fn judge(&mut self, frame: &[u8], times: u32) -> Result<Judgement, Refused> {
        const DROP: u32 = 1; // XDP_DROP
        let options = TestRunOptions { data_in: Some(frame), repeat: times, ..TestRunOptions::new() };
        let ran = xdp(&mut self.program)?.test_run(options).map_err(|error| failed(&error))?;
        Ok(Judgement { dropped: ran.return_value == DROP, took: ran.duration })
    }

    /// What this listener was asked for, on all CPUs together.
    ///
    /// # Errors
    /// The kernel's; a number from [`LISTENERS`] on has no tally.
    pub fn tally(&self, listener: usize) -> io::Result<Tally> {
        let values = self.tallies.get(&(listener as u32), 0).map_err(|error| failed(&error))?;
        Ok(values.iter().fold(Tally::default(), |sum, [seen, crowd, dropped]| Tally {
            seen: sum.seen + seen,
            crowd: sum.crowd + crowd,
            dropped: sum.dropped + dropped,
        }))
    }
}

fn map(program: &mut Ebpf, name: &str) -> Result<aya::maps::Map, Refused> {
    program.take_map(name).ok_or_else(|| Refused::Kernel(format!("it has no map {name}")))
}

fn xdp(program: &mut Ebpf) -> Result<&mut Xdp, Refused> {
    let found = program.program_mut("syn_gate").and_then(|program| program.try_into().ok());
    found.ok_or_else(|| Refused::Kernel("the object holds no such program".into()))
}

/// `struct target`: address, port, both in network order, and two bytes that are zero.
fn key(target: SocketAddr) -> Key {
    let address = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut key = Key::default();
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&target.port().to_be_bytes());
    key
}

/// A number that nobody can foresee from outside.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// The system's word at the bottom of an error of the library.
fn errno(error: &(dyn Error + 'static)) -> Option<i32> {
    let own = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    own.or_else(|| errno(error.source()?))
}

/// Why the program was not loaded.
fn refused(error: &(dyn Error + 'static)) -> Refused {
    match errno(error) {
        Some(libc::EPERM | libc::EACCES) => Refused::NoPrivilege,
        _ => Refused::Kernel(error.to_string()),
    }
}

/// Why the program was not attached to an interface.
fn refused_there(error: &(dyn Error + 'static)) -> Refused {
    match errno(error) {
        Some(libc::EPERM | libc::EACCES) => Refused::NoPrivilege,
        Some(libc::EBUSY | libc::EEXIST) => Refused::Taken,
        Some(libc::EOPNOTSUPP | libc::EINVAL) => Refused::NotNative,
        _ => Refused::Io(failed(error)),
    }
}

fn failed(error: &(dyn Error + 'static)) -> io::Error {
    errno(error).map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests;
