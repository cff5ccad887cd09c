//! Images as text: `offset bytes` or `offset count*byte`, all in hexadecimal; zeros are left out.

use std::fmt::Write;

const RUN_MIN: usize = 12;
const LINE_BYTES: usize = 48;

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = format!("{:x}\n", bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let run = run(&bytes[at..]);
        if bytes[at] == 0 {
            at += run;
        } else if run >= RUN_MIN {
            writeln!(out, "{at:x} {run:x}*{:02x}", bytes[at]).unwrap();
            at += run;
        } else {
            let line = &bytes[at..(at + LINE_BYTES).min(bytes.len())];
            let ends = |from: usize| self::run(&line[from..]) >= RUN_MIN;
            let len = (1..line.len()).find(|&from| ends(from)).unwrap_or(line.len());
            let hex: String = line[..len].iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(out, "{at:x} {hex}").unwrap();
            at += len;
        }
    }
    out
}

fn run(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == bytes[0]).count()
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let mut lines = text.lines();
    let mut bytes = vec![0; number(lines.next().unwrap())];
    for line in lines {
        let (at, what) = line.split_once(' ').unwrap();
        let at = number(at);
        if let Some((count, byte)) = what.split_once('*') {
            bytes[at..][..number(count)].fill(number(byte) as u8);
        } else {
            for (byte, digits) in bytes[at..].iter_mut().zip(what.as_bytes().chunks(2)) {
                *byte = number(std::str::from_utf8(digits).unwrap()) as u8;
            }
        }
    }
    bytes
}

#[test]
fn an_image_comes_back() {
    let mut bytes = vec![0; 4096];
    bytes[100..200].fill(7);
    bytes[200..300].copy_from_slice(&(0..100).collect::<Vec<u8>>());
    bytes[4095] = 1;
    assert_eq!(decode(&encode(&bytes)), bytes);
}
