//! How stored bodies are read in both modes: what the kernel keeps, what the process keeps, who calls what.

use sys::device::Device;
use testkit::{Ask, Client, Metrics, Origin, Pattern, Reply, Tidegate, not_run};

use crate::{MIB, SMALL, moved, traced, user_bytes};

const PAGE_CACHE: &str = "[store]\nio = \"page-cache\"";
const DIRECT: &str = "[store]\nio = \"direct\"\nwarm = \"8MiB\"";

/// Heads, superblocks and contents tables: what of the store may be in the page cache besides bodies.
const BESIDES: u64 = 256 * 1024;

/// A cache that has these objects of `bytes` each on its device and has just been started.
fn holding(toml: &str, objects: &[String], bytes: u64) -> (Origin, Tidegate) {
    let origin = Origin::answering(move |request| {
        Reply::generated(Pattern::of(request.head.target()), bytes).field("Cache-Control", "max-age=3600")
    });
    let mut tidegate = Tidegate::reverse(&origin).store("256MiB").toml(toml).start();
    objects.iter().for_each(|object| drop(tidegate.warm(object)));
    tidegate.stop();
    forget_pages(&tidegate);
    tidegate.restart();
    (origin, tidegate)
}

fn objects(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("/{n}")).collect()
}

fn forget_pages(tidegate: &Tidegate) {
    let store = Device::open_read_only(tidegate.store_path()).unwrap();
    store.advise_dontneed(0, store.size_bytes()).unwrap();
}

/// Bytes of the store that the kernel keeps; nothing where it does not say, or keeps all of it anyway.
fn in_page_cache(tidegate: &Tidegate) -> Option<u64> {
    let store = Device::open_read_only(tidegate.store_path()).unwrap();
    store.resident_bytes(0, store.size_bytes())
}

#[track_caller]
fn get(tidegate: &Tidegate, object: &str) {
    let response = tidegate.get(object).expect(200).cache("hit");
    Pattern::of(object).compare(&response.body, 0);
}

fn lookups(metrics: &Metrics, outcome: &str) -> f64 {
    metrics.get(&format!("tidegate_store_warm_lookups_total{{outcome=\"{outcome}\"}}"))
}

#[test]
fn what_is_used_once_does_not_fill_the_page_cache() {
    let objects = objects(6);
    let (_origin, tidegate) = holding(PAGE_CACHE, &objects, MIB);
    let all = objects.len() as u64 * MIB;
    if in_page_cache(&tidegate).is_none_or(|kept| kept > BESIDES) {
        return not_run("zero_copy::what_is_used_once_does_not_fill_the_page_cache", "pages are not counted");
    }
    let before = tidegate.metrics_at_rest();
    objects.iter().for_each(|object| get(&tidegate, object));
    let once = tidegate.metrics_at_rest().since(&before);
    assert!(in_page_cache(&tidegate).unwrap() <= BESIDES, "{:?}", in_page_cache(&tidegate));
    assert_eq!((once.route("memory"), once.route("sendfile")), (all as f64, 0.0));

    objects.iter().for_each(|object| get(&tidegate, object));
    let twice = tidegate.metrics_at_rest().since(&before);
    assert!(in_page_cache(&tidegate).unwrap() >= all, "{:?}", in_page_cache(&tidegate));
    assert_eq!((twice.route("memory"), twice.route("sendfile")), (all as f64, all as f64));
    assert_eq!(tidegate.metrics_at_rest().sum("tidegate_store_warm_bytes"), 0.0, "nothing is kept twice");
}

#[test]
fn direct_reads_keep_the_warm_set_in_memory_of_our_own() {
    let objects = objects(4);
    let (_origin, tidegate) = holding(DIRECT, &objects, MIB);
    let counted = in_page_cache(&tidegate).is_some_and(|kept| kept <= BESIDES);
    let before = tidegate.metrics_at_rest();
    for _ in 0..3 {
        objects.iter().for_each(|object| get(&tidegate, object));
    }
    let spent = tidegate.metrics_at_rest().since(&before);
    assert_eq!((lookups(&spent, "read"), lookups(&spent, "kept")), (4.0, 8.0));
    assert_eq!((spent.route("memory"), spent.route("sendfile")), (12.0 * MIB as f64, 0.0));
    assert_eq!(spent.get("tidegate_user_copied_body_bytes_total"), 0.0, "nothing was received");
    assert_eq!(tidegate.metrics_at_rest().sum("tidegate_store_warm_bytes"), 4.0 * MIB as f64);
    if !counted {
        return not_run("zero_copy::direct_reads_keep_…: what the kernel keeps", "pages are not counted");
    }
    assert!(in_page_cache(&tidegate).unwrap() <= BESIDES, "{:?}", in_page_cache(&tidegate));
}

/// A first hit after a start is checked, and a disk is read, without a single read call of any thread: through the ring,
/// into the memory that it is sent from.
#[test]
fn what_is_checked_is_what_is_sent() {
    for toml in [PAGE_CACHE, DIRECT] {
        let (_origin, tidegate) = holding(toml, &objects(1), MIB);
        let mut client = tidegate.client();
        let calls = traced(&tidegate, || {
            let response = client.get("/0").expect(200).cache("hit");
            Pattern::of("/0").compare(&response.body, 0);
        });
        let calls = match calls {
            Ok(calls) => calls,
            Err(why) => return not_run("zero_copy::what_is_checked_is_what_is_sent", &why),
        };
        let read = moved(calls.iter().filter(|call| call.reads()));
        assert!(read < SMALL, "{toml}: {calls:#?}");
        assert!((MIB..MIB + SMALL).contains(&(user_bytes(&calls) - read)), "{toml}: {calls:#?}");
        assert_eq!(moved(calls.iter().filter(|call| call.name == "sendfile")), 0, "{toml}: {calls:#?}");
    }
}

#[test]
fn a_warm_hit_of_direct_reads_is_sends_alone() {
    let (_origin, tidegate) = holding(DIRECT, &objects(1), MIB);
    let mut client = tidegate.client();
    client.get("/0").expect(200).cache("hit");
    let calls = traced(&tidegate, || drop(client.get("/0").expect(200).cache("hit")));
    let calls = match calls {
        Ok(calls) => calls,
        Err(why) => return not_run("zero_copy::a_warm_hit_of_direct_reads_is_sends_alone", &why),
    };
    let sent = moved(calls.iter().filter(|call| call.writes()));
    assert!((MIB..MIB + SMALL).contains(&sent), "{calls:#?}");
    assert!(user_bytes(&calls) - sent < SMALL, "{calls:#?}");
    assert!(calls.iter().all(|call| call.name != "sendfile" && call.name != "splice"), "{calls:#?}");
}

#[test]
fn one_read_serves_all_who_ask_at_once() {
    let (_origin, tidegate) = holding(DIRECT, &objects(1), 3 * MIB);
    let before = tidegate.metrics_at_rest();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| get(&tidegate, "/0"));
        }
    });
    let spent = tidegate.metrics_at_rest().since(&before);
    assert_eq!(lookups(&spent, "read"), 3.0, "one for each MiB: {spent:?}");
    assert_eq!(lookups(&spent, "shared") + lookups(&spent, "kept"), 7.0 * 3.0, "{spent:?}");
}

/// A client that has seen the head and reads nothing more.
fn sleeper(tidegate: &Tidegate, object: &str) -> Client {
    let mut client = tidegate.client();
    client.small_receive_buffer();
    client.send(Ask::get(object).bytes());
    assert_eq!(client.head().status(), 200);
    client
}

/// Clients that take nothing hold memory for reads up to its bound; others are served past it, from the page cache.
#[test]
fn memory_for_reads_is_bounded_whatever_clients_do() {
    let objects = objects(12);
    let (_origin, tidegate) = holding(DIRECT, &objects, 6 * MIB);
    let mut sleepers: Vec<_> = objects.iter().map(|object| sleeper(&tidegate, object)).collect();
    objects.iter().for_each(|object| get(&tidegate, object));
    assert!(tidegate.metrics().sum("tidegate_store_warm_bytes") <= 8.0 * MIB as f64);
    assert!(tidegate.metrics().route("sendfile") > 0.0, "nobody had to go another way: nothing was shown");
    for (client, object) in sleepers.iter_mut().zip(&objects) {
        Pattern::of(object).expect(client, 0, 6 * MIB);
    }
    sleepers.clear();
    assert!(tidegate.metrics_at_rest().sum("tidegate_store_warm_bytes") <= 8.0 * MIB as f64);
}

#[test]
fn both_modes_read_the_same_without_io_uring() {
    if !testkit::have("strace") {
        return not_run("zero_copy::both_modes_read_the_same_without_io_uring", "strace is missing");
    }
    let origin = Origin::answering(|request| {
        Reply::generated(Pattern::of(request.head.target()), 3 * MIB + 77)
            .field("Cache-Control", "max-age=3600")
    });
    for toml in [PAGE_CACHE, DIRECT] {
        let refused = Tidegate::reverse(&origin).without("io_uring_setup", "ENOSYS");
        let mut tidegate = refused.toml(toml).start();
        tidegate.warm("/a");
        tidegate.stop();
        tidegate.restart();
        (0..3).for_each(|_| get(&tidegate, "/a"));
    }
}

/// Without the privilege to lock memory, and with a limit that a ring fits in and a large page does not.
const NO_LOCKED_MEMORY: [&str; 5] =
    ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "prlimit", "--memlock=1048576:1048576"];

#[test]
fn where_memory_may_not_be_locked_reads_go_on_and_doctor_says_so() {
    let test = "zero_copy::where_memory_may_not_be_locked_reads_go_on_and_doctor_says_so";
    if !testkit::is_root() || !testkit::have("setpriv") || !testkit::have("prlimit") {
        return not_run(test, "needs root, setpriv and prlimit");
    }
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let doctor = std::process::Command::new(NO_LOCKED_MEMORY[0])
        .args(&NO_LOCKED_MEMORY[1..])
        .args([binary, "doctor"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    if !said.contains("io_uring: yes") {
        return not_run(test, "io_uring is refused here");
    }
    assert!(said.contains("registered memory for reads: no, reads go without it"), "{said}");
    let origin = Origin::answering(|request| {
        Reply::generated(Pattern::of(request.head.target()), 3 * MIB + 77)
            .field("Cache-Control", "max-age=3600")
    });
    let mut tidegate = Tidegate::reverse(&origin).under(&NO_LOCKED_MEMORY).toml(DIRECT).start();
    tidegate.warm("/a");
    tidegate.stop();
    tidegate.restart();
    (0..3).for_each(|_| get(&tidegate, "/a"));
}
