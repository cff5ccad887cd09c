//! Purges by prefix, by tag, of everything, and soft ones: what they name is not served again, wherever it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use testkit::{Address, Ask, Origin, Pattern, Reply, Request, Script, Tidegate, eventually};

/// Answers `/PATH?tags=a+b&size=N` with these tags and so many bytes.
fn tagging(request: &Request) -> Reply {
    let target = request.head.target();
    let value = |name: &str| target.split(['?', '&']).find_map(|part| part.strip_prefix(name)).unwrap_or("");
    let size = value("size=").parse().unwrap_or(100);
    let reply = Reply::generated(Pattern::of(target), size).field("Cache-Control", "max-age=3600");
    reply.field("Surrogate-Key", &value("tags=").replace('+', " "))
}

fn cache_of(targets: &[&str]) -> (Origin, Tidegate) {
    let origin = Origin::answering(tagging);
    let tidegate = Tidegate::reverse(&origin).start();
    fill(&tidegate, targets);
    (origin, tidegate)
}

/// All of them are stored and hits.
fn fill(tidegate: &Tidegate, targets: &[&str]) {
    for target in targets {
        tidegate.get(target).expect(200);
        tidegate.warm(target);
    }
}

/// Which of them are hits. Each is asked for once.
fn hits<'t>(tidegate: &Tidegate, targets: &[&'t str]) -> Vec<&'t str> {
    let is_hit = |target: &&&str| {
        let response = tidegate.get(target).expect(200);
        Pattern::of(target).compare(&response.body, 0);
        response.cache_parameters().iter().any(|parameter| parameter == "hit")
    };
    targets.iter().filter(is_hit).copied().collect()
}

#[track_caller]
fn mark(tidegate: &Tidegate, request: Value) -> u64 {
    let answer = tidegate.purge_as(&request).expect(200);
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    answer["mark"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

fn tag(tag: &str) -> Value {
    json!({ "tag": tag })
}

const SMALL: &str = "/s?tags=news+sport";
const LARGE: &str = "/l?tags=sport&size=3000000";
const OTHER: &str = "/o?tags=newsroom";
const PLAIN: &str = "/p?size=70000";
const ALL: [&str; 4] = [SMALL, LARGE, OTHER, PLAIN];

#[test]
fn a_tag_takes_all_that_carry_it_and_nothing_else() {
    let (_origin, tidegate) = cache_of(&ALL);
    mark(&tidegate, tag("sport"));
    assert_eq!(hits(&tidegate, &ALL), [OTHER, PLAIN]);
    assert_eq!(tidegate.metrics().sum("tidegate_store_purged_total"), 2.0);
    fill(&tidegate, &ALL);
    mark(&tidegate, tag("news"));
    mark(&tidegate, tag("new"));
    assert_eq!(hits(&tidegate, &ALL), [LARGE, OTHER, PLAIN]);
}

#[test]
fn a_prefix_takes_what_begins_like_it_on_its_host() {
    let paths = ["/a", "/a/b", "/a/b/c", "/a/bc", "/a?q", "/b"];
    let rows = [
        ("http://www.example.com/a/b", vec!["/a", "/a?q", "/b"]),
        ("http://www.example.com/a/", vec!["/a", "/a?q", "/b"]),
        ("HTTP://WWW.Example.com:80/a?", vec!["/a", "/a/b", "/a/b/c", "/a/bc", "/b"]),
        ("http://www.example.com", vec![]),
        ("http://www.example.co", paths.to_vec()),
        ("https://www.example.com", paths.to_vec()),
        ("http://www.example.com:8080", paths.to_vec()),
    ];
    let (_origin, tidegate) = cache_of(&[]);
    for (prefix, left) in rows {
        fill(&tidegate, &paths);
        mark(&tidegate, json!({ "prefix": prefix }));
        assert_eq!(hits(&tidegate, &paths), left, "{prefix}");
    }
}

#[test]
fn all_is_everything() {
    let (_origin, tidegate) = cache_of(&ALL);
    mark(&tidegate, tag("sport"));
    tidegate.purge_as(&json!({ "all": true })).expect(200).with_body("{\"purged\":4}\n");
    let metrics = tidegate.metrics();
    assert_eq!(metrics.sum("tidegate_store_objects"), 0.0);
    assert_eq!(metrics.sum("tidegate_store_purge_marks"), 0.0, "older marks have nothing left to name");
    assert_eq!(hits(&tidegate, &ALL), [""; 0]);
    fill(&tidegate, &ALL);
    assert_eq!(hits(&tidegate, &ALL), ALL);
}

#[test]
fn variants_go_with_their_resource_or_by_their_own_tags() {
    let origin = Origin::answering(|request| {
        let language = request.head.field("accept-language").unwrap_or_default();
        let reply = Reply::fresh(&language).field("Vary", "Accept-Language");
        reply.field("Cache-Tag", &format!("all,lang-{language}"))
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let languages = ["de", "en", "fr"];
    let ask = |language: &str| tidegate.ask(Ask::get("/v").field("Accept-Language", language)).expect(200);
    let hits = || languages.map(|l| ask(l).with_body(l).cache_parameters().contains(&"hit".to_owned()));
    let rows = [
        (tag("lang-en"), [true, false, true]),
        (tag("all"), [false; 3]),
        (json!({"prefix": "http://www.example.com/v"}), [false; 3]),
        (json!({"url": "http://www.example.com/v", "soft": true}), [false; 3]),
        (json!({"prefix": "http://www.example.com/vv"}), [true; 3]),
    ];
    for (request, expected) in rows {
        hits();
        assert_eq!(hits(), [true; 3]);
        mark(&tidegate, request.clone());
        assert_eq!(hits(), expected, "{request}");
    }
}

const HALF: usize = 600_000;

#[test]
fn a_purge_during_a_fill_separates_new_requests_from_it() {
    for request in [tag("t"), json!({"prefix": "http://www.example.com/"}), json!({"all": true})] {
        let origin = Script::new();
        let tidegate = Tidegate::reverse(&origin).start();
        let mut leader = tidegate.client();
        leader.send(Ask::get("/").bytes());
        let mut upstream = origin.accept();
        upstream.request();
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nSurrogate-Key: t\r\n";
        upstream.send(format!("{head}Content-Length: {}\r\n\r\n", 2 * HALF));
        upstream.send(Pattern(1).bytes(0, HALF));
        leader.head();
        Pattern(1).expect(&mut leader, 0, HALF as u64);
        tidegate.purge_as(&request).expect(200);
        let mut late = tidegate.client();
        late.send(Ask::get("/").bytes());
        let mut second = origin.accept();
        second.request();
        second.send(format!("{head}Content-Length: 3\r\n\r\nnew"));
        late.response().expect(200).with_body("new");
        upstream.send(Pattern(1).bytes(HALF as u64, HALF));
        Pattern(1).expect(&mut leader, HALF as u64, HALF as u64);
        drop((leader, upstream));
        for _ in 0..3 {
            tidegate.get("/").expect(200).with_body("new").cache("hit");
        }
    }
}

#[test]
fn a_purge_before_the_head_arrives_counts_for_what_the_head_says() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let asking = || {
        let mut client = tidegate.client();
        client.send(Ask::get("/").bytes());
        client
    };
    let mut early = asking();
    let mut upstream = origin.accept();
    upstream.request();
    mark(&tidegate, tag("t"));
    let mut late = asking();
    upstream
        .send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Tag: t\r\nContent-Length: 3\r\n\r\nold");
    early.response().expect(200).with_body("old");
    drop(upstream);
    let mut second = origin.accept();
    second.request();
    second
        .send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Tag: t\r\nContent-Length: 3\r\n\r\nnew");
    late.response().expect(200).with_body("new");
    tidegate.get("/").expect(200).with_body("new").cache("hit");
}

#[test]
fn marks_hold_after_a_stop_and_after_a_kill() {
    for kill in [false, true] {
        let origin = Origin::answering(tagging);
        let slow = "[store]\ncheckpoint = \"1h\"";
        let mut tidegate = Tidegate::reverse(&origin).toml(slow).start();
        fill(&tidegate, &ALL);
        tidegate.purge_as(&json!({"url": "http://www.example.com/none", "durable": true})).expect(200);
        // Nothing but the request itself makes a checkpoint within the hour.
        let request = json!({"tag": "sport", "durable": kill});
        mark(&tidegate, request);
        if kill {
            tidegate.kill()
        } else {
            tidegate.stop()
        }
        tidegate.restart();
        assert_eq!(hits(&tidegate, &ALL), [OTHER, PLAIN], "kill {kill}");
        fill(&tidegate, &ALL);
        // A mark names what only the store has, too.
        tidegate.stop();
        tidegate.restart();
        mark(&tidegate, tag("newsroom"));
        assert_eq!(hits(&tidegate, &ALL), [SMALL, LARGE, PLAIN], "kill {kill}");
    }
}

#[test]
fn everything_stays_away_after_a_kill() {
    let origin = Origin::answering(tagging);
    let mut tidegate = Tidegate::reverse(&origin).toml("[store]\ncheckpoint = \"1h\"").start();
    fill(&tidegate, &ALL);
    let answer = tidegate.purge_as(&json!({"all": true, "durable": true})).expect(200);
    answer.with_body("{\"purged\":4,\"durable\":true}\n");
    tidegate.kill();
    tidegate.restart();
    assert_eq!(hits(&tidegate, &ALL), [""; 0]);
}

#[test]
fn too_many_marks_are_refused_until_a_broader_one_comes() {
    let (_origin, tidegate) = cache_of(&[SMALL]);
    let mut admin = testkit::Client::connect(tidegate.admin_address());
    let host = tidegate.admin_address().to_string();
    let mut purge = |request: Value| {
        admin.ask(Ask::post("/api/v1/purge", request.to_string().as_bytes()).field("Host", &host))
    };
    for n in 0..4096 {
        purge(tag(&format!("tag-{n}"))).expect(200);
    }
    let refused = purge(tag("sport")).expect(507);
    assert!(refused.text().contains("\"word\":\"too-many-marks\""), "{}", refused.text());
    assert_eq!(hits(&tidegate, &[SMALL]), [SMALL], "what was refused has no effect");
    purge(tag("tag-7")).expect(200);
    purge(json!({"url": "http://www.example.com/"})).expect(200);
    purge(json!({"all": true})).expect(200);
    purge(tag("sport")).expect(200);
}

#[test]
fn what_is_soft_purged_is_stale_until_it_is_validated() {
    for request in
        [tag("t"), json!({"prefix": "http://www.example.com"}), json!({"url": "http://www.example.com/"})]
    {
        let origin = Origin::answering(|request| {
            let reply = match request.head.has("if-none-match") {
                true => Reply::not_modified(),
                false => Reply::ok("body").field("Cache-Tag", "t"),
            };
            reply.field("ETag", "\"v1\"").field("Cache-Control", "max-age=3600")
        });
        let mut tidegate = Tidegate::reverse(&origin).start();
        fill(&tidegate, &["/"]);
        let Value::Object(mut soft) = request else { panic!("an object") };
        soft.insert("soft".into(), true.into());
        mark(&tidegate, Value::Object(soft.clone()));
        tidegate.get("/").expect(200).with_body("body").cache("fwd=stale").cache("fwd-status=304");
        tidegate.get("/").expect(200).with_body("body").cache("hit");
        assert_eq!(origin.count(), 2);
        // Also where it was only in the store, and its tags are those that came with the body.
        mark(&tidegate, Value::Object(soft));
        tidegate.stop();
        tidegate.restart();
        tidegate.get("/").expect(200).with_body("body").cache("fwd-status=304");
        tidegate.get("/").expect(200).with_body("body").cache("hit");
        assert_eq!(origin.count(), 3);
    }
}

#[test]
fn what_is_soft_purged_hides_a_dead_origin_as_anything_stale_does() {
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let origin = Origin::answering(move |request| match fails.load(Ordering::SeqCst) {
        true => Reply::status(503, "down"),
        false => tagging(request).field("Cache-Control", "stale-if-error=60").field("ETag", "\"v\""),
    });
    let tidegate = Tidegate::reverse(&origin).start();
    fill(&tidegate, &[SMALL, OTHER]);
    failing.store(true, Ordering::SeqCst);
    mark(&tidegate, json!({"tag": "news", "soft": true}));
    tidegate.get(SMALL).expect(200).cache("detail=stale-if-error");
    mark(&tidegate, tag("news"));
    tidegate.get(SMALL).expect(503);
    tidegate.get(OTHER).expect(200).cache("hit");
}

#[test]
fn what_is_soft_purged_is_served_while_it_is_validated() {
    let origin = Origin::answering(|request| match request.head.has("if-none-match") {
        false => tagging(request).field("Cache-Control", "stale-while-revalidate=60").field("ETag", "\"v\""),
        true => Reply::fresh("new"),
    });
    let tidegate = Tidegate::reverse(&origin).start();
    fill(&tidegate, &[SMALL]);
    mark(&tidegate, json!({"all": true, "soft": true}));
    tidegate.get(SMALL).expect(200).cache("hit").cache("detail=stale-while-revalidate");
    eventually("the new version is there", || (tidegate.get(SMALL).text() == "new").then_some(()));
}

#[test]
fn a_304_brings_new_tags() {
    let origin = Origin::answering(|request| match request.head.has("if-none-match") {
        true => Reply::not_modified().field("Cache-Tag", "two").field("Cache-Control", "max-age=3600"),
        false => Reply::ok("x")
            .field("Cache-Tag", "one")
            .field("ETag", "\"v\"")
            .field("Cache-Control", "max-age=0"),
    });
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    tidegate.get("/").expect(200).cache("fwd-status=304");
    mark(&tidegate, tag("one"));
    tidegate.get("/").expect(200).cache("hit");
    mark(&tidegate, tag("two"));
    tidegate.get("/").expect(200).cache_lacks("hit");
}

#[test]
fn tags_are_for_the_proxy_that_stands_for_the_origin() {
    let origin = Origin::answering(|request| {
        let reply =
            Reply::fresh("x").field("Surrogate-Key", "a").field("Cache-Tag", "b").field("X-Tags", "c");
        if request.head.target() == "/no" { reply.field("Cache-Control", "no-store") } else { reply }
    });
    let seen = |response: testkit::Response| {
        ["surrogate-key", "cache-tag", "x-tags"].map(|name| response.field(name).is_some())
    };
    let tidegate = Tidegate::reverse(&origin).start();
    for target in ["/", "/", "/no"] {
        assert_eq!(seen(tidegate.get(target).expect(200)), [false, false, true], "{target}");
    }
    let tidegate = Tidegate::reverse(&origin).toml("[purge]\nshow_tags = true").start();
    for target in ["/", "/", "/no"] {
        assert_eq!(seen(tidegate.get(target).expect(200)), [true; 3], "{target}");
    }
    let tidegate = Tidegate::forward().start();
    let url = origin.url("/");
    for _ in 0..2 {
        assert_eq!(seen(tidegate.get(&url).expect(200)), [true; 3]);
    }
    mark(&tidegate, tag("b"));
    tidegate.get(&url).expect(200).cache_lacks("hit");
    let tidegate = Tidegate::reverse(&origin).toml("[purge]\ntag_fields = [\"X-Tags\"]").start();
    assert_eq!(seen(tidegate.get("/").expect(200)), [true, true, false]);
    mark(&tidegate, tag("a"));
    tidegate.get("/").expect(200).cache("hit");
    mark(&tidegate, tag("c"));
    tidegate.get("/").expect(200).cache_lacks("hit");
}

#[test]
fn a_response_with_too_many_tags_is_not_stored() {
    let tags = (0..500).map(|n| format!("a-long-tag-{n}")).collect::<Vec<_>>().join(",");
    let reply = (0..3).fold(Reply::fresh("x"), |reply, _| reply.field("Cache-Tag", &tags));
    let origin = Origin::always(reply);
    let tidegate = Tidegate::reverse(&origin).start();
    for _ in 0..2 {
        tidegate.get("/").expect(200).cache_lacks("hit").cache("detail=too-many-tags");
    }
}

#[test]
fn the_command_says_what_it_did() {
    let (_origin, tidegate) = cache_of(&ALL);
    let admin = tidegate.admin_address().to_string();
    let purge = |words: &[&str]| Tidegate::run(&[&["purge", "--admin", &admin], words].concat());
    assert_eq!(purge(&["--tag", "sport", "--json"]).expect(0).stdout, "{\"mark\":1}\n");
    let told = purge(&["--prefix", "http://www.example.com/o", "--durable"]).expect(0).stdout;
    assert!(told.contains("purged"), "{told}");
    assert_eq!(hits(&tidegate, &ALL), [PLAIN]);
    // What was purged was fetched again, and its storing may outlast the response.
    tidegate.wait_stored(4);
    assert!(purge(&["--all"]).expect(0).stdout.contains("4 stored objects"));
    let refused = purge(&["--prefix", "http://a/*"]).expect(2).stderr;
    assert!(refused.contains("leave that out"), "{refused}");
    purge(&["--all", "--tag", "x"]).expect(2);
}
