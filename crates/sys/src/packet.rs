//! Frames of an interface, past the kernel's own TCP (`packet(7)`): sent in batches, received in a ring that is shared
//! with the kernel. For an instrument that offers more connections than ordinary sockets can; needs `CAP_NET_RAW`.
//!
//! What must hold: a received frame is read only between the kernel's handing it over and our giving it back, and one at a
//! time ([`Received`] borrows its [`Receiver`]); nothing here waits. Refuses to know what is in a frame.
//!
//! The receive ring is `TPACKET_V2` (`Documentation/networking/packet_mmap.rst` of the kernel): slots of one size, each
//! with a header whose status word says whose turn it is.
#![allow(unsafe_code)] // no safe wrapper offers packet sockets

use std::ffi::c_void;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use socket2::{SockFilter, SockRef};

/// The longest frame that is sent: an Ethernet header and 1500 bytes.
pub const FRAME_BYTES_MAX: usize = 1514;

/// Bytes of a received frame that are kept; the rest is known by its length only.
pub const SEEN_BYTES_MAX: usize = SLOT_BYTES - SLOT_HEAD_BYTES;

/// Frames that leave with one system call.
const BATCH: usize = 256;

/// Bytes of frames, with what the kernel needs around them, that may be on their way to a receiver: a burst of ten thousand
/// on a pair of virtual interfaces. With less right than `CAP_NET_ADMIN` the system's limit (`net.core.wmem_max`) holds.
const SEND_BYTES: i32 = 16 << 20;

/// Bytes of one slot of the ring; slots fill a block, so that none lies across two.
const SLOT_BYTES: usize = 1024;
const BLOCK_BYTES: usize = 1 << 18;
/// What precedes a frame in its slot: the kernel's header, a link-level address, and the padding that aligns what
/// follows the Ethernet header to 16 bytes.
const SLOT_HEAD_BYTES: usize = 96;

/// An interface, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    index: i32,
    /// Its own hardware address.
    pub mac: [u8; 6],
}

impl Interface {
    /// Looks it up in the network namespace of this process.
    ///
    /// # Errors
    /// `NotFound` where there is none of this name, `Unsupported` where it has no Ethernet address.
    pub fn named(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.contains('/') {
            return Err(io::ErrorKind::NotFound.into());
        }
        let attribute = |of| std::fs::read_to_string(format!("/sys/class/net/{name}/{of}"));
        let index = attribute("ifindex")?.trim().parse().map_err(|_| io::ErrorKind::Unsupported)?;
        let mac = parse_mac(attribute("address")?.trim()).ok_or(io::ErrorKind::Unsupported)?;
        Ok(Self { index, mac })
    }

    fn link_address(self, protocol: u16) -> libc::sockaddr_ll {
        // SAFETY: zeroed requires that all zeroes are a valid value: every field is an integer or an array of them.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        address
    }
}

/// Six bytes as `02:00:00:00:00:99`.
pub fn parse_mac(words: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut words = words.split(':');
    for byte in &mut bytes {
        *byte = words
            .next()
            .filter(|word| word.len() == 2 && word.chars().all(|c| c.is_ascii_hexdigit()))
            .and_then(|word| u8::from_str_radix(word, 16).ok())?;
    }
    words.next().is_none().then_some(bytes)
}

/// What became of the frames given to a [`Sender`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Taken by the interface.
    pub frames: u64,
    /// Refused by it: its queue was full, or it is down.
    pub refused: u64,
}

/// Sends frames as they are, in batches, past the queueing discipline.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    frames: Vec<[u8; FRAME_BYTES_MAX]>,
    lengths: [usize; BATCH],
    waiting: usize,
    sent: Sent,
}

impl Sender {
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; the kernel's.
    pub fn open(interface: Interface) -> io::Result<Self> {
        // Protocol 0: this socket receives nothing.
        let socket = open_socket()?;
        set_option(libc::SOL_PACKET, &socket, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        set_option(libc::SOL_SOCKET, &socket, libc::SO_SNDBUFFORCE, &SEND_BYTES)
            .or_else(|_| set_option(libc::SOL_SOCKET, &socket, libc::SO_SNDBUF, &SEND_BYTES))?;
        bind(&socket, &interface.link_address(0))?;
        let frames = vec![[0; FRAME_BYTES_MAX]; BATCH];
        Ok(Self { socket, frames, lengths: [0; BATCH], waiting: 0, sent: Sent::default() })
    }

    /// Adds a frame: `write` puts it into the buffer and says its length. A full batch leaves at once, the rest with
    /// [`flush`](Self::flush).
    pub fn push(&mut self, write: impl FnOnce(&mut [u8; FRAME_BYTES_MAX]) -> usize) {
        self.lengths[self.waiting] = write(&mut self.frames[self.waiting]).min(FRAME_BYTES_MAX);
        self.waiting += 1;
        if self.waiting == BATCH {
            self.flush();
        }
    }

    /// Sends what waits. What the interface does not take is counted and forgotten, as a wire would.
    pub fn flush(&mut self) {
        let mut done = 0;
        while done < self.waiting {
            match self.send(done..self.waiting) {
                Ok(count) => {
                    self.sent.frames += count as u64;
                    done += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.sent.refused += 1;
                    done += 1;
                }
            }
        }
        self.waiting = 0;
    }

    /// What became of all frames so far.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    fn send(&mut self, range: std::ops::Range<usize>) -> io::Result<usize> {
        let count = range.len();
        // SAFETY: zeroed requires that all zeroes are valid values: every field is an integer or a raw pointer.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut slices = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
        for (at, frame) in range.enumerate() {
            slices[at].iov_base = self.frames[frame].as_mut_ptr().cast();
            slices[at].iov_len = self.lengths[frame];
            messages[at].msg_hdr.msg_iov = &raw mut slices[at];
            messages[at].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: sendmmsg requires
        // - an open descriptor: `self.socket` is owned;
        // - `count` headers: `count` ≤ BATCH of them were filled above;
        // - that what they point to is readable: slices of this frame, and bytes of `self.frames` no more than each
        //   frame has (`push` cuts the length), both alive until the call returns.
        let sent = unsafe {
            libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}

/// Receives frames that a filter lets through, in a ring shared with the kernel.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    next: usize,
    socket: OwnedFd,
}

impl Receiver {
    /// Receives frames of `ether_type` that come to `interface`, also those to the hardware addresses in `extra_macs`,
    /// and keeps up to `slots` of them (rounded up) until they are read. `filter` is classic BPF over the whole frame;
    /// what it returns is cut to [`SEEN_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; the kernel's.
    pub fn open(
        interface: Interface,
        ether_type: u16,
        filter: &[SockFilter],
        slots: usize,
        extra_macs: &[[u8; 6]],
    ) -> io::Result<Self> {
        let socket = open_socket()?;
        SockRef::from(&socket).attach_filter(filter)?;
        set_option(
            libc::SOL_PACKET,
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )?;
        let ring = Ring::new(&socket, slots)?;
        for mac in extra_macs {
            set_option(libc::SOL_PACKET, &socket, libc::PACKET_ADD_MEMBERSHIP, &membership(interface, *mac))?;
        }
        bind(&socket, &interface.link_address(ether_type))?;
        Ok(Self { ring, next: 0, socket })
    }

    /// The next frame, if one is there.
    #[allow(clippy::should_implement_trait, reason = "the item borrows the iterator")]
    pub fn next(&mut self) -> Option<Received<'_>> {
        let slot = self.next;
        let seen = self.ring.filled(slot)?;
        self.next = (slot + 1) % self.ring.slots;
        Some(Received { ring: &self.ring, slot, seen })
    }

    /// Frames lost because the ring was full, since this was last asked.
    pub fn lost(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: getsockopt requires
        // - an open descriptor: `self.socket` is owned;
        // - `length` writable bytes: `stats` is that long.
        let status = unsafe {
            let into = (&raw mut stats).cast::<c_void>();
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                into,
                &mut length,
            )
        };
        if status == 0 { Ok(stats.tp_drops) } else { Err(io::Error::last_os_error()) }
    }
}

/// Readable when a frame is there.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The beginning of a frame, as far as it was kept; given back to the kernel when dropped.
#[derive(Debug)]
pub struct Received<'a> {
    ring: &'a Ring,
    slot: usize,
    seen: &'a [u8],
}

impl Deref for Received<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.seen
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.ring.give_back(self.slot);
    }
}

/// The memory that is shared with the kernel.
#[derive(Debug)]
struct Ring {
    base: NonNull<u8>,
    slots: usize,
}

impl Ring {
    fn new(socket: &OwnedFd, slots: usize) -> io::Result<Self> {
        let blocks = (slots * SLOT_BYTES).div_ceil(BLOCK_BYTES).max(1);
        let slots = blocks * (BLOCK_BYTES / SLOT_BYTES);
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: slots as u32,
        };
        set_option(libc::SOL_PACKET, socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: mmap requires
        // - a length that the descriptor can map: exactly the ring that was set up above;
        // - that no memory in use is replaced: the address is the kernel's choice.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), blocks * BLOCK_BYTES, access, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(memory) if base != libc::MAP_FAILED => Ok(Self { base: memory, slots }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        debug_assert!(slot < self.slots);
        // SAFETY: add requires that the result lies in the same mapping: `slot` is below `slots`, and the mapping has
        // `slots` times SLOT_BYTES.
        unsafe { self.base.add(slot * SLOT_BYTES) }
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: from_ptr requires
        // - alignment: a slot is aligned to SLOT_BYTES, and the status is its first word (asserted below);
        // - memory that is valid as long as the reference: the mapping lives as long as `self`;
        // - no access that is not atomic beside it: we have none, and the kernel is no part of this program.
        unsafe { AtomicU32::from_ptr(self.slot(slot).as_ptr().cast()) }
    }

    /// What was seen of the frame in a slot, if the kernel has handed it over.
    fn filled(&self, slot: usize) -> Option<&[u8]> {
        if self.status(slot).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: read requires a readable, aligned header: the kernel has written it, and does not touch the slot until
        // its status is set back.
        let header = unsafe { self.slot(slot).cast::<libc::tpacket2_hdr>().read() };
        let start = usize::from(header.tp_mac).min(SLOT_BYTES);
        let length = (header.tp_snaplen as usize).min(SLOT_BYTES - start);
        // SAFETY: from_raw_parts requires
        // - `length` readable bytes: start and length were cut to the slot;
        // - that nobody writes to them while the slice lives: the kernel does not until `give_back`, which `Received`
        //   calls when it, and with it the slice, ends.
        Some(unsafe { std::slice::from_raw_parts(self.slot(slot).as_ptr().add(start), length) })
    }

    fn give_back(&self, slot: usize) {
        self.status(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: munmap requires a mapping that nothing uses any more: it was made by `new` with this length, and
        // everything that points into it borrows `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.slots * SLOT_BYTES) };
    }
}

const _: () = assert!(std::mem::offset_of!(libc::tpacket2_hdr, tp_status) == 0);
const _: () =
    assert!(BLOCK_BYTES.is_multiple_of(SLOT_BYTES) && SLOT_BYTES.is_multiple_of(libc::TPACKET_ALIGNMENT));

/// Says that frames to a further hardware address are wanted too.
fn membership(interface: Interface, mac: [u8; 6]) -> libc::packet_mreq {
    let mut address = [0; 8];
    address[..mac.len()].copy_from_slice(&mac);
    libc::packet_mreq {
        mr_ifindex: interface.index,
        mr_type: libc::PACKET_MR_UNICAST as u16,
        mr_alen: mac.len() as u16,
        mr_address: address,
    }
}

fn open_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket requires nothing.
    let descriptor = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: from_raw_fd requires an open descriptor that nobody else owns: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// `T` is the plain C value that the option takes.
fn set_option<T>(level: libc::c_int, socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: setsockopt requires
    // - an open descriptor: `socket` is owned by the caller;
    // - as many readable bytes as the length says: those of `value`.
    let status = unsafe {
        let length = size_of::<T>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(socket: &OwnedFd, address: &libc::sockaddr_ll) -> io::Result<()> {
    // SAFETY: bind requires
    // - an open descriptor: `socket` is owned by the caller;
    // - an address of the given length: a `sockaddr_ll` with its own.
    let status = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), ptr::from_ref(address).cast(), length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Meant for experiments (IEEE 802): no protocol of the kernel takes it.
    const ETHER_TYPE: u16 = 0x88b5;

    /// Lets everything through.
    fn all() -> [SockFilter; 1] {
        [SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX)]
    }

    fn frame(number: u32, length: usize) -> Vec<u8> {
        let mut frame = vec![number as u8; length];
        frame[..12].fill(0);
        frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        frame[14..18].copy_from_slice(&number.to_be_bytes());
        frame
    }

    /// The loopback interface, a sender and a receiver on it; nothing without the privilege.
    fn pair(test: &str, slots: usize) -> Option<(Sender, Receiver)> {
        let lo = Interface::named("lo").unwrap();
        match Sender::open(lo) {
            Ok(sender) => Some((sender, Receiver::open(lo, ETHER_TYPE, &all(), slots, &[]).unwrap())),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("NOT RUN: {test}: packet sockets need CAP_NET_RAW");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn send(sender: &mut Sender, frame: &[u8]) {
        sender.push(|buffer| {
            buffer[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
    }

    /// One test for all that needs the ring of the loopback interface: two at once would see each other's frames.
    #[test]
    fn frames_come_as_they_were_sent_and_a_full_ring_loses_them() {
        let Some((mut sender, mut receiver)) = pair("packet", 1) else { return };
        assert!(receiver.next().is_none());
        for number in 0..700 {
            send(&mut sender, &frame(number, 60));
            sender.flush();
            assert_eq!(&*receiver.next().unwrap(), frame(number, 60), "more often than the ring has slots");
        }
        send(&mut sender, &frame(9, FRAME_BYTES_MAX));
        sender.flush();
        let seen = receiver.next().map(|frame| frame.to_vec()).unwrap();
        assert!(seen.len() > 900 && frame(9, FRAME_BYTES_MAX).starts_with(&seen), "{}", seen.len());
        (0..300).for_each(|number| send(&mut sender, &frame(number, 60)));
        sender.flush();
        let kept = std::iter::from_fn(|| receiver.next().map(|frame| frame[17])).count();
        assert_eq!(kept + receiver.lost().unwrap() as usize, 300);
        assert_eq!(kept, BLOCK_BYTES / SLOT_BYTES);
        assert_eq!(sender.sent(), Sent { frames: 1001, refused: 0 });
    }

    #[test]
    fn addresses_are_read() {
        assert_eq!(parse_mac("02:00:00:0a:Ff:99"), Some([2, 0, 0, 10, 255, 0x99]));
        for words in [
            "",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:99:1",
            "2:0:0:0:0:0",
            "02:00:00:00:00:0g",
            "02:00:00:00:00:+1",
        ] {
            let bytes = parse_mac(words);
            assert_eq!(bytes, None, "{words}");
        }
        assert_eq!(Interface::named("../lo").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(Interface::named("no-such-if").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
