//! Numbers that look random and are the same in every run.

/// A small generator (xorshift) seeded by the test.
pub struct Noise(u64);

impl Noise {
    /// Starts from `seed`, which must not be 0.
    pub fn new(seed: u64) -> Noise {
        assert_ne!(seed, 0, "a xorshift generator stays at zero");
        Noise(seed)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// That many bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}
