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
    // People are told where.
    let run = Tidegate::run(&["inspect", &text, "--verify"]).expect(1);
    let line = run.stdout.lines().find(|line| line.contains("bad-body")).unwrap_or_default();
    let mut words = line.split_whitespace().skip_while(|word| *word != "offset").skip(1);
    let offset: u64 = words.next().and_then(|word| word.parse().ok()).unwrap();
    assert!((offset..offset + (1 << 20)).contains(&place), "{place} is not told: {line}");
}

#[test]
fn inspect_of_a_store_in_use_says_so() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).start();
    get_all(&tidegate, &targets(20, 5000));
    let text = tidegate.store_path().display().to_string();
    let run = Tidegate::run(&["inspect", &text, "--verify", "--json"]).expect(0);
    assert!(run.stderr.contains(&format!("{text} is in use")), "{run:?}");
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["devices"][0]["errors"].as_u64(), Some(0), "{json}");
    assert_eq!(get_all(&tidegate, &targets(20, 5000)), 20, "the proxy goes on");
}

/// Several devices of one store, and damage on one of them.
#[test]
fn inspect_tells_on_which_device_the_damage_is() {
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let paths = ["one", "two"].map(|name| home.path().join(name));
    let [one, two] = paths.each_ref().map(|path| path.display().to_string());
    let builder = Tidegate::reverse(&origin).store_at(&format!("path={one},size=64MiB"));
    let mut tidegate = builder.store_at(&format!("path={two},size=64MiB")).start();
    get(&tidegate, "/a-8000000");
    tidegate.stop();
    let needle = Pattern::of("/a-8000000").bytes(7_000_000, 32);
    let damaged = paths.iter().find_map(|path| Some((path, *find_in_file(path, &needle).first()?)));
    let (path, place) = damaged.unwrap();
    flip_bit(path, place);
    let run = Tidegate::run(&["inspect", &one, &two, "--verify", "--objects", "--json"]).expect(1);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let object = &json["objects"][0];
    assert_eq!(object["error"].as_str(), Some("bad-body"), "{json}");
    assert_eq!(object["offset_on"].as_str(), path.to_str(), "{json}");
    let offset = object["offset"].as_u64().unwrap();
    assert!((offset..offset + (1 << 20)).contains(&place), "{place}: {json}");
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
