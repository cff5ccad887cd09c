//! What the XDP program costs for each frame, by the kernel's own clock: the figures of `bench/results/overload-xdp.md`.
//!
//! ```text
//! cargo run --release -p sys --example syn_gate
//! ```
//!
//! Needs privilege, and neither network nor card. Each line is the least of many rounds: what disturbs only adds.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use sys::xdp::{Refused, Rule, SynGate};

const ROUNDS: u32 = 200;
const FRAMES: u32 = 20_000;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 80;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn main() -> Result<(), Refused> {
    let mut gate = SynGate::load()?;
    gate.guard(&[(SocketAddr::new(US.into(), PORT), 0)])?;
    println!("| frame | rule | dropped | ns |\n|---|---|---|---|");
    let cases = [
        ("data of an established connection", PORT, ACK, Rule::Open),
        ("SYN to another port", 81, SYN, Rule::Open),
        ("SYN to a listener", PORT, SYN, Rule::Open),
        ("SYN to a listener", PORT, SYN, Rule::Share(0.0)),
        ("SYN of a flooder", PORT, SYN, Rule::Level(1.0)),
    ];
    for (what, port, flags, rule) in cases {
        gate.rule(0, rule)?;
        let frame = frame(port, flags);
        let (mut least, mut dropped) = (Duration::MAX, false);
        for _ in 0..ROUNDS {
            let judgement = gate.judge(&frame, FRAMES)?;
            least = least.min(judgement.took);
            dropped = judgement.dropped;
        }
        println!("| {what} | {rule:?} | {} | {} |", if dropped { "yes" } else { "no" }, least.as_nanos());
    }
    Ok(())
}

/// A TCP segment of 10.0.0.9 in an Ethernet frame.
fn frame(port: u16, flags: u8) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 20];
    frame[12] = 0x08;
    frame[14] = 0x45;
    frame[17] = 40;
    frame[23] = 6;
    frame[26..30].copy_from_slice(&[10, 0, 0, 9]);
    frame[30..34].copy_from_slice(&US.octets());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    (frame[46], frame[47]) = (5 << 4, flags);
    frame
}
