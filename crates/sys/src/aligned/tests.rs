#![allow(clippy::unwrap_used)]
use super::*;
use crate::testing::pattern;
use proptest::prelude::*;

#[test]
fn buffers_are_aligned_and_zeroed() {
    for (len, capacity) in [(1, 4096), (4096, 4096), (4097, 8192), (1 << 20, 1 << 20)] {
        let (mut writer, _) = AlignedBuffer::new(len).unwrap().split();
        let unfilled = writer.unfilled();
        assert_eq!(unfilled.len(), capacity);
        assert!(unfilled.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        assert!(unfilled.iter().all(|&byte| byte == 0));
    }
    assert!(AlignedBuffer::new(0).is_err());
}

#[test]
fn a_reader_sees_exactly_what_was_advanced() {
    let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
    writer.unfilled()[..5].copy_from_slice(b"hello");
    assert_eq!(reader.filled(), b"");
    writer.advance(4);
    assert_eq!(reader.filled(), b"hell");
    assert_eq!(writer.put(b"o!"), 2);
    assert_eq!(reader.filled(), b"hello!");
    assert!(reader.settled(0..7).is_none());
    assert_eq!(&*reader.settled(1..4).unwrap(), b"ell");
}

#[test]
#[should_panic(expected = "past the end")]
fn more_than_there_is_cannot_be_claimed() {
    let (mut writer, _reader) = AlignedBuffer::new(4096).unwrap().split();
    writer.advance(4097);
}

#[test]
fn padding_is_there_once_finished_and_never_for_a_dropped_writer() {
    let (mut writer, reader) = AlignedBuffer::new(3 * 4096).unwrap().split();
    writer.unfilled().fill(0xee); // scribbled by a receive that was not taken
    writer.put(&pattern(5000));
    assert!(reader.padded().is_none());
    assert_eq!(reader.state(), State::Filling);
    writer.finish();
    assert_eq!(reader.state(), State::Finished);
    let padded = reader.padded().unwrap();
    assert_eq!(padded.len(), 8192);
    assert_eq!(&padded[..5000], pattern(5000));
    assert!(padded[5000..].iter().all(|&byte| byte == 0));
    assert_eq!(&*reader.settled_padded().unwrap(), padded);

    let (writer, reader) = AlignedBuffer::new(4096).unwrap().split();
    drop(writer);
    assert_eq!(reader.state(), State::Abandoned);
    assert!(!reader.is_finished() && reader.padded().is_none());
}

#[test]
fn the_sealed_whole_appears_when_the_last_writer_goes() {
    let mut buffer = AlignedBuffer::new(8192).unwrap();
    let (mut one, _) = buffer.carve(100).unwrap();
    let (mut two, reader) = buffer.carve(5000).unwrap();
    assert!(buffer.carve(8192).is_none());
    let sealed = buffer.seal();
    one.put(b"first");
    one.finish();
    two.unfilled().fill(0xee);
    two.put(b"second");
    assert!(sealed.settled().is_none());
    drop(two); // an abandoned region leaves what was filled and zeroes behind it
    let whole = sealed.settled().unwrap();
    assert_eq!(whole.len(), 8192);
    assert_eq!((&whole[..5], &whole[100..106]), (&b"first"[..], &b"second"[..]));
    assert!(whole[106..].iter().all(|&byte| byte == 0));
    assert!(reader.padded().is_none(), "not at a block, and not finished");
}

#[test]
fn the_bytes_outlive_every_other_handle() {
    let (mut writer, reader) = AlignedBuffer::new(4096).unwrap().split();
    writer.put(b"kept");
    let settled = reader.settled(0..4).unwrap();
    drop((writer, reader));
    assert_eq!(&*settled, b"kept");
    let at = settled.as_ptr();
    assert_eq!(Bytes::from(settled).as_ptr(), at, "copied");
}

#[test]
fn readers_on_other_threads_never_see_a_byte_before_it_is_written() {
    const LEN: usize = 1 << 20;
    let body = pattern(LEN);
    let (mut writer, reader) = AlignedBuffer::new(LEN).unwrap().split();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (reader, body) = (reader.clone(), &body);
            scope.spawn(move || {
                let mut checked = 0;
                while checked < LEN {
                    let filled = reader.filled();
                    assert!(filled.len() >= checked, "the watermark went back");
                    assert!(filled[checked..] == body[checked..filled.len()]);
                    checked = filled.len();
                    std::hint::spin_loop();
                }
                while !reader.is_finished() {
                    std::thread::yield_now();
                }
                assert!(reader.padded().unwrap() == body);
            });
        }
        for part in body.chunks(977) {
            assert_eq!(writer.put(part), part.len());
        }
        writer.finish();
    });
}

proptest! {
    /// Twin: a vector of vectors, laid end to end.
    #[test]
    fn regions_filled_in_any_order_equal_their_concatenation(
        lens in prop::collection::vec(1_usize..700, 1..12),
        steps in prop::collection::vec((0_usize..12, 0_usize..300, any::<u8>()), 0..60),
    ) {
        let mut buffer = AlignedBuffer::new(lens.iter().sum()).unwrap();
        let mut regions: Vec<_> = lens.iter().map(|&len| buffer.carve(len).unwrap()).collect();
        let sealed = buffer.seal();
        let mut twin: Vec<Vec<u8>> = vec![Vec::new(); lens.len()];
        for (which, count, byte) in steps {
            let which = which % lens.len();
            let put = regions[which].0.put(&vec![byte; count]);
            prop_assert_eq!(put, count.min(lens[which] - twin[which].len()));
            let grown = twin[which].len() + put;
            twin[which].resize(grown, byte);
            prop_assert_eq!(regions[which].1.filled(), &twin[which][..]);
        }
        drop(regions);
        let mut expected: Vec<u8> = Vec::new();
        for (mut bytes, len) in twin.into_iter().zip(lens) {
            bytes.resize(len, 0);
            expected.extend(bytes);
        }
        expected.resize(round_up_to_block(expected.len()), 0);
        prop_assert_eq!(&*sealed.settled().unwrap(), &expected[..]);
    }
}
