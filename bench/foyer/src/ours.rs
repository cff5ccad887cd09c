//! Tidegate's store behind a memory cache.

use crate::child::{Engine, Task};
use crate::load;
use bench_store::engine::{self, Client, Failed, on_this_thread};
use foyer::{Cache, CacheBuilder};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// See the module.
pub struct Ours {
    engine: engine::Engine,
    memory: Cache<u64, Vec<u8>>,
    threads: usize,
    objects: u64,
}

impl Engine for Ours {
    fn open(task: &Task, fresh: bool) -> Result<Self, Failed> {
        let devices = [task.file.clone()];
        if fresh {
            engine::format(&devices)?;
        }
        let engine = engine::Engine::open(&devices, "")?;
        let weigh = |_: &u64, body: &Vec<u8>| body.len() + 8;
        let memory = CacheBuilder::new(task.memory_bytes).with_weighter(weigh).build();
        Ok(Self { engine, memory, threads: task.threads, objects: task.objects })
    }

    fn put(&self, from: u64, to: u64, progress: bool) -> Result<(), Failed> {
        let threads = self.threads as u64;
        self.on_threads(async |client, thread| {
            for key in (from..to).skip(thread).step_by(threads as usize) {
                let body = load::body(key);
                if client.put_patiently(&key.to_le_bytes(), &body).await.is_err() {
                    return;
                }
                self.memory.insert(key, body);
                if progress && key % 1000 == 0 {
                    println!("STORED {key}");
                }
                if key % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    }

    fn settle(&self) {
        let store = self.engine.store();
        let wanted = store.ask_checkpoint();
        while store.checkpoints() < wanted || store.stats().in_flight_bytes > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn get_popular(&self, seconds: u64) -> Result<(u64, u64), Failed> {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let sums = std::sync::Mutex::new((0, 0));
        self.on_threads(async |client, thread| {
            let done = Rc::new(Cell::new((0, 0)));
            let tasks: Vec<_> = (0..load::DEPTH)
                .map(|task| {
                    let (client, memory, done) = (client.clone(), self.memory.clone(), Rc::clone(&done));
                    let mut next = load::popular(self.objects, (thread * load::DEPTH + task) as u64);
                    tokio::task::spawn_local(async move {
                        while Instant::now() < deadline {
                            let hit = get(&client, &memory, next()).await;
                            let (asked, hits) = done.get();
                            done.set((asked + 1, hits + u64::from(hit)));
                        }
                    })
                })
                .collect();
            for task in tasks {
                let _ = task.await;
            }
            let (asked, hits) = done.get();
            if let Ok(mut sums) = sums.lock() {
                *sums = (sums.0 + asked, sums.1 + hits);
            }
        })?;
        Ok(sums.into_inner().unwrap_or_default())
    }

    fn count(&self, keys: Vec<u64>) -> Result<u64, Failed> {
        on_this_thread(self.engine.disks(), async |client| {
            let mut found = 0;
            for key in keys {
                let body = client.get(&key.to_le_bytes()).await;
                found += u64::from(body.is_some_and(|body| load::is_right(key, &body)));
            }
            found
        })
    }

    fn close(self) -> Result<(), Failed> {
        self.engine.close();
        Ok(())
    }
}

impl Ours {
    /// Runs `work` on each thread, with a queue of its own, and the number of the thread.
    fn on_threads(&self, work: impl AsyncFn(Client, usize) + Sync) -> Result<(), Failed> {
        std::thread::scope(|scope| {
            let run = |thread| {
                let work = &work;
                let disks = self.engine.disks();
                move || {
                    on_this_thread(disks, async |client| work(client, thread).await)
                        .map_err(|why| why.to_string())
                }
            };
            let threads: Vec<_> = (0..self.threads).map(|thread| scope.spawn(run(thread))).collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked")??;
            }
            Ok(())
        })
    }
}

/// From memory, else from the store, as foyer's hybrid cache does. An object in memory is yielded for now and then: a
/// task that never waits would keep the others from running.
async fn get(client: &Client, memory: &Cache<u64, Vec<u8>>, key: u64) -> bool {
    if let Some(entry) = memory.get(&key) {
        tokio::task::coop::consume_budget().await;
        return load::is_right(key, entry.value());
    }
    let Some(body) = client.get(&key.to_le_bytes()).await else { return false };
    let right = load::is_right(key, &body);
    memory.insert(key, body.to_vec());
    right
}
