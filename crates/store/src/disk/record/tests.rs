use super::*;
use crate::types::DeviceIndex;

const DEVICE: DeviceId = DeviceId(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

fn place(len: u32) -> Place {
    Place { device: DeviceIndex(0), segment: 3, sequence: 77, offset: 4096, len }
}

fn encoded(record: &RecordToWrite<'_>) -> (Vec<u8>, Place) {
    let place = place(record.record_bytes().unwrap());
    let mut bytes = vec![0; place.len as usize];
    record.encode(DEVICE, &place, Lsn(9), &mut bytes);
    (bytes, place)
}

fn inline(body: &[u8]) -> RecordToWrite<'_> {
    let body = BodyToWrite::Inline { bytes: body, crc: crc32c(body) };
    RecordToWrite { hash: KeyHash(5 << 64 | 6), key: b"key", head: b"head of it", body }
}

#[test]
fn an_inline_record_comes_back() {
    let (bytes, place) = encoded(&inline(b"the body"));
    let record = Record::decode_at(&bytes, DEVICE, &place).unwrap();
    assert_eq!((record.key, record.head), (&b"key"[..], &b"head of it"[..]));
    assert_eq!((record.key_hash(), record.lsn()), (KeyHash(5 << 64 | 6), Lsn(9)));
    let Body::Inline(body) = record.body() else { panic!("{record:?}") };
    assert_eq!(body.bytes, b"the body");
    assert_eq!(&bytes[body.offset as usize..][..8], b"the body");
    assert!(record.is_intact());
}

#[test]
fn an_extent_table_comes_back() {
    let extents: Vec<ExtentRef> =
        (0..5).map(|n| ExtentRef::new(DEVICE, &Place { len: 1000 + n, ..place(0) }, n)).collect();
    let record = RecordToWrite { body: BodyToWrite::Extents(&extents), ..inline(b"") };
    let (bytes, _) = encoded(&record);
    let record = Record::decode(&bytes).unwrap();
    assert_eq!(record.body_len(), 5010);
    let Body::Extents(table) = record.body() else { panic!("{record:?}") };
    assert_eq!(table.iter().collect::<Vec<_>>(), extents);
}

#[test]
fn a_record_of_another_place_is_refused() {
    let (bytes, place) = encoded(&inline(b"b"));
    let others = [
        (DeviceId(1), place),
        (DEVICE, Place { sequence: 78, ..place }),
        (DEVICE, Place { offset: 0, ..place }),
        (DEVICE, Place { len: place.len + 64, ..place }),
    ];
    for (device, place) in others {
        assert_eq!(Record::decode_at(&bytes, device, &place).err(), Some(Corrupt::Elsewhere), "{place:?}");
    }
}

#[test]
fn one_flipped_bit_is_noticed_anywhere() {
    let (bytes, place) = encoded(&inline(b"the body"));
    let padding = 96 + 3 + 10 + 8;
    for bit in 0..padding * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let noticed = Record::decode_at(&bad, DEVICE, &place).map_or(true, |record| !record.is_intact());
        assert!(noticed, "bit {bit}");
    }
}

#[test]
fn hostile_bytes_never_panic() {
    bolero::check!().with_test_time(crate::testing::fuzz_time()).for_each(|bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        for claim_good in [false, true] {
            if claim_good && bytes.len() >= HEADER_BYTES {
                pretend_good(&mut bytes);
            }
            if let Ok(record) = Record::decode(&bytes) {
                assert!(record.record_bytes() as usize <= bytes.len());
                _ = record.is_intact();
            }
        }
    });
}

/// Sets magic, version and checksum, so that fuzzing reaches the lengths.
fn pretend_good(bytes: &mut [u8]) {
    bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    let raw: RawHeader = read(bytes).unwrap();
    if let Ok(sizes) = Sizes::of(&raw)
        && sizes.inline_at <= bytes.len()
    {
        let crc = crc32c(&bytes[CRC_FROM..sizes.inline_at]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}
