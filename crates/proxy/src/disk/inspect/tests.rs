#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use super::super::open::{Identity, format_device};
use super::*;

const SIZE: u64 = 16 << 20;

/// A file, formatted or as it is.
fn file(home: &TempDir, name: &str, formatted: bool) -> PathBuf {
    let path = home.path().join(name);
    File::create(&path).unwrap().set_len(SIZE).unwrap();
    if formatted {
        format_device(&path, false, Identity::new().unwrap()).unwrap();
    }
    path
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn look(paths: &[PathBuf]) -> Result<Vec<Inspected>, InspectFailed> {
    inspect(paths, Depth::Bodies, &mut |_| {})
}

#[test]
fn a_fresh_store_is_all_free() {
    let home = TempDir::new().unwrap();
    let path = file(&home, "disk", true);
    let mut last = (0, 0);
    let mut tell = |told: Told<'_>| match told {
        Told::Progress { done, total } => last = (done, total),
        Told::Object(object) => panic!("{object:?}"),
    };
    let found = inspect(std::slice::from_ref(&path), Depth::Bodies, &mut tell).unwrap();
    assert_eq!((found[0].size, found[0].objects, found[0].bytes, found[0].errors), (SIZE, 0, 0, 0));
    assert_eq!(found[0].segments, Segments { free: 15, open: 0, sealed: 0 });
    // Slot 0 has no objects to go through.
    assert_eq!(last, (15 << 20, 16 << 20));
}

#[test]
fn damaged_superblocks_are_counted_while_one_is_left() {
    let home = TempDir::new().unwrap();
    let path = file(&home, "disk", true);
    let copies = store::Geometry::for_size(SIZE).unwrap().superblocks();
    for (damaged, at) in (1..).zip(copies) {
        overwrite(&path, at + 40, b"!");
        match look(std::slice::from_ref(&path)) {
            Ok(found) => assert_eq!(found[0].errors, damaged),
            Err(InspectFailed::Superblock { .. }) => assert_eq!(damaged, 3),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn what_is_no_store_is_refused_by_name() {
    let home = TempDir::new().unwrap();
    let (zeros, disk) = (file(&home, "zeros", false), file(&home, "disk", true));
    let xfs = file(&home, "xfs", false);
    overwrite(&xfs, 0, b"XFSB");
    let refused = |paths: &[PathBuf]| look(paths).unwrap_err().to_string();
    assert!(refused(&[zeros]).ends_with("holds nothing"));
    assert!(refused(&[disk.clone(), xfs]).ends_with("holds an XFS filesystem"));
    assert!(refused(&[disk.clone(), disk]).contains("named twice"));
    assert!(refused(&[home.path().join("missing")]).contains("missing"));
    assert!(refused(&[home.path().to_path_buf()]).contains("neither a regular file"));
}
