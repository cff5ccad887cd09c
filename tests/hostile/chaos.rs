//! Everything at once: origins that answer in every way and fail in every way, clients that ask, leave, stall and
//! contradict themselves. Whatever looks complete must be right; afterwards nothing is left open.

use std::time::{Duration, Instant};

use testkit::{Ask, Client, Noise, Origin, Pattern, Reply, Request, Tidegate, descriptors, eventually};

const CLIENTS: u64 = 12;
const LASTING: Duration = Duration::from_secs(6);
const SIZES: [u64; 7] = [0, 100, 5000, 16_500, 90_000, 1_200_000, 3_000_000];

/// The body of a path follows from the path: `/7` always has the same.
fn body(path: &str) -> (Pattern, u64) {
    let pattern = Pattern::of(path);
    (pattern, SIZES[(pattern.0 >> 20) as usize % SIZES.len()])
}

/// How the origin answers follows from the path and from how often it was asked.
fn answer(request: &Request, asked: u64) -> Reply {
    let (pattern, size) = body(request.head.target());
    let mut noise = Noise::new((pattern.0 ^ asked) | 1);
    let reply = match noise.below(10) {
        0 => return Reply::status(503, "down"),
        1 => return Reply::cut_short(pattern, size, 0).then_reset(),
        2 => Reply::cut_short(pattern, size, noise.below(size + 1)),
        3 | 4 => {
            let whole = pattern.bytes(0, size as usize);
            Reply::chunked(&whole.chunks(70_001).collect::<Vec<_>>())
        }
        _ => Reply::generated(pattern, size),
    };
    let reply = reply.field("ETag", &format!("\"{}\"", pattern.0));
    match noise.below(4) {
        0 => reply.field("Cache-Control", "no-store"),
        1 => reply.field("Cache-Control", "max-age=0"),
        2 => reply.field("Cache-Control", "max-age=60").field("Connection", "close").then_close(),
        _ => reply.field("Cache-Control", "max-age=60"),
    }
}

/// One request of a client that may do anything with the answer; `false` when the connection is of no more use.
fn misbehave(client: &mut Client, noise: &mut Noise, tidegate: &Tidegate) -> bool {
    let path = format!("/{}", noise.below(40));
    let (pattern, size) = body(&path);
    let (from, ask) = match noise.below(12) {
        0 => (0, Ask::head(&path)),
        1 => (size / 2, Ask::get(&path).field("Range", &format!("bytes={}-", size / 2))),
        2 => (0, Ask::get(&path).field("Cache-Control", "no-cache")),
        3 => (0, Ask::get(&path).field("If-None-Match", &format!("\"{}\"", pattern.0))),
        4 => (0, Ask::post(&path, &[7; 3000])),
        5 => {
            tidegate.purge(&format!("http://www.example.com{path}"));
            return true;
        }
        _ => (0, Ask::get(&path)),
    };
    if client.try_send(ask.bytes()).is_err() {
        return false;
    }
    match noise.below(8) {
        0 => false,
        1 => {
            let _ = client.try_some(200);
            false
        }
        _ => check(client, &ask, (pattern, size), from),
    }
}

#[track_caller]
fn expect_whole(got: &[u8], pattern: Pattern, from: u64, size: u64) {
    assert_eq!(got.len() as u64, size - from, "looks complete and is not");
    pattern.compare(got, from);
}

/// Reads the answer; what is complete must be right.
fn check(client: &mut Client, ask: &Ask, (pattern, size): (Pattern, u64), from: u64) -> bool {
    let response = match client.try_response(ask) {
        Ok(response) => response,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer, and no end"),
        Err(_) => return false,
    };
    match response.status() {
        200 if ask.is_head() => assert!(response.body.is_empty()),
        200 => expect_whole(&response.body, pattern, 0, size),
        206 => expect_whole(&response.body, pattern, from, size),
        304 | 416 | 502 | 503 | 504 => {}
        status => panic!("{status}: {response:?}"),
    }
    response.field("connection").as_deref() != Some("close")
}

fn client_for_a_while(tidegate: &Tidegate, seed: u64, until: Instant) {
    let mut noise = Noise::new(seed);
    while Instant::now() < until {
        let mut client = tidegate.client();
        while Instant::now() < until && misbehave(&mut client, &mut noise, tidegate) {}
        if noise.below(2) == 0 {
            client.reset();
        }
    }
}

#[test]
fn what_looks_complete_is_right() {
    let asked = std::sync::atomic::AtomicU64::new(1);
    let count = move || asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let origin = Origin::answering(move |request| answer(request, count()));
    let toml = "[timeouts]\norigin_keep_alive = \"500ms\"";
    let tidegate = Tidegate::reverse(&origin).memory("2MiB").store("64MiB").toml(toml).start();
    let before = descriptors(tidegate.pid());
    let until = Instant::now() + LASTING;
    std::thread::scope(|scope| {
        for seed in 1..=CLIENTS {
            let tidegate = &tidegate;
            scope.spawn(move || client_for_a_while(tidegate, seed * 7919, until));
        }
    });
    tidegate.metrics_at_rest();
    eventually("what was opened is closed", || (descriptors(tidegate.pid()) < before + 80).then_some(()));
    assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 0.0);
    assert!(origin.count() > 100);
}
