//! Which device an object or an extent goes to. Pure.
//!
//! Records go by weighted rendezvous hashing (Thaler and Ravishankar 1998; weights after Schindelhauer and
//! Schomaker 2005) on device identity: the answer does not depend on paths or order, and a device that comes
//! or goes moves only its own share. Extents of large bodies go where the least was given in proportion
//! to size, which is round robin on equal devices.

use crate::fingerprint::Fingerprint;
use crate::types::DeviceId;

/// A device as a candidate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) id: DeviceId,
    pub(crate) bytes: u64,
    /// Extent bytes that it was given so far.
    pub(crate) given: u64,
}

/// The position of the device that holds records of `fingerprint`, or nothing without candidates.
pub(crate) fn home(
    fingerprint: Fingerprint,
    devices: impl Iterator<Item = (usize, Candidate)>,
) -> Option<usize> {
    devices
        .map(|(at, device)| (at, score(fingerprint, &device)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(at, _)| at)
}

/// The position of the device that gets the next extent.
pub(crate) fn next_extent(devices: impl Iterator<Item = (usize, Candidate)>) -> Option<usize> {
    let share = |device: &Candidate| device.given as f64 / device.bytes.max(1) as f64;
    devices.min_by(|(_, a), (_, b)| share(a).total_cmp(&share(b))).map(|(at, _)| at)
}

fn score(fingerprint: Fingerprint, device: &Candidate) -> f64 {
    let mixed = mix(mix(fingerprint.number() ^ device.id.short()) ^ (device.id.0 >> 64) as u64);
    // 53 bits and a half: never 0 or 1, so the logarithm is finite and negative.
    let uniform = ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(device.bytes as f64) / uniform.ln()
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
        Candidate { id: DeviceId(id), bytes, given: 0 }
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
    fn extents_are_dealt_by_size() {
        let mut devices = [device(1, 100), device(2, 300)];
        for _ in 0..400 {
            let next = next_extent(devices.iter().copied().enumerate()).unwrap();
            devices[next].given += 1;
        }
        assert_eq!(devices.map(|device| device.given), [100, 300]);
    }
}
