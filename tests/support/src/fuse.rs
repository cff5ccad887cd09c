//! As much of the FUSE protocol (7.31, `include/uapi/linux/fuse.h`) as one file in one directory needs.
//!
//! Requests are read from `/dev/fuse`, answers written to it. What the bytes of the file are, and when they come, is the
//! caller's affair ([`Served`]).

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const ROOT: u64 = 1;
const FILE: u64 = 2;

/// The largest read or write that the kernel sends.
const TRANSFER_BYTES: u32 = 1 << 20;

const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// The name of the file in its directory.
pub(crate) const NAME: &str = "disk";

/// One request for bytes.
pub(crate) enum Request {
    Read { offset: u64, len: usize },
    Write { offset: u64, bytes: Vec<u8> },
    Sync,
}

/// Whoever answers requests for bytes, now or later or never.
pub(crate) trait Served: Send + Sync + 'static {
    /// Takes a request over.
    fn request(self: Arc<Self>, request: Request, answer: Answer);
    /// Bytes of the file.
    fn size(&self) -> u64;
}

/// The place for the answer to one request. Dropped: none ever comes.
pub(crate) struct Answer {
    device: Arc<File>,
    unique: u64,
}

impl Answer {
    /// `Err`: an error number.
    pub(crate) fn give(self, result: Result<&[u8], i32>) {
        reply(&self.device, self.unique, result);
    }

    /// A write of so many bytes was done.
    pub(crate) fn written(self, len: u32) {
        let out = [len.to_ne_bytes(), [0; 4]].concat();
        reply(&self.device, self.unique, Ok(&out));
    }
}

/// A mounted filesystem. The kernel answers everything with an error once it is gone.
pub(crate) struct Mount {
    at: CString,
}

impl Mount {
    /// Mounts at `directory` and serves until the mount goes.
    pub(crate) fn new(directory: &Path, served: Arc<impl Served>) -> Result<Mount, String> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = device.map_err(|e| format!("/dev/fuse: {e}"))?;
        let at = CString::new(directory.as_os_str().as_encoded_bytes()).map_err(|e| e.to_string())?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).map_err(|e| e.to_string())?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tidegate-test", &at, "fuse", flags, &*options).map_err(|e| format!("mount: {e}"))?;
        let device = Arc::new(device);
        std::thread::spawn(move || serve(&device, &served));
        Ok(Mount { at })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Force: what was never answered is answered with an error now.
        let _ = unmount(&*self.at, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// Reads requests until the kernel says that there will be none.
fn serve(device: &Arc<File>, served: &Arc<impl Served>) {
    let mut buffer = vec![0; TRANSFER_BYTES as usize + 4096];
    loop {
        match rustix::io::read(&**device, &mut buffer) {
            Ok(len) => dispatch(device, served, &buffer[..len]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN | rustix::io::Errno::NOENT) => {}
            Err(_) => return,
        }
    }
}

fn dispatch(device: &Arc<File>, served: &Arc<impl Served>, message: &[u8]) {
    let (opcode, unique, node) = (u32_at(message, 4), u64_at(message, 8), u64_at(message, 16));
    let body = &message[40..];
    let size = served.size();
    let answer = |result: Result<&[u8], i32>| reply(device, unique, result);
    let hand_over = |request| {
        Arc::clone(served).request(request, Answer { device: Arc::clone(device), unique });
    };
    match opcode {
        1 if node == ROOT && body.strip_suffix(b"\0") == Some(NAME.as_bytes()) => {
            answer(Ok(&entry(size)));
        }
        1 => answer(Err(ENOENT)),
        // FORGET, INTERRUPT, BATCH_FORGET: nobody waits for an answer.
        2 | 36 | 42 => {}
        3 => answer(Ok(&[&[0; 16][..], &attributes(node, size)].concat())),
        14 | 27 => answer(Ok(&open_out())),
        15 => hand_over(Request::Read { offset: u64_at(body, 8), len: u32_at(body, 16) as usize }),
        16 => {
            let len = u32_at(body, 16) as usize;
            hand_over(Request::Write { offset: u64_at(body, 8), bytes: body[40..40 + len].to_vec() });
        }
        17 => answer(Ok(&[0; 80])),
        // RELEASE, FLUSH, RELEASEDIR, DESTROY.
        18 | 25 | 29 | 38 => answer(Ok(&[])),
        20 => hand_over(Request::Sync),
        26 => answer(Ok(&init_out(u32_at(body, 8)))),
        _ => answer(Err(ENOSYS)),
    }
}

fn reply(mut device: &File, unique: u64, result: Result<&[u8], i32>) {
    use std::io::Write as _;
    let (error, body) = match result {
        Ok(body) => (0, body),
        Err(number) => (-number, &[][..]),
    };
    let len = 16 + body.len() as u32;
    let out = [&len.to_ne_bytes()[..], &error.to_ne_bytes(), &unique.to_ne_bytes(), body].concat();
    // Refused where whoever asked is gone.
    let _ = device.write(&out);
}

/// `fuse_init_out`: asynchronous reads and direct I/O, transfers of a mebibyte, enough under way at once.
fn init_out(max_readahead: u32) -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const ASYNC_DIO: u32 = 1 << 15;
    const MAX_PAGES: u32 = 1 << 22;
    let flags = ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES;
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_ne_bytes()).collect::<Vec<u8>>();
    let pages = (TRANSFER_BYTES / 4096) as u16;
    let mut out = words(&[7, 31, max_readahead, flags]);
    out.extend(halves(&[256, 192]));
    out.extend(words(&[TRANSFER_BYTES, 1]));
    out.extend(halves(&[pages, 0]));
    out.resize(64, 0);
    out
}

/// `fuse_open_out`.
fn open_out() -> Vec<u8> {
    const KEEP_CACHE: u32 = 1 << 1;
    const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    let mut out = vec![0; 8];
    out.extend((KEEP_CACHE | PARALLEL_DIRECT_WRITES).to_ne_bytes());
    out.resize(16, 0);
    out
}

/// `fuse_entry_out` of the file, valid for an hour.
fn entry(size: u64) -> Vec<u8> {
    let mut out: Vec<u8> = [FILE, 0, 3600, 3600].iter().flat_map(|word| word.to_ne_bytes()).collect();
    out.extend([0; 8]);
    out.extend(attributes(FILE, size));
    out
}

/// `fuse_attr`.
fn attributes(node: u64, size: u64) -> Vec<u8> {
    let (mode, links) = if node == ROOT { (0o40755, 2) } else { (0o100_600, 1) };
    let long = [node, size, size / 512, 0, 0, 0];
    let short = [0_u32, 0, 0, mode, links, 0, 0, 0, 4096, 0];
    let mut out: Vec<u8> = long.iter().flat_map(|word| word.to_ne_bytes()).collect();
    out.extend(short.iter().flat_map(|word| word.to_ne_bytes()));
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
