#![allow(clippy::unwrap_used)]
use super::*;
use crate::aligned::{AlignedBuffer, Settled};
use crate::testing::{Loop, pattern};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A preallocated file in `/var/tmp`, which is seldom a tmpfs.
fn file(size: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("device");
    create_preallocated(&path, size).unwrap();
    (dir, path)
}

/// A device with a known pattern of which nothing is in memory; nothing where the filesystem is memory.
fn cold(path: &Path) -> Option<Device> {
    let device = Device::open(path, true).unwrap();
    let size = device.size_bytes();
    device.write_at(0, &settled(&pattern(size as usize))).unwrap();
    device.sync().unwrap();
    device.advise_dontneed(0, size).unwrap();
    if device.resident(0, size) {
        println!("NOT RUN: /var/tmp is memory");
        return None;
    }
    Some(device)
}

fn settled(bytes: &[u8]) -> Settled {
    let (mut writer, reader) = AlignedBuffer::new(bytes.len()).unwrap().split();
    writer.put(bytes);
    writer.finish();
    reader.settled_padded().unwrap()
}

#[test]
fn what_is_written_direct_is_read_buffered_and_back() {
    let (_dir, path) = file(4 * MIB);
    let device = Device::open(&path, true).unwrap();
    assert_eq!((device.kind(), device.size_bytes()), (Kind::File, 4 * MIB));
    assert!(device.block_bytes().is_power_of_two() && device.block_bytes() >= 512);
    let body = settled(&pattern(1 << 20));
    device.write_at(MIB, &body).unwrap();
    device.sync().unwrap();
    let (mut writer, _) = AlignedBuffer::new(1 << 20).unwrap().split();
    for read in [Device::read_at, Device::read_direct_at] {
        writer.unfilled().fill(0);
        read(&device, MIB, writer.unfilled()).unwrap();
        assert!(writer.unfilled() == &*body);
    }
    assert_eq!(device.read_at(4 * MIB - 1, &mut [0; 2]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn direct_is_told_from_refused_and_not_asked() {
    let (_dir, path) = file(MIB);
    assert_eq!(Device::open(&path, false).unwrap().direct(), Direct::NotAsked);
    let device = Device::open(&path, true).unwrap();
    if device.direct() == Direct::Refused {
        return println!("NOT RUN: this filesystem has no O_DIRECT");
    }
    let unaligned = device.write_at(0, b"odd").unwrap_err();
    assert_eq!(unaligned.kind(), ErrorKind::InvalidInput, "O_DIRECT was said and is not used");
}

#[test]
fn a_filesystem_without_direct_io_is_reported() {
    // procfs has regular files and no O_DIRECT.
    let path = Path::new("/proc/self/oom_score_adj");
    let (writer, direct) = open_writer(path, Kind::File, true).unwrap();
    assert_eq!((direct, direct.word()), (Direct::Refused, "direct-refused"));
    assert_eq!(logical_block(&writer, Kind::File).unwrap(), 4096);
}

#[test]
fn a_device_has_one_owner() {
    let (_dir, path) = file(MIB);
    assert!(!Device::open_read_only(&path).unwrap().is_in_use());
    let owner = Device::open(&path, true).unwrap();
    assert!(matches!(Device::open(&path, true), Err(OpenError::InUse)));
    assert!(Device::open_read_only(&path).unwrap().is_in_use());
    assert!(Device::open_read_only(&path).unwrap().write_at(0, &[0; 512]).is_err());
    drop(owner);
    assert!(Device::open(&path, false).is_ok());
}

#[test]
fn what_is_no_device_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Device::open("/dev/null", false), Err(OpenError::Kind)));
    let missing = Device::open(dir.path().join("missing"), true);
    assert!(matches!(missing, Err(OpenError::Io(error)) if error.kind() == ErrorKind::NotFound));
}

#[test]
fn preallocation_is_all_or_nothing() {
    let (_dir, path) = file(2 * MIB);
    assert!(MetadataExt::blocks(&path.metadata().unwrap()) * 512 >= 2 * MIB);
    assert!(matches!(create_preallocated(&path, MIB), Err(CreateError::Exists)));
    assert_eq!(path.metadata().unwrap().len(), 2 * MIB);
    for size in [1 << 55, u64::MAX] {
        let too_much = path.with_extension("large");
        let error = create_preallocated(&too_much, size).unwrap_err();
        assert!(
            matches!(error, CreateError::NoSpace { wanted_bytes, .. } if wanted_bytes == size),
            "{error}"
        );
        assert!(!too_much.exists());
    }
}

#[test]
fn residency_follows_the_pages() {
    let (_dir, path) = file(4 * MIB);
    let Some(device) = cold(&path) else { return };
    assert!(device.resident(0, 0));
    device.read_at(MIB + 5, &mut vec![0; MIB as usize]).unwrap();
    assert!(device.resident(MIB + 5, MIB));
    assert!(device.resident(MIB, 1));
    assert!(!device.resident(MIB, 3 * MIB));
    assert!(!device.resident(3 * MIB, MIB));
}

#[test]
fn looking_at_each_page_stands_in_for_the_count() {
    let (_dir, path) = file(4 * MIB);
    let Some(device) = cold(&path) else { return };
    for page in (0..64).filter(|&page| page != 40) {
        device.read_at(page * 4096, &mut [0]).unwrap();
    }
    assert!(device.each_readable(0..=39) && device.each_readable(41..=63));
    assert!(!device.resident(0, 64 * 4096));
    assert!(!device.each_readable(0..=63));
}

#[test]
fn a_read_that_would_wait_says_so_and_later_succeeds() {
    let (_dir, path) = file(4 * MIB);
    let Some(device) = cold(&path) else { return };
    let body = pattern(4 << 20);
    let mut page = [0; 4096];
    assert_eq!(device.read_nowait(2 * MIB, &mut page).unwrap_err().kind(), ErrorKind::WouldBlock);
    device.advise_willneed(2 * MIB, 4096).unwrap();
    while device.read_nowait(2 * MIB, &mut page).is_err() {
        std::thread::yield_now();
    }
    assert!(page == body[2 << 20..(2 << 20) + 4096]);
    assert_eq!(device.read_nowait(4 * MIB, &mut page).unwrap(), 0);
}

#[test]
fn a_zeroed_range_reads_as_zeroes_and_its_neighbours_do_not() {
    let (_dir, path) = file(4 * MIB);
    let device = Device::open(&path, true).unwrap();
    device.write_at(0, &settled(&[0xee; 4 << 20])).unwrap();
    match device.zero_range(MIB, MIB) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            return println!("NOT RUN: no ZERO_RANGE here");
        }
        other => other.unwrap(),
    }
    let mut all = vec![1; 4 << 20];
    device.read_at(0, &mut all).unwrap();
    for (at, byte) in all.iter().enumerate() {
        assert_eq!(*byte, if (1 << 20..2 << 20).contains(&at) { 0 } else { 0xee }, "at {at}");
    }
}

#[test]
fn a_loop_device_is_a_block_device_with_one_owner() {
    let (_dir, path) = file(4 * MIB);
    let Some(disk) = Loop::over(&path) else {
        return println!("NOT RUN: needs root");
    };
    let device = Device::open(&disk.path, true).unwrap();
    assert_eq!((device.kind(), device.direct(), device.size_bytes()), (Kind::Block, Direct::Used, 4 * MIB));
    assert!(matches!(Device::open(&disk.path, true), Err(OpenError::InUse)));
    let body = settled(&pattern(1 << 20));
    device.write_at(MIB, &body).unwrap();
    assert!(!device.resident(MIB, MIB));
    let mut back = vec![0; 1 << 20];
    device.read_at(MIB, &mut back).unwrap();
    assert!(back == *body);
    assert!(device.resident(MIB, MIB));
}

#[test]
fn a_filesystem_in_memory_has_no_direct_io_whatever_it_says() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return println!("NOT RUN: no /dev/shm") };
    let path = dir.path().join("device");
    create_preallocated(&path, 1 << 20).unwrap();
    if fstatfs(File::open(&path).unwrap()).unwrap().f_type as u64 != 0x0102_1994 {
        return println!("NOT RUN: /dev/shm is no tmpfs");
    }
    let device = Device::open(&path, true).unwrap();
    assert_eq!(device.direct(), Direct::Refused);
}

#[test]
fn resident_bytes_are_counted_in_pages() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("device");
    create_preallocated(&path, 1 << 20).unwrap();
    let device = Device::open(&path, true).unwrap();
    device.advise_dontneed(0, 1 << 20).unwrap();
    let Some(before) = device.resident_bytes(0, 1 << 20) else {
        return println!("NOT RUN: pages are not counted here");
    };
    device.read_at(5000, &mut [0; 8192]).unwrap();
    assert_eq!(device.resident_bytes(0, 1 << 20), Some(before + 3 * 4096));
}
