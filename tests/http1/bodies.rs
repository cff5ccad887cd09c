//! Bodies in both directions: streamed, chunked, counted, absent (RFC 9112 §6, §7).

use testkit::{Ask, Origin, Pattern, Reply, Script, Tidegate};

const MIB: usize = 1 << 20;

#[test]
fn a_large_upload_reaches_the_origin_while_it_is_sent() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    let body = Pattern(7).bytes(0, 8 * MIB);
    client.send(format!("PUT /file HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body[..1000]);

    let mut upstream = origin.accept();
    let head = upstream.head();
    assert_eq!(head.field("content-length"), Some(body.len().to_string()));
    assert_eq!(upstream.exactly(1000), body[..1000]);

    let rest = body[1000..].to_vec();
    let mut sender = client.second_hand();
    let sending = std::thread::spawn(move || sender.send(rest));
    Pattern(7).expect(&mut upstream, 1000, (body.len() - 1000) as u64);
    sending.join().unwrap();
    upstream.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(201);
}

#[test]
fn a_chunked_upload_arrives_whole_and_framed() {
    let origin = Origin::answering(|request| Reply::ok(&request.body));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send("4\r\nfour\r\n");
    client.send("B;ext=1\r\n and more..\r\n0\r\n\r\n");
    client.response().expect(200).with_body("four and more..");
    client.get("/next").expect(200);
}

#[test]
fn chunks_pass_and_trailers_with_them() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").field("TE", "trailers").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n");
    upstream.send("3\r\none\r\n3\r\ntwo\r\n0\r\nDigest: abc\r\nContent-Length: 3\r\n\r\n");
    let response = client.response().expect(200).with_body("onetwo");
    // RFC 9110 §6.5.1: fields that frame or route are never taken from a trailer.
    assert!(!response.trailers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-length")));
    assert!(response.trailers.contains(&("Digest".into(), "abc".into())), "{:?}", response.trailers);
}

#[test]
fn a_chunk_size_split_anywhere_is_the_same() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for byte in b"0005\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n".chunks(1) {
        upstream.send(byte);
    }
    client.response().expect(200).with_body("hello!");
}

#[test]
fn a_large_chunked_body_keeps_every_byte() {
    let pattern = Pattern(3);
    let pieces: Vec<Vec<u8>> = (0..40).map(|i| pattern.bytes(i * 100_001, 100_001)).collect();
    let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let origin = Origin::always(Reply::chunked(&slices).field("Cache-Control", "max-age=60"));
    let tidegate = Tidegate::reverse(&origin).start();
    for _miss_then_hit in 0..2 {
        let response = tidegate.get("/").expect(200);
        assert_eq!(response.body.len(), 40 * 100_001);
        pattern.compare(&response.body, 0);
    }
}

#[test]
fn head_has_the_length_and_no_body() {
    let origin = Origin::always(Reply::ok("twelve bytes"));
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    let response = client.ask(Ask::head("/")).expect(200).with_body("");
    assert_eq!(response.field("content-length").as_deref(), Some("12"));
    client.get("/").expect(200).with_body("twelve bytes");
}

#[test]
fn responses_without_a_body_keep_the_connection_in_step() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).workers(1).start();
    let mut client = tidegate.client();
    client.send(Ask::get("/204").bytes());
    let mut upstream = origin.accept();
    upstream.request();
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    client.response().expect(204);
    client.send(Ask::get("/304").field("If-None-Match", "\"a\"").bytes());
    upstream.request();
    upstream.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 99\r\n\r\n");
    client.response().expect(304);
    client.send(Ask::get("/0").bytes());
    upstream.request();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.response().expect(200).with_body("");
}

#[test]
fn a_hit_whose_request_has_a_body_stays_in_step_or_closes() {
    let origin = Origin::answering(|request| Reply::fresh(request.head.target()));
    let tidegate = Tidegate::reverse(&origin).start();
    tidegate.get("/stored").expect(200);
    let mut client = tidegate.client();
    let body = "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
    client.send(Ask::get("/stored").field("Content-Length", &body.len().to_string()).bytes());
    client.send(body);
    client.response().expect(200).with_body("/stored");
    if client.try_send(Ask::get("/after").bytes()).is_ok()
        && let Ok(head) = client.try_head()
    {
        assert_eq!(client.body(&head), b"/after");
    }
    assert!(origin.requests().iter().all(|request| request.head.target() != "/smuggled"));
}

#[test]
fn an_answer_before_the_upload_is_over_reaches_the_client() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\nonly the beginning");
    let mut upstream = origin.accept();
    upstream.head();
    upstream.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!");
    client.response().expect(413).with_body("no!");
}

#[test]
fn an_upload_that_breaks_off_is_not_made_whole() {
    let origin = Script::new();
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\npart");
    let mut upstream = origin.accept();
    upstream.head();
    assert_eq!(upstream.exactly(4), b"part");
    client.close();
    upstream.expect_end();
}

#[test]
fn empty_bodies_of_every_kind() {
    let origin = Origin::answering(|request| match request.head.target() {
        "/counted" => Reply::fresh(""),
        _ => Reply::chunked(&[]).field("Cache-Control", "max-age=60"),
    });
    let tidegate = Tidegate::reverse(&origin).start();
    let mut client = tidegate.client();
    for path in ["/counted", "/chunked", "/counted", "/chunked"] {
        client.get(path).expect(200).with_body("");
    }
    assert_eq!(origin.count(), 2);
}
