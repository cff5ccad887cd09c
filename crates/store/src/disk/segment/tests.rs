use super::*;

const DEVICE: DeviceId = DeviceId(3 << 90 | 5);

fn geometry() -> Geometry {
    Geometry::new(10 << 16, 1 << 16).unwrap()
}

fn entries(count: u32) -> Vec<Entry> {
    let kinds = [
        EntryKind::Record { elsewhere: false },
        EntryKind::Record { elsewhere: true },
        EntryKind::Tombstone,
        EntryKind::Extent,
        EntryKind::Clear,
    ];
    let entry = |n: u32| {
        let kind = kinds[n as usize % kinds.len()];
        let has_place = !matches!(kind, EntryKind::Tombstone | EntryKind::Clear);
        let (offset, len) = if has_place { (4096, 64 * (n + 1)) } else { (0, 0) };
        Entry { kind, fingerprint: Fingerprint::from_parts(4095, n), lsn: Lsn(u64::from(n)), offset, len }
    };
    (0..count).map(entry).collect()
}

#[test]
fn header_comes_back() {
    let header = Header { device: DEVICE, segment: 9, sequence: 77 };
    assert_eq!(Header::decode(header.encode().as_ref()), Ok(header));
}

#[test]
fn contents_come_back_and_end_at_the_end() {
    for count in [0, 1, 128, 129, 300] {
        let written = entries(count);
        let (offset, _, run) = Trailer::encode_with_contents(DEVICE, 4, 6, &written, 500, &geometry());
        assert_eq!(offset + run.len(), geometry().segment_bytes());
        let split = run.as_ref().len() - BLOCK_BYTES as usize;
        let trailer = Trailer::decode(&run.as_ref()[split..], &geometry()).unwrap();
        assert_eq!((trailer.segment, trailer.sequence, trailer.data_bytes), (4, 6, 500));
        assert_eq!(trailer.contents_bytes(&geometry()) as usize, split);
        assert_eq!(trailer.contents(run.as_ref(), &geometry()), Ok(written));
    }
}

#[test]
fn one_flipped_bit_is_noticed_or_made_good() {
    let written = entries(20);
    let (_, _, run) = Trailer::encode_with_contents(DEVICE, 4, 6, &written, 500, &geometry());
    let good = run.as_ref();
    let read = |bytes: &[u8]| {
        let trailer = Trailer::decode(&bytes[8192..], &geometry())?;
        trailer.contents(bytes, &geometry())
    };
    for bit in 0..good.len() * 8 {
        let mut bad = good.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        let expected = if bit < 8192 * 8 { Ok(written.clone()) } else { read(&bad) };
        assert_eq!(read(&bad), expected, "bit {bit}");
        assert_eq!(read(&bad).is_err(), bit >= 8192 * 8, "bit {bit}");
    }
    let mut both = good.to_vec();
    both[10] ^= 1;
    both[4096 + 500] ^= 1;
    assert_eq!(read(&both), Err(Corrupt::Checksum));
}

#[test]
fn unsound_entries_are_refused() {
    let good = Entry { kind: EntryKind::Record { elsewhere: false }, offset: 4096, len: 64, ..entries(1)[0] };
    let bad = [
        Entry { offset: 0, ..good },
        Entry { offset: 4100, ..good },
        Entry { len: 0, ..good },
        Entry { len: 60, ..good },
        Entry { offset: 61_440 - 64, len: 128, ..good },
        Entry { kind: EntryKind::Extent, offset: 4096 + 64, ..good },
        Entry { kind: EntryKind::Tombstone, ..good },
    ];
    assert!(good.is_sound(&geometry()));
    for entry in bad {
        assert!(!entry.is_sound(&geometry()), "{entry:?}");
    }
}

#[test]
fn hostile_bytes_never_panic() {
    bolero::check!().with_test_time(crate::testing::fuzz_time()).for_each(|bytes: &[u8]| {
        let mut block = BlockBuf::copy_of(bytes);
        block.grow_to(BLOCK_BYTES);
        for magic in [HEADER_MAGIC, TRAILER_MAGIC] {
            block.as_mut()[..8].copy_from_slice(&magic);
            block.as_mut()[12..14].copy_from_slice(&VERSION.to_le_bytes());
            seal(block.as_mut());
            _ = Header::decode(block.as_ref());
            if let Ok(trailer) = Trailer::decode(block.as_ref(), &geometry()) {
                assert!(trailer.contents_bytes(&geometry()) < geometry().segment_bytes());
                _ = trailer.contents(bytes, &geometry());
            }
        }
        let count = bytes.len() as u32 / ENTRY_BYTES;
        let crc = crc32c(&bytes[..(count * ENTRY_BYTES) as usize]);
        _ = decode_entries(bytes, count, crc, &geometry());
    });
}
