//! Compares the ways in which a stored body that is not in memory can reach a socket, on the code of this crate.
//!
//! ```text
//! cargo run --release -p sys --example reads [DIR] > bench/results/reads.md
//! ```
//!
//! Owns a file of [`FILE_BYTES`] in `DIR` (`/var/tmp`) and, for root, a loop device over a second one. For each way and size,
//! bodies at places in a fixed random order are read and sent to a socket whose far end throws the bytes away: first one at a
//! time (latency), then [`DEPTH`] side by side (bodies per second, CPU). What must hold: cold means that no page of the file is in
//! memory when a run starts, and that no place is read twice in it; every byte asked for is sent, or the run is a panic.
#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, types};
use sys::aligned::{AlignedBuffer, Reader};
use sys::arena::Arena;
use sys::budget::BufferBudget;
use sys::device::Device;
use sys::operation::Operation;
use sys::queue::Queue;
use sys::uring::Ring;

const MIB: usize = 1 << 20;
const FILE_BYTES: usize = 512 * MIB;
const SIZES: [usize; 3] = [16 << 10, 64 << 10, MIB];
const DEPTH: usize = 16;
/// Bodies of a run with one at a time, and with many: as many as the file has, but no more.
const RUNS: (usize, usize) = (400, 4000);
const ROUNDS: usize = 3;

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp".into());
    let home = tempfile::tempdir_in(dir).unwrap();
    println!(
        "# The ways of a cold body\n\n`cargo run --release -p sys --example reads > bench/results/reads.md`\n"
    );
    let (kernel, cpus) = (kernel(), cpus());
    println!(
        "Linux {kernel}, {cpus} CPUs. Medians of {ROUNDS} interleaved rounds. CPU and bodies/s: {DEPTH} bodies at a time;"
    );
    println!(
        "latency: one at a time, from asking to the last byte handed to a socket. The first two ways are warm, as a"
    );
    println!(
        "measure for the others. What was decided with these: [0011](../../docs/decisions/0011-reads.md).\n"
    );
    println!(
        "| device | size | way | network thread, µs a body | all threads, µs a body | latency p50, µs | p99, µs | bodies/s at {DEPTH} |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let path = home.path().join("file");
    compare("file", &path, &filled(&path));
    let backing = home.path().join("disk");
    drop(filled(&backing));
    match Loop::over(&backing) {
        Some(disk) => compare("loop device", &disk.0, &Device::open(&disk.0, true).unwrap()),
        None => println!("\nNOT RUN: loop device: needs root and losetup"),
    }
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}

/// A file whose every block differs, written past the page cache.
fn filled(path: &Path) -> Device {
    sys::device::create_preallocated(path, FILE_BYTES as u64).unwrap();
    let device = Device::open(path, true).unwrap();
    let mut ring = Ring::new(4).unwrap();
    for at in (0..FILE_BYTES).step_by(MIB) {
        let (mut writer, reader) = AlignedBuffer::new(MIB).unwrap().split();
        let block: Vec<u8> =
            (0..MIB).map(|i| (((at + i) / 512).wrapping_mul(2_654_435_761) >> 7) as u8).collect();
        writer.put(&block);
        writer.finish();
        let bytes = reader.settled_padded().unwrap().into();
        ring.push(Operation::Write { file: Arc::clone(device.writer()), offset: at as u64, bytes }).unwrap();
        finish(&mut ring, 1);
    }
    device.sync().unwrap();
    device
}

fn finish(ring: &mut Ring, count: usize) {
    ring.submit().unwrap();
    let mut done = 0;
    while done < count {
        sys::queue::wait(ring).unwrap();
        ring.reap(&mut |completion| {
            completion.result.unwrap();
            done += 1;
        })
        .unwrap();
    }
}

struct Loop(std::path::PathBuf);

impl Loop {
    fn over(backing: &Path) -> Option<Self> {
        let mut losetup = std::process::Command::new("losetup");
        let made = losetup.args(["--find", "--show", "--direct-io=on"]).arg(backing).output().ok()?;
        let path = String::from_utf8(made.stdout).ok()?;
        made.status.success().then(|| Self(path.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

fn compare(name: &str, path: &Path, device: &Device) {
    for size in SIZES {
        let mut rows: Vec<(&str, Vec<Measured>)> = WAYS.iter().map(|(way, _)| (*way, Vec::new())).collect();
        for _ in 0..ROUNDS {
            for ((_, make), (_, measured)) in WAYS.iter().zip(&mut rows) {
                measured.push(measure(path, device, size, *make));
            }
        }
        for (way, measured) in rows {
            let m = median(&measured);
            eprintln!("{name} {size} {way} {m:?}");
            let Measured { thread, all, p50, p99, rate } = m;
            println!(
                "| {name} | {} KiB | {way} | {thread:.1} | {all:.1} | {p50:.0} | {p99:.0} | {rate:.0} |",
                size >> 10
            );
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Measured {
    thread: f64,
    all: f64,
    p50: f64,
    p99: f64,
    rate: f64,
}

fn median(of: &[Measured]) -> Measured {
    let middle = |field: fn(&Measured) -> f64| {
        let mut values: Vec<f64> = of.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Measured {
        thread: middle(|m| m.thread),
        all: middle(|m| m.all),
        p50: middle(|m| m.p50),
        p99: middle(|m| m.p99),
        rate: middle(|m| m.rate),
    }
}

fn measure(path: &Path, device: &Device, size: usize, make: Make) -> Measured {
    let mut way = make(path, device, size);
    let socket = Socket::new();
    let places = shuffled(FILE_BYTES / size);
    let (few, many) = (RUNS.0.min(places.len() / 4), RUNS.1.min(places.len() / 2));
    way.prepare(device, &places[..few], size);
    let mut took: Vec<f64> = Vec::new();
    for &place in &places[..few] {
        let begun = Instant::now();
        way.start(0, (place * size) as u64);
        let slot = way.wait();
        way.send(slot, &socket);
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    let rest = &places[few..few + many];
    way.prepare(device, rest, size);
    let (thread, all, begun) = (cpu(libc::CLOCK_THREAD_CPUTIME_ID), socket.cpu_of_others(), Instant::now());
    let mut todo: VecDeque<usize> = rest.iter().copied().collect();
    for slot in 0..DEPTH {
        way.start(slot, (todo.pop_front().unwrap() * size) as u64);
    }
    for _ in 0..many {
        let slot = way.wait();
        way.send(slot, &socket);
        if let Some(place) = todo.pop_front() {
            way.start(slot, (place * size) as u64);
        }
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / many as f64;
    Measured {
        thread: each(cpu(libc::CLOCK_THREAD_CPUTIME_ID) - thread),
        all: each(socket.cpu_of_others() - all),
        p50: took[took.len() / 2],
        p99: took[took.len() * 99 / 100],
        rate: many as f64 / begun.elapsed().as_secs_f64(),
    }
}

fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order
}

fn cpu(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime requires a clock that exists and room for the time.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The near end of a connection whose far end throws everything away, on a thread of its own.
struct Socket {
    near: TcpStream,
    client: libc::clockid_t,
}

impl Socket {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        near.set_nodelay(true).unwrap();
        near.set_nonblocking(true).unwrap();
        let thread = std::thread::spawn(move || {
            let mut nowhere = vec![0; MIB];
            while rustix::net::recv(&far, &mut nowhere[..], rustix::net::RecvFlags::TRUNC)
                .is_ok_and(|(_, n)| n > 0)
            {}
        });
        let mut client = 0;
        // SAFETY: pthread_getcpuclockid requires a thread that runs: it does until `near` is closed.
        assert_eq!(unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut client) }, 0);
        Self { near, client }
    }

    /// CPU of the process, helpers of the kernel's included, but for the client's thread.
    fn cpu_of_others(&self) -> Duration {
        cpu(libc::CLOCK_PROCESS_CPUTIME_ID) - cpu(self.client)
    }

    fn writable(&self) {
        use rustix::event::{PollFd, PollFlags, poll};
        poll(&mut [PollFd::new(&self.near, PollFlags::OUT)], None).unwrap();
    }

    fn all(&self, mut once: impl FnMut(&TcpStream) -> std::io::Result<bool>) {
        loop {
            match once(&self.near) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.writable(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn bytes(&self, bytes: &[u8]) {
        let mut sent = 0;
        self.all(|mut near| {
            sent += near.write(&bytes[sent..])?;
            Ok(sent == bytes.len())
        });
    }

    fn file(&self, file: &File, offset: u64, len: usize) {
        let (mut at, end) = (offset, offset + len as u64);
        self.all(|near| {
            let left = (end - at) as usize;
            assert!(sys::sendfile::sendfile(near, file, &mut at, left)? > 0);
            Ok(at == end)
        });
    }
}

/// A way from device to socket, with up to [`DEPTH`] bodies under way in slots.
trait Way {
    fn prepare(&mut self, device: &Device, _places: &[usize], _size: usize) {
        device.advise_dontneed(0, FILE_BYTES as u64).unwrap();
        assert!(!device.resident(0, FILE_BYTES as u64));
    }
    fn start(&mut self, slot: usize, offset: u64);
    /// Waits until one is ready to be sent.
    fn wait(&mut self) -> usize;
    fn send(&mut self, slot: usize, socket: &Socket);
}

type Make = fn(&Path, &Device, usize) -> Box<dyn Way>;

const WAYS: [(&str, Make); 11] = [
    ("`sendfile`, resident", |_, device, size| Box::new(Resident::new(device, size))),
    ("own memory, warm", |_, _, size| Box::new(Memory::new(size))),
    ("ring load, `sendfile`", |_, device, size| Box::new(Load::new(device, size))),
    ("ring `SPLICE`, `splice`", |_, device, size| Box::new(Spliced::new(device, size))),
    ("helper thread, `sendfile`", |_, device, size| Box::new(Helped::new(device, size))),
    ("ring direct `READ`, fresh memory", |_, device, size| Box::new(Direct::new(device, size, 0))),
    ("ring direct `READ`, `send`", |_, device, size| Box::new(Direct::new(device, size, 64 * MIB))),
    ("the same, large pages", |_, device, size| Box::new(Fixed::new(device, size, false, true))),
    ("ring direct `READ_FIXED`, `send`", |_, device, size| Box::new(Fixed::new(device, size, true, false))),
    ("the same, large pages", |_, device, size| Box::new(Fixed::new(device, size, true, true))),
    ("the same by this crate's arena", |_, device, size| Box::new(Direct::from_arena(device, size))),
];

/// What is ready at once, in the order of asking.
#[derive(Default)]
struct AtOnce(VecDeque<usize>, Vec<u64>);

impl AtOnce {
    fn start(&mut self, slot: usize, offset: u64) {
        self.1.resize(DEPTH, 0);
        self.1[slot] = offset;
        self.0.push_back(slot);
    }
}

struct Resident {
    file: Arc<File>,
    size: usize,
    asked: AtOnce,
}

impl Resident {
    fn new(device: &Device, size: usize) -> Self {
        Self { file: Arc::clone(device.buffered()), size, asked: AtOnce::default() }
    }
}

impl Way for Resident {
    fn prepare(&mut self, device: &Device, places: &[usize], size: usize) {
        let mut bytes = vec![0; size];
        places.iter().for_each(|place| device.read_at((place * size) as u64, &mut bytes).unwrap());
    }
    fn start(&mut self, slot: usize, offset: u64) {
        self.asked.start(slot, offset);
    }
    fn wait(&mut self) -> usize {
        self.asked.0.pop_front().unwrap()
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        socket.file(&self.file, self.asked.1[slot], self.size);
    }
}

/// From a warm set of 64 MiB, each place's bytes at a place of their own in it.
struct Memory {
    bytes: Vec<u8>,
    size: usize,
    asked: AtOnce,
}

impl Memory {
    fn new(size: usize) -> Self {
        Self { bytes: vec![7; 64 * MIB], size, asked: AtOnce::default() }
    }
}

impl Way for Memory {
    fn prepare(&mut self, _: &Device, _: &[usize], _: usize) {}
    fn start(&mut self, slot: usize, offset: u64) {
        self.asked.start(slot, offset);
    }
    fn wait(&mut self) -> usize {
        self.asked.0.pop_front().unwrap()
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        let at = self.asked.1[slot] as usize % self.bytes.len();
        socket.bytes(&self.bytes[at..at + self.size]);
    }
}

/// What the ring of this crate has under way, by slot.
struct Under {
    ring: Ring,
    tokens: Vec<Option<sys::queue::Token>>,
    done: VecDeque<usize>,
}

impl Under {
    fn new(ring: Ring) -> Self {
        Self { ring, tokens: vec![None; DEPTH], done: VecDeque::new() }
    }
    fn start(&mut self, slot: usize, operation: Operation) {
        self.tokens[slot] = Some(self.ring.push(operation).unwrap());
        self.ring.submit().unwrap();
    }
    fn wait(&mut self) -> usize {
        let Self { ring, tokens, done } = self;
        while done.is_empty() {
            sys::queue::wait(ring).unwrap();
            ring.reap(&mut |completion| {
                completion.result.unwrap();
                done.extend(tokens.iter().position(|token| *token == Some(completion.token)));
            })
            .unwrap();
        }
        done.pop_front().unwrap()
    }
}

struct Load {
    under: Under,
    file: Arc<File>,
    size: usize,
    offsets: Vec<u64>,
}

impl Load {
    fn new(device: &Device, size: usize) -> Self {
        Self {
            under: Under::new(Ring::new(64).unwrap()),
            file: Arc::clone(device.buffered()),
            size,
            offsets: vec![0; DEPTH],
        }
    }
}

impl Way for Load {
    fn start(&mut self, slot: usize, offset: u64) {
        self.offsets[slot] = offset;
        self.under.start(slot, Operation::Load { file: Arc::clone(&self.file), offset, len: self.size });
    }
    fn wait(&mut self) -> usize {
        self.under.wait()
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        socket.file(&self.file, self.offsets[slot], self.size);
    }
}

struct Direct {
    under: Under,
    file: Arc<File>,
    size: usize,
    take: Box<dyn Fn(usize) -> AlignedBuffer>,
    readers: Vec<Option<Reader>>,
}

impl Direct {
    /// Buffers that come back are used again up to `keep_bytes`.
    fn new(device: &Device, size: usize, keep_bytes: usize) -> Self {
        let budget = BufferBudget::new(64 * MIB, keep_bytes);
        Self::over(device, size, Ring::new(64).unwrap(), Box::new(move |len| budget.try_take(len).unwrap()))
    }

    fn from_arena(device: &Device, size: usize) -> Self {
        let arena = Arena::new(64 * MIB).unwrap();
        arena.populate(2 * DEPTH * MIB);
        let ring = Ring::with_arena(64, &arena).unwrap();
        Self::over(device, size, ring, Box::new(move |len| arena.try_take(len).unwrap()))
    }

    fn over(device: &Device, size: usize, ring: Ring, take: Box<dyn Fn(usize) -> AlignedBuffer>) -> Self {
        let readers = (0..DEPTH).map(|_| None).collect();
        Self { under: Under::new(ring), file: Arc::clone(device.writer()), size, take, readers }
    }
}

impl Way for Direct {
    fn start(&mut self, slot: usize, offset: u64) {
        let (into, reader) = (self.take)(self.size).split();
        self.readers[slot] = Some(reader);
        self.under
            .start(slot, Operation::Read { file: Arc::clone(&self.file), offset, len: self.size, into });
    }
    fn wait(&mut self) -> usize {
        self.under.wait()
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        let reader = self.readers[slot].take().unwrap();
        assert_eq!(reader.filled().len(), self.size);
        socket.bytes(reader.filled());
    }
}

/// A bare ring over one mapping of its own, a stretch of it for each slot.
struct Fixed {
    ring: IoUring,
    file: Arc<File>,
    start: *mut u8,
    size: usize,
    registered: bool,
}

impl Fixed {
    fn new(device: &Device, size: usize, registered: bool, large_pages: bool) -> Self {
        let len = DEPTH * MIB;
        // SAFETY: mmap without a fixed address takes free space; madvise is given what mmap gave; the buffer that is registered
        // stays mapped for ever (this is a tool).
        let (ring, start) = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), len + 2 * MIB, 3, flags, -1, 0).cast::<u8>();
            let start = start.add(start.align_offset(2 * MIB));
            if large_pages {
                assert_eq!(libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE), 0);
            }
            std::ptr::write_bytes(start, 1, len);
            let ring: IoUring =
                IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(64).unwrap();
            if registered {
                let all = libc::iovec { iov_base: start.cast(), iov_len: len };
                ring.submitter().register_buffers(&[all]).unwrap();
            }
            (ring, start)
        };
        Self { ring, file: Arc::clone(device.writer()), start, size, registered }
    }
}

impl Way for Fixed {
    fn start(&mut self, slot: usize, offset: u64) {
        let (fd, len) = (types::Fd(self.file.as_raw_fd()), self.size as u32);
        // SAFETY: the stretch of a slot is used by one operation at a time, and stays mapped.
        unsafe {
            let into = self.start.add(slot * MIB);
            let entry = match self.registered {
                true => opcode::ReadFixed::new(fd, into, len, 0).offset(offset).build(),
                false => opcode::Read::new(fd, into, len).offset(offset).build(),
            };
            self.ring.submission().push(&entry.user_data(slot as u64)).unwrap();
        }
        self.ring.submit().unwrap();
    }
    fn wait(&mut self) -> usize {
        next_of(&mut self.ring, self.size)
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        // SAFETY: the read into this slot is over, and the next one starts after this.
        socket.bytes(unsafe { std::slice::from_raw_parts(self.start.add(slot * MIB), self.size) });
    }
}

/// The slot of the next completion, waited for as a runtime does.
fn next_of(ring: &mut IoUring, size: usize) -> usize {
    loop {
        if ring.submission().taskrun() {
            ring.submit().unwrap();
        }
        if let Some(entry) = ring.completion().next() {
            assert_eq!(entry.result(), size as i32);
            return entry.user_data() as usize;
        }
        use rustix::event::{PollFd, PollFlags, poll};
        // SAFETY: the ring is open for the whole call.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.as_raw_fd()) };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
    }
}

/// A pipe for each slot, large enough for a body.
struct Spliced {
    ring: IoUring,
    file: Arc<File>,
    size: usize,
    pipes: Vec<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)>,
}

impl Spliced {
    fn new(device: &Device, size: usize) -> Self {
        let pipe = |_| {
            let (from, to) = rustix::pipe::pipe().unwrap();
            rustix::pipe::fcntl_setpipe_size(&to, MIB).unwrap();
            (from, to)
        };
        let pipes = (0..DEPTH).map(pipe).collect();
        Self { ring: IoUring::new(64).unwrap(), file: Arc::clone(device.buffered()), size, pipes }
    }
}

impl Way for Spliced {
    fn start(&mut self, slot: usize, offset: u64) {
        let (from, to) = (types::Fd(self.file.as_raw_fd()), types::Fd(self.pipes[slot].1.as_raw_fd()));
        let entry = opcode::Splice::new(from, offset as i64, to, -1, self.size as u32).build();
        // SAFETY: file and pipes are open for as long as the ring.
        unsafe { self.ring.submission().push(&entry.user_data(slot as u64)).unwrap() };
        self.ring.submit().unwrap();
    }
    fn wait(&mut self) -> usize {
        next_of(&mut self.ring, self.size)
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        let mut left = self.size;
        socket.all(|near| {
            let flags = rustix::pipe::SpliceFlags::MOVE;
            left -= rustix::pipe::splice(&self.pipes[slot].0, None, near, None, left, flags)?;
            Ok(left == 0)
        });
    }
}

/// Threads that read through the page cache and ring a bell, as many as are under way.
struct Helped {
    file: Arc<File>,
    size: usize,
    offsets: Vec<u64>,
    jobs: Vec<Sender<u64>>,
    done: Receiver<usize>,
    bell: std::os::fd::OwnedFd,
}

impl Helped {
    fn new(device: &Device, size: usize) -> Self {
        let file = Arc::clone(device.buffered());
        let (tell, done) = channel();
        let (bell, rope) = rustix::pipe::pipe().unwrap();
        let rope = Arc::new(rope);
        let jobs = (0..DEPTH).map(|slot| {
            let (give, take) = channel::<u64>();
            let (file, tell, rope) = (Arc::clone(&file), tell.clone(), Arc::clone(&rope));
            std::thread::spawn(move || {
                let mut bytes = vec![0; size.min(256 << 10)];
                for offset in take {
                    for at in (0..size).step_by(bytes.len()) {
                        std::os::unix::fs::FileExt::read_exact_at(&*file, &mut bytes, offset + at as u64)
                            .unwrap();
                    }
                    if tell.send(slot).is_err() {
                        return;
                    }
                    rustix::io::write(rope.as_fd(), &[0]).unwrap();
                }
            });
            give
        });
        let jobs = jobs.collect();
        Self { file, size, offsets: vec![0; DEPTH], jobs, done, bell }
    }
}

impl Way for Helped {
    fn start(&mut self, slot: usize, offset: u64) {
        self.offsets[slot] = offset;
        self.jobs[slot].send(offset).unwrap();
    }
    fn wait(&mut self) -> usize {
        File::from(self.bell.try_clone().unwrap()).read_exact(&mut [0]).unwrap();
        self.done.recv().unwrap()
    }
    fn send(&mut self, slot: usize, socket: &Socket) {
        socket.file(&self.file, self.offsets[slot], self.size);
    }
}
