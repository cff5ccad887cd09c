//! `tidegate format` and `tidegate inspect` as a user runs them.

use std::fs;

use tempfile::TempDir;
use testkit::{Pattern, Tidegate, find_in_file, flip_bit};

use crate::{get, get_all, sized_origin, targets};

#[test]
fn inspect_tells_what_is_there() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).store("96MiB").start();
    get_all(&tidegate, &targets(100, 5000));
    tidegate.stop();
    let path = tidegate.store_path().display().to_string();
    let run = Tidegate::run(&["inspect", &path, "--json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let device = &json["devices"][0];
    assert_eq!(
        (device["path"].as_str(), device["size"].as_u64()),
        (Some(path.as_str()), Some(96 << 20)),
        "{json}"
    );
    assert_eq!((device["objects"].as_u64(), device["errors"].as_u64()), (Some(100), Some(0)), "{json}");
    assert!(device["id"].is_string() && device["bytes"].as_u64() > Some(500_000), "{json}");
    let segments = &device["segments"];
    let count =
        ["free", "open", "sealed"].iter().map(|state| segments[*state].as_u64().unwrap()).sum::<u64>();
    // 24 slots of 4 MiB; the first holds no objects.
    assert_eq!(count, 23, "{json}");
}

#[test]
fn inspect_objects_lists_keys() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).start();
    get(&tidegate, "/needle-in-the-list-5000");
    tidegate.stop();
    let run =
        Tidegate::run(&["inspect", &tidegate.store_path().display().to_string(), "--objects"]).expect(0);
    assert!(run.stdout.contains("/needle-in-the-list-5000"), "{run:?}");
}

#[test]
fn inspect_verify_finds_a_flipped_bit() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).start();
    get(&tidegate, "/a-500000");
    tidegate.stop();
    let path = tidegate.store_path();
    let text = path.display().to_string();
    Tidegate::run(&["inspect", &text, "--verify"]).expect(0);
    let place = find_in_file(&path, &Pattern::of("/a-500000").bytes(400_000, 32))[0];
    flip_bit(&path, place);
    let run = Tidegate::run(&["inspect", &text, "--verify", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(json["devices"][0]["errors"].as_u64() >= Some(1), "{run:?}");
    assert_eq!(run.code, 1, "{run:?}");
}

#[test]
fn inspect_does_not_write() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).store("64MiB").start();
    get(&tidegate, "/a-5000");
    tidegate.stop();
    let path = tidegate.store_path();
    let before = fs::read(&path).unwrap();
    Tidegate::run(&["inspect", &path.display().to_string(), "--verify", "--objects"]).expect(0);
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn inspect_of_something_else_says_so() {
    let home = TempDir::new().unwrap();
    let path = home.path().join("zeros");
    fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let text = path.display().to_string();
    let run = Tidegate::run(&["inspect", &text]);
    assert!(run.code == 1 && run.stderr.contains(&text), "{run:?}");
    assert!(Tidegate::run(&["inspect", "/nonexistent"]).code != 0);
}

#[test]
fn format_makes_an_empty_file_a_store() {
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let path = home.path().join("disk");
    fs::File::create(&path).unwrap().set_len(64 << 20).unwrap();
    let text = path.display().to_string();
    Tidegate::run(&["format", &text]).expect(0);
    let tidegate = Tidegate::reverse(&origin).store_at(&text).start();
    assert!(!get(&tidegate, "/a-1000") && get(&tidegate, "/a-1000"));
}

#[test]
fn format_does_not_forget_a_store_by_accident() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).start();
    get(&tidegate, "/a-1000");
    tidegate.stop();
    let run = Tidegate::run(&["format", &tidegate.store_path().display().to_string()]);
    assert!(run.code != 0 && run.stderr.contains("--force"), "{run:?}");
    tidegate.restart();
    assert!(get(&tidegate, "/a-1000"));
}
