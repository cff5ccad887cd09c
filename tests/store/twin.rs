//! A naive twin: every change goes through the cache, so every answer must be the newest version, whatever was
//! evicted, purged, reclaimed or restarted in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use testkit::{Ask, Noise, Origin, Pattern, Reply, Tidegate};

const PATHS: u64 = 60;
const STEPS: usize = 3000;
const SIZES: [u64; 8] = [0, 1, 700, 4096, 16_384, 40_000, 300_000, 1_500_000];

/// The version of each path, as the origin knows it.
type Versions = Arc<Mutex<HashMap<String, u64>>>;

/// The body that belongs to a version of a path.
fn body(path: &str, version: u64) -> (Pattern, u64) {
    let pattern = Pattern::of(&format!("{path} in version {version}"));
    (pattern, SIZES[(pattern.0 >> 16) as usize % SIZES.len()])
}

fn origin_with(versions: &Versions) -> Origin {
    let versions = versions.clone();
    Origin::answering(move |request| {
        let path = request.head.target();
        let mut versions = versions.lock().unwrap();
        let version = versions.entry(path.to_owned()).or_default();
        if request.head.method() == "PUT" {
            *version += 1;
            return Reply::status(204, "");
        }
        let (pattern, size) = body(path, *version);
        Reply::generated(pattern, size).field("Cache-Control", "max-age=86400")
    })
}

#[track_caller]
fn expect_newest(tidegate: &Tidegate, versions: &Versions, path: &str) {
    let version = versions.lock().unwrap().get(path).copied().unwrap_or(0);
    let (pattern, size) = body(path, version);
    let response = tidegate.get(path).expect(200);
    assert_eq!(response.body.len() as u64, size, "{path} version {version}: {response:?}");
    pattern.compare(&response.body, 0);
}

#[test]
fn every_answer_is_the_newest_version() {
    let versions = Versions::default();
    let origin = origin_with(&versions);
    let mut tidegate = Tidegate::reverse(&origin).memory("1MiB").store("80MiB").start();
    let mut noise = Noise::new(2026);
    for step in 0..STEPS {
        let path = format!("/{}", noise.below(PATHS));
        match noise.below(100) {
            0..=79 => expect_newest(&tidegate, &versions, &path),
            80..=93 => drop(tidegate.ask(Ask::new("PUT", &path).field("Content-Length", "0")).expect(204)),
            94..=98 => drop(tidegate.purge(&format!("http://www.example.com{path}"))),
            _ if step % 3 == 0 => {
                tidegate.stop();
                tidegate.restart();
            }
            _ => drop(tidegate.ask(Ask::get(&path).field("Cache-Control", "no-cache")).expect(200)),
        }
    }
    assert!(origin.count() < STEPS * 3 / 4, "{} of {STEPS} requests reached the origin", origin.count());
}
