//! Devices that are slow, do not answer, or fail: requests go on, the device is retired and reported, the rest serves.
//!
//! The devices are files on a filesystem of the test's own, which answers as it is told ([`FaultyDisk`]).

use std::time::Duration;

use rustix::process::Signal;
use testkit::{Ask, Fate, FaultyDisk, LoopDevice, Tidegate, eventually, not_run};

use crate::{get, get_all, right_until_broken, sized_origin, targets};

/// Nothing where this machine has no FUSE for us, and then that was said.
fn faulty(test: &str) -> Option<FaultyDisk> {
    FaultyDisk::of(&format!("store::failing::{test}"))
}

/// Two devices of one store: the faulty one, and an ordinary file beside it.
struct Pair {
    disk: FaultyDisk,
    faulty: String,
    sound: String,
}

impl Pair {
    fn new(disk: FaultyDisk) -> Pair {
        let faulty = disk.path().display().to_string();
        let sound = disk.backing().with_file_name("sound");
        std::fs::File::create(&sound).unwrap().set_len(256 << 20).unwrap();
        let sound = sound.display().to_string();
        Tidegate::run(&["format", &faulty, &sound]).expect(0);
        Pair { disk, faulty, sound }
    }

    /// Nothing small comes from memory; devices have little time.
    fn start(&self, origin: &testkit::Origin, toml: &str) -> Tidegate {
        Tidegate::reverse(origin)
            .store_at(&self.faulty)
            .store_at(&self.sound)
            .memory("0B")
            .toml(&format!("[store]\nread_timeout = \"300ms\"\n{toml}"))
            .start()
    }

    fn retired(&self, tidegate: &Tidegate) -> bool {
        let sample = format!("tidegate_store_device_retired{{device=\"{}\"}}", self.faulty);
        tidegate.metrics().get(&sample) == 1.0
    }
}

/// What lies on both devices: small objects by their keys, large ones in extents.
fn mixed() -> Vec<String> {
    [targets(40, 9000), targets(12, 3_000_000)].concat()
}

fn fill(tidegate: &Tidegate) -> Vec<String> {
    let objects = mixed();
    get_all(tidegate, &objects);
    tidegate.wait_stored(objects.len() as u64);
    objects
}

/// Asks for all of them, each on a connection of its own, and compares every byte that comes: what was begun may break
/// off where the rest of it is out of reach. How many were whole hits.
fn ask_all(tidegate: &Tidegate, objects: &[String]) -> usize {
    let whole_hit = |target: &&String| {
        let mut client = tidegate.client();
        client.send(Ask::get(target).bytes());
        let head = client.head();
        assert_eq!(head.status(), 200, "{target}: {head:?}");
        let hit = head.field("cache-status").is_some_and(|status| status.contains("; hit"));
        right_until_broken(&mut client, target) && hit
    };
    objects.iter().filter(whole_hit).count()
}

/// Asks until the device is retired, comparing every byte; then checks how that is reported.
#[track_caller]
fn expect_retirement(pair: &Pair, tidegate: &Tidegate, objects: &[String]) {
    eventually("the device is retired", || {
        ask_all(tidegate, objects);
        pair.retired(tidegate).then_some(())
    });
    let status = tidegate.status();
    let devices = status["store"]["devices"].as_array().unwrap();
    let retired: Vec<bool> = devices.iter().map(|device| device["retired"].as_bool().unwrap()).collect();
    assert_eq!(retired, [true, false], "{status}");
    tidegate.admin(Ask::get("/readyz")).expect(200);
    eventually("the log tells it", || {
        let told = |line: &&str| line.contains("device retired") && line.contains(&pair.faulty);
        let (out, err) = (tidegate.stdout(), tidegate.stderr());
        out.lines().chain(err.lines()).find(told).map(|_| ())
    });
    get_all(tidegate, objects);
    eventually("the other device holds them all", || {
        (get_all(tidegate, objects) == objects.len()).then_some(())
    });
}

/// Stops it while requests to the device have no answer. (The kernel keeps the process until the device gives these
/// back, as it would keep any other: the test lets go of them once all that is ours is done.)
#[track_caller]
fn expect_a_clean_stop(pair: Pair, mut tidegate: Tidegate) {
    tidegate.signal(Signal::TERM);
    eventually("it says that it has stopped", || {
        [tidegate.stdout(), tidegate.stderr()].iter().any(|said| said.contains("stopped")).then_some(())
    });
    let (home, sound) = pair.release();
    assert_eq!(tidegate.wait().code(), Some(0));
    let run = Tidegate::run(&["inspect", "--json", &sound]).expect(0);
    let inspected: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(inspected["devices"][0]["objects"].as_u64() > Some(20), "{inspected}");
    drop(home);
}

impl Pair {
    /// Lets the device go, with all that it has not answered; what is left is the directory of the other one.
    fn release(self) -> (tempfile::TempDir, String) {
        (self.disk.release(), self.sound)
    }
}

fn a_device_whose_reads_hang(test: &str, io: &str) {
    let Some(disk) = faulty(test) else { return };
    let (origin, pair) = (sized_origin(), Pair::new(disk));
    let tidegate = pair.start(&origin, &format!("io = \"{io}\"\ndevice_timeout = \"2s\""));
    let objects = fill(&tidegate);
    pair.disk.forget_pages();
    pair.disk.reads(Fate::Never);
    expect_retirement(&pair, &tidegate, &objects);
    assert!(pair.disk.reads_under_way() > 0, "nothing was asked of the device");
    expect_a_clean_stop(pair, tidegate);
}

#[test]
fn reads_that_hang_when_bodies_are_read_past_the_page_cache() {
    a_device_whose_reads_hang("reads_that_hang_when_bodies_are_read_past_the_page_cache", "direct");
}

#[test]
fn reads_that_hang_when_bodies_come_through_the_page_cache() {
    a_device_whose_reads_hang("reads_that_hang_when_bodies_come_through_the_page_cache", "page-cache");
}

#[test]
fn writes_that_hang() {
    let Some(disk) = faulty("writes_that_hang") else { return };
    let (origin, pair) = (sized_origin(), Pair::new(disk));
    let tidegate = pair.start(&origin, "device_timeout = \"2s\"");
    let before = fill(&tidegate);
    pair.disk.writes(Fate::Never);
    let objects: Vec<String> = before.iter().map(|target| target.replace('/', "/again-")).collect();
    get_all(&tidegate, &objects);
    expect_retirement(&pair, &tidegate, &objects);
    expect_a_clean_stop(pair, tidegate);
}

/// A device that does not answer any more when the store is opened again: the other one serves.
fn a_start_beside_a_device_that_hangs(test: &str, hang: fn(&FaultyDisk)) {
    let Some(disk) = faulty(test) else { return };
    let (origin, pair) = (sized_origin(), Pair::new(disk));
    let mut tidegate = pair.start(&origin, "io = \"direct\"\ndevice_timeout = \"1s\"");
    let objects = fill(&tidegate);
    tidegate.stop();
    pair.disk.forget_pages();
    hang(&pair.disk);
    tidegate.restart();
    assert!(pair.retired(&tidegate), "{}", tidegate.status());
    let hits = get_all(&tidegate, &targets(40, 9000));
    assert!((1..40).contains(&hits), "{hits} hits: half of the objects are on each device");
    let told = |line: &str| line.contains("does not answer") && line.contains(&pair.faulty);
    let said = [tidegate.stdout(), tidegate.stderr()].concat();
    assert!(said.lines().any(told), "it is not told: {said}");
    let status = tidegate.status();
    let devices = status["store"]["devices"].as_array().unwrap();
    let reported = |device: &&serde_json::Value| device["path"] == pair.faulty && device["retired"] == true;
    assert_eq!(devices.iter().filter(reported).count(), 1, "{status}");
    eventually("the other device holds them all", || {
        (get_all(&tidegate, &objects) == objects.len()).then_some(())
    });
    expect_a_clean_stop(pair, tidegate);
}

#[test]
fn a_start_beside_a_device_that_cannot_be_read() {
    let test = "a_start_beside_a_device_that_cannot_be_read";
    a_start_beside_a_device_that_hangs(test, |disk| disk.reads(Fate::Never));
}

#[test]
fn a_start_beside_a_device_that_cannot_be_written() {
    let test = "a_start_beside_a_device_that_cannot_be_written";
    a_start_beside_a_device_that_hangs(test, |disk| disk.writes(Fate::Never));
}

#[test]
fn requests_that_fail() {
    let Some(disk) = faulty("requests_that_fail") else { return };
    let (origin, pair) = (sized_origin(), Pair::new(disk));
    let mut tidegate = pair.start(&origin, "io = \"direct\"");
    let objects = fill(&tidegate);
    pair.disk.reads(Fate::Fails);
    expect_retirement(&pair, &tidegate, &objects);
    tidegate.stop();
}

#[test]
fn a_device_that_comes_to_itself_is_kept() {
    let Some(disk) = faulty("a_device_that_comes_to_itself_is_kept") else { return };
    let (origin, pair) = (sized_origin(), Pair::new(disk));
    let tidegate = pair.start(&origin, "io = \"direct\"\ndevice_timeout = \"20s\"");
    let objects = fill(&tidegate);
    pair.disk.reads(Fate::After(Duration::from_millis(1500)));
    // One request at a time, and no more than it takes: many reads that are too slow retire the device.
    let unanswered = || tidegate.metrics().sum("tidegate_store_reads_unanswered_total") > 0.0;
    let slow = objects.iter().find(|target| ask_all(&tidegate, std::slice::from_ref(target)) == 0);
    assert!(slow.is_some() && unanswered(), "no read took too long");
    pair.disk.reads(Fate::Well);
    eventually("everything is a hit again", || (get_all(&tidegate, &objects) == objects.len()).then_some(()));
    assert!(!pair.retired(&tidegate));
}

#[test]
fn a_large_body_is_read_from_two_devices_at_once() {
    let test = "a_large_body_is_read_from_two_devices_at_once";
    let (Some(one), Some(two)) = (faulty(test), faulty(test)) else { return };
    let origin = sized_origin();
    let paths = [&one, &two].map(|disk| disk.path().display().to_string());
    Tidegate::run(&["format", &paths[0], &paths[1]]).expect(0);
    let tidegate = Tidegate::reverse(&origin)
        .store_at(&paths[0])
        .store_at(&paths[1])
        .toml("[store]\nio = \"direct\"\nread_timeout = \"20s\"")
        .start();
    assert!(!get(&tidegate, "/striped-4000000"));
    tidegate.wait_stored(1);
    for disk in [&one, &two] {
        disk.reads(Fate::After(Duration::from_millis(400)));
    }
    std::thread::scope(|scope| {
        let answered = scope.spawn(|| get(&tidegate, "/striped-4000000"));
        eventually("both devices are asked at the same time", || {
            let under_way = [one.reads_under_way(), two.reads_under_way()];
            assert!(!answered.is_finished(), "the body was read from one device after the other");
            (under_way[0] > 0 && under_way[1] > 0).then_some(())
        });
        assert!(answered.join().unwrap(), "it was not stored");
    });
}

#[test]
fn small_extents_reach_a_busy_device_in_large_writes() {
    let Some(disk) = faulty("small_extents_reach_a_busy_device_in_large_writes") else { return };
    let origin = sized_origin();
    let path = disk.path().display().to_string();
    Tidegate::run(&["format", &path]).expect(0);
    let tidegate = Tidegate::reverse(&origin).store_at(&path).start();
    disk.writes(Fate::After(Duration::from_millis(50)));
    let before = tidegate.metrics();
    let objects = targets(600, 65_536);
    std::thread::scope(|scope| {
        for part in objects.chunks(50) {
            let tidegate = &tidegate;
            scope.spawn(move || get_all(tidegate, part));
        }
    });
    let all = eventually("most is written", || {
        let now = tidegate.metrics().since(&before);
        (now.sum("tidegate_store_device_written_bytes_total") > 25e6).then_some(now)
    });
    let mean =
        all.sum("tidegate_store_device_written_bytes_total") / all.sum("tidegate_store_device_writes_total");
    assert!(mean >= f64::from(1 << 20), "{mean} bytes a write");
    get_all(&tidegate, &objects);
}

/// Started again, so that nothing but what is asked for from now on is in memory.
fn started_again(mut tidegate: Tidegate) -> Tidegate {
    tidegate.stop();
    tidegate.restart();
    tidegate
}

/// A thread of the network that waited for the device would wait until the test gives up.
#[test]
fn what_is_in_memory_is_served_while_the_device_does_not_answer() {
    let Some(disk) = faulty("what_is_in_memory_is_served_while_the_device_does_not_answer") else { return };
    let origin = sized_origin();
    let path = disk.path().display().to_string();
    Tidegate::run(&["format", &path]).expect(0);
    let settings = "[store]\nio = \"direct\"\nread_timeout = \"60s\"\ndevice_timeout = \"60s\"";
    let tidegate = Tidegate::reverse(&origin).store_at(&path).workers(1).toml(settings).start();
    let cold = targets(4, 20_000);
    get_all(&tidegate, &cold);
    assert!(!get(&tidegate, "/hot-1000"));
    tidegate.wait_stored(cold.len() as u64 + 1);
    let tidegate = started_again(tidegate);
    assert!(get(&tidegate, "/hot-1000"));
    disk.reads(Fate::Held);
    std::thread::scope(|scope| {
        let readers: Vec<_> = cold.iter().map(|target| scope.spawn(|| get(&tidegate, target))).collect();
        eventually("all of them are read", || (disk.reads_under_way() >= cold.len()).then_some(()));
        let mut client = tidegate.client();
        (0..1000).for_each(|_| assert!(crate::get_on(&mut client, "/hot-1000")));
        assert!(disk.reads_under_way() >= cold.len(), "the device answered");
        disk.reads(Fate::Well);
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap()));
    });
}

/// A read behind one of the writes would wait until the test gives up.
#[test]
fn reads_do_not_wait_for_large_writes() {
    let Some(disk) = faulty("reads_do_not_wait_for_large_writes") else { return };
    let origin = sized_origin();
    let path = disk.path().display().to_string();
    Tidegate::run(&["format", &path]).expect(0);
    let settings = "[store]\nio = \"direct\"\nread_timeout = \"60s\"\ndevice_timeout = \"60s\"";
    let tidegate = Tidegate::reverse(&origin).store_at(&path).memory("0B").toml(settings).start();
    let cold = targets(15, 60_000);
    get_all(&tidegate, &cold);
    tidegate.wait_stored(cold.len() as u64);
    let tidegate = started_again(tidegate);
    disk.writes(Fate::Held);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (tidegate, target) = (&tidegate, format!("/large-{writer}-12000000"));
            scope.spawn(move || get(tidegate, &target));
        }
        let under_way = format!("tidegate_store_queue{{device=\"{path}\"}}");
        eventually("the device has writes to do", || {
            (tidegate.metrics().get(&under_way) >= 4.0).then_some(())
        });
        let hits = get_all(&tidegate, &cold);
        disk.writes(Fate::Well);
        assert_eq!(hits, cold.len());
    });
}

#[test]
fn one_of_four_raw_disks_fails_under_traffic() {
    let test = "one_of_four_raw_disks_fails_under_traffic";
    let Some(disk) = faulty(test) else { return };
    let disks: Result<Vec<LoopDevice>, String> = std::iter::once(LoopDevice::over(&disk.path()))
        .chain((0..3).map(|_| LoopDevice::new(256 << 20)))
        .collect();
    let disks = match disks {
        Ok(disks) => disks,
        Err(why) => return not_run(&format!("store::failing::{test}"), &why),
    };
    let paths: Vec<String> = disks.iter().map(|disk| disk.path().display().to_string()).collect();
    let arguments: Vec<&str> = std::iter::once("format").chain(paths.iter().map(String::as_str)).collect();
    Tidegate::run(&arguments).expect(0);
    let origin = sized_origin();
    let start = || {
        let builder = Tidegate::reverse(&origin).memory("1MiB");
        paths.iter().fold(builder, |builder, path| builder.store_at(path)).start()
    };
    let mut tidegate = start();
    let objects = [targets(200, 9000), targets(120, 150_000), targets(20, 3_000_000)].concat();
    get_all(&tidegate, &objects);
    tidegate.wait_stored(objects.len() as u64);
    tidegate.stop();
    let mut tidegate = start();
    let failing = format!("tidegate_store_device_retired{{device=\"{}\"}}", paths[0]);
    std::thread::scope(|scope| {
        let clients: Vec<_> = objects
            .chunks(objects.len().div_ceil(4))
            .map(|part| {
                let tidegate = &tidegate;
                scope.spawn(move || (0..3).map(|_| ask_all(tidegate, part)).sum::<usize>())
            })
            .collect();
        disk.reads(Fate::Fails);
        disk.writes(Fate::Fails);
        let hits: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(hits > objects.len(), "{hits} hits of {}", 3 * objects.len());
    });
    eventually("the disk is retired", || {
        ask_all(&tidegate, &objects);
        (tidegate.metrics().get(&failing) == 1.0).then_some(())
    });
    eventually("the other three hold everything", || {
        (get_all(&tidegate, &objects) == objects.len()).then_some(())
    });
    assert_eq!(tidegate.metrics().sum("tidegate_checksum_failures_total"), 0.0);
    tidegate.stop();
}
