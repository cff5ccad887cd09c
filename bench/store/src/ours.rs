//! The store on the devices of a run.

use crate::Work;
use crate::devices::Devices;
use crate::report::Sample;
use bench_store::cpu;
use bench_store::engine::{Client, Engine, Failed, aligned_noise, format, on_this_thread};
use bench_store::random::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};
use store::{Declined, Place};

/// Objects of 16 KiB that are read; their bodies fill a record with its header to less than that.
const OBJECTS: u64 = 10_000;
const OBJECT_BYTES: usize = 16 << 10;

/// A store that was filled for a round, with what that took.
pub struct Filled {
    engine: Engine,
    bodies: Vec<Place>,
    depth: usize,
    /// How fast the bodies came in.
    pub sample: Sample,
}

impl Filled {
    /// Formats, opens and fills: small objects unmeasured, then bodies until time or space run out (a third stays free,
    /// so that taking segments back is not measured).
    pub fn new(devices: &Devices, seconds: u64) -> Result<Self, Failed> {
        format(&devices.paths)?;
        let engine = Engine::open(&devices.paths, "")?;
        let count = devices.paths.len();
        put_objects(&engine)?;
        let room = engine.capacity_bytes() * 2 / 3 - OBJECTS * (OBJECT_BYTES as u64 + 512);
        let bodies = Rc::new(RefCell::new(Vec::new()));
        let places = Rc::clone(&bodies);
        let noise = aligned_noise(Work::Write.bytes() as usize)?;
        let left = Cell::new(room / Work::Write.bytes());
        let sample = drive(&engine, Work::Write.depth() * count, seconds, async move |client, turn| {
            if left.get() == 0 {
                return Asked::Over;
            }
            match client.put_extent(format!("body {turn}").as_bytes(), &noise).await {
                Ok(place) => places.borrow_mut().push(place),
                Err(Declined::NoSpace | Declined::WritesBehind) => {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    return Asked::Declined;
                }
                Err(why) => return Asked::Failed(why.word()),
            }
            left.set(left.get().saturating_sub(1));
            Asked::Done
        })?;
        let bodies = bodies.take();
        wait_for_devices(&engine);
        Ok(Self { engine, bodies, depth: count, sample })
    }

    /// Reads for so long.
    pub fn read(&self, work: Work, seconds: u64) -> Result<Sample, Failed> {
        let bodies = self.bodies.clone();
        let random = RefCell::new(Random::new(7));
        drive(&self.engine, work.depth() * self.depth, seconds, async move |client, _| {
            let chance = random.borrow_mut().next_number();
            let place = &bodies[chance as usize % bodies.len()];
            let read = match work {
                Work::ReadObject => client.get(&key(chance % OBJECTS)).await,
                Work::ReadPart => client.read(place, (chance >> 40) as u32 % 64 << 14, 16 << 10).await,
                Work::Read | Work::Write => client.read(place, 0, place.len).await,
            };
            if read.is_some() { Asked::Done } else { Asked::Failed("what was stored is not there") }
        })
    }

    /// A clean stop.
    pub fn close(self) {
        self.engine.close();
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("object {number}").into_bytes()
}

fn put_objects(engine: &Engine) -> Result<(), Failed> {
    let body = vec![7; OBJECT_BYTES];
    on_this_thread(engine.disks(), async |client| {
        for number in 0..OBJECTS {
            client.put_patiently(&key(number), &body).await?;
        }
        Ok::<(), Declined>(())
    })??;
    Ok(())
}

/// Until a checkpoint has covered everything, so that reads find it on the devices and nothing else goes on.
fn wait_for_devices(engine: &Engine) {
    let (store, patience) = (engine.store(), Instant::now() + Duration::from_secs(20));
    let wanted = store.ask_checkpoint();
    while (store.checkpoints() < wanted || store.stats().in_flight_bytes > 0) && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What became of a turn.
enum Asked {
    Done,
    /// Not now.
    Declined,
    /// There is nothing left to ask.
    Over,
    Failed(&'static str),
}

/// What the tasks of a run count together.
#[derive(Default)]
struct Tally {
    turns: Cell<u64>,
    done: Cell<u64>,
    failed: Cell<Option<&'static str>>,
}

/// Runs `depth` tasks that ask one thing after the other until the time is over or one has nothing to ask.
fn drive<F>(engine: &Engine, depth: usize, seconds: u64, ask: F) -> Result<Sample, Failed>
where
    F: AsyncFn(Client, u64) -> Asked + 'static,
{
    let (tally, ask) = (Rc::new(Tally::default()), Rc::new(ask));
    let (started, cpu) = (Instant::now(), cpu::seconds());
    let deadline = started + Duration::from_secs(seconds);
    on_this_thread(engine.disks(), async |client| {
        let one = || {
            let (client, ask, tally) = (client.clone(), Rc::clone(&ask), Rc::clone(&tally));
            tokio::task::spawn_local(async move { keep_asking(&client, &*ask, &tally, deadline).await })
        };
        let tasks: Vec<_> = (0..depth).map(|_| one()).collect();
        for task in tasks {
            task.await?;
        }
        Ok::<(), tokio::task::JoinError>(())
    })??;
    if let Some(why) = tally.failed.get() {
        return Err(why.into());
    }
    let requests = tally.done.get() as f64;
    let (elapsed, busy) = (started.elapsed().as_secs_f64(), cpu::seconds() - cpu);
    Ok(Sample { per_second: requests / elapsed, cpu_micros: busy * 1e6 / requests.max(1.0) })
}

async fn keep_asking(
    client: &Client,
    ask: &impl AsyncFn(Client, u64) -> Asked,
    tally: &Tally,
    deadline: Instant,
) {
    while Instant::now() < deadline {
        tally.turns.set(tally.turns.get() + 1);
        match ask(client.clone(), tally.turns.get()).await {
            Asked::Done => tally.done.set(tally.done.get() + 1),
            Asked::Declined => {}
            Asked::Over => return,
            Asked::Failed(why) => return tally.failed.set(Some(why)),
        }
    }
}
