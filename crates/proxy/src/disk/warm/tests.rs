#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use store::DeviceIndex;
use sys::aligned::BLOCK_BYTES;

fn place(segment: u32, sequence: u64, block: u32, blocks: u32) -> Place {
    let at = |n: u32| n * BLOCK_BYTES as u32;
    Place { device: DeviceIndex(0), segment, sequence, offset: at(block), len: at(blocks) }
}

/// Bytes that tell their place, in a buffer of the warm set; nothing where there is none.
fn bytes_of(warm: &Warm, place: &Place) -> Option<Bytes> {
    let (mut writer, reader) = warm.buffer(place.len as usize)?.split();
    writer.unfilled().fill(tag(place));
    writer.advance(place.len as usize);
    drop(writer);
    reader.settled(0..place.len as usize).map(Bytes::from_owner)
}

fn tag(place: &Place) -> u8 {
    (place.sequence as u8).wrapping_mul(31) ^ (place.offset >> 12) as u8
}

/// Asks, reads where that is due, and says whether the bytes were there.
fn get(warm: &Warm, place: &Place) -> Option<(bool, Bytes)> {
    match warm.ask(place) {
        Asked::Here(bytes) => Some((true, bytes)),
        Asked::UnderWay(_) => panic!("nobody else is here"),
        Asked::Read(reading) => {
            let read = bytes_of(warm, place).ok_or(ReadFailed::NoBuffer);
            Some((false, reading.done(read).ok()?))
        }
    }
}

#[test]
fn what_was_read_is_there_for_the_next() {
    let warm = Warm::new(8 << 20, true).unwrap();
    let here = place(1, 7, 0, 16);
    assert!(!get(&warm, &here).unwrap().0);
    let (found, bytes) = get(&warm, &here).unwrap();
    assert!(found && bytes.iter().all(|byte| *byte == tag(&here)));
    assert!(!get(&warm, &place(1, 8, 0, 16)).unwrap().0, "another life of the segment");
    assert_eq!((warm.usage().found, warm.usage().read), (1, 2));
}

#[test]
fn nothing_is_kept_where_the_kernel_keeps() {
    let warm = Warm::new(8 << 20, false).unwrap();
    let here = place(1, 7, 0, 16);
    drop(get(&warm, &here).unwrap());
    assert!(!get(&warm, &here).unwrap().0);
    assert_eq!(warm.usage().bytes, 0);
}

#[test]
fn lives_that_are_over_give_their_memory_back() {
    let warm = Warm::new(8 << 20, true).unwrap();
    for block in 0..8 {
        get(&warm, &place(1, u64::from(block % 2), block, 1)).unwrap();
    }
    assert_eq!(warm.usage().bytes, 8 * BLOCK_BYTES as u64);
    warm.sweep(|place| place.sequence == 1);
    assert_eq!(warm.usage().bytes, 4 * BLOCK_BYTES as u64);
    assert!(get(&warm, &place(1, 1, 1, 1)).unwrap().0);
    assert!(!get(&warm, &place(1, 0, 0, 1)).unwrap().0);
}

#[test]
fn what_clients_hold_is_bounded_too() {
    let warm = Warm::new(8 << 20, true).unwrap();
    let mut held = Vec::new();
    let refused = (0..100).find(|&n| match get(&warm, &place(n, 1, 0, 256)) {
        Some((_, bytes)) => {
            held.push(bytes);
            false
        }
        None => true,
    });
    assert_eq!(refused, Some(8), "8 MiB are eight of these");
    held.truncate(4);
    assert!(get(&warm, &place(200, 1, 0, 256)).is_some(), "what is kept but not held gives way");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn one_reads_and_all_who_wait_have_it() {
    let warm = Warm::new(8 << 20, false).unwrap();
    let here = place(3, 1, 0, 4);
    let Asked::Read(reading) = warm.ask(&here) else { panic!("nobody reads yet") };
    let waiting: Vec<_> = (0..5)
        .map(|_| match warm.ask(&here) {
            Asked::UnderWay(waiting) => waiting,
            _ => panic!("one reads already"),
        })
        .collect();
    let read = bytes_of(&warm, &here).ok_or(ReadFailed::NoBuffer);
    drop(reading.done(read));
    for waiting in waiting {
        let bytes = runtime().block_on(waiting.outcome()).unwrap().unwrap();
        assert!(bytes.iter().all(|byte| *byte == tag(&here)));
    }
}

#[test]
fn a_failure_is_everybodys_and_a_reader_that_leaves_is_nobodys() {
    let warm = Warm::new(8 << 20, true).unwrap();
    let here = place(3, 1, 0, 4);
    for leaves in [false, true] {
        let Asked::Read(reading) = warm.ask(&here) else { panic!("nobody reads yet") };
        let Asked::UnderWay(waiting) = warm.ask(&here) else { panic!("one reads already") };
        if leaves {
            drop(reading);
            assert!(runtime().block_on(waiting.outcome()).is_none());
        } else {
            assert!(reading.done(Err(ReadFailed::Checksum)).is_err());
            let outcome = runtime().block_on(waiting.outcome());
            assert!(matches!(outcome, Some(Err(ReadFailed::Checksum))));
        }
    }
    assert!(!get(&warm, &here).unwrap().0, "a failure was kept");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Twin: what a place's bytes must be. Never others', never over the bound, and nothing lost once all is let go.
    #[test]
    fn agrees_with_the_places(steps in prop::collection::vec((0_u32..40, 0_u64..3, 0_usize..30), 1..400)) {
        let warm = Warm::new(8 << 20, true).unwrap();
        let mut held = Vec::new();
        for (block, sequence, which) in steps {
            if which < held.len() {
                let (place, bytes): (Place, Bytes) = held.swap_remove(which);
                prop_assert!(bytes.iter().all(|byte| *byte == tag(&place)), "changed while it was held");
            }
            match which {
                29 => warm.sweep(|place| place.sequence != sequence),
                _ => if let Some((_, bytes)) = get(&warm, &place(1, sequence, block, 1 + block * 6)) {
                    held.push((place(1, sequence, block, 1 + block * 6), bytes));
                },
            }
            prop_assert!(warm.usage().bytes <= 8 << 20);
        }
        held.clear();
        warm.sweep(|_| false);
        prop_assert_eq!(warm.usage().bytes, 0);
    }
}
