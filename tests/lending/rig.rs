//! A store on one real device, what is written to it, and clients that are slow.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use store::format::{FormatOptions, format};
use store::{
    At, Body, Config, Declined, DeviceId, DeviceToOpen, Geometry, Io, IoDone, IoId, IoResult, KeyHash, Lease,
    Millis, Outbox, Recovery, Store, crc32c,
};
use sys::device::Device;
use testkit::{Noise, Pattern};

pub(crate) const DEVICE_BYTES: u64 = 24 << 20;
const SEGMENT_BYTES: u32 = 1 << 20;
const OBJECT_BYTES: usize = 768 << 10;
const EXTENT_BYTES: usize = 256 << 10;
const CLIENTS: usize = 6;
/// How often everything is overwritten.
const LAPS: u64 = 10;
/// Rounds after which a run has come to a standstill.
const ROUNDS_MAX: usize = 5000;

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Bodies that arrived whole.
    pub(crate) transfers: u64,
    /// Bytes that were not those of the object.
    pub(crate) wrong: u64,
    /// Objects that the store, which scrubs meanwhile, takes for damaged.
    pub(crate) damaged: u64,
    /// Objects that were put, and times that a put found no room.
    pub(crate) puts: u64,
    pub(crate) declined: u64,
}

/// A store and its device.
pub(crate) struct Rig {
    device: Device,
    store: Store,
    now: Millis,
    noise: Noise,
    /// Objects that were put, the oldest first.
    objects: VecDeque<u64>,
    seen: Seen,
}

impl Rig {
    /// Makes the device a store and opens it.
    pub(crate) fn new(path: &Path) -> Rig {
        let device = Device::open(path, true).unwrap();
        let geometry = Geometry::new(DEVICE_BYTES, SEGMENT_BYTES).unwrap();
        let options = FormatOptions {
            device_bytes: DEVICE_BYTES,
            geometry,
            device_id: DeviceId(7),
            store_id: 1,
            hash_seed: 2,
            now: 0,
        };
        format(&options).iter().for_each(|(at, data)| device.write_at(*at, data.as_ref()).unwrap());
        let store = open(&device);
        let (objects, seen) = (VecDeque::new(), Seen::default());
        Rig { device, store, now: 0, noise: Noise::new(4711), objects, seen }
    }

    /// Puts objects until the log has gone round often enough; clients take theirs meanwhile.
    pub(crate) fn run(mut self) -> Seen {
        let mut transfers: Vec<Transfer> = Vec::new();
        let enough = LAPS * DEVICE_BYTES / OBJECT_BYTES as u64;
        for _ in 0..ROUNDS_MAX {
            if self.seen.puts >= enough && transfers.is_empty() {
                self.seen.damaged = self.store.stats().bad;
                return self.seen;
            }
            if self.seen.puts < enough {
                self.put();
                transfers.extend((transfers.len() < CLIENTS).then(|| self.begin()).flatten());
            }
            self.now += 50;
            let now = self.now;
            self.with(|store, out| store.tick(now, out));
            transfers.retain_mut(|transfer| !self.advance(transfer));
        }
        panic!("it stands still: {:?}", self.seen);
    }

    /// A round of a transfer; says whether it is over.
    fn advance(&mut self, transfer: &mut Transfer) -> bool {
        transfer.lend(&self.device, &self.store);
        let most = 4096 + self.noise.below(24_000) as usize;
        self.seen.wrong += transfer.receive(most);
        let is_over = transfer.received == OBJECT_BYTES as u64;
        self.seen.transfers += u64::from(is_over);
        is_over
    }

    fn put(&mut self) {
        let object = self.seen.puts + 1;
        match self.try_put(object) {
            Ok(()) => {
                self.seen.puts += 1;
                self.objects.push_back(object);
            }
            Err(Declined::NoSpace) => self.seen.declined += 1,
            Err(why) => panic!("{why}"),
        }
    }

    fn try_put(&mut self, object: u64) -> Result<(), Declined> {
        let body = Pattern(object).bytes(0, OBJECT_BYTES);
        let mut written = Vec::new();
        for piece in body.chunks(EXTENT_BYTES) {
            let reserve =
                |store: &Store, out: &mut Outbox| store.reserve_extent(hash(object), piece.len() as u32, out);
            let reservation = self.with(reserve)?;
            let at = self.store.device_offset(reservation.place()).unwrap();
            self.device.write_at(at, store::BlockBuf::copy_of(piece).as_ref()).unwrap();
            written.push(reservation.written(crc32c(piece)));
        }
        self.with(|store, out| store.put_extents(hash(object), &object.to_le_bytes(), b"", &written, out))?;
        Ok(())
    }

    /// A client asks for the oldest object that is still there: its segments are wanted back soonest.
    fn begin(&mut self) -> Option<Transfer> {
        while let Some(&object) = self.objects.front() {
            match self.leases(object) {
                Some(leases) => return Some(Transfer::new(object, leases)),
                None => _ = self.objects.pop_front(),
            }
        }
        None
    }

    /// Leases of all of an object's extents; nothing where one is gone.
    fn leases(&self, object: u64) -> Option<Vec<Lease>> {
        let found = self.store.lookup(hash(object))?;
        let bytes = match &found.at {
            At::Buffered(bytes) => bytes.to_vec(),
            At::Device(lease) => {
                let mut bytes = vec![0; lease.place().len as usize];
                self.device.read_at(self.store.device_offset(lease.place())?, &mut bytes).unwrap();
                bytes
            }
        };
        let Body::Extents(table) = self.store.record(&found.place, &bytes).unwrap().body() else {
            return None;
        };
        let lease = |place| match self.store.at(&place)? {
            At::Device(lease) => Some(lease),
            At::Buffered(_) => None,
        };
        table.iter().map(|extent| lease(self.store.extent_place(&extent)?)).collect()
    }

    /// Calls the store and carries out what it asks for.
    fn with<T>(&mut self, act: impl FnOnce(&Store, &mut Outbox) -> T) -> T {
        let mut out = Outbox::new();
        let result = act(&self.store, &mut out);
        while let Some(io) = out.pop() {
            let (id, done) = carry_out(&self.device, io);
            self.store.complete(id, done, &mut out);
        }
        result
    }
}

/// A body on its way to a client.
struct Transfer {
    object: u64,
    leases: VecDeque<Lease>,
    /// How much of the first lease was lent.
    lent: u64,
    server: TcpStream,
    client: TcpStream,
    received: u64,
}

impl Transfer {
    fn new(object: u64, leases: Vec<Lease>) -> Transfer {
        let (server, client) = connected();
        Transfer { object, leases: leases.into(), lent: 0, server, client, received: 0 }
    }

    /// Lends what the socket takes now; a lease goes when its last byte is lent.
    fn lend(&mut self, device: &Device, store: &Store) {
        while let Some(lease) = self.leases.front() {
            let len = u64::from(lease.place().len);
            let start = store.device_offset(lease.place()).unwrap();
            let mut at = start + self.lent;
            let count = (len - self.lent) as usize;
            match sys::sendfile::sendfile(&self.server, device.buffered(), &mut at, count) {
                Ok(_) => self.lent = at - start,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("sendfile: {error}"),
            }
            if self.lent == len {
                self.leases.pop_front();
                self.lent = 0;
            }
        }
    }

    /// Takes some bytes, if some are there soon; returns how many of them are wrong.
    fn receive(&mut self, most: usize) -> u64 {
        let mut got = vec![0; most];
        let count = match self.client.read(&mut got) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => panic!("read: {error}"),
        };
        let right = Pattern(self.object).bytes(self.received, count);
        self.received += count as u64;
        right.iter().zip(&got).filter(|(right, got)| right != got).count() as u64
    }
}

/// Both ends of a connection that holds little.
fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    set_socket_send_buffer_size(&server, 16 << 10).unwrap();
    set_socket_recv_buffer_size(&client, 16 << 10).unwrap();
    server.set_nonblocking(true).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    (server, client)
}

fn hash(object: u64) -> KeyHash {
    let [low, high] = [1, 2].map(|salt| Pattern::of(&format!("{salt} {object}")).0);
    KeyHash(u128::from(low) | u128::from(high) << 64)
}

fn open(device: &Device) -> Store {
    let config = Config { extent_bytes_max: EXTENT_BYTES as u32, checkpoint_every: 200, ..Config::default() };
    let mut recovery = Recovery::new(&[DeviceToOpen { bytes: device.size_bytes() }], config).unwrap();
    let mut out = Outbox::new();
    recovery.start(&mut out);
    while let Some(io) = out.pop() {
        let (id, done) = carry_out(device, io);
        recovery.complete(id, done, &mut out);
    }
    recovery.into_store().unwrap().0
}

fn carry_out(device: &Device, io: Io) -> (IoId, IoResult) {
    let id = io.id();
    let done = match io {
        Io::Write { offset, data, .. } => {
            device.write_at(offset, data.as_ref()).unwrap();
            IoDone::Written
        }
        Io::Read { offset, len, .. } => {
            let mut bytes = vec![0; len as usize];
            device.read_at(offset, &mut bytes).unwrap();
            IoDone::Read(bytes.into())
        }
        Io::Sync { .. } => {
            device.sync().unwrap();
            IoDone::Synced
        }
    };
    (id, Ok(done))
}
