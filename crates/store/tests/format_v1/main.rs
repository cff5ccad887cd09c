//! Images of stores of format version 1 (`tests/fixtures/store-v1`): what was written once is found for ever.
//!
//! Two devices with everything that the format has: small records, a body in extents on both devices, a body with
//! holes, a replaced and a removed object, a refreshed head, sealed segments and open ones, a note. They are as a crash
//! behind a checkpoint left them. Two readers find the same objects in them: the store, and [`reader`], which was written
//! from docs/disk-format.md alone and shares no code with it.
//!
//! `TIDEGATE_BLESS=1` makes the images anew. That is for as long as version 1 is unreleased; later, a change of the
//! format makes images of its own.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod image;
mod make;
#[path = "../memory/mod.rs"]
mod memory;
mod reader;

use std::collections::BTreeMap;
use std::path::PathBuf;
use store::*;

/// Head, and each byte of the body; nothing for a byte in a hole.
type Object = (Vec<u8>, Vec<Option<u8>>);
/// By key.
type Objects = BTreeMap<Vec<u8>, Object>;

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/store-v1")).join(name)
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn images() -> Vec<Vec<u8>> {
    ["a", "b"].iter().map(|name| image::decode(&fixture(name))).collect()
}

/// `key head length-and-byte...`, an object a line; `-` for a hole.
fn listed() -> Objects {
    let stretch = |text: &str| {
        let (len, byte) = text.split_once('*').unwrap();
        let byte = (byte != "-").then(|| byte.as_bytes()[0]);
        vec![byte; len.parse().unwrap()]
    };
    let object = |line: &str| {
        let mut words = line.split(' ');
        let (key, head) = (words.next().unwrap(), words.next().unwrap());
        (key.into(), (head.into(), words.flat_map(stretch).collect()))
    };
    fixture("objects").lines().map(object).collect()
}

#[track_caller]
fn expect_same(found: &Objects, listed: &Objects) {
    let keys = |objects: &Objects| -> Vec<String> {
        objects.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    };
    assert_eq!(keys(found), keys(listed));
    for (key, object) in listed {
        assert!(found[key] == *object, "{}", String::from_utf8_lossy(key));
    }
}

#[test]
fn the_store_finds_what_is_listed() {
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        make::bless();
    }
    let mut devices = images();
    let store = make::open(&mut devices);
    let listed = listed();
    assert_eq!(store.stats().objects, listed.len() as u64);
    assert_eq!(store.note(), make::NOTE);
    assert!(store.lookup(make::hash(make::REMOVED)).is_none());
    let found = listed.keys().map(|key| {
        let text = std::str::from_utf8(key).unwrap();
        (key.clone(), make::look(&store, &devices, text).unwrap())
    });
    expect_same(&found.collect(), &listed);
}

#[test]
fn a_reader_made_from_the_documentation_finds_the_same() {
    let found = reader::read(&images());
    assert_eq!(found.note, make::NOTE);
    expect_same(&found.objects, &listed());
    // Devices are known by identity, not by order; each alone gives what lies on it alone.
    let mut turned = images();
    turned.reverse();
    expect_same(&reader::read(&turned).objects, &listed());
    assert!(!reader::read(&images()[..1]).objects.is_empty());
}

#[test]
fn both_readers_agree_on_damaged_checkpoints() {
    // Both copies of each area of one device in turn: the other area counts then, on both devices.
    for damaged in [[0, 1], [2, 3]] {
        let mut devices = images();
        for copy in damaged {
            let at = reader::checkpoint_copies(&devices[0])[copy];
            devices[0][at + 100] ^= 1;
        }
        let found = reader::read(&devices);
        let store = make::open(&mut devices);
        assert_eq!(store.stats().objects, found.objects.len() as u64, "{damaged:?}");
        for (key, object) in &found.objects {
            let text = std::str::from_utf8(key).unwrap();
            assert!(make::look(&store, &devices, text).unwrap() == *object, "{text}");
        }
    }
}
