//! Chance from a seed: the same numbers on every machine.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0..`end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        (((self.next() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// Uniform, never 0 or 1.
    pub(crate) fn share(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Normal with mean 0 and variance 1 (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (self.share(), self.share());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// Ranks 0..n by Zipf's law: rank r with probability proportional to `1 / (r + 1)^alpha`.
#[derive(Debug)]
pub(crate) struct Zipf {
    /// Probability of this rank or a lower one, in 2^-64.
    up_to: Vec<f64>,
}

impl Zipf {
    /// Over `n` ranks.
    pub(crate) fn new(n: u32, alpha: f64) -> Self {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (1..=n)
            .map(|rank| {
                sum += f64::from(rank).powf(-alpha);
                sum
            })
            .collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        Self { up_to }
    }

    /// A rank.
    pub(crate) fn draw(&self, chance: &mut Chance) -> u32 {
        let share = chance.share();
        self.up_to.partition_point(|&up_to| up_to < share) as u32
    }
}
