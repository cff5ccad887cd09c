//! The request stage: what is refused, with which words, and what is served all the same.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use testkit::{Ask, Client, Origin, Reply, Response, Script, Tidegate};

use crate::{CALM, calm, overload, shed};

/// A refusal as product and RFCs have it: 503, when to come back, why, and the connection goes on.
#[track_caller]
fn refused(response: Response, detail: &str) {
    let response = response.expect(503).cache(&format!("detail={detail}"));
    let seconds: u64 = response.field("retry-after").expect("Retry-After").parse().unwrap();
    assert!((1..=10).contains(&seconds), "{seconds}");
    let told = response.field("proxy-status").unwrap_or_default();
    assert!(told.contains("error=proxy_internal_response") && told.contains(detail), "{told}");
    assert_eq!(response.field("connection"), None);
}

#[test]
fn hits_from_memory_are_served_and_misses_refused_until_it_is_over() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).arg("--log-access").arg("stdout").start();
    let mut client = tidegate.client();
    tidegate.warm("/hit");
    overload(&tidegate);
    let asked = origin.count();
    for _ in 0..20 {
        client.get("/hit").expect(200).cache("hit");
        refused(client.get("/miss"), "shed-miss");
    }
    refused(client.ask(Ask::post("/", b"body that is read to its end")), "shed-miss");
    client.get("/hit").expect(200).cache("hit");
    assert_eq!(origin.count(), asked);
    assert_eq!(shed(&tidegate, "request"), 21.0);
    assert_eq!(tidegate.metrics().requests("shed"), 21.0);
    // The admin interface, on connections that are new, says so.
    let status = &tidegate.status()["overload"];
    assert_eq!((&status["overloaded"], &status["level"]), (&true.into(), &3.0.into()), "{status}");
    assert_eq!(status["shed"]["request"], 21, "{status}");
    calm(&tidegate);
    client.get("/miss").expect(200).cache("fwd=uri-miss");
    testkit::eventually("the log says why", || tidegate.stdout().contains("shed-miss").then_some(()));
}

/// Refusals are counted over the time that they took, so a slow machine only makes them fewer.
#[test]
fn who_asks_again_at_once_is_refused_at_a_bounded_pace() {
    const PACE: f64 = 5000.0;
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).start();
    tidegate.warm("/hit");
    let mut crowds: Vec<Vec<Client>> =
        (0..4).map(|_| (0..400).map(|_| tidegate.client()).collect()).collect();
    let mut other = tidegate.client();
    crowds.iter_mut().flatten().for_each(|client| drop(client.get("/hit").expect(200)));
    overload(&tidegate);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for crowd in &mut crowds {
            scope.spawn(|| {
                for _ in 0..8 {
                    crowd.iter_mut().for_each(|client| client.send(Ask::get("/miss").bytes()));
                    crowd.iter_mut().for_each(|client| drop(client.response().expect(503)));
                }
            });
        }
        // Who was not refused is heard meanwhile.
        (0..100).for_each(|_| drop(other.get("/hit").expect(200).cache("hit")));
    });
    let seconds = start.elapsed().as_secs_f64();
    let refused = 4.0 * 400.0 * 8.0;
    // A refusal is counted behind its last byte.
    testkit::eventually("all are counted", || (shed(&tidegate, "request") == refused).then_some(()));
    // A quarter of a second's worth waits at the end.
    assert!(refused <= (seconds + 0.25) * PACE * 1.2 + 1600.0, "{refused} in {seconds} s");
}

#[test]
fn what_may_be_stale_is_served_stale_and_nobody_asks_behind() {
    let stale = |directive: &str| {
        Reply::ok("old").field("Cache-Control", &format!("max-age=10, {directive}")).field("Age", "20")
    };
    let origin = Origin::answering(move |request| match request.head.target() {
        "/if-error" => stale("stale-if-error=60"),
        "/while" => stale("stale-while-revalidate=60"),
        _ => stale("must-revalidate"),
    });
    // No checkpoint: what is stored stays in the buffer of the log, and no device needs to be read for it.
    let toml = format!("{CALM}[store]\ncheckpoint = \"1h\"\n");
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(&toml).start();
    let mut client = tidegate.client();
    for target in ["/if-error", "/while", "/must"] {
        client.get(target).expect(200);
    }
    overload(&tidegate);
    let asked = origin.count();
    client.get("/if-error").expect(200).with_body("old");
    client.get("/while").expect(200).with_body("old");
    refused(client.get("/must"), "shed-miss");
    // Had anybody asked behind the answer, it would have been before this one.
    client.get("/while").expect(200).with_body("old");
    assert_eq!(origin.count(), asked);
}

#[test]
fn hits_on_devices_are_refused_last() {
    let origin = Origin::always(Reply::fresh(vec![b'x'; 100_000]));
    // Without a memory tier each hit is one on a device.
    let toml = format!("{CALM}[store]\ncheckpoint = \"100ms\"\n");
    let tidegate = Tidegate::reverse(&origin).memory("0B").workers(1).toml(&toml).start();
    tidegate.warm("/hit");
    let mut client = tidegate.client();
    overload(&tidegate);
    testkit::eventually("what was in the log's buffer is on the device", || {
        (client.get("/hit").status() == 503).then_some(())
    });
    refused(client.get("/hit"), "shed-disk-hit");
    calm(&tidegate);
    client.get("/hit").expect(200).cache("hit");
}

/// Two that ask for the same: the fetch of the first is under way when the overload begins, and then the second joins it. Both
/// wait until the origin is let answer.
struct Joined {
    release: mpsc::Sender<()>,
    first: Client,
    second: Client,
    tidegate: Tidegate,
    origin: Origin,
}

impl Joined {
    fn to(answer: fn() -> Reply) -> Joined {
        let (release, gate) = mpsc::channel::<()>();
        let gate = std::sync::Mutex::new(gate);
        let origin = Origin::answering(move |_| {
            gate.lock().unwrap().recv().unwrap();
            answer()
        });
        let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).start();
        let (mut first, mut second) = (tidegate.client(), tidegate.client());
        first.send(Ask::get("/slow").bytes());
        testkit::eventually("it is under way", || {
            (tidegate.metrics().sum("tidegate_origin_requests_total") == 1.0).then_some(())
        });
        overload(&tidegate);
        second.send(Ask::get("/slow").bytes());
        Joined { release, first, second, tidegate, origin }
    }
}

#[test]
fn what_is_on_its_way_already_may_be_joined() {
    let Joined { release, mut first, mut second, tidegate: _serving, origin: _answering } =
        Joined::to(|| Reply::fresh("slow"));
    second.expect_silence(Duration::from_millis(100));
    release.send(()).unwrap();
    first.response().expect(200).with_body("slow");
    second.response().expect(200).with_body("slow");
    refused(second.get("/other"), "shed-miss");
}

#[test]
fn who_has_waited_too_long_in_a_queue_of_ours_is_not_worked_on() {
    let Joined { release, mut first, mut second, tidegate: _serving, origin } =
        Joined::to(|| Reply::ok("mine alone").field("Cache-Control", "no-store"));
    // More than a second: by now the client has mostly given up.
    second.expect_silence(Duration::from_millis(1100));
    release.send(()).unwrap();
    first.response().expect(200).with_body("mine alone");
    refused(second.response(), "shed-waited");
    assert_eq!(origin.count(), 1);
}

#[test]
fn tunnels_are_refused_like_what_needs_a_connection() {
    let origin = Script::new();
    let tidegate = Tidegate::forward().workers(1).toml(CALM).start();
    let mut client = tidegate.client();
    overload(&tidegate);
    client.send("CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n");
    refused(client.response(), "shed-new-connection");
    origin.expect_untouched();
}

#[test]
fn switched_off_it_refuses_nothing() {
    let origin = Origin::always(Reply::ok("x"));
    let toml = "[overload]\nshedding = \"off\"\nmemory = 0.001\nloop_delay = \"1ms\"\n";
    let tidegate = Tidegate::reverse(&origin).toml(toml).start();
    testkit::eventually("the sign is there", || {
        (tidegate.metrics().sum("tidegate_memory_used_ratio") > 0.001).then_some(())
    });
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..20 {
        tidegate.get("/").expect(200);
    }
    let metrics = tidegate.metrics();
    assert_eq!((metrics.sum("tidegate_overloaded"), metrics.sum("tidegate_shed_total")), (0.0, 0.0));
}

#[test]
fn new_connections_are_dropped_at_the_syn_and_come_through_when_it_is_over() {
    let origin = Origin::always(Reply::fresh("x"));
    let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).start();
    let mut before = tidegate.client();
    before.get("/").expect(200);
    tidegate.warm("/");
    overload(&tidegate);
    // The filter comes with the first connection; what it drops the kernel sends again after a second.
    let address = tidegate.address();
    let mut come = Vec::new();
    testkit::eventually("SYNs are dropped", || {
        come.push(std::thread::spawn(move || Client::connect(address).get("/").expect(200)));
        (shed(&tidegate, "syn") > 0.0).then_some(())
    });
    before.get("/").expect(200).cache("hit");
    calm(&tidegate);
    for connection in come {
        connection.join().unwrap();
    }
    // Without the filter a new connection takes no second try.
    let dropped = shed(&tidegate, "syn");
    for _ in 0..50 {
        tidegate.get("/").expect(200).cache("hit");
    }
    assert_eq!(shed(&tidegate, "syn"), dropped);
}
