//! SIGKILL at random moments under load, again and again: every answer afterwards is right.
//!
//! A body follows from its target and its version, and the response names the version: bytes of another object, of
//! another version, or of two versions are found. A version counts as stale when a purge of an older one was answered
//! before the request was sent; after a kill, when that purge was covered by a checkpoint.
//!
//! `TIDEGATE_KILL_ROUNDS` sets how many kills (40; 200 is the full run), `TIDEGATE_SEED` the seed. The seed decides what
//! is asked and when the kill comes; how the threads meet is the machine's.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use testkit::{
    Ask, Client, Noise, Origin, Pattern, Reply, Request, Response, Tidegate, eventually, flip_bit,
};

use crate::{get, get_all, sized_origin, targets};

const TARGETS: u64 = 120;
const SIZES: [u64; 8] = [0, 100, 4096, 16_384, 16_385, 70_000, 300_000, 1_500_000];
const CLIENTS: u64 = 6;
const SETTINGS: &str = "[store]\ncheckpoint = \"100ms\"\nscrub = \"64MiB\"";

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn size(number: u64) -> u64 {
    SIZES[(number % SIZES.len() as u64) as usize]
}

fn body(number: u64, version: u64) -> Pattern {
    Pattern::of(&format!("{number} in version {version}"))
}

/// What the origin has, what clients may still be given, and what was compared.
struct World {
    versions: Vec<AtomicU64>,
    floors: Vec<Mutex<Floor>>,
    seen: Seen,
}

/// Below which version an object is stale.
#[derive(Default)]
struct Floor {
    /// Outlives a kill.
    durable: u64,
    /// Purges that were answered since the last start, with the checkpoints that were complete by then.
    answered: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Seen {
    responses: AtomicU64,
    bytes: AtomicU64,
    hits: AtomicU64,
    broken: AtomicU64,
    purges: AtomicU64,
    durable_purges: AtomicU64,
    hits_after_starts: AtomicU64,
}

impl Floor {
    fn now(&self) -> u64 {
        self.answered.iter().map(|(version, _)| *version).fold(self.durable, u64::max)
    }

    /// A checkpoint that began after the purge was complete is surely the second to be completed after it.
    fn crash(&mut self, checkpoints: u64) -> u64 {
        let covered = self.answered.iter().filter(|(_, by_then)| by_then + 2 <= checkpoints);
        let count = covered.clone().count() as u64;
        self.durable = covered.map(|(version, _)| *version).fold(self.durable, u64::max);
        self.answered.clear();
        count
    }
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            versions: (0..TARGETS).map(|_| AtomicU64::new(1)).collect(),
            floors: (0..TARGETS).map(|_| Mutex::default()).collect(),
            seen: Seen::default(),
        })
    }

    fn floor(&self, number: u64) -> std::sync::MutexGuard<'_, Floor> {
        self.floors[number as usize].lock().unwrap()
    }

    fn origin(self: &Arc<World>) -> Origin {
        let world = Arc::clone(self);
        Origin::answering(move |request| world.answer(request))
    }

    /// As an origin of strong validators and ranges does.
    fn answer(&self, request: &Request) -> Reply {
        let number: u64 = request.head.target()[1..].parse().unwrap();
        let (version, size) = (self.versions[number as usize].load(SeqCst), size(number));
        let tag = format!("\"{version}\"");
        let field = |name| request.head.field(name).map(|value| value.to_string());
        let reply = if field("if-match").is_some_and(|asked| asked != tag) {
            return Reply::status(412, "");
        } else if field("if-none-match").is_some_and(|asked| asked == tag) {
            Reply::not_modified()
        } else {
            let range = field("range").filter(|_| field("if-range").is_none_or(|asked| asked == tag));
            match range.and_then(|range| bounds(&range, size)) {
                None => Reply::generated(body(number, version), size),
                Some((first, last)) => {
                    let part = body(number, version).bytes(first, (last - first + 1) as usize);
                    Reply::status(206, part).field("Content-Range", &format!("bytes {first}-{last}/{size}"))
                }
            }
        };
        let version = version.to_string();
        reply.field("Cache-Control", "max-age=86400").field("ETag", &tag).field("X-Version", &version)
    }

    /// Compares a response to a request for `number` that was sent when `floor` was the floor.
    fn check(&self, number: u64, floor: u64, response: &Response) {
        let status = response.status();
        let version: u64 = response.field("x-version").unwrap_or_default().parse().unwrap_or(0);
        assert!(matches!(status, 200 | 206) && version > 0, "/{number}: {response:?}");
        assert!(version >= floor, "/{number}: version {version} after {floor} was asked for: {response:?}");
        let first = match response.field("content-range") {
            Some(range) => range["bytes ".len()..].split('-').next().unwrap().parse().unwrap(),
            None => 0,
        };
        assert!(status == 206 || response.body.len() as u64 == size(number), "/{number}: {response:?}");
        body(number, version).compare(&response.body, first);
        self.seen.responses.fetch_add(1, SeqCst);
        self.seen.bytes.fetch_add(response.body.len() as u64, SeqCst);
        let hit = response.cache_parameters().iter().any(|parameter| parameter == "hit");
        self.seen.hits.fetch_add(u64::from(hit), SeqCst);
    }

    /// The process is dead; when it was last asked it had completed so many checkpoints.
    fn crash(&self, checkpoints: u64) {
        for floor in &self.floors {
            let covered = floor.lock().unwrap().crash(checkpoints);
            self.seen.durable_purges.fetch_add(covered, SeqCst);
        }
    }

    /// Asks for a part of all objects, on one connection, and compares.
    fn sweep(&self, tidegate: &Tidegate, noise: &mut Noise) {
        let (mut client, hits) = (tidegate.client(), self.seen.hits.load(SeqCst));
        for number in (noise.below(3)..TARGETS).step_by(3) {
            let floor = self.floor(number).now();
            self.check(number, floor, &client.get(&format!("/{number}")));
        }
        self.seen.hits_after_starts.fetch_add(self.seen.hits.load(SeqCst) - hits, SeqCst);
    }
}

/// First and last byte of a single range that can be satisfied.
fn bounds(range: &str, size: u64) -> Option<(u64, u64)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().unwrap_or(u64::MAX));
    (first <= last && first < size).then_some((first, last.min(size - 1)))
}

/// The admin interface of a process that may die meanwhile.
#[derive(Clone, Copy)]
struct Admin(SocketAddr);

impl Admin {
    fn ask(self, ask: Ask) -> io::Result<Response> {
        let ask = ask.field("Host", &self.0.to_string());
        let mut client = Client::try_connect(self.0)?;
        client.try_send(ask.bytes())?;
        client.try_response(&ask)
    }

    fn checkpoints(self) -> io::Result<u64> {
        let text = self.ask(Ask::get("/metrics"))?.text();
        let line = text.lines().find_map(|line| line.strip_prefix("tidegate_store_checkpoints_total "));
        Ok(line.and_then(|count| count.trim().parse().ok()).expect("the metric"))
    }
}

/// One client and what it does until the process dies.
struct User<'w> {
    world: &'w World,
    address: SocketAddr,
    admin: Admin,
    noise: Noise,
    dying: &'w AtomicBool,
}

impl User<'_> {
    fn work(mut self) {
        while !self.dying.load(SeqCst) {
            let Ok(mut client) = Client::try_connect(self.address) else { continue };
            while self.act(&mut client).is_ok() {}
            if !self.dying.load(SeqCst) {
                self.world.seen.broken.fetch_add(1, SeqCst);
            }
        }
    }

    fn act(&mut self, client: &mut Client) -> io::Result<()> {
        let number = self.noise.below(TARGETS);
        let ask = Ask::get(&format!("/{number}"));
        match self.noise.below(100) {
            0..70 => self.get(client, number, &ask),
            70..90 if size(number) > 0 => {
                let first = self.noise.below(size(number));
                let last = first + self.noise.below(200_000);
                self.get(client, number, &ask.field("Range", &format!("bytes={first}-{last}")))
            }
            90..95 => self.get(client, number, &ask.field("Cache-Control", "no-cache")),
            _ => self.purge(number),
        }
    }

    fn get(&mut self, client: &mut Client, number: u64, ask: &Ask) -> io::Result<()> {
        let floor = self.world.floor(number).now();
        client.try_send(ask.bytes())?;
        let response = client.try_response(ask)?;
        self.world.check(number, floor, &response);
        Ok(())
    }

    /// The origin has a newer version from now on, and the older ones are purged.
    fn purge(&mut self, number: u64) -> io::Result<()> {
        let version = self.world.versions[number as usize].fetch_add(1, SeqCst) + 1;
        let url = format!("{{\"url\": \"http://www.example.com/{number}\"}}");
        let ask = Ask::post("/api/v1/purge", url.as_bytes()).field("Content-Type", "application/json");
        let answered = self.admin.ask(ask)?;
        assert_eq!(answered.status(), 200, "{answered:?}");
        let checkpoints = self.admin.checkpoints()?;
        self.world.floor(number).answered.push((version, checkpoints));
        self.world.seen.purges.fetch_add(1, SeqCst);
        Ok(())
    }
}

fn kill_under_load(world: &World, tidegate: &mut Tidegate, noise: &mut Noise) {
    let (address, admin) = (tidegate.address(), Admin(tidegate.admin_address()));
    let dying = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let noise = Noise::new(1 + noise.below(u64::MAX));
            let user = User { world, address, admin, noise, dying: &dying };
            scope.spawn(move || user.work());
        }
        thread::sleep(Duration::from_millis(50 + noise.below(450)));
        let checkpoints = admin.checkpoints().unwrap();
        dying.store(true, SeqCst);
        tidegate.kill();
        world.crash(checkpoints);
    });
}

#[test]
fn killed_again_and_again_and_never_wrong() {
    let (rounds, seed) = (setting("TIDEGATE_KILL_ROUNDS", 40), setting("TIDEGATE_SEED", 20_261_121));
    println!("replay with: TIDEGATE_KILL_ROUNDS={rounds} TIDEGATE_SEED={seed} cargo test --test store kill");
    let (world, mut noise) = (World::new(), Noise::new(seed));
    let origin = world.origin();
    let mut tidegate = Tidegate::reverse(&origin).memory("2MiB").store("64MiB").toml(SETTINGS).start();
    for _ in 0..rounds {
        kill_under_load(&world, &mut tidegate, &mut noise);
        tidegate.restart();
        world.sweep(&tidegate, &mut noise);
    }
    assert_eq!(
        tidegate.metrics().sum("tidegate_checksum_failures_total"),
        0.0,
        "something torn was recovered"
    );
    let Seen { responses, bytes, hits, broken, purges, durable_purges, hits_after_starts } = &world.seen;
    let told = [responses, bytes, hits, broken, purges, durable_purges, hits_after_starts];
    let [responses, bytes, hits, broken, purges, durable, after] = told.map(|count| count.load(SeqCst));
    println!(
        "{rounds} kills: {responses} responses and {bytes} bytes compared, {hits} hits, {after} of them right after \
         starts; {purges} purges, {durable} of them covered by a checkpoint; {broken} transfers broken off before kills"
    );
    assert!(after > rounds && durable > rounds / 4, "the test looks at too little");
}

/// Asks for small objects, past what is stored, until the process dies: so there is always something to checkpoint.
fn keep_busy(mut client: Client, seed: u64) {
    let mut noise = Noise::new(seed);
    loop {
        let ask = Ask::get(&format!("/noise-{}-900", noise.below(50))).field("Cache-Control", "no-cache");
        if client.try_send(ask.bytes()).is_err() || client.try_response(&ask).is_err() {
            return;
        }
    }
}

/// Nothing that was stored before the last checkpoint but one ended is lost by a kill, whatever happens meanwhile.
#[test]
fn what_a_checkpoint_covers_outlives_a_kill_under_load() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).memory("1MiB").store("256MiB").toml(SETTINGS).start();
    let mut stored: Vec<String> = Vec::new();
    for round in 1..=3 {
        let sizes = [0, 700, 16_384, 20_000, 300_000, 1_500_000];
        let new: Vec<String> =
            (0..48).map(|number| format!("/{round}-{number}-{}", sizes[number % sizes.len()])).collect();
        let before = tidegate.metrics().sum("tidegate_store_objects") as u64;
        get_all(&tidegate, &new);
        tidegate.wait_stored(before + new.len() as u64);
        stored.extend(new);
        let admin = Admin(tidegate.admin_address());
        let complete = admin.checkpoints().unwrap();
        let clients: Vec<Client> = (0..3).map(|_| tidegate.client()).collect();
        thread::scope(|scope| {
            for (seed, client) in (round * 10..).zip(clients) {
                scope.spawn(move || keep_busy(client, seed as u64));
            }
            let covered = || (admin.checkpoints().unwrap() >= complete + 2).then_some(());
            eventually("two more checkpoints are complete", covered);
            tidegate.kill();
        });
        tidegate.restart();
        let lost: Vec<&String> = stored.iter().filter(|target| !get(&tidegate, target)).collect();
        assert!(lost.is_empty(), "round {round}: {} of {} lost: {lost:?}", lost.len(), stored.len());
    }
}

const SEGMENT: u64 = 4 << 20;

/// A kill leaves what was written last unchecked: all of it is checked before it is sent. Here something of all that is
/// on the device is damaged behind the dead process's back.
#[test]
fn what_is_damaged_behind_a_kill_is_never_served() {
    let origin = sized_origin();
    let objects = [targets(100, 3000), targets(40, 60_000), targets(8, 3_000_000)].concat();
    let toml = "[store]\ncheckpoint = \"100ms\"\nscrub = \"off\"";
    let mut tidegate = Tidegate::reverse(&origin).memory("1MiB").store("64MiB").toml(toml).start();
    let stored = |tidegate: &Tidegate| tidegate.metrics().sum("tidegate_store_objects") >= 140.0;
    eventually("most is stored", || {
        // A device that is behind declines some: they are asked for again.
        get_all(&tidegate, &objects);
        stored(&tidegate).then_some(())
    });
    // Long enough for a checkpoint every 100 ms to cover it, also on a busy machine; a quiet store takes no more of them.
    thread::sleep(Duration::from_millis(1500));
    tidegate.kill();
    let mut noise = Noise::new(815);
    for at in (SEGMENT..64 << 20).step_by(8192) {
        // Frames and contents tables are left alone: without them nothing would be found that could be wrong.
        if (8192..SEGMENT - (256 << 10)).contains(&(at % SEGMENT)) {
            flip_bit(&tidegate.store_path(), at + noise.below(8192));
        }
    }
    tidegate.restart();
    for target in &objects {
        let mut client = tidegate.client();
        client.send(Ask::get(target).bytes());
        assert_eq!(client.head().status(), 200, "{target}");
        crate::right_until_broken(&mut client, target);
    }
    let failures = tidegate.metrics().sum("tidegate_checksum_failures_total");
    assert!(failures >= 20.0, "{failures}: the test looks at too little");
}
