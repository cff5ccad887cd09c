//! The store with its driver, and one thread's way to it.

use bytes::Bytes;
use proxy::disk::keep::{self, Keeper};
use proxy::disk::open::{Identity, format_device, open};
use proxy::disk::{Disk, Disks};
use proxy::settings::{ConfigFile, Environment, Sources, load};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::{At, Body, Declined, KeyHash, Outbox, Place, Store, WrittenExtent};
use sys::aligned::AlignedBuffer;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Anything that went wrong; a benchmark says so and ends.
pub type Failed = Box<dyn std::error::Error>;

/// An open store that is kept house for.
pub struct Engine {
    disks: Arc<Disks>,
    keeper: Keeper,
    /// Objects that recovery found.
    pub found: u64,
}

/// Makes devices a store, whatever they hold.
pub fn format(devices: &[PathBuf]) -> Result<(), Failed> {
    let identity = Identity::new()?;
    devices.iter().try_for_each(|device| Ok(format_device(device, true, identity).map(drop)?))
}

impl Engine {
    /// Opens devices that are formatted, with the product's defaults, but O_DIRECT reads and everything admitted; `more` are lines for
    /// the configuration's `[store]`.
    pub fn open(devices: &[PathBuf], more: &str) -> Result<Self, Failed> {
        let tables: String = devices
            .iter()
            .map(|path| format!("[[store.device]]\npath = {:?}\n", path.display().to_string()))
            .collect();
        let text = format!("[store]\nio = \"direct\"\nadmission = \"all\"\n{more}\n{tables}");
        let file = Some(ConfigFile { path: PathBuf::from("bench"), text });
        let settings = load(&Sources { file, flags: Vec::new() }, &Environment::of_process());
        let settings = settings.map_err(|mistakes| format!("{mistakes:?}"))?;
        let opened = open(&settings.store, true)?;
        let disks = Arc::new(opened.disks);
        let keeper = keep::start(Arc::clone(&disks))?;
        // The index is filled while the store serves already; what is measured begins with all of it.
        while disks.store.recovering().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let found = disks.store.stats().objects;
        Ok(Self { disks, keeper, found })
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.disks.store
    }

    /// Bytes that the devices hold.
    pub fn capacity_bytes(&self) -> u64 {
        self.disks.capacity_bytes
    }

    /// For threads of their own.
    pub fn disks(&self) -> Arc<Disks> {
        Arc::clone(&self.disks)
    }

    /// A clean stop.
    pub fn close(self) {
        self.keeper.stop();
    }
}

/// Runs `work` on this thread, as a worker of the proxy does, with a queue of its own.
pub fn on_this_thread<T>(disks: Arc<Disks>, work: impl AsyncFnOnce(Client) -> T) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())?;
    runtime.block_on(async {
        let client = Client::new(disks)?;
        let result = work(client.clone()).await;
        while !client.disk.is_idle() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(result)
    })
}

/// One thread's way to the store.
#[derive(Clone)]
pub struct Client {
    disk: Disk,
    store: Arc<Store>,
}

impl Client {
    fn new(disks: Arc<Disks>) -> std::io::Result<Self> {
        let store = Arc::clone(&disks.store);
        Ok(Self { disk: Disk::new(disks)?, store })
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(xxh3_128_with_seed(key, self.store.hash_seed()))
    }

    /// Stores a small object.
    pub fn put(&self, key: &[u8], body: &[u8]) -> Result<Place, Declined> {
        let mut out = Outbox::new();
        let put = self.store.put_inline(self.hash(key), key, b"", body, &mut out);
        self.disk.carry_out(out);
        put
    }

    /// Stores a small object; waits while the devices are behind.
    pub async fn put_patiently(&self, key: &[u8], body: &[u8]) -> Result<Place, Declined> {
        loop {
            match self.put(key, body) {
                Err(Declined::NoSpace | Declined::WritesBehind) => {
                    tokio::time::sleep(Duration::from_micros(500)).await;
                }
                put => return put,
            }
        }
    }

    /// A small object's body; checks what the proxy checks.
    pub async fn get(&self, key: &[u8]) -> Option<Bytes> {
        let hash = self.hash(key);
        let found = self.store.lookup(hash)?;
        let bytes = match &found.at {
            At::Buffered(bytes) => bytes.clone(),
            At::Device(lease) => self.disk.read(lease, false).await.ok()?,
        };
        let record = self.store.record(&found.place, &bytes).ok()?;
        let Body::Inline(inline) = record.body() else { return None };
        if record.key != key || !(found.verified || record.is_intact()) {
            return None;
        }
        if !found.verified {
            self.store.note_verified(hash, &found.place);
        }
        Some(bytes.slice_ref(inline.bytes))
    }

    /// Stores a body of one extent, from a buffer that is aligned; gives its place.
    pub async fn put_extent(&self, key: &[u8], body: &Bytes) -> Result<Place, Declined> {
        let hash = self.hash(key);
        let mut out = Outbox::new();
        let reserved = self.store.reserve_extent(hash, body.len() as u32, &mut out);
        self.disk.carry_out(out);
        let reservation = reserved?;
        let written: WrittenExtent = match self.disk.write(reservation.place(), body.clone()).await {
            Ok(()) => reservation.written(store::crc32c(body)),
            Err(_) => return Err(Declined::DeviceRetired),
        };
        let place = *written.place();
        let mut out = Outbox::new();
        let put = self.store.put_extents(hash, key, b"", &[written], &mut out);
        self.disk.carry_out(out);
        put.map(|_| place)
    }

    /// Reads `len` bytes from `skip` of an extent.
    pub async fn read(&self, place: &Place, skip: u32, len: u32) -> Option<Bytes> {
        let At::Device(lease) = self.store.at(place)? else { return None };
        let part = lease.part(skip, len)?;
        self.disk.read(&part, false).await.ok()
    }
}

/// A buffer for direct writes, filled with noise.
pub fn aligned_noise(len: usize) -> Result<Bytes, Failed> {
    let (mut writer, reader) = AlignedBuffer::new(len)?.split();
    let mut random = crate::random::Random::new(len as u64);
    while writer.remaining() > 0 {
        writer.put(&random.next_number().to_le_bytes());
    }
    writer.finish();
    Ok(Bytes::from_owner(reader.settled(0..len).ok_or("buffer not settled")?))
}

/// Makes a preallocated file, if it is not there.
pub fn create(path: &Path, bytes: u64) -> Result<(), Failed> {
    if !path.exists() {
        sys::device::create_preallocated(path, bytes)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
