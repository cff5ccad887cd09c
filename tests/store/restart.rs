//! Warm again after a clean stop and after a kill; nothing half-written is ever served.

use std::time::Duration;

use testkit::{Ask, Client, Noise, Origin, Pattern, Script, Tidegate};

use crate::{get, get_all, sized_origin, targets};

const OFTEN: &str = "[store]\ncheckpoint = \"100ms\"";

/// Long enough for a checkpoint asked for every 100 ms to be on the device, also on a busy machine. Nothing
/// announces it.
fn let_checkpoint_pass() {
    std::thread::sleep(Duration::from_millis(1500));
}

/// Stops it, or kills it behind a checkpoint.
fn end(tidegate: &mut Tidegate, kill: bool) {
    if kill {
        let_checkpoint_pass();
        tidegate.kill();
    } else {
        tidegate.stop();
    }
}

fn mixed() -> Vec<String> {
    [targets(200, 700), targets(100, 20_000), targets(20, 300_000), targets(3, 4_000_000)].concat()
}

fn filled(origin: &Origin) -> Tidegate {
    let tidegate = Tidegate::reverse(origin).memory("2MiB").store("128MiB").toml(OFTEN).start();
    get_all(&tidegate, &mixed());
    tidegate
}

#[track_caller]
fn expect_all_hits(origin: &Origin, tidegate: &Tidegate) {
    let before = origin.count();
    let missed: Vec<String> = mixed().into_iter().filter(|target| !get(tidegate, target)).collect();
    assert!(
        missed.is_empty(),
        "{} of {} missed: {:?}",
        missed.len(),
        mixed().len(),
        &missed[..missed.len().min(5)]
    );
    assert_eq!(origin.count(), before);
}

#[test]
fn warm_after_a_clean_stop() {
    let origin = sized_origin();
    let mut tidegate = filled(&origin);
    tidegate.stop();
    tidegate.restart();
    expect_all_hits(&origin, &tidegate);
}

#[test]
fn warm_after_a_kill() {
    let origin = sized_origin();
    let mut tidegate = filled(&origin);
    let_checkpoint_pass();
    tidegate.kill();
    tidegate.restart();
    expect_all_hits(&origin, &tidegate);
}

#[test]
fn warm_after_many_kills() {
    let origin = sized_origin();
    let mut tidegate = filled(&origin);
    for round in 0..4 {
        get(&tidegate, &format!("/round-{round}-50000"));
        let_checkpoint_pass();
        tidegate.kill();
        tidegate.restart();
    }
    expect_all_hits(&origin, &tidegate);
    assert!((0..4).all(|round| get(&tidegate, &format!("/round-{round}-50000"))));
}

/// However far the index is at each moment: what is found is right, what is purged stays away, nothing is lost.
#[test]
fn served_while_the_index_is_not_whole() {
    let origin = sized_origin();
    let mut tidegate = filled(&origin);
    for kill in [false, true] {
        tidegate.stop();
        tidegate.restart_at_once();
        tidegate.admin(Ask::get("/readyz")).expect(200);
        tidegate.purge("http://www.example.com/7-700");
        get_all(&tidegate, &targets(20, 700));
        tidegate.purge("http://www.example.com/9-700");
        end(&mut tidegate, kill);
        tidegate.restart();
        assert!(!get(&tidegate, "/9-700"), "kill {kill}");
        expect_all_hits(&origin, &tidegate);
    }
    let recovery = &tidegate.status()["store"]["recovery"];
    assert!(recovery["segments"].as_u64() > Some(0), "{recovery}");
    assert_eq!(recovery["segments"], recovery["segments_merged"]);
    assert!(tidegate.stderr().contains("store complete"), "{}", tidegate.stderr());
}

#[test]
fn age_goes_on_while_stopped() {
    let origin =
        Origin::always(testkit::Reply::ok("x").field("Cache-Control", "max-age=100").field("Age", "50"));
    let mut tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    tidegate.stop();
    tidegate.restart();
    assert!(tidegate.get("/").expect(200).cache("hit").age() >= 50);
}

#[test]
fn a_purged_object_stays_away_after_a_restart() {
    for kill in [false, true] {
        let origin = sized_origin();
        let mut tidegate = filled(&origin);
        let_checkpoint_pass();
        tidegate.purge("http://www.example.com/7-700");
        end(&mut tidegate, kill);
        tidegate.restart();
        assert!(!get(&tidegate, "/7-700"), "kill {kill}");
        assert!(get(&tidegate, "/8-700"), "kill {kill}");
    }
}

#[test]
fn the_newest_version_wins_after_a_restart() {
    let version = std::sync::atomic::AtomicUsize::new(0);
    let origin = Origin::answering(move |_| {
        testkit::Reply::fresh(format!(
            "version {}",
            version.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
        ))
    });
    let mut tidegate = Tidegate::reverse(&origin).toml(OFTEN).start();
    for _ in 0..5 {
        tidegate.ask(Ask::get("/").field("Cache-Control", "no-cache")).expect(200);
    }
    let_checkpoint_pass();
    tidegate.kill();
    tidegate.restart();
    tidegate.get("/").expect(200).with_body("version 4").cache("hit");
}

#[test]
fn variants_and_refreshed_heads_survive() {
    let origin = Origin::answering(|request| {
        let language = request.head.field("accept-language").unwrap_or_default();
        let reply = match request.head.has("if-none-match") {
            true => testkit::Reply::not_modified().field("Cache-Control", "max-age=3600").field("X-New", "1"),
            false => testkit::Reply::ok(&language).field("Cache-Control", "max-age=10").field("Age", "20"),
        };
        reply.field("ETag", &format!("\"{language}\"")).field("Vary", "Accept-Language")
    });
    let mut tidegate = Tidegate::reverse(&origin).start();
    let ask = |language: &str| Ask::get("/").field("Accept-Language", language);
    for language in ["de", "en", "de", "en"] {
        tidegate.ask(ask(language)).expect(200).with_body(language);
    }
    tidegate.stop();
    tidegate.restart();
    for language in ["en", "de"] {
        let hit = tidegate.ask(ask(language)).expect(200).with_body(language).cache("hit");
        assert_eq!(hit.field("x-new").as_deref(), Some("1"));
    }
}

#[test]
fn a_kill_during_a_fill_leaves_nothing_of_it() {
    let origin = Script::new();
    let mut tidegate = Tidegate::reverse(&origin).toml(OFTEN).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 6000000\r\n\r\n");
    upstream.send(Pattern(1).bytes(0, 5_000_000));
    client.head();
    Pattern(1).expect(&mut client, 0, 5_000_000);
    let_checkpoint_pass();
    tidegate.kill();
    tidegate.restart();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew");
    client.response().expect(200).with_body("new");
}

/// Asks for random objects until the connection breaks.
fn hammer(mut client: Client, seed: u64) {
    let mut noise = Noise::new(seed);
    let sizes = [0, 100, 4096, 16_384, 16_385, 70_000, 1_048_576, 2_500_000];
    loop {
        let target = format!("/{}-{}", noise.below(200), sizes[noise.below(8) as usize]);
        if client.try_send(Ask::get(&target).bytes()).is_err() {
            return;
        }
        let Ok(head) = client.try_head() else { return };
        assert_eq!(head.status(), 200, "{target}: {head:?}");
        if !crate::right_until_broken(&mut client, &target) {
            return;
        }
    }
}

#[test]
fn killed_under_load_and_still_right() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).memory("2MiB").store("96MiB").toml(OFTEN).start();
    for round in 1..=4 {
        let clients: Vec<Client> = (0..8).map(|_| tidegate.client()).collect();
        std::thread::scope(|scope| {
            for (number, client) in clients.into_iter().enumerate() {
                scope.spawn(move || hammer(client, round * 100 + number as u64));
            }
            std::thread::sleep(Duration::from_millis(700 + 130 * round));
            tidegate.kill();
        });
        tidegate.restart();
    }
    let mut noise = Noise::new(99);
    for _ in 0..200 {
        get(
            &tidegate,
            &format!("/{}-{}", noise.below(200), [100, 16_385, 70_000, 1_048_576][noise.below(4) as usize]),
        );
    }
    assert_eq!(
        tidegate.metrics().sum("tidegate_checksum_failures_total"),
        0.0,
        "what was torn was not noticed at recovery"
    );
}

/// Whoever restarts a process that was killed does not wait until the kernel has cleaned up behind it.
#[test]
fn a_store_that_is_just_being_let_go_is_waited_for() {
    let origin = sized_origin();
    let mut tidegate = Tidegate::reverse(&origin).store("64MiB").start();
    tidegate.stop();
    let held = std::fs::File::open(tidegate.store_path()).unwrap();
    held.lock().unwrap();
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(held);
    });
    tidegate.restart();
    assert!(letting_go.is_finished());
    get_all(&tidegate, &targets(3, 700));
}
