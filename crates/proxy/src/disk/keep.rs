//! The thread that keeps house for the store: the second phase of a start, checkpoints, reclaim, scrubbing, and the
//! clean stop.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::{Damage, DeviceIndex, Outbox, Store};

use super::{Disk, Disks};
use crate::cache::Cache;

/// How often the store is asked what is due.
const TICK: Duration = Duration::from_millis(50);

/// The thread, and the way to tell it something.
pub struct Keeper {
    thread: JoinHandle<()>,
    errands: Errands,
}

/// For threads without a queue of their own.
#[derive(Clone)]
pub struct Errands(mpsc::Sender<Errand>);

enum Errand {
    CarryOut(Outbox),
    Mind(Arc<Cache>),
    Stop,
}

impl Errands {
    /// Has requests of the store carried out.
    pub fn carry_out(&self, requests: Outbox) {
        if !requests.is_empty() {
            // After the stop nothing is carried out any more, and nothing needs to be.
            let _ = self.0.send(Errand::CarryOut(requests));
        }
    }
}

/// Starts keeping house.
///
/// # Errors
/// When the thread, its runtime or its queue cannot be made.
pub fn start(disks: Arc<Disks>) -> std::io::Result<Keeper> {
    // Queue: purges on their way to the store.
    let (errands, asked) = mpsc::channel();
    // Queue: what there is a fixed number of.
    let (ready, is_ready) = mpsc::channel();
    let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().max_blocking_threads(2);
        let outcome = builder.build_local(tokio::runtime::LocalOptions::default()).and_then(|runtime| {
            let kept = runtime.block_on(async {
                let disk = Disk::new(disks)?;
                let _ = ready.send(Ok(()));
                keep(&disk, &asked).await;
                Ok(())
            });
            runtime.shutdown_background();
            kept
        });
        if let Err(error) = outcome {
            let _ = ready.send(Err(error));
        }
    })?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(Keeper { thread, errands: Errands(errands) }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(std::io::Error::other("the store's thread ended at once")),
    }
}

impl Keeper {
    /// For threads without a queue of their own.
    #[must_use]
    pub fn errands(&self) -> Errands {
        self.errands.clone()
    }

    /// Has what memory holds of damaged objects taken out of `cache` too. To be said before anything is served.
    pub fn mind(&self, cache: Arc<Cache>) {
        // Where the thread has ended nothing is scrubbed either.
        let _ = self.errands.0.send(Errand::Mind(cache));
    }

    /// Flushes and checkpoints everything, then ends the thread.
    pub fn stop(self) {
        // Either way the thread is at its end.
        let _ = self.errands.0.send(Errand::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the store's thread panicked; what it had not checkpointed is lost");
        }
    }
}

async fn keep(disk: &Disk, asked: &mpsc::Receiver<Errand>) {
    let started = Instant::now();
    let store = &disk.disks().store;
    let mut stopping = false;
    let mut minded: Option<Arc<Cache>> = None;
    let mut obituaries = Obituaries::default();
    let mut recovering = true;
    loop {
        let mut out = Outbox::new();
        for errand in asked.try_iter() {
            match errand {
                Errand::CarryOut(requests) => disk.carry_out(requests),
                Errand::Mind(cache) => minded = Some(cache),
                Errand::Stop if stopping => {}
                Errand::Stop => {
                    stopping = true;
                    store.shutdown(&mut out);
                }
            }
        }
        store.tick(started.elapsed().as_millis() as u64, &mut out);
        disk.carry_out(out);
        store.take_damage().iter().for_each(|damage| put_out(disk.disks(), minded.as_deref(), damage));
        disk.disks().warm.sweep(|place| store.is_alive(place));
        obituaries.print(disk.disks());
        if recovering && store.recovering().is_none() {
            recovering = false;
            tell_recovered(store, started.elapsed());
        }
        if stopping && store.idle() && disk.is_idle() {
            return;
        }
        tokio::time::sleep(if stopping { Duration::from_millis(2) } else { TICK }).await;
    }
}

/// Says of each device once that it was retired.
#[derive(Default)]
struct Obituaries {
    printed: Vec<bool>,
}

impl Obituaries {
    fn print(&mut self, disks: &Disks) {
        self.printed.resize(disks.devices.len(), false);
        for (device, printed) in self.printed.iter_mut().enumerate() {
            if !*printed && disks.store.is_retired(DeviceIndex(device as u16)) {
                *printed = true;
                let path = disks.paths[device].display();
                tracing::error!(%path, "device retired: what it holds is a miss, and it is not used again before the next start");
            }
        }
    }
}

/// Damage that scrubbing found has left the store's index; what memory holds of the object refers to the same bytes.
fn put_out(disks: &Disks, cache: Option<&Cache>, damage: &Damage) {
    disks.tell_damage(damage.device, damage.offset, damage.what);
    if let (Some(cache), Some(hash)) = (cache, damage.hash) {
        cache.memory.remove(hash);
    }
}

fn tell_recovered(store: &Store, took: Duration) {
    let store::Progress { segments, lost, .. } = store.recovered();
    let seconds = took.as_secs_f64();
    tracing::info!(objects = store.stats().objects, segments, lost, seconds, "store complete");
}
