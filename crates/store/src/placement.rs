//! Which device an object or an extent goes to: by size, and less to a device that is behind the others. Pure.
//!
//! Records go by weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Schindelhauer and
//! Schomaker 2005) on device identity: the answer does not depend on paths or order, and a device that comes
//! or goes moves only its own share. Extents of large bodies go where the least was given in proportion
//! to size, which is round robin on equal devices.
//!
//! A device is *behind* by a level for each [`LEVEL_BYTES`] that it has not answered for, counted from the device with
//! the least. While all keep up, sizes alone decide, so that records stay where their key's hash puts them. A device that
//! is slower than its share fills its levels, and gets less until it keeps up: half of its share of the records for each
//! level, extents only when all others are as far behind.

use crate::fingerprint::Fingerprint;
use crate::types::DeviceId;

/// A device as a candidate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) id: DeviceId,
    pub(crate) bytes: u64,
    /// Extent bytes that it was given so far.
    pub(crate) given: u64,
    /// Bytes that it was asked to move and has not answered for.
    pub(crate) load: u64,
}

/// What a device of today moves within a few milliseconds: less on its way is no sign of anything.
const LEVEL_BYTES: u64 = 4 << 20;

/// A device gets at least this power of two of its share: who is asked for nothing cannot show that it is well again.
const LEVELS_MAX: u64 = 6;

/// The position of the device that holds records of `fingerprint`, or nothing without candidates.
pub(crate) fn home(
    fingerprint: Fingerprint,
    devices: impl Iterator<Item = (usize, Candidate)> + Clone,
) -> Option<usize> {
    let least = least_load(devices.clone());
    devices
        .map(|(at, device)| (at, score(fingerprint, &device, least)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(at, _)| at)
}

/// The position of the device that gets the next extent.
pub(crate) fn next_extent(devices: impl Iterator<Item = (usize, Candidate)> + Clone) -> Option<usize> {
    let least = least_load(devices.clone());
    let share = |device: &Candidate| device.given as f64 / device.bytes.max(1) as f64;
    let by_level = |a: &Candidate, b: &Candidate| a.levels_behind(least).cmp(&b.levels_behind(least));
    devices.min_by(|(_, a), (_, b)| by_level(a, b).then(share(a).total_cmp(&share(b)))).map(|(at, _)| at)
}

fn least_load(devices: impl Iterator<Item = (usize, Candidate)>) -> u64 {
    devices.map(|(_, device)| device.load).min().unwrap_or(0)
}

impl Candidate {
    fn levels_behind(&self, least: u64) -> u64 {
        (self.load.saturating_sub(least) / LEVEL_BYTES).min(LEVELS_MAX)
    }
}

fn score(fingerprint: Fingerprint, device: &Candidate, least: u64) -> f64 {
    let mixed = mix(mix(fingerprint.number() ^ device.id.short()) ^ (device.id.0 >> 64) as u64);
    // 53 bits and a half: never 0 or 1, so the logarithm is finite and negative.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let weight = device.bytes as f64 / (1_u64 << device.levels_behind(least)) as f64;
    -weight / uniform.ln()
}

/// The finaliser of MurmurHash3: every input bit reaches every output bit.
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(id: u128, bytes: u64) -> Candidate {
        Candidate { id: DeviceId(id), bytes, given: 0, load: 0 }
    }

    fn homes(devices: &[Candidate]) -> Vec<DeviceId> {
        (0..20_000)
            .map(|n| Fingerprint::from_parts(n % 4096, (n as u32).wrapping_mul(0x9e37_79b9)))
            .map(|print| devices[home(print, devices.iter().copied().enumerate()).unwrap()].id)
            .collect()
    }

    #[test]
    fn shares_follow_sizes_and_not_order() {
        let devices = [device(7 << 70, 100), device(3, 300), device(u128::MAX, 600)];
        let reversed: Vec<_> = devices.iter().rev().copied().collect();
        let chosen = homes(&devices);
        assert_eq!(chosen, homes(&reversed));
        for device in devices {
            let share = chosen.iter().filter(|&&id| id == device.id).count() as f64 / chosen.len() as f64;
            let fair = device.bytes as f64 / 1000.0;
            assert!((share - fair).abs() < 0.02, "{share} instead of {fair}");
        }
    }

    #[test]
    fn a_new_device_takes_and_moves_nothing_else() {
        let before = [device(1, 100), device(2, 100)];
        let after = [device(1, 100), device(2, 100), device(3, 100)];
        for (was, is) in homes(&before).into_iter().zip(homes(&after)) {
            assert!(is == was || is == DeviceId(3));
        }
    }

    #[test]
    fn a_device_that_is_behind_gets_less_and_moves_nothing_else() {
        let well = [device(1, 100), device(2, 100), device(3, 100)];
        let behind = [well[0], Candidate { load: 2 * LEVEL_BYTES + 1, ..well[1] }, well[2]];
        let (before, after) = (homes(&well), homes(&behind));
        let share = after.iter().filter(|&&id| id == DeviceId(2)).count() as f64 / after.len() as f64;
        assert!((share - 1.0 / 9.0).abs() < 0.01, "{share}: a quarter of the others' weight");
        assert!(before.iter().zip(&after).all(|(was, is)| was == is || *was == DeviceId(2)));
        let little = [well[0], Candidate { load: LEVEL_BYTES - 1, ..well[1] }, well[2]];
        assert_eq!(homes(&little), before);
        let all = behind.map(|device| Candidate { load: device.load + 9 * LEVEL_BYTES, ..device });
        assert_eq!(homes(&all), after, "only the difference counts");
    }

    /// Each turn one extent is dealt, a fast device answers for all it has and a slow one for some bytes.
    #[test]
    fn a_slow_device_is_dealt_what_it_can_take() {
        let mut devices = [device(1, 100), device(2, 100)];
        for _ in 0..4000 {
            let next = next_extent(devices.iter().copied().enumerate()).unwrap();
            devices[next].given += 1 << 20;
            devices[next].load += 1 << 20;
            devices[0].load = 0;
            devices[1].load = devices[1].load.saturating_sub(100 << 10);
        }
        let share = devices[1].given as f64 / (devices[0].given + devices[1].given) as f64;
        assert!((0.08..0.12).contains(&share), "{share}: it can take a tenth");
        assert!(devices[1].load < 6 << 20);
    }

    #[test]
    fn extents_are_dealt_by_size() {
        let mut devices = [device(1, 100), device(2, 300)];
        for _ in 0..400 {
            let next = next_extent(devices.iter().copied().enumerate()).unwrap();
            devices[next].given += 1;
        }
        assert_eq!(devices.map(|device| device.given), [100, 300]);
    }
}
