//! Several devices, raw devices, and devices that must not be touched.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testkit::{LoopDevice, Origin, SmallFilesystem, Tidegate, eventually, have, is_root, not_run};

use crate::{get, get_all, sized_origin, targets};

fn mixed() -> Vec<String> {
    [targets(200, 5000), targets(20, 500_000), targets(3, 6_000_000)].concat()
}

/// Fills, restarts, and expects everything back.
#[track_caller]
fn expect_a_working_store(origin: &Origin, mut tidegate: Tidegate) {
    get_all(&tidegate, &mixed());
    tidegate.stop();
    tidegate.restart();
    let missed: Vec<_> = mixed().into_iter().filter(|target| !get(&tidegate, target)).collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(origin.count(), mixed().len());
    tidegate.stop();
}

#[track_caller]
fn inspect(paths: &[&str]) -> serde_json::Value {
    let run = Tidegate::run(&[&["inspect", "--json"], paths].concat()).expect(0);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn two_files_share_the_objects() {
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let [one, two] = ["one", "two"].map(|name| home.path().join(name).display().to_string());
    let tidegate = Tidegate::reverse(&origin)
        .store_at(&format!("path={one},size=64MiB"))
        .store_at(&format!("path={two},size=96MiB"))
        .start();
    expect_a_working_store(&origin, tidegate);
    for device in inspect(&[&one, &two])["devices"].as_array().unwrap() {
        assert!(
            device["objects"].as_u64() > Some(20) && device["bytes"].as_u64() > Some(4 << 20),
            "{device}"
        );
    }
}

#[test]
fn loop_devices_as_raw_disks() {
    let origin = sized_origin();
    if !is_root() {
        return not_run("store::devices::loop_devices_as_raw_disks", "needs root for loop devices");
    }
    let disks = match (LoopDevice::new(64 << 20), LoopDevice::new(64 << 20)) {
        (Ok(one), Ok(two)) => [one, two],
        (Err(why), _) | (_, Err(why)) => return not_run("store::devices::loop_devices_as_raw_disks", &why),
    };
    let paths = [0, 1].map(|i| disks[i].path().display().to_string());
    let refused = Tidegate::reverse(&origin).store_at(&paths[0]).refused();
    assert!(refused.code != 0 && refused.stderr.contains("tidegate format"), "{refused:?}");
    Tidegate::run(&["format", &paths[0], &paths[1]]).expect(0);
    let tidegate = Tidegate::reverse(&origin).store_at(&paths[0]).store_at(&paths[1]).start();
    expect_a_working_store(&origin, tidegate);
}

#[test]
fn a_disk_with_sectors_of_four_kib() {
    let test = "store::devices::a_disk_with_sectors_of_four_kib";
    if !is_root() {
        return not_run(test, "needs root for loop devices");
    }
    let disk = match LoopDevice::with_sectors(128 << 20, 4096) {
        Ok(disk) => disk,
        Err(why) => return not_run(test, &why),
    };
    let (origin, path) = (sized_origin(), disk.path().display().to_string());
    Tidegate::run(&["format", &path]).expect(0);
    expect_a_working_store(&origin, Tidegate::reverse(&origin).store_at(&path).start());
}

#[test]
fn without_io_uring_threads_do_the_same() {
    if !have("strace") {
        return not_run("store::devices::without_io_uring_threads_do_the_same", "strace is missing");
    }
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").without("io_uring_setup", "EPERM").start();
    eventually("it says that there is no io_uring", || {
        tidegate.stdout().contains("by threads").then_some(())
    });
    expect_a_working_store(&origin, tidegate);
}

#[test]
fn a_file_that_is_cut_while_it_is_served() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").start();
    let objects = mixed();
    get_all(&tidegate, &objects);
    tidegate.wait_stored(objects.len() as u64);
    fs::OpenOptions::new().write(true).open(tidegate.store_path()).unwrap().set_len(20 << 20).unwrap();
    // Nobody can promise right bytes from a file that another rewrites. But every answer ends, and the proxy goes on.
    for target in &objects {
        let mut client = tidegate.client();
        client.send(testkit::Ask::get(target).field("Connection", "close").bytes());
        client.rest();
    }
    assert!(!get(&tidegate, "/new-1000"));
    tidegate.admin(testkit::Ask::get("/healthz")).expect(200);
}

/// A file that holds an ext4 filesystem.
fn ext4_image(home: &Path) -> String {
    let path = home.join("disk");
    fs::File::create(&path).unwrap().set_len(128 << 20).unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&path).stdout(Stdio::null()).status().unwrap();
    assert!(made.success());
    path.display().to_string()
}

#[test]
fn a_filesystem_is_named_and_left_alone() {
    if !have("mkfs.ext4") {
        return not_run("store::devices::a_filesystem_is_named_and_left_alone", "mkfs.ext4 is missing");
    }
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let disk = ext4_image(home.path());
    let before = fs::read(&disk).unwrap();

    let served = Tidegate::reverse(&origin).store_at(&disk).refused();
    assert!(served.code != 0 && served.stderr.contains("ext4"), "{served:?}");
    let formatted = Tidegate::run(&["format", &disk]);
    assert!(formatted.code != 0, "{formatted:?}");
    assert!(formatted.stderr.contains("ext4") && formatted.stderr.contains("--force"), "{formatted:?}");
    assert!(fs::read(&disk).unwrap() == before, "it was written to");

    Tidegate::run(&["format", "--force", &disk]).expect(0);
    let tidegate = Tidegate::reverse(&origin).store_at(&disk).start();
    assert!(!get(&tidegate, "/a-1000") && get(&tidegate, "/a-1000"));
}

#[test]
fn bytes_of_unknown_kind_are_left_alone_too() {
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let path = home.path().join("precious");
    fs::write(&path, "my diary\n".repeat(8 << 20)).unwrap();
    let disk = path.display().to_string();
    assert!(Tidegate::reverse(&origin).store_at(&disk).refused().code != 0);
    assert!(Tidegate::reverse(&origin).store_at(&format!("path={disk},size=64MiB")).refused().code != 0);
    assert!(Tidegate::run(&["format", &disk]).code != 0);
    assert!(fs::read(&path).unwrap().starts_with(b"my diary\nmy diary\n"));
}

#[test]
fn a_store_too_small_is_refused_with_the_least_size() {
    let (home, origin) = (TempDir::new().unwrap(), sized_origin());
    let path = home.path().join("store").display().to_string();
    let run = Tidegate::reverse(&origin).store_at(&format!("path={path},size=1MiB")).refused();
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("MiB"), "{run:?}");
    assert!(!Path::new(&path).exists(), "a useless file was left behind");
}

#[test]
fn a_full_disk_is_told_at_format_time() {
    let test = "store::devices::a_full_disk_is_told_at_format_time";
    if !is_root() {
        return not_run(test, "needs root to mount a small filesystem");
    }
    let small = match SmallFilesystem::new("40m") {
        Ok(small) => small,
        Err(why) => return not_run(test, &why),
    };
    let origin = sized_origin();
    let path = small.path().join("store");
    let run = Tidegate::reverse(&origin).store_at(&format!("path={},size=256MiB", path.display())).refused();
    assert!(run.code == 1 || run.code == 2, "{run:?}");
    assert!(run.stderr.to_lowercase().contains("space"), "{run:?}");
    // Space that was taken for nothing would fill the disk for everybody else.
    assert!(
        fs::metadata(&path).is_ok_and(|file| file.len() == 0) || !path.exists(),
        "a half-made store was left behind"
    );
}

#[test]
fn a_store_in_use_is_not_shared() {
    let origin = sized_origin();
    let first = Tidegate::reverse(&origin).start();
    let spec = first.store_path().display().to_string();
    let second = Tidegate::reverse(&origin).store_at(&spec).refused();
    assert!(second.code == 1 || second.code == 2, "{second:?}");
    assert!(second.stderr.contains("use"), "{second:?}");
    assert!(!get(&first, "/a-1000") && get(&first, "/a-1000"));
}

#[test]
fn a_device_that_is_not_there() {
    let origin = sized_origin();
    let run = Tidegate::reverse(&origin).store_at("/nonexistent/device").refused();
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("/nonexistent/device"), "{run:?}");
}

#[test]
fn direct_reads_serve_the_same_bytes() {
    let origin = sized_origin();
    let tidegate = Tidegate::reverse(&origin).memory("1MiB").toml("[store]\nio = \"direct\"").start();
    expect_a_working_store(&origin, tidegate);
}
