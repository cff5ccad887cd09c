//! Tables of chunk grammar, round trips over any cut, fuzz.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::{cuts, from_scraps, fuzz_time};
use proptest::prelude::*;

fn limits() -> Limits {
    Limits { fields: 3, trailer_bytes: 64, extension_bytes: 10, ..Limits::default() }
}

fn refusal(text: &str) -> Option<Refusal> {
    decode(text.as_bytes(), &limits()).err()
}

/// Payload, trailer names and length: what a decoded body comes to.
type Outcome = Result<Option<(Vec<u8>, Trailers, usize)>, Refusal>;

fn whole(input: &[u8]) -> Outcome {
    Ok(decode(input, &limits())?.map(|body| (body.payload, body.trailers, body.len)))
}

/// Feeds the decoder piece by piece, as a socket would, and moves payload as it comes.
fn in_pieces(input: &[u8], ends: &[usize]) -> Outcome {
    let mut decoder = ChunkedDecoder::new(&limits());
    let mut payload = Vec::new();
    let mut at = 0;
    for &end in ends {
        loop {
            match decoder.next(&input[at..end])? {
                Step::NeedMore { consumed } => {
                    assert_eq!(consumed, end - at);
                    at = end;
                    break;
                }
                Step::Payload { consumed, len } => {
                    at += consumed;
                    let here = (end - at).min(usize::try_from(len).unwrap());
                    payload.extend_from_slice(&input[at..at + here]);
                    decoder.payload_moved(here as u64);
                    at += here;
                    if at == end {
                        break;
                    }
                }
                Step::Done { consumed, trailers } => return Ok(Some((payload, trailers, at + consumed))),
            }
        }
    }
    Ok(None)
}

fn encode(chunks: &[Vec<u8>], trailers: &Fields<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in chunks {
        let Some(len) = NonZeroU64::new(chunk.len() as u64) else { continue };
        out.extend_from_slice(chunk_header(len, &mut [0; 18]));
        out.extend_from_slice(chunk);
        out.extend_from_slice(CHUNK_END);
    }
    write_end(&mut out, trailers);
    out
}

#[test]
fn bodies_decode() {
    // RFC 9112 §7.1
    for (text, payload) in [
        ("0\r\n\r\n", ""),
        ("000\r\n\r\n", ""),
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello"),
        ("0000000000000005\r\nhello\r\n0\r\n\r\n", "hello"),
        ("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"),
        ("5;a=b\r\nhello\r\n0;x\r\n\r\n", "hello"),
        ("5;a=\"\t\"\r\nhello\r\n0\r\n\r\n", "hello"),
        ("5;\r\nhello\r\n0\r\n\r\n", "hello"),
        ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
    ] {
        let body = decode(text.as_bytes(), &limits()).unwrap().unwrap();
        assert_eq!((body.payload, body.len), (payload.as_bytes().to_vec(), text.len()), "{text:?}");
        let longer = [text.as_bytes(), b"GET /"].concat();
        assert_eq!(decode(&longer, &limits()).unwrap().unwrap().len, text.len());
    }
}

#[test]
fn every_prefix_of_a_body_is_unfinished() {
    let text = b"5;a\r\nhello\r\n0\r\nX: y\r\n\r\n";
    for end in 0..text.len() {
        assert_eq!(decode(&text[..end], &limits()), Ok(None), "{end}");
    }
}

#[test]
fn chunk_sizes_have_one_reading() {
    // RFC 9112 §7.1
    for text in [
        "\r\n",
        ";a\r\n",
        "+5\r\n",
        "-5\r\n",
        " 5\r\n",
        "5 \r\n",
        "5\t;a\r\n",
        "5 ;a\r\n",
        "0x5\r\n",
        "5g\r\n",
        "g\r\n",
        "5,5\r\n",
        "5_0\r\n",
        "00000000000000005\r\n",
        "8000000000000000\r\n",
        "FFFFFFFFFFFFFFFF\r\n",
        "ffffffffffffffff0\r\n",
        "\u{661}\r\n",
        "\0\r\n",
    ] {
        assert_eq!(refusal(text), Some(Refusal::BadChunkSize), "{text:?}");
    }
}

#[test]
fn chunk_lines_end_in_crlf_only() {
    // RFC 9112 §7.1, §2.2
    for (text, expected) in [
        ("5\nhello", Refusal::BareLf),
        ("5\rhello", Refusal::BareCr),
        ("5;a\nhello", Refusal::BareLf),
        ("5;a\rb\r\nhello", Refusal::BareCr),
        ("0\r\n\n", Refusal::BareLf),
        ("0\r\nA: b\n\r\n", Refusal::BareLf),
        ("5\r\nhello0\r\n\r\n", Refusal::BadChunkEnd),
        ("5\r\nhello!\r\n0\r\n\r\n", Refusal::BadChunkEnd),
        ("5\r\nhello\n0\r\n\r\n", Refusal::BadChunkEnd),
        ("5\r\nhello\r0\r\n\r\n", Refusal::BadChunkEnd),
    ] {
        assert_eq!(refusal(text), Some(expected), "{text:?}");
    }
}

#[test]
fn extensions_are_clean_and_in_proportion() {
    // RFC 9112 §7.1.1
    assert_eq!(refusal("5;\0\r\n"), Some(Refusal::Nul));
    assert_eq!(refusal("5;a\x01\r\n"), Some(Refusal::BadChunkExtension));
    assert_eq!(refusal("1;123456789\r\n"), None);
    assert_eq!(refusal("1;12345678901\r\n"), Some(Refusal::ChunkExtensionTooLong));
    // Nine bytes of extension for each byte of payload add up; as many as the payload do not.
    assert_eq!(refusal(&"1;123456789\r\nx\r\n".repeat(9)), Some(Refusal::ChunkExtensionTooLong));
    assert_eq!(refusal(&"9;123456789\r\n123456789\r\n".repeat(99)), None);
}

#[test]
fn trailers_are_fields() {
    // RFC 9112 §7.1.2
    for (lines, expected) in [
        ("A : b\r\n", Refusal::SpaceBeforeColon),
        (" A: b\r\n", Refusal::ObsFold),
        ("A: b\r\n c\r\n", Refusal::ObsFold),
        ("A\r\n", Refusal::ColonMissing),
        ("A: \0\r\n", Refusal::Nul),
        ("A: b\rc\r\n", Refusal::BareCr),
        ("A: b\r\nA: b\r\nA: b\r\nA: b\r\n", Refusal::TooManyFields),
    ] {
        assert_eq!(refusal(&alloc::format!("0\r\n{lines}\r\n")), Some(expected), "{lines:?}");
    }
    assert_eq!(refusal(&alloc::format!("0\r\nA: {}", "b".repeat(64))), Some(Refusal::TrailersTooLong));
}

#[test]
fn trailers_that_frame_route_or_authenticate_are_dropped() {
    // RFC 9110 §6.5.1
    let text = b"0\r\nContent-Length: 5\r\nX-Sum: 1\r\nHost: a\r\n\r\n";
    let body = decode(text, &limits()).unwrap().unwrap();
    let fields = body.trailers.fields();
    let names: Vec<_> = fields.iter().map(|field| field.name).collect();
    assert_eq!(names, ["X-Sum"]);
    let mut out = Vec::new();
    let mut given = Fields::new();
    for (name, value) in [("Transfer-Encoding", "chunked"), ("X-Sum", "1")] {
        given.push(name, value.as_bytes());
    }
    write_end(&mut out, &given);
    assert_eq!(out, b"0\r\nX-Sum: 1\r\n\r\n");
}

#[test]
fn sizes_are_written_in_hexadecimal() {
    for (size, expected) in [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (u64::MAX, "ffffffffffffffff\r\n")]
    {
        let mut buffer = [0; 18];
        assert_eq!(chunk_header(NonZeroU64::new(size).unwrap(), &mut buffer), expected.as_bytes());
    }
    let mut end = Vec::new();
    write_end(&mut end, &Fields::new());
    assert_eq!(end, LAST_CHUNK);
}

#[test]
fn payload_may_bypass_the_decoder() {
    let mut decoder = ChunkedDecoder::new(&limits());
    assert_eq!(
        decoder.next(b"7fffffffffffffff\r\n"),
        Ok(Step::Payload { consumed: 18, len: BODY_BYTES_MAX })
    );
    decoder.payload_moved(BODY_BYTES_MAX - 1);
    assert_eq!(decoder.next(b""), Ok(Step::Payload { consumed: 0, len: 1 }));
    decoder.payload_moved(0);
    decoder.payload_moved(1);
    assert_eq!(decoder.next(b"\r\n0\r\n\r\n"), Ok(Step::Done { consumed: 7, trailers: Trailers::default() }));
}

#[test]
#[should_panic(expected = "5 bytes of payload moved, 4 announced")]
fn more_payload_than_announced_is_a_mistake_of_the_caller() {
    let mut decoder = ChunkedDecoder::new(&limits());
    let _ = decoder.next(b"4\r\n");
    decoder.payload_moved(5);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_encoded_decodes_over_any_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        trailer in "[a-z]{0,9}",
        points in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let mut trailers = Fields::new();
        trailers.push("x-sum", trailer.as_bytes());
        let encoded = encode(&chunks, &trailers);
        let outcome = in_pieces(&encoded, &cuts(encoded.len(), &points)).unwrap().unwrap();
        prop_assert_eq!(outcome.0, chunks.concat());
        prop_assert_eq!(outcome.1.fields().get("x-sum"), Some(trailer.as_bytes()));
        prop_assert_eq!(outcome.2, encoded.len());
    }
}

/// What chunked bodies are made of, and what spoils them.
const SCRAPS: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"f",
    b"\r\n",
    b"\r\n",
    b"\r\n",
    b"x",
    b"xx",
    b";a",
    b"\r",
    b"\n",
    b"0\r\n\r\n",
    b"A: b\r\n",
    b"1\r\nx\r\n",
    b"1;a\r\nx\r\n",
    b"2\r\nxx\r\n",
    b"0\r\n",
    b" ",
];

#[test]
fn fuzz_decoder_over_any_cut() {
    bolero::check!().with_test_time(fuzz_time()).with_type::<(Vec<u8>, Vec<usize>)>().for_each(
        |(bytes, points)| {
            for input in [bytes.clone(), from_scraps(bytes, SCRAPS)] {
                assert_eq!(in_pieces(&input, &cuts(input.len(), points)), whole(&input));
            }
        },
    );
}
