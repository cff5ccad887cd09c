//! One connection of the client in user space, as a machine without I/O: segments in, what to send and the fate out.
//!
//! ```text
//!            SYN sent          SYN+ACK            head of the reply      its last byte
//!   Closed ───────────▶ Connecting ─────▶ Asked ─────────────────▶ Reading ───────────▶ Closed
//!     ▲                     │ reset, end of the stream, timeout      │
//!     └─────────────────────┴────────────────────────────────────────┘
//! ```
//!
//! It is as much of RFC 9293 as one request and its reply need. What must hold: bytes count only in sequence, so that a
//! reply is good when all of it came; a segment of a former connection between the same two ends moves nothing. At the
//! end it resets, which leaves nothing behind on either side. Refuses to know clocks, addresses and frames.

use super::frame::{Arrived, flag};
use crate::outcome::Fate;
use crate::reply::{self, End};

/// Where a connection stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Closed,
    Connecting,
    Asked,
    /// The reply, once whole, will have been this, and so much of it is still to come.
    Reading(Fate, Rest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Bytes(u64),
    UntilClose,
}

/// One connection. Its place says between which two ends it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Connection {
    phase: Phase,
    /// Which planned request it carries.
    pub(super) flight: usize,
    next_sent: u32,
    next_expected: u32,
}

/// A segment that a connection wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// The request goes along.
    pub(super) asks: bool,
}

/// What a segment came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// To be sent, in this order.
    pub(super) wanted: [Option<Wanted>; 2],
    /// The handshake is complete.
    pub(super) established: bool,
    /// The request has ended so.
    pub(super) fate: Option<Fate>,
}

impl Step {
    fn sends(wanted: Wanted) -> Self {
        Self { wanted: [Some(wanted), None], ..Self::default() }
    }
}

impl Connection {
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Begins; `first` numbers its first byte.
    pub(super) fn open(&mut self, flight: usize, first: u32) -> Wanted {
        *self = Self { phase: Phase::Connecting, flight, next_sent: first.wrapping_add(1), next_expected: 0 };
        Wanted { flags: flag::SYN, sequence: first, acknowledged: 0, asks: false }
    }

    /// Takes a segment; `request_bytes` is the length of what it asks.
    pub(super) fn take(&mut self, arrived: &Arrived<'_>, request_bytes: u32) -> Step {
        let has = |flags: u8| arrived.flags & flags == flags;
        match self.phase {
            Phase::Closed => Self::refuse(arrived),
            _ if has(flag::RST) => self.reset(arrived),
            Phase::Connecting if has(flag::SYN | flag::ACK) => self.connected(arrived),
            Phase::Connecting => Step::default(),
            Phase::Asked if has(flag::SYN) => Step::sends(self.wanted(flag::ACK)),
            Phase::Asked | Phase::Reading(..) => self.receive(arrived, request_bytes),
        }
    }

    /// Ends before the reply was whole. Whether the request has arrived is not known, so that a reset goes out under both
    /// numbers it may have to have (RFC 5961 §3).
    pub(super) fn give_up(&mut self, request_bytes: u32) -> [Option<Wanted>; 2] {
        let reset = self.wanted(flag::RST | flag::ACK);
        match std::mem::take(&mut self.phase) {
            Phase::Closed | Phase::Connecting => [None, None],
            Phase::Asked => {
                let sequence = self.next_sent.wrapping_add(request_bytes);
                [Some(reset), Some(Wanted { sequence, ..reset })]
            }
            Phase::Reading(..) => [Some(reset), None],
        }
    }

    /// The request again, where nothing shows that it has arrived.
    pub(super) fn ask_again(&self) -> Option<Wanted> {
        (self.phase == Phase::Asked).then(|| self.request())
    }

    /// A server that still tries is told that nobody is here (RFC 9293 §3.10.7.1), as a kernel would.
    fn refuse(arrived: &Arrived<'_>) -> Step {
        if arrived.flags & (flag::SYN | flag::ACK | flag::RST) != flag::SYN | flag::ACK {
            return Step::default();
        }
        Step::sends(Wanted { flags: flag::RST, sequence: arrived.acknowledged, acknowledged: 0, asks: false })
    }

    fn reset(&mut self, arrived: &Arrived<'_>) -> Step {
        let is_ours = match self.phase {
            Phase::Connecting => arrived.acknowledged == self.next_sent,
            _ => arrived.sequence.wrapping_sub(self.next_expected) < u32::from(u16::MAX),
        };
        if is_ours { self.end(Fate::Failed, None) } else { Step::default() }
    }

    fn connected(&mut self, arrived: &Arrived<'_>) -> Step {
        if arrived.acknowledged != self.next_sent {
            return Step::default();
        }
        self.next_expected = arrived.sequence.wrapping_add(1);
        self.phase = Phase::Asked;
        let wanted = [Some(self.wanted(flag::ACK)), Some(self.request())];
        Step { wanted, established: true, fate: None }
    }

    fn receive(&mut self, arrived: &Arrived<'_>, request_bytes: u32) -> Step {
        if arrived.sequence != self.next_expected {
            // A gap, or something again: what is acknowledged stays what it was.
            let says_anything = arrived.payload_bytes > 0;
            return if says_anything { Step::sends(self.wanted(flag::ACK)) } else { Step::default() };
        }
        let ends = arrived.flags & flag::FIN != 0;
        self.next_expected = self.next_expected.wrapping_add(arrived.payload_bytes + u32::from(ends));
        match self.count(arrived, request_bytes) {
            Progress::Ended(fate) => self.end(fate, Some(flag::RST | flag::ACK)),
            Progress::Open if ends => self.end(Fate::Failed, Some(flag::RST | flag::ACK)),
            Progress::Open if arrived.payload_bytes > 0 => Step::sends(self.wanted(flag::ACK)),
            Progress::Open => Step::default(),
        }
    }

    /// What a segment in sequence adds to the reply.
    fn count(&mut self, arrived: &Arrived<'_>, request_bytes: u32) -> Progress {
        let ends = arrived.flags & flag::FIN != 0;
        let bytes = u64::from(arrived.payload_bytes);
        let (fate, rest) = match self.phase {
            Phase::Reading(fate, rest) => (fate, rest),
            _ if bytes == 0 => return Progress::Open,
            _ => {
                self.next_sent = self.next_sent.wrapping_add(request_bytes);
                // The head comes with the first segment, or it is longer than what is looked at.
                let Ok(Some(reply)) = reply::read(arrived.seen) else { return Progress::Ended(Fate::Failed) };
                match reply.end {
                    End::After(bytes) => (reply.fate, Rest::Bytes(bytes)),
                    End::Close => (reply.fate, Rest::UntilClose),
                }
            }
        };
        let rest = match rest {
            Rest::Bytes(rest) if rest <= bytes => return Progress::Ended(fate),
            Rest::Bytes(rest) => Rest::Bytes(rest - bytes),
            Rest::UntilClose if ends => return Progress::Ended(fate),
            Rest::UntilClose => Rest::UntilClose,
        };
        self.phase = Phase::Reading(fate, rest);
        Progress::Open
    }

    fn end(&mut self, fate: Fate, says: Option<u8>) -> Step {
        self.phase = Phase::Closed;
        Step { wanted: [says.map(|flags| self.wanted(flags)), None], established: false, fate: Some(fate) }
    }

    fn request(&self) -> Wanted {
        Wanted { asks: true, ..self.wanted(flag::ACK | flag::PSH) }
    }

    fn wanted(&self, flags: u8) -> Wanted {
        Wanted { flags, sequence: self.next_sent, acknowledged: self.next_expected, asks: false }
    }
}

enum Progress {
    Open,
    Ended(Fate),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const REQUEST_BYTES: u32 = 50;
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";

    fn segment(flags: u8, sequence: u32, acknowledged: u32, payload: &[u8]) -> Arrived<'_> {
        let client = "10.0.0.9:2000".parse().unwrap();
        Arrived { client, sequence, acknowledged, flags, payload_bytes: payload.len() as u32, seen: payload }
    }

    fn take(connection: &mut Connection, flags: u8, sequence: u32, payload: &[u8]) -> Step {
        connection.take(&segment(flags, sequence, 0, payload), REQUEST_BYTES)
    }

    /// A connection whose request is under way; the server's next byte has number 1001.
    fn asked() -> Connection {
        let mut connection = Connection::default();
        assert_eq!(connection.open(7, u32::MAX).sequence, u32::MAX);
        let step = connection.take(&segment(flag::SYN | flag::ACK, 1000, 0, b""), REQUEST_BYTES);
        assert!(step.established && step.wanted[1].unwrap().asks);
        assert_eq!(
            step.wanted[0].unwrap(),
            Wanted { flags: flag::ACK, sequence: 0, acknowledged: 1001, asks: false }
        );
        connection
    }

    #[test]
    fn a_reply_in_pieces_is_good_when_its_last_byte_came() {
        let mut connection = asked();
        let step = take(&mut connection, flag::ACK, 1001, HEAD);
        assert_eq!((step.fate, step.wanted[0].unwrap().flags), (None, flag::ACK));
        assert_eq!(take(&mut connection, flag::ACK, 1001 + 40, &[b'x'; 99]).fate, None, "one is missing");
        let step = take(&mut connection, flag::ACK | flag::FIN, 1001 + 139, b"x");
        assert_eq!(step.fate, Some(Fate::Good));
        let reset = step.wanted[0].unwrap();
        assert_eq!((reset.flags, reset.sequence), (flag::RST | flag::ACK, REQUEST_BYTES));
        assert!(connection.is_closed());
    }

    #[test]
    fn what_is_out_of_sequence_does_not_count() {
        let mut connection = asked();
        assert_eq!(
            take(&mut connection, flag::ACK, 1041, &[b'x'; 100]).wanted[0].unwrap().acknowledged,
            1001
        );
        take(&mut connection, flag::ACK, 1001, HEAD);
        assert_eq!(take(&mut connection, flag::ACK, 1001, HEAD).fate, None, "the same again");
        assert_eq!(take(&mut connection, flag::ACK, 1041, &[b'x'; 100]).fate, Some(Fate::Good));
    }

    #[test]
    fn other_ends_are_told_apart() {
        let after_head: [(u8, u32, &[u8], Option<Fate>); 4] = [
            (flag::RST, 1041, b"", Some(Fate::Failed)),
            (flag::RST, 9_999_999, b"", None),
            (flag::FIN | flag::ACK, 1041, b"xx", Some(Fate::Failed)),
            (flag::ACK, 1041, b"", None),
        ];
        for (flags, sequence, payload, fate) in after_head {
            let mut connection = asked();
            take(&mut connection, flag::ACK, 1001, HEAD);
            assert_eq!(take(&mut connection, flags, sequence, payload).fate, fate, "{flags} {sequence}");
        }
        let whole: [(&[u8], Fate); 3] = [
            (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Fate::Shed),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Fate::Failed),
            (b"HTTP/1.1 200 OK\r\n", Fate::Failed),
        ];
        for (payload, fate) in whole {
            assert_eq!(take(&mut asked(), flag::ACK, 1001, payload).fate, Some(fate));
        }
        assert_eq!(take(&mut asked(), flag::FIN | flag::ACK, 1001, b"").fate, Some(Fate::Failed));
    }

    #[test]
    fn a_reply_without_length_ends_with_the_connection() {
        let mut connection = asked();
        assert_eq!(take(&mut connection, flag::ACK, 1001, b"HTTP/1.0 200 OK\r\n\r\nabc").fate, None);
        assert_eq!(take(&mut connection, flag::FIN | flag::ACK, 1023, b"").fate, Some(Fate::Good));
    }

    #[test]
    fn who_gives_up_says_so_in_a_way_that_is_believed() {
        let sequences = |wanted: [Option<Wanted>; 2]| wanted.map(|wanted| wanted.map(|reset| reset.sequence));
        let mut connecting = Connection::default();
        connecting.open(0, 5);
        assert_eq!(connecting.give_up(REQUEST_BYTES), [None, None]);
        assert_eq!(sequences(asked().give_up(REQUEST_BYTES)), [Some(0), Some(REQUEST_BYTES)]);
        let mut reading = asked();
        take(&mut reading, flag::ACK, 1001, HEAD);
        assert_eq!(sequences(reading.give_up(REQUEST_BYTES)), [Some(REQUEST_BYTES), None]);
        assert!(reading.is_closed());
    }

    #[test]
    fn a_handshake_that_nobody_wants_any_more_is_reset() {
        let mut connection = Connection::default();
        let late = segment(flag::SYN | flag::ACK, 1000, 77, b"");
        let step = connection.take(&late, REQUEST_BYTES);
        assert_eq!((step.wanted[0].unwrap().flags, step.wanted[0].unwrap().sequence), (flag::RST, 77));
        assert_eq!(take(&mut connection, flag::ACK, 1, b"x"), Step::default());
        connection.open(1, 500);
        assert_eq!(
            connection.take(&late, REQUEST_BYTES),
            Step::default(),
            "an answer to a former connection"
        );
        assert!(connection.ask_again().is_none() && asked().ask_again().unwrap().asks);
    }

    #[test]
    fn no_order_of_segments_panics_or_ends_twice() {
        let mut noise = 0x9e37_79b9_u32;
        let mut draw = |below: u32| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 8) % below
        };
        let payloads: [&[u8]; 4] = [b"", b"x", HEAD, b"HTTP/1.0 200 OK\r\n\r\n"];
        for _ in 0..20_000 {
            let mut connection = asked();
            let mut ended = 0;
            for _ in 0..8 {
                let payload = payloads[draw(4) as usize];
                let arrived = segment(draw(32) as u8, 1000 + draw(50), draw(3), payload);
                ended += u32::from(connection.take(&arrived, REQUEST_BYTES).fate.is_some());
            }
            assert!(ended <= 1);
        }
    }
}
