//! The objects: which keys, how long, what is in them, and which are asked for.

use bench_store::random::{Random, Zipf, mix};

/// Lengths are spread evenly over their logarithm between these.
const LENGTHS: (f64, f64) = (100.0, 4096.0);

/// Exponent of the popularity.
pub const ZIPF: f64 = 0.9;

/// Requests under way for each thread.
pub const DEPTH: usize = 32;

/// Bytes of an object.
pub fn length(key: u64) -> usize {
    let share = (mix(key ^ 0x5eed) >> 11) as f64 / (1_u64 << 53) as f64;
    (LENGTHS.0 * (LENGTHS.1 / LENGTHS.0).powf(share)) as usize
}

/// The object: its key, then bytes that follow from it.
pub fn body(key: u64) -> Vec<u8> {
    let mut body = vec![key as u8; length(key)];
    body[..8].copy_from_slice(&key.to_le_bytes());
    body
}

/// Whether it is the one that was stored.
pub fn is_right(key: u64, body: &[u8]) -> bool {
    body.len() == length(key) && body[..8] == key.to_le_bytes() && body[body.len() - 1] == key as u8
}

/// Keys as they are asked for, a different order for each task.
pub fn popular(objects: u64, task: u64) -> impl FnMut() -> u64 {
    let (zipf, mut random) = (Zipf::new(objects, ZIPF), Random::new(task + 1));
    move || zipf.draw(&mut random)
}
