use super::*;
use crate::checksum::crc32c;
use crate::disk::segment::EntryKind;
use crate::fingerprint::Fingerprint;
use crate::lease::Lives;
use crate::testing::mix;
use crate::types::Lsn;

const SEGMENT: Place = Place { device: DeviceIndex(0), segment: 1, sequence: 1, offset: 0, len: 0 };

fn scrub(bytes_per_second: u64) -> Scrub {
    Scrub::new(ScrubConfig { bytes_per_second, pass_every: 10_000, slow_read: 100 }, 1)
}

/// Reads whenever that is allowed, each read answered at the next tick; returns how many bytes were read.
fn read_until(scrub: &mut Scrub, from: Millis, until: Millis, len: u32) -> u64 {
    let lives = Lives::new(1);
    lives.open(1, 1, true);
    let (mut bytes, mut number) = (0, 0);
    for now in (from..until).step_by(50) {
        scrub.advance(now);
        while scrub.is_due() {
            number += 1;
            let id = IoId::new(DeviceIndex(0), number);
            scrub.begin(id, Step::Contents(SEGMENT), lives.lease(SEGMENT).unwrap(), len);
            bytes += u64::from(len);
            assert!(scrub.end(id).is_some());
        }
    }
    bytes
}

#[test]
fn the_pace_is_kept_and_rests_are_not_made_up_for() {
    for (rate, len) in [(8 << 20, 4096), (8 << 20, STEP_BYTES), (100_000, STEP_BYTES), (1 << 30, STEP_BYTES)]
    {
        let mut scrub = scrub(rate);
        let slack = rate / 10 + u64::from(2 * STEP_BYTES);
        let read = read_until(&mut scrub, 0, 100_000, len);
        assert!(read.abs_diff(rate * 100) <= slack, "{read} of {}", rate * 100);
        let read = read_until(&mut scrub, 1_000_000, 1_010_000, len);
        assert!(read <= rate * 10 + slack, "{read} after a rest");
    }
    assert_eq!(read_until(&mut scrub(0), 0, 100_000, 4096), 0);
}

#[test]
fn a_slow_read_makes_it_rest() {
    let (mut scrub, lives) = (scrub(1 << 20), Lives::new(1));
    lives.open(1, 1, true);
    let id = IoId::new(DeviceIndex(0), 1);
    scrub.advance(1000);
    assert!(scrub.is_due());
    scrub.begin(id, Step::Contents(SEGMENT), lives.lease(SEGMENT).unwrap(), 4096);
    scrub.advance(1200);
    assert!(!scrub.is_due(), "one read at a time");
    assert!(scrub.end(IoId::new(DeviceIndex(0), 2)).is_none() && scrub.end(id).is_some());
    scrub.advance(1200 + 200 * REST_FACTOR - 1);
    assert!(!scrub.is_due());
    scrub.advance(1200 + 200 * REST_FACTOR);
    assert!(scrub.is_due());
}

#[test]
fn passes_begin_no_sooner_than_asked() {
    let mut scrub = scrub(1 << 20);
    read_until(&mut scrub, 0, 1000, 4096);
    assert!(scrub.end_pass());
    scrub.advance(10_000);
    assert!(!scrub.is_due(), "the first read was at 50");
    scrub.advance(10_050);
    assert!(scrub.is_due());
    assert!(!scrub.end_pass(), "an empty pass does not count");
}

#[test]
fn each_record_is_in_one_group_that_covers_it() {
    for seed in 0..200 {
        let mut offset = BLOCK_BYTES;
        let entries: Vec<Entry> = (0..mix(seed) % 300)
            .map(|n| {
                let random = mix(seed << 20 | n);
                offset += (random % 3) as u32 * 64 * ((random >> 8) % 2000) as u32;
                let len =
                    64 * (1 + (random >> 32) as u32 % if random.is_multiple_of(40) { 16_000 } else { 100 });
                let entry = Entry {
                    kind: EntryKind::Record { elsewhere: false },
                    fingerprint: Fingerprint::from_parts(1, n as u32),
                    lsn: Lsn(n),
                    offset,
                    len,
                };
                offset += len;
                entry
            })
            .collect();
        let mut grouped = Vec::new();
        for step in records(&SEGMENT, entries.clone()).into_iter().rev() {
            let Step::Records { place, entries } = step else { panic!("{step:?}") };
            assert!(place.offset.is_multiple_of(BLOCK_BYTES) && place.len.is_multiple_of(BLOCK_BYTES));
            assert!(place.len <= STEP_BYTES || entries.len() == 1);
            for entry in &entries {
                assert!(entry.offset >= place.offset && u64::from(entry.offset + entry.len) <= place.end());
            }
            grouped.extend(entries);
        }
        assert_eq!(grouped, entries);
    }
}

/// Reads a body extent by extent from a made-up device and says which extents were good.
fn judged(disk: &[u8], extents: &[ExtentRef]) -> Vec<bool> {
    let record = Place { len: 64, ..SEGMENT };
    let mut body = BodyCheck::boxed(KeyHash(1), (record, Bytes::new()), extents.to_vec());
    let mut verdicts = Vec::new();
    while let Some(extent) = body.extents.last() {
        let place = Place { offset: extent.offset, len: extent.len, ..SEGMENT };
        let (read, skip) = body.next_read(&place);
        assert!(read.len <= STEP_BYTES && read.offset.is_multiple_of(BLOCK_BYTES));
        let bytes = &disk[read.offset as usize..read.end() as usize];
        match body.take(bytes, skip) {
            Judged::Unfinished => {}
            judged => verdicts.push(judged == Judged::Good),
        }
    }
    verdicts
}

#[test]
fn a_body_is_judged_extent_by_extent_at_any_offset() {
    let mut disk: Vec<u8> = (0..4 * u64::from(STEP_BYTES)).map(|at| mix(at) as u8).collect();
    let ranges = [(0, 1), (4096, 4096), (100, 5000), (4095, STEP_BYTES), (64, 3 * STEP_BYTES + 9), (8192, 7)];
    let extent = |(offset, len): (u32, u32)| {
        let crc = crc32c(&disk[offset as usize..(offset + len) as usize]);
        ExtentRef { device: 1, segment: 1, sequence: 1, offset, len, crc }
    };
    let extents = ranges.map(extent);
    assert_eq!(judged(&disk, &extents), [true; 6]);
    disk[2 * STEP_BYTES as usize] ^= 4;
    assert_eq!(judged(&disk, &extents), ranges.map(|(offset, len)| offset + len <= 2 * STEP_BYTES));
}
