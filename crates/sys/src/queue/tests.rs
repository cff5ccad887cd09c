//! The same claims for a ring and for a pool; then what only a ring can be shown to do.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::aligned::{AlignedBuffer, BLOCK_BYTES, Writer};
use crate::arena::Arena;
use crate::budget::BufferBudget;
use crate::device::Device;
use crate::pool::Pool;
use crate::testing::pattern;
use crate::uring::Ring;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

const DEPTH: u32 = 8;

/// Runs the claim over both kinds of queue.
fn each(claim: impl Fn(&mut dyn Queue)) {
    claim(&mut Pool::new(DEPTH, 2).unwrap());
    match Ring::new(DEPTH) {
        Ok(mut ring) => claim(&mut ring),
        Err(refused) => println!("NOT RUN over a ring: {refused}"),
    }
}

/// Whether completions wait; `wait` says for how long to look.
fn rings(queue: &dyn Queue, wait_ms: i64) -> bool {
    let mut polled = [PollFd::new(&queue, PollFlags::IN)];
    let limit = Timespec { tv_sec: wait_ms / 1000, tv_nsec: wait_ms % 1000 * 1_000_000 };
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&limit))).unwrap() == 1
}

/// Submits and waits until nothing is in flight.
fn finish(queue: &mut dyn Queue) -> Vec<Completion> {
    let mut all = Vec::new();
    queue.submit().unwrap();
    while queue.in_flight() > 0 {
        assert!(rings(queue, 10_000), "a completion was lost");
        queue.reap(&mut |completion| all.push(completion)).unwrap();
    }
    all
}

fn one(queue: &mut dyn Queue, operation: Operation) -> Completion {
    let token = queue.push(operation).unwrap();
    let mut all = finish(queue);
    assert_eq!((all.len(), all[0].token), (1, token));
    all.remove(0)
}

fn device(size: u64) -> Device {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    crate::device::create_preallocated(dir.path().join("device"), size).unwrap();
    Device::open(dir.path().join("device"), true).unwrap()
}

fn settled(bytes: &[u8]) -> Bytes {
    let (mut writer, reader) = AlignedBuffer::new(bytes.len()).unwrap().split();
    writer.put(bytes);
    writer.finish();
    reader.settled_padded().unwrap().into()
}

fn room(len: usize) -> Writer {
    AlignedBuffer::new(len).unwrap().split().0
}

fn write(device: &Device, offset: u64, bytes: Bytes) -> Operation {
    Operation::Write { file: Arc::clone(device.writer()), offset, bytes }
}

fn read(device: &Device, offset: u64, len: usize) -> Operation {
    Operation::Read { file: Arc::clone(device.writer()), offset, len, into: room(len) }
}

fn bytes_read(completion: Completion) -> Vec<u8> {
    let Operation::Read { into, .. } = completion.operation else { panic!("{completion:?}") };
    assert_eq!(completion.result.unwrap(), into.filled_len());
    into.reader().filled().to_vec()
}

#[test]
fn what_is_written_and_made_durable_is_read_back() {
    each(|queue| {
        let device = device(4 << 20);
        let body = pattern(1 << 20);
        let written = one(queue, write(&device, 1 << 20, settled(&body)));
        assert_eq!(written.result.unwrap(), 1 << 20);
        let sync = Operation::Sync { file: Arc::clone(device.writer()) };
        assert_eq!(one(queue, sync).result.unwrap(), 0);
        assert!(bytes_read(one(queue, read(&device, 1 << 20, 1 << 20))) == body);
    });
}

#[test]
fn parts_are_written_one_behind_the_other() {
    each(|queue| {
        let (device, body) = (device(4 << 20), pattern(1 << 20));
        let parts: Vec<Bytes> = body.chunks(65_536).map(settled).collect();
        let operation = Operation::WriteVectored {
            file: Arc::clone(device.writer()),
            offset: 1 << 20,
            parts: parts.into(),
        };
        assert_eq!(one(queue, operation).result.unwrap(), 1 << 20);
        assert!(bytes_read(one(queue, read(&device, 1 << 20, 1 << 20))) == body);
    });
}

/// Registered or not, what is read is what was written; and beside an arena there is other memory.
#[test]
fn reads_into_an_arena_are_like_others() {
    let device = device(4 << 20);
    let arena = Arena::new(8 << 20).unwrap();
    let claim = |queue: &mut dyn Queue| {
        for round in 0..3_u64 {
            let body = pattern((1 << 20) + round as usize);
            one(queue, write(&device, 0, settled(&body[..1 << 20]))).result.unwrap();
            for buffer in (0..6).map(|_| arena.try_take(1 << 20).unwrap()).collect::<Vec<_>>() {
                let file = Arc::clone(device.writer());
                let into = buffer.split().0;
                let read = Operation::Read { file, offset: 4096, len: 8192, into };
                assert!(bytes_read(one(queue, read)) == body[4096..][..8192]);
            }
            assert!(bytes_read(one(queue, read(&device, 0, 4096))) == body[..4096]);
        }
    };
    claim(&mut Pool::new(DEPTH, 2).unwrap());
    match Ring::with_arena(DEPTH, &arena) {
        Ok(mut ring) => {
            claim(&mut ring);
            if let Some(error) = ring.unregistered() {
                println!("NOT RUN with registered memory: {error}");
            }
        }
        Err(refused) => println!("NOT RUN over a ring: {refused}"),
    }
}

#[test]
fn many_at_once_come_back_each_under_its_own_name() {
    each(|queue| {
        let device = device(DEPTH as u64 * BLOCK_BYTES as u64);
        let at = |block: u8| u64::from(block) * BLOCK_BYTES as u64;
        for round in 0..20_u8 {
            for block in 0..DEPTH as u8 {
                let bytes = settled(&[round.wrapping_mul(31) ^ block; BLOCK_BYTES]);
                queue.push(write(&device, at(block), bytes)).unwrap();
            }
            assert_eq!(finish(queue).len(), DEPTH as usize);
            let mut blocks = std::collections::HashMap::new();
            for block in 0..DEPTH as u8 {
                blocks.insert(queue.push(read(&device, at(block), BLOCK_BYTES)).unwrap(), block);
            }
            for completion in finish(queue) {
                let block = blocks.remove(&completion.token).unwrap();
                assert_eq!(bytes_read(completion), [round.wrapping_mul(31) ^ block; BLOCK_BYTES]);
            }
        }
    });
}

#[test]
fn a_full_queue_gives_the_operation_back() {
    each(|queue| {
        let device = device(1 << 20);
        for _ in 0..DEPTH {
            queue.push(read(&device, 0, BLOCK_BYTES)).unwrap();
        }
        let refused = queue.push(write(&device, 0, settled(b"kept"))).unwrap_err();
        assert_eq!(refused.why, Unqueued::Full);
        assert!(matches!(refused.operation, Operation::Write { bytes, .. } if bytes.starts_with(b"kept")));
        assert_eq!(finish(queue).len(), DEPTH as usize);
        assert_eq!(one(queue, read(&device, 0, BLOCK_BYTES)).result.unwrap(), BLOCK_BYTES);
    });
}

#[test]
fn ranges_that_nothing_can_serve_are_refused_at_once() {
    each(|queue| {
        let device = device(1 << 20);
        let file = || Arc::clone(device.writer());
        let wrong = [
            Operation::Read { file: file(), offset: 0, len: 4097, into: room(4096) },
            Operation::Read { file: file(), offset: 0, len: 0, into: room(4096) },
            Operation::Read { file: file(), offset: u64::MAX, len: 1, into: room(4096) },
            Operation::Load { file: file(), offset: 0, len: crate::operation::OPERATION_BYTES_MAX + 1 },
            Operation::ZeroRange { file: file(), offset: i64::MAX as u64, len: 1 },
            Operation::WriteVectored { file: file(), offset: 0, parts: vec![].into() },
            Operation::WriteVectored {
                file: file(),
                offset: 0,
                parts: vec![Bytes::from_static(b"."); 1025].into(),
            },
        ];
        for operation in wrong {
            assert_eq!(queue.push(operation).unwrap_err().why, Unqueued::Range);
        }
        assert_eq!(queue.in_flight(), 0);
    });
}

#[test]
fn the_end_of_the_file_makes_a_read_short() {
    each(|queue| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&pattern(5000)).unwrap();
        let file = Arc::new(file);
        for (offset, expected) in [(0, 5000), (4096, 904), (5000, 0), (9000, 0)] {
            let into = room(8192);
            let operation = Operation::Read { file: Arc::clone(&file), offset, len: 8192, into };
            let got = bytes_read(one(queue, operation));
            assert_eq!(got, &pattern(5000)[5000 - expected..], "at {offset}");
        }
    });
}

#[test]
fn an_error_comes_with_its_buffer() {
    each(|queue| {
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let failed = one(queue, Operation::Write { file, offset: 0, bytes: settled(b"mine") });
        assert_eq!(failed.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert!(matches!(failed.operation, Operation::Write { bytes, .. } if bytes.starts_with(b"mine")));
    });
}

#[test]
fn a_loaded_range_is_resident_and_a_forgotten_one_is_not() {
    each(|queue| {
        let device = device(4 << 20);
        one(queue, write(&device, 0, settled(&pattern(4 << 20)))).result.unwrap();
        one(queue, Operation::Sync { file: Arc::clone(device.writer()) }).result.unwrap();
        let file = || Arc::clone(device.buffered());
        one(queue, Operation::Forget { file: file(), offset: 0, len: 4 << 20 }).result.unwrap();
        for (offset, len) in [(0, 64 << 10), (1 << 20, 1 << 20), (2 << 20, (2 << 20) - 4096)] {
            if device.resident(offset, len as u64) {
                return println!("NOT RUN: /var/tmp is memory");
            }
            assert!(brings_in(queue, &device, offset, len), "{len} bytes at {offset} were not brought in");
        }
    });
}

/// Whether a load leaves all pages in the page cache. The kernel may take one away again at any moment, so several are tried: what
/// a load leaves out, each of them does.
fn brings_in(queue: &mut dyn Queue, device: &Device, offset: u64, len: usize) -> bool {
    (0..5).any(|_| {
        let file = Arc::clone(device.buffered());
        one(queue, Operation::Load { file, offset, len }).result.unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(1);
        std::iter::repeat_with(|| device.resident(offset, len as u64))
            .take_while(|_| std::time::Instant::now() < until)
            .any(|is_resident| is_resident)
    })
}

/// Loop devices take about 1 MiB of one request: the rest must be asked for again.
#[test]
fn a_load_larger_than_the_kernel_takes_at_once_is_complete() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("device");
    crate::device::create_preallocated(&path, 8 << 20).unwrap();
    let Some(disk) = crate::testing::Loop::over(&path) else {
        return println!("NOT RUN: needs root");
    };
    let device = Device::open(&disk.path, true).unwrap();
    each(|queue| {
        let file = || Arc::clone(device.buffered());
        one(queue, Operation::Forget { file: file(), offset: 0, len: 8 << 20 }).result.unwrap();
        assert!(!device.resident(0, 8 << 20));
        assert!(brings_in(queue, &device, 0, 8 << 20), "some of it was not brought in");
    });
}

#[test]
fn a_zeroed_range_reads_as_zeroes() {
    each(|queue| {
        let device = device(2 << 20);
        one(queue, write(&device, 0, settled(&[7; 2 << 20]))).result.unwrap();
        let file = Arc::clone(device.writer());
        let zeroed = one(queue, Operation::ZeroRange { file, offset: 1 << 20, len: 1 << 20 });
        if matches!(&zeroed.result, Err(error) if error.kind() == io::ErrorKind::Unsupported) {
            return println!("NOT RUN: no ZERO_RANGE here");
        }
        zeroed.result.unwrap();
        assert!(bytes_read(one(queue, read(&device, 1 << 20, 1 << 20))).iter().all(|&byte| byte == 0));
        assert_eq!(bytes_read(one(queue, read(&device, 0, 4096))), [7; 4096]);
    });
}

#[test]
fn the_descriptor_is_readable_exactly_while_completions_wait() {
    each(|queue| {
        let device = device(1 << 20);
        assert!(!rings(queue, 0));
        queue.push(read(&device, 0, BLOCK_BYTES)).unwrap();
        queue.submit().unwrap();
        assert!(rings(queue, 10_000));
        assert_eq!(queue.reap(&mut drop).unwrap(), 1);
        assert!(!rings(queue, 0));
    });
}

#[test]
fn dropping_a_queue_waits_for_what_was_pushed() {
    fn claim(mut queue: impl Queue) {
        let device = device(8 << 20);
        for block in 0..DEPTH.into() {
            queue.push(write(&device, block << 20, settled(&pattern(1 << 20)))).unwrap();
        }
        drop(queue);
        let mut back = vec![0; 1 << 20];
        for block in 0..DEPTH.into() {
            device.read_at(block << 20, &mut back).unwrap();
            assert!(back == pattern(1 << 20));
        }
    }
    claim(Pool::new(DEPTH, 1).unwrap());
    match Ring::new(DEPTH) {
        Ok(ring) => claim(ring),
        Err(refused) => println!("NOT RUN over a ring: {refused}"),
    }
}

/// A ring and a pipe: a read that lasts as long as the test wants.
fn slow_read(budget: &BufferBudget, len: usize) -> Option<(Ring, Token, File)> {
    let mut ring = match Ring::new(DEPTH) {
        Ok(ring) => ring,
        Err(refused) => {
            println!("NOT RUN over a ring: {refused}");
            return None;
        }
    };
    let (from, to) = rustix::pipe::pipe().unwrap();
    let (into, _) = budget.try_take(len).unwrap().split();
    let file = Arc::new(File::from(from));
    let token = ring.push(Operation::Read { file, offset: 0, len, into }).unwrap();
    ring.submit().unwrap();
    Some((ring, token, File::from(to)))
}

#[test]
fn an_abandoned_read_keeps_its_buffer_until_the_kernel_is_done_with_it() {
    let budget = BufferBudget::new(1 << 20, 1 << 20);
    let Some((mut ring, token, mut to)) = slow_read(&budget, 4096) else { return };
    ring.abandon(token);
    assert_eq!(ring.reap(&mut |_| panic!("nobody waits")).unwrap(), 0);
    assert_eq!(budget.usage().taken_bytes, 4096, "given back while the kernel holds it");
    // A buffer taken now is another one, and the late bytes do not reach it.
    let (mut other, _) = budget.try_take(4096).unwrap().split();
    other.unfilled().fill(0x11);
    to.write_all(b"late").unwrap();
    assert!(rings(&ring, 10_000));
    assert_eq!(ring.reap(&mut |_| panic!("nobody waits")).unwrap(), 0);
    assert_eq!((ring.in_flight(), budget.usage().taken_bytes), (0, 4096));
    assert!(other.unfilled().iter().all(|&byte| byte == 0x11));
}

#[test]
fn the_drop_of_a_ring_waits_for_the_kernel() {
    let budget = BufferBudget::new(1 << 20, 0);
    let Some((ring, _, mut to)) = slow_read(&budget, 4096) else { return };
    let late = std::thread::spawn({
        let budget = budget.clone();
        move || {
            std::thread::sleep(Duration::from_millis(50));
            let held = budget.usage().taken_bytes;
            to.write_all(b"late").unwrap();
            held
        }
    });
    drop(ring);
    assert_eq!(budget.usage().taken_bytes, 0);
    assert_eq!(late.join().unwrap(), 4096, "the buffer went before its bytes came");
}

#[test]
fn a_ring_goes_on_where_the_kernel_stopped_short() {
    let budget = BufferBudget::new(1 << 20, 0);
    let Some((mut ring, _, mut to)) = slow_read(&budget, 1536) else { return };
    let (mut answers, body) = (Vec::new(), pattern(1536));
    for part in body.chunks(512) {
        assert!(answers.is_empty(), "a piece was taken for the whole");
        to.write_all(part).unwrap();
        assert!(rings(&ring, 10_000));
        ring.reap(&mut |completion| answers.push(completion)).unwrap();
    }
    assert_eq!(bytes_read(answers.remove(0)), body);

    // A pipe holds less than this: the write is cut and goes on as the pipe is emptied.
    let (from, to) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&to, 16 << 10).unwrap();
    let reader = std::thread::spawn(move || {
        let mut got = vec![0; 60 << 10];
        File::from(from).read_exact(&mut got).map(|()| got)
    });
    let body = pattern(60 << 10);
    let file = Arc::new(File::from(to));
    let written = one(&mut ring, Operation::Write { file, offset: 0, bytes: settled(&body) });
    assert_eq!(written.result.unwrap(), 60 << 10);
    assert!(reader.join().unwrap().unwrap() == body);
}
