//! The rest of a response that has begun: its later holes are filled whatever became of the object meanwhile, and nothing
//! comes between its bytes.

use rustix::process::Signal;
use testkit::{Ask, Client, Script, Tidegate, Upstream, eventually};

use crate::{Representation, head_of_part, hit, part};

const MIB: u64 = 1 << 20;

/// A response with two holes; the client has its beginning, and the origin was asked for the first hole.
struct Begun {
    all: Representation,
    origin: Script,
    tidegate: Tidegate,
    client: Client,
    upstream: Upstream,
}

/// No sign of overload counts that the machine gives by itself.
const CALM: &str = "[overload]\nmemory = 1.0\n";

/// What is stored before.
const STORED: [(u64, u64); 2] = [(0, 1000), (MIB, MIB + 1000)];

/// Answers the question for a part on a connection of its own, which ends with it.
fn bring(all: Representation, origin: &Script, start: u64, end: u64) {
    let mut upstream = asked(origin, start, end);
    upstream.send(head_of_part(all, start, end, "Connection: close\r\n"));
    upstream.send(all.pattern.bytes(start, (end - start) as usize));
}

fn asked(origin: &Script, start: u64, end: u64) -> Upstream {
    let mut upstream = origin.accept();
    let range = upstream.request().head.field("range");
    assert_eq!(range, Some(format!("bytes={start}-{}", end - 1)));
    upstream
}

impl Begun {
    fn new() -> Begun {
        let all = Representation::new(3 * MIB);
        let origin = Script::new();
        let tidegate = Tidegate::reverse(&origin).workers(1).toml(CALM).start();
        for (start, end) in STORED {
            let mut client = tidegate.client();
            client.send(part(start, end).bytes());
            bring(all, &origin, start, end);
            all.expect_part(&client.response(), start, end);
            hit(&tidegate, start, end);
        }
        let mut client = tidegate.client();
        client.send(Ask::get("/").bytes());
        let mut upstream = asked(&origin, 1000, MIB);
        upstream.send(head_of_part(all, 1000, MIB, "Connection: close\r\n"));
        assert_eq!(client.head().status(), 200);
        all.pattern.expect(&mut client, 0, 1000);
        Begun { all, origin, tidegate, client, upstream }
    }

    /// The first hole arrives; gives the connection on which the second one is asked for.
    fn second_hole(&mut self) -> Upstream {
        self.upstream.send(self.all.pattern.bytes(1000, (MIB - 1000) as usize));
        self.all.pattern.expect(&mut self.client, 1000, MIB);
        asked(&self.origin, MIB + 1000, 3 * MIB)
    }

    /// The second hole arrives, and with it the end.
    fn ends(&mut self, mut upstream: Upstream) {
        let (start, end) = (MIB + 1000, 3 * MIB);
        upstream.send(head_of_part(self.all, start, end, ""));
        upstream.send(self.all.pattern.bytes(start, (end - start) as usize));
        self.all.pattern.expect(&mut self.client, start, end - start);
    }
}

#[test]
fn an_object_that_leaves_the_store_meanwhile_is_sent_to_its_end() {
    let mut begun = Begun::new();
    begun.tidegate.purge("http://www.example.com/").expect(200);
    let upstream = begun.second_hole();
    begun.ends(upstream);
    let (start, end) = STORED[0];
    let cached = part(start, end).field("Cache-Control", "only-if-cached");
    begun.tidegate.ask(cached).expect(504);
}

#[test]
fn interim_responses_do_not_come_between_its_bytes() {
    let mut begun = Begun::new();
    let mut upstream = begun.second_hole();
    upstream.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n");
    begun.ends(upstream);
    begun.client.send(part(0, 1000).bytes());
    begun.all.expect_part(&begun.client.response(), 0, 1000);
}

/// Under as much overload as can be: new requests would be refused.
#[test]
fn what_is_missing_of_it_is_not_refused() {
    let mut begun = Begun::new();
    std::fs::write(begun.tidegate.configuration_path(), "[overload]\nmemory = 0.001\n").unwrap();
    begun.tidegate.signal(Signal::HUP);
    eventually("everything but hits from memory is refused", || {
        (begun.tidegate.metrics().sum("tidegate_overload_level") == 3.0).then_some(())
    });
    let upstream = begun.second_hole();
    begun.ends(upstream);
    begun.client.get("/other").expect(503);
}
