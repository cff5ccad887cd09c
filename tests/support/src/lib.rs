//! The harness of the black-box tests: the real binary between a scripted origin and a scripted client.
//!
//! A case reads like a conversation. The test's own thread plays both ends in turn, so that the order of
//! events is the order of the lines and nothing waits for a clock:
//!
//! ```text
//! let origin = Script::new();
//! let tidegate = Tidegate::reverse(&origin).start();
//! let mut client = tidegate.client();
//! client.send("GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n");
//! let mut upstream = origin.accept();
//! upstream.request();
//! upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
//! assert_eq!(client.response().body, b"hi");
//! ```
//!
//! Where the order does not matter, [`Origin`] answers by a function and counts what it was asked.
//!
//! What holds: every wait ends after [`PATIENCE`] and then fails the test; every process and mount made here
//! ends with the value that stands for it. What it refuses to know: anything of the product's crates. It reads
//! HTTP with its own plain parser, because an instrument must not share decisions with what it measures.

#![forbid(unsafe_code)]
// A panic is how a test says no; this crate exists for tests only.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod admin;
mod client;
mod disk;
mod faulty;
mod fuse;
mod message;
mod network;
mod noise;
mod notrun;
mod origin;
mod pattern;
mod port;
mod process;
mod reply;
mod strace;
mod tidegate;
mod wire;

use std::time::Duration;

pub use admin::Metrics;
pub use client::{Ask, Client};
pub use disk::{LoopDevice, SmallFilesystem, find_in_file, flip_bit};
pub use faulty::{Fate, FaultyDisk};
pub use message::{Framing, Head, Request, Response};
pub use network::{Flood, Network};
pub use noise::Noise;
pub use notrun::{have, is_root, not_run};
pub use origin::{Address, Origin, Script, Upstream};
pub use pattern::Pattern;
pub use port::{BlackHole, refused_address};
pub use process::{descriptors, end, own_memory_kib, raise_descriptor_limit};
pub use reply::Reply;
pub use strace::{Strace, Syscall};
pub use tidegate::{Builder, Run, Tidegate};
pub use wire::{End, Wire};

/// How long anything that should happen at once may take before the test fails.
///
/// Generous, because two cores may be busy with other tests; a passing test never waits for it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `question` again and again until it answers, for state that no event announces (a metric, `/proc`).
///
/// # Panics
/// When there is no answer within [`PATIENCE`].
#[track_caller]
pub fn eventually<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(answer) = question() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never came true: {what}");
}
