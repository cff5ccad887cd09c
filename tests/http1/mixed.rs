//! Answers of every route behind one another on one connection: from memory, from a device, from the origin.

use testkit::{Ask, Origin, Pattern, Reply, Tidegate};

/// Targets like `/large-3000000`; everything is cacheable but what is named `/pass`.
fn origin() -> Origin {
    Origin::answering(|request| {
        let target = request.head.target();
        let cached = if target.starts_with("/pass") { "no-store" } else { "max-age=60" };
        Reply::generated(Pattern::of(target), size(target)).field("Cache-Control", cached)
    })
}

fn size(target: &str) -> u64 {
    target.rsplit('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

const TARGETS: [&str; 9] = [
    "/small-300",
    "/large-3000000",
    "/pass-2000000",
    "/empty-0",
    "/middle-20000",
    "/pass-10",
    "/edge-16384",
    "/edge-16385",
    "/large-1048577",
];

#[test]
fn pipelined_answers_of_every_route_keep_their_order() {
    let origin = origin();
    let tidegate = Tidegate::reverse(&origin).start();
    let stored = TARGETS.iter().filter(|target| !target.starts_with("/pass"));
    stored.for_each(|target| drop(tidegate.warm(target)));

    let mut client = tidegate.client();
    let requests: Vec<u8> =
        TARGETS.iter().cycle().take(40).flat_map(|target| Ask::get(target).bytes()).collect();
    client.send(requests);
    for target in TARGETS.iter().cycle().take(40) {
        let response = client.response().expect(200);
        assert_eq!(response.body.len() as u64, size(target), "{target}");
        Pattern::of(target).compare(&response.body, 0);
    }
}

#[test]
fn uploads_and_downloads_alternate_on_one_connection() {
    let origin = Origin::answering(|request| match request.head.method() {
        "POST" => Reply::ok(&request.body),
        _ => {
            Reply::generated(Pattern::of(request.head.target()), 100_000).field("Cache-Control", "max-age=60")
        }
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    for round in 0..10 {
        let body = Pattern(round).bytes(0, 70_000);
        client.ask(Ask::post("/echo", &body)).expect(200).with_body(&body);
        let response = client.get("/file").expect(200);
        Pattern::of("/file").compare(&response.body, 0);
        client.ask(Ask::head("/file")).expect(200).with_body("");
        let part = client.ask(Ask::get("/file").field("Range", "bytes=90000-")).expect_one_of(&[200, 206]);
        Pattern::of("/file").compare(&part.body, if part.status() == 206 { 90_000 } else { 0 });
    }
}
