//! Devices are known by what is written on them: they may be reordered, renamed, added and taken away.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use testkit::{Origin, Tidegate};

use crate::{get, get_all, sized_origin, targets};

/// Some devices in a directory, and the store over those that are named.
struct Shelf {
    home: TempDir,
    origin: Origin,
}

impl Shelf {
    fn new() -> Shelf {
        Shelf { home: TempDir::new().unwrap(), origin: sized_origin() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Over these, each made and formatted where it is not there.
    fn open(&self, names: &[&str]) -> Tidegate {
        let builder = Tidegate::reverse(&self.origin).memory("0B");
        let spec = |name: &&str| format!("path={},size=96MiB", self.path(name).display());
        names.iter().map(spec).fold(builder, |builder, spec| builder.store_at(&spec)).start()
    }
}

fn objects() -> Vec<String> {
    [targets(120, 5000), targets(30, 150_000), targets(4, 5_000_000)].concat()
}

#[track_caller]
fn filled(shelf: &Shelf, names: &[&str]) {
    let mut tidegate = shelf.open(names);
    get_all(&tidegate, &objects());
    tidegate.wait_stored(objects().len() as u64);
    tidegate.stop();
}

fn objects_on(tidegate: &Tidegate, at: usize) -> u64 {
    let status = tidegate.status();
    let device = &status["store"]["devices"][at];
    ["segments_open", "segments_sealed"].iter().filter_map(|key| device[*key].as_u64()).sum()
}

#[test]
fn order_and_names_do_not_matter() {
    let shelf = Shelf::new();
    filled(&shelf, &["one", "two", "three"]);
    fs::rename(shelf.path("two"), shelf.path("another")).unwrap();
    fs::rename(shelf.path("one"), shelf.path("two")).unwrap();
    let mut tidegate = shelf.open(&["three", "two", "another"]);
    assert_eq!(get_all(&tidegate, &objects()), objects().len());
    assert_eq!(shelf.origin.count(), objects().len());
    tidegate.stop();
}

#[test]
fn a_device_that_is_added_is_used_at_once_and_nothing_is_lost() {
    let shelf = Shelf::new();
    filled(&shelf, &["one", "two"]);
    let mut tidegate = shelf.open(&["new", "one", "two"]);
    assert_eq!(get_all(&tidegate, &objects()), objects().len());
    let more: Vec<String> = objects().iter().map(|target| target.replace('/', "/more-")).collect();
    get_all(&tidegate, &more);
    tidegate.wait_stored(2 * objects().len() as u64);
    assert!(objects_on(&tidegate, 0) > 0, "{}", tidegate.status());
    tidegate.stop();
    let mut tidegate = shelf.open(&["two", "new", "one"]);
    let all = [objects(), more].concat();
    assert_eq!(get_all(&tidegate, &all), all.len());
    tidegate.stop();
}

#[test]
fn of_a_device_that_is_taken_away_only_its_share_is_missed() {
    let shelf = Shelf::new();
    filled(&shelf, &["one", "two", "three"]);
    let mut tidegate = shelf.open(&["one", "three"]);
    let small = targets(120, 5000);
    let hits = get_all(&tidegate, &small);
    assert!((40..=110).contains(&hits), "{hits} of {} are there: two thirds were expected", small.len());
    get_all(&tidegate, &objects());
    tidegate.stop();

    // What it missed meanwhile makes its contents stale: none of them counts when it returns, and no byte is wrong.
    let mut tidegate = shelf.open(&["one", "two", "three"]);
    assert!(get_all(&tidegate, &objects()) >= hits);
    assert!(get(&tidegate, "/new-5000") || get(&tidegate, "/new-5000"));
    tidegate.stop();
}
