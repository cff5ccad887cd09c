//! The store under the cache: more than memory holds, again after a stop or a crash, never wrong bytes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod capacity;
mod commands;
mod corruption;
mod devices;
mod failing;
mod kill;
mod lending;
mod membership;
mod restart;
mod twin;

use testkit::{Origin, Pattern, Reply, Request, Tidegate};

/// An origin for targets like `/7-65536`: the second number is the size, the bytes follow from the target.
fn sized_origin() -> Origin {
    Origin::answering(|request| {
        let target = request.head.target();
        Reply::generated(Pattern::of(target), size(target))
            .field("Cache-Control", "max-age=86400")
            .field("X-Needle", &needle(request))
    })
}

fn size(target: &str) -> u64 {
    target.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// A field value that finds a stored head on the device.
fn needle(request: &Request) -> String {
    format!("head-of-{}-", request.head.target())
}

/// Asks for `target` and compares every byte; says whether it was had without the origin: as a hit, or from a fill
/// that had sent its last byte and was not yet closed.
#[track_caller]
fn get(tidegate: &Tidegate, target: &str) -> bool {
    get_on(&mut tidegate.client(), target)
}

/// The same on this connection.
#[track_caller]
fn get_on(client: &mut testkit::Client, target: &str) -> bool {
    client.send(testkit::Ask::get(target).bytes());
    let head = client.head();
    assert_eq!(head.status(), 200, "{target}: {head:?}");
    assert_eq!(head.field("content-length"), Some(size(target).to_string()), "{target}: {head:?}");
    Pattern::of(target).expect(client, 0, size(target));
    let status = head.field("cache-status").unwrap_or_default();
    let without_origin = status.contains("; hit") || status.contains("; collapsed");
    if !without_origin {
        println!("{target}: {status}"); // Shown where the test fails: why it was no hit.
    }
    without_origin
}

/// Asks for all of them on one connection, compares every byte, and says how many were hits.
#[track_caller]
fn get_all(tidegate: &Tidegate, targets: &[String]) -> usize {
    let mut client = tidegate.client();
    targets.iter().filter(|target| get_on(&mut client, target)).count()
}

/// Reads the body of `target` and compares every byte that comes; says whether all of it came.
#[track_caller]
fn right_until_broken(client: &mut testkit::Client, target: &str) -> bool {
    let (mut at, end) = (0, size(target));
    while at < end {
        match client.try_some((end - at) as usize) {
            Ok(bytes) if !bytes.is_empty() => {
                Pattern::of(target).compare(&bytes, at);
                at += bytes.len() as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("{target} stalls after {at} of {end} bytes");
            }
            _ => return false,
        }
    }
    true
}

/// `count` targets of this size.
fn targets(count: usize, size: u64) -> Vec<String> {
    (0..count).map(|number| format!("/{number}-{size}")).collect()
}
