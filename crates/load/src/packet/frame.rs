//! Frames: Ethernet, IPv4 and TCP, as many of their fields as a client needs (RFC 894, RFC 791, RFC 9293), and ARP
//! (RFC 826).
//!
//! Functions of their arguments. What must hold: what is read was looked at to its announced lengths, whatever the bytes
//! are; what is written has right checksums. Checksums of what arrives are not looked at: a `veth` leaves them out.

use std::net::{Ipv4Addr, SocketAddrV4};

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// Ether types.
pub(super) const IPV4: u16 = 0x0800;
/// Questions for hardware addresses, and answers.
pub(super) const ARP: u16 = 0x0806;

/// Flags of a segment (RFC 9293 §3.1).
pub(super) mod flag {
    pub(in super::super) const FIN: u8 = 0x01;
    pub(in super::super) const SYN: u8 = 0x02;
    pub(in super::super) const RST: u8 = 0x04;
    pub(in super::super) const PSH: u8 = 0x08;
    pub(in super::super) const ACK: u8 = 0x10;
}

const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const TCP_BYTES: usize = 20;
const TCP_AT: usize = ETHERNET_BYTES + IP_BYTES;
const PROTOCOL_TCP: u8 = 6;
/// The longest payload of a segment: what an Ethernet frame takes behind the heads.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1500 - IP_BYTES - TCP_BYTES;
/// What a client that uses no window scaling can offer.
const WINDOW: u16 = u16::MAX;
/// The largest segment that is taken, as an option of the SYN: 1460 bytes.
const MSS_OPTION: [u8; 4] = [2, 4, 0x05, 0xb4];

/// The two ends, but for the client's address and port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Where frames come from.
    pub(super) client_mac: Mac,
    /// Where they go.
    pub(super) server_mac: Mac,
    /// Who is asked.
    pub(super) server: SocketAddrV4,
}

/// A segment to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    /// Where it comes from.
    pub(super) client: SocketAddrV4,
    /// Number of its first byte.
    pub(super) sequence: u32,
    /// Number of the byte that is expected next.
    pub(super) acknowledged: u32,
    /// See [`flag`].
    pub(super) flags: u8,
    /// Goes along.
    pub(super) payload: &'a [u8],
}

/// Writes a frame and says its length. The payload is at most [`PAYLOAD_BYTES_MAX`] long, and a SYN has none.
pub(super) fn write(ends: &Ends, segment: &Segment<'_>, id: u16, frame: &mut [u8]) -> usize {
    let options: &[u8] = if segment.flags & flag::SYN == 0 { &[] } else { &MSS_OPTION };
    let tcp_bytes = TCP_BYTES + options.len() + segment.payload.len();
    frame[..6].copy_from_slice(&ends.server_mac);
    frame[6..12].copy_from_slice(&ends.client_mac);
    frame[12..14].copy_from_slice(&IPV4.to_be_bytes());
    let (ip, tcp) = frame[ETHERNET_BYTES..TCP_AT + tcp_bytes].split_at_mut(IP_BYTES);
    write_ip(ip, *segment.client.ip(), *ends.server.ip(), tcp_bytes, id);
    write_tcp(tcp, ends.server, segment, options);
    let pseudo = sum(&ip[12..20]) + u32::from(PROTOCOL_TCP) + tcp_bytes as u32;
    let checksum = fold(pseudo + sum(tcp));
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    TCP_AT + tcp_bytes
}

fn write_ip(ip: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, payload_bytes: usize, id: u16) {
    ip[..2].copy_from_slice(&[0x45, 0]);
    ip[2..4].copy_from_slice(&((IP_BYTES + payload_bytes) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    // Not to be fragmented; 64 hops; no checksum yet.
    ip[6..12].copy_from_slice(&[0x40, 0, 64, PROTOCOL_TCP, 0, 0]);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let checksum = fold(sum(ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn write_tcp(tcp: &mut [u8], server: SocketAddrV4, segment: &Segment<'_>, options: &[u8]) {
    tcp[..2].copy_from_slice(&segment.client.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&server.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&segment.sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&segment.acknowledged.to_be_bytes());
    tcp[12] = (((TCP_BYTES + options.len()) / 4) << 4) as u8;
    tcp[13] = segment.flags;
    tcp[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    tcp[16..20].fill(0);
    tcp[TCP_BYTES..TCP_BYTES + options.len()].copy_from_slice(options);
    tcp[TCP_BYTES + options.len()..].copy_from_slice(segment.payload);
}

/// A segment that came from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrived<'a> {
    /// Whom it is for.
    pub(super) client: SocketAddrV4,
    /// Number of its first byte.
    pub(super) sequence: u32,
    /// Number of the byte that the server expects next.
    pub(super) acknowledged: u32,
    /// See [`flag`].
    pub(super) flags: u8,
    /// Bytes of its payload.
    pub(super) payload_bytes: u32,
    /// As much of the payload as was seen.
    pub(super) seen: &'a [u8],
}

/// Reads the beginning of a frame; nothing where it is no segment from `server`.
pub(super) fn read<'a>(server: SocketAddrV4, frame: &'a [u8]) -> Option<Arrived<'a>> {
    let ip = frame.get(ETHERNET_BYTES..)?;
    let ip_bytes = usize::from(ip.first()? & 0x0f) * 4;
    let tcp = ip.get(ip_bytes..)?;
    let tcp_head_bytes = usize::from(tcp.get(12)? >> 4) * 4;
    let is_segment = ip[0] >> 4 == 4 && ip_bytes >= IP_BYTES && ip[9] == PROTOCOL_TCP;
    let from = SocketAddrV4::new(address(ip.get(12..16)?), half(tcp, 0)?);
    if !is_segment || from != server || tcp_head_bytes < TCP_BYTES || tcp.len() < TCP_BYTES {
        return None;
    }
    let payload_bytes = usize::from(half(ip, 2)?).checked_sub(ip_bytes + tcp_head_bytes)?;
    // Short frames are padded; long ones are cut.
    let seen = tcp.get(tcp_head_bytes..).unwrap_or_default();
    Some(Arrived {
        client: SocketAddrV4::new(address(ip.get(16..20)?), half(tcp, 2)?),
        sequence: word(tcp, 4)?,
        acknowledged: word(tcp, 8)?,
        flags: tcp[13],
        payload_bytes: payload_bytes as u32,
        seen: &seen[..seen.len().min(payload_bytes)],
    })
}

/// An ARP message over Ethernet and IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arp {
    /// A question; else an answer.
    pub(super) asks: bool,
    /// Who says it.
    pub(super) from: (Mac, Ipv4Addr),
    /// Who is asked, or told. A question has no hardware address here.
    pub(super) to: (Mac, Ipv4Addr),
}

impl Arp {
    const HEAD: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
    const BYTES: usize = 28;

    /// Writes the frame and says its length. A question goes to all.
    pub(super) fn write(&self, frame: &mut [u8]) -> usize {
        frame[..6].copy_from_slice(if self.asks { &[0xff; 6] } else { &self.to.0 });
        frame[6..12].copy_from_slice(&self.from.0);
        frame[12..14].copy_from_slice(&ARP.to_be_bytes());
        let arp = &mut frame[ETHERNET_BYTES..ETHERNET_BYTES + Self::BYTES];
        arp[..6].copy_from_slice(&Self::HEAD);
        arp[6..8].copy_from_slice(&[0, if self.asks { 1 } else { 2 }]);
        arp[8..14].copy_from_slice(&self.from.0);
        arp[14..18].copy_from_slice(&self.from.1.octets());
        arp[18..24].copy_from_slice(&self.to.0);
        arp[24..28].copy_from_slice(&self.to.1.octets());
        ETHERNET_BYTES + Self::BYTES
    }

    /// Reads a frame; nothing where it is no such message.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let arp = frame.get(ETHERNET_BYTES..ETHERNET_BYTES + Self::BYTES)?;
        let asks = match arp[7] {
            1 => true,
            2 => false,
            _ => return None,
        };
        let mac = |at: usize| arp[at..at + 6].try_into().ok();
        (arp[..6] == Self::HEAD && arp[6] == 0).then_some(())?;
        Some(Self { asks, from: (mac(8)?, address(&arp[14..18])), to: (mac(18)?, address(&arp[24..28])) })
    }
}

/// `bytes` has four.
fn address(bytes: &[u8]) -> Ipv4Addr {
    bytes.try_into().map_or(Ipv4Addr::UNSPECIFIED, |bytes: [u8; 4]| bytes.into())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The sum of 16-bit words that checksums are made of (RFC 1071), not folded yet.
fn sum(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low)));
    words.sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum >> 16) + (sum & 0xffff);
    !((once >> 16) + once) as u16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn ends() -> Ends {
        Ends { client_mac: [2; 6], server_mac: [4; 6], server: "10.0.0.1:80".parse().unwrap() }
    }

    fn written(flags: u8, payload: &[u8]) -> Vec<u8> {
        let client = "10.0.0.9:2000".parse().unwrap();
        let segment = Segment { client, sequence: 0xdead_beef, acknowledged: 7, flags, payload };
        let mut frame = [0xaa; 1514];
        let length = write(&ends(), &segment, 77, &mut frame);
        frame[..length].to_vec()
    }

    /// A frame as the server would send it: ends swapped, checksums no longer right.
    fn from_server(flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = written(flags, payload);
        for (a, b, count) in [(26, 30, 4), (34, 36, 2)] {
            (0..count).for_each(|at| frame.swap(a + at, b + at));
        }
        frame
    }

    #[test]
    fn checksums_are_those_of_the_rfc() {
        // RFC 1071 §3: 0001 f203 f4f5 f6f7 sum to ddf2.
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
        for (flags, payload) in [(flag::SYN, &b""[..]), (flag::ACK, b"odd"), (flag::ACK, b"even")] {
            let frame = written(flags, payload);
            assert_eq!(fold(sum(&frame[14..34])), 0, "what sums up with its checksum is right");
            let pseudo = sum(&frame[26..34]) + 6 + (frame.len() - 34) as u32;
            assert_eq!(fold(pseudo + sum(&frame[34..])), 0);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let frame = from_server(flag::ACK | flag::PSH, b"hello");
        let arrived = read(ends().server, &frame).unwrap();
        assert_eq!(arrived.client, "10.0.0.9:2000".parse().unwrap());
        assert_eq!((arrived.sequence, arrived.acknowledged), (0xdead_beef, 7));
        assert_eq!((arrived.flags, arrived.payload_bytes, arrived.seen), (0x18, 5, &b"hello"[..]));
        let syn = from_server(flag::SYN | flag::ACK, b"");
        assert_eq!(read(ends().server, &syn).unwrap().payload_bytes, 0, "options are no payload");
    }

    #[test]
    fn padding_is_no_payload_and_a_cut_frame_has_its_length() {
        let mut padded = from_server(flag::ACK, b"x");
        padded.resize(60, 0);
        assert_eq!(read(ends().server, &padded).unwrap().seen, b"x");
        let cut = &from_server(flag::ACK, b"hello")[..56];
        let arrived = read(ends().server, cut).unwrap();
        assert_eq!((arrived.payload_bytes, arrived.seen), (5, &b"he"[..]));
    }

    #[test]
    fn other_frames_are_nothing() {
        let frame = from_server(flag::ACK, b"hello");
        for length in 0..54 {
            assert_eq!(read(ends().server, &frame[..length]), None, "{length}");
        }
        assert_eq!(read("10.0.0.1:81".parse().unwrap(), &frame), None);
        // Version 6; a short IP head; UDP; a short TCP head; less than the heads.
        for (at, byte) in [(14, 0x65), (14, 0x44), (23, 17), (46, 0x40), (17, 10)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert_eq!(read(ends().server, &other), None, "{at}");
        }
    }

    #[test]
    fn arp_goes_both_ways() {
        let question = Arp {
            asks: true,
            from: ([2; 6], Ipv4Addr::new(10, 0, 0, 9)),
            to: ([0; 6], Ipv4Addr::new(10, 0, 0, 1)),
        };
        let mut frame = [0; 64];
        assert_eq!(question.write(&mut frame), 42);
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(Arp::read(&frame[..42]), Some(question));
        let answer = Arp { asks: false, from: question.to, to: question.from };
        answer.write(&mut frame);
        assert_eq!((frame[0], Arp::read(&frame)), (2, Some(answer)));
        assert_eq!((Arp::read(&frame[..41]), Arp::read(&[0; 42])), (None, None));
    }
}
