//! foyer's hybrid cache: block engine over one file, O_DIRECT, io_uring, written on insertion.

use crate::child::{Engine, Task};
use crate::load;
use bench_store::engine::Failed;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FileDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
    IoEngineConfig, UringIoEngineConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Memory for what is on its way to the device: as much as Tidegate may have in flight.
const POOL_BYTES: usize = 64 << 20;

/// After so many bytes the filler waits for the flusher: foyer drops what finds its buffers full.
const PAUSE_BYTES: usize = 8 << 20;

/// See the module.
pub struct Theirs {
    runtime: Runtime,
    cache: HybridCache<u64, Vec<u8>>,
    threads: usize,
    objects: u64,
}

impl Engine for Theirs {
    fn open(task: &Task, _fresh: bool) -> Result<Self, Failed> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(task.threads).enable_all().build()?;
        let cache = runtime.block_on(async {
            let device = FileDeviceBuilder::new(&task.file)
                .with_capacity(task.size_bytes as usize)
                .with_direct(true)
                .build()?;
            HybridCacheBuilder::new()
                .with_policy(HybridCachePolicy::WriteOnInsertion)
                .memory(task.memory_bytes)
                .with_weighter(|_: &u64, body: &Vec<u8>| body.len() + 8)
                .storage()
                .with_io_engine_config(Box::new(UringIoEngineConfig::new()) as Box<dyn IoEngineConfig>)
                .with_engine_config(
                    BlockEngineConfig::new(device)
                        .with_buffer_pool_size(POOL_BYTES)
                        .with_submit_queue_size_threshold(2 * POOL_BYTES),
                )
                .build()
                .await
        })?;
        Ok(Self { runtime, cache, threads: task.threads, objects: task.objects })
    }

    fn put(&self, from: u64, to: u64, progress: bool) -> Result<(), Failed> {
        let threads = self.threads as u64;
        let fill = |thread: u64| {
            let cache = self.cache.clone();
            async move {
                let mut since_pause = 0;
                for key in (from..to).skip(thread as usize).step_by(threads as usize) {
                    let body = load::body(key);
                    since_pause += body.len();
                    cache.insert(key, body);
                    if since_pause > PAUSE_BYTES / threads as usize {
                        since_pause = 0;
                        cache.storage().wait().await;
                    }
                    if progress && key % 1000 == 0 {
                        println!("STORED {key}");
                    }
                }
            }
        };
        self.on_workers((0..threads).map(fill))
    }

    fn settle(&self) {
        self.runtime.block_on(self.cache.storage().wait());
    }

    fn get_popular(&self, seconds: u64) -> Result<(u64, u64), Failed> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let sums = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let one = |task: usize| {
            let (cache, sums) = (self.cache.clone(), Arc::clone(&sums));
            let mut next = load::popular(self.objects, task as u64);
            async move {
                let (mut asked, mut hits) = (0, 0);
                while Instant::now() < deadline {
                    let key = next();
                    let found = cache.get(&key).await;
                    tokio::task::coop::consume_budget().await;
                    asked += 1;
                    hits += u64::from(matches!(found, Ok(Some(entry)) if load::is_right(key, entry.value())));
                }
                sums[0].fetch_add(asked, Relaxed);
                sums[1].fetch_add(hits, Relaxed);
            }
        };
        self.on_workers((0..self.threads * load::DEPTH).map(one))?;
        Ok((sums[0].load(Relaxed), sums[1].load(Relaxed)))
    }

    fn count(&self, keys: Vec<u64>) -> Result<u64, Failed> {
        Ok(self.runtime.block_on(async {
            let mut found = 0;
            for key in keys {
                let entry = self.cache.get(&key).await;
                found += u64::from(matches!(entry, Ok(Some(entry)) if load::is_right(key, entry.value())));
            }
            found
        }))
    }

    fn close(self) -> Result<(), Failed> {
        self.runtime.block_on(self.cache.close())?;
        Ok(())
    }
}

impl Theirs {
    fn on_workers<F>(&self, work: impl Iterator<Item = F>) -> Result<(), Failed>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let tasks: Vec<_> = work.map(|task| self.runtime.spawn(task)).collect();
        for task in tasks {
            self.runtime.block_on(task)?;
        }
        Ok(())
    }
}
