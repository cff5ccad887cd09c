//! Numbers by chance, from a seed; popularity by Zipf's law.

/// SplitMix64 (Steele et al. 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// One of the first `end` numbers.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_number() % end.max(1)
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A well mixed number for each number.
pub fn mix(n: u64) -> u64 {
    let mut z = n;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ranks by Zipf's law, by the continuous approximation of its distribution: rank `r` comes up about `r^-s` as often
/// as the first. Keys are the ranks, mixed, so that neighbours in rank are no neighbours on the device.
#[derive(Debug, Clone)]
pub struct Zipf {
    keys: u64,
    one_less: f64,
}

impl Zipf {
    /// For an exponent other than 1.
    pub fn new(keys: u64, exponent: f64) -> Self {
        Self { keys, one_less: 1.0 - exponent }
    }

    /// A key from 0 up to the number of keys.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let span = (self.keys as f64 + 1.0).powf(self.one_less) - 1.0;
        let rank = (1.0 + random.unit() * span).powf(1.0 / self.one_less) as u64 - 1;
        mix(rank.min(self.keys - 1)) % self.keys
    }
}
