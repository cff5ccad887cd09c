//! Bytes without sense, from both sides; connections that come and go.

use testkit::{Ask, Client, Noise, Origin, Reply, Script, Tidegate, descriptors, eventually};

#[test]
fn random_bytes_do_no_harm() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut noise = Noise::new(42);
    for _ in 0..300 {
        let mut client = tidegate.client();
        let count = noise.below(3000) as usize;
        let _ = client.try_send(noise.bytes(count));
        if noise.below(2) == 0 { client.close() } else { client.reset() }
    }
    tidegate.get("/").expect(200);
}

#[test]
fn mutated_requests_are_answered_or_closed() {
    let origin = Origin::always(Reply::ok("x"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut noise = Noise::new(43);
    for _ in 0..300 {
        let mut bytes = Ask::post("/some/path?query", b"and a body").field("X-Field", "value").bytes();
        for _ in 0..=noise.below(4) {
            let place = noise.below(bytes.len() as u64) as usize;
            bytes[place] = noise.below(256) as u8;
        }
        let mut client = tidegate.client();
        let _ = client.try_send(bytes);
        client.half_close();
        let (answer, _) = client.rest();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 "),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
    }
    tidegate.get("/").expect(200);
}

#[test]
fn mutated_responses_never_take_the_proxy_down() {
    let noise = std::sync::Mutex::new(Noise::new(44));
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    for round in 0..300 {
        let mut client = tidegate.client();
        client.send(Ask::get(&format!("/{round}")).bytes());
        let Some(mut upstream) = origin.accept_within(testkit::PATIENCE) else { panic!("round {round}") };
        upstream.request();
        let _ = upstream.try_send(mutated(&mut noise.lock().unwrap()));
        upstream.close();
        // Whatever it is, it is a response or an end; the harness checks its form.
        let _ = client.try_head();
        client.close();
    }
    tidegate.admin(Ask::get("/healthz")).expect(200);
}

fn mutated(noise: &mut Noise) -> Vec<u8> {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_vec();
    for _ in 0..=noise.below(3) {
        let place = noise.below(bytes.len() as u64) as usize;
        bytes[place] = noise.below(256) as u8;
    }
    bytes
}

#[test]
fn clients_that_reset_in_the_middle_leave_nothing_open() {
    let origin = Origin::always(Reply::fresh("x".repeat(2_000_000)));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/").expect(200);
    let before = descriptors(tidegate.pid());
    for _ in 0..200 {
        let mut client: Client = tidegate.client();
        client.send(Ask::get("/").bytes());
        client.head();
        client.reset();
    }
    eventually("all connections are gone", || (descriptors(tidegate.pid()) <= before + 10).then_some(()));
    tidegate.get("/").expect(200).cache("hit");
}
