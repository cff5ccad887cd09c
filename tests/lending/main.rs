//! The lease rule on real devices: a segment is used again only when nobody has bytes of it left to lend.
//!
//! Store and devices as the proxy has them (O_DIRECT log, `sendfile` from the page cache), in this process and on one
//! thread: large objects are put without end, so that the log goes round and round; slow clients take older objects
//! a few KiB at a time while their segments are wanted back; every byte that they receive is compared. The same with
//! the rule switched off must see wrong bytes, or this test would prove nothing.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod rig;

use rig::{Rig, Seen};
use testkit::{LoopDevice, is_root, not_run};

/// What a run on a device of this path shows, with the rule or without it.
fn seen(path: &std::path::Path, leases_ignored: bool) -> Seen {
    store::faults::LEASES_IGNORED.set(leases_ignored);
    let seen = Rig::new(path).run();
    store::faults::LEASES_IGNORED.set(false);
    println!("{}: leases ignored: {leases_ignored}: {seen:?}", path.display());
    seen
}

fn with_the_rule(path: &std::path::Path) {
    let Seen { wrong, transfers, damaged, .. } = seen(path, false);
    assert_eq!((wrong, damaged), (0, 0));
    assert!(transfers >= 12, "{transfers}");
}

fn without_the_rule(path: &std::path::Path) {
    let Seen { wrong, transfers, .. } = seen(path, true);
    assert!(wrong > 0, "{transfers} transfers and no wrong byte: the test sees nothing");
}

fn file() -> (tempfile::TempDir, std::path::PathBuf) {
    let home = tempfile::TempDir::new().unwrap();
    let path = home.path().join("disk");
    sys::device::create_preallocated(&path, rig::DEVICE_BYTES).unwrap();
    (home, path)
}

fn on_a_loop_device(test: &str, run: fn(&std::path::Path)) {
    if !is_root() {
        return not_run(test, "needs root for loop devices");
    }
    match LoopDevice::new(rig::DEVICE_BYTES) {
        Ok(disk) => run(disk.path()),
        Err(why) => not_run(test, &why),
    }
}

#[test]
fn a_file_lends_no_wrong_byte() {
    let (_home, path) = file();
    with_the_rule(&path);
}

#[test]
fn a_file_does_without_the_rule() {
    let (_home, path) = file();
    without_the_rule(&path);
}

#[test]
fn a_raw_disk_lends_no_wrong_byte() {
    on_a_loop_device("lending::a_raw_disk_lends_no_wrong_byte", with_the_rule);
}

#[test]
fn a_raw_disk_does_without_the_rule() {
    on_a_loop_device("lending::a_raw_disk_does_without_the_rule", without_the_rule);
}
