//! Devices that do not answer: clients stop waiting, and in the end the device is retired.
//!
//! A request without an answer for `store.read_timeout` makes its lane stall: clients are told at once that they must be
//! served otherwise, and each such time counts as one error of the device. One without an answer for
//! `store.device_timeout`, whatever it is, retires the device: checkpoints of all the others wait for it. What it holds
//! of ours stays with the operations.

use std::rc::Weak;
use std::time::{Duration, Instant};

use store::DeviceIndex;

use super::queue::{End, Inner, Patience, Unserved, tell};

/// How many looks fit into the shortest bound.
const LOOKS: u32 = 8;

/// Looks at what is under way, for as long as the queue is there.
pub(super) async fn watch(inner: Weak<Inner>) {
    let Some(bounds) = inner.upgrade().map(|inner| inner.disks.bounds) else { return };
    let every = bounds.read_timeout.min(bounds.device_timeout) / LOOKS;
    let every = every.clamp(Duration::from_millis(5), Duration::from_millis(250));
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.look(Instant::now());
    }
}

/// The oldest requests of a device without an answer.
#[derive(Clone, Copy, Default)]
struct Oldest {
    any: Duration,
    read: Duration,
}

impl Inner {
    fn look(&self, now: Instant) {
        let mut oldest = vec![Oldest::default(); self.lanes.len()];
        self.each_under_way(|it| {
            let (of_device, age) = (&mut oldest[it.device], now.saturating_duration_since(it.since));
            of_device.any = of_device.any.max(age);
            if matches!(it.end, End::Read(..) | End::GivenUp) {
                of_device.read = of_device.read.max(age);
            }
        });
        for (device, oldest) in oldest.into_iter().enumerate() {
            if !self.is_retired(device) {
                self.judge(device, oldest, now);
            }
            if self.is_retired(device) {
                self.forsake(device);
            }
        }
    }

    fn judge(&self, device: usize, oldest: Oldest, now: Instant) {
        let bounds = &self.disks.bounds;
        let index = DeviceIndex(device as u16);
        if oldest.any >= bounds.device_timeout {
            tracing::error!(device, seconds = oldest.any.as_secs_f32(), "the device does not answer");
            return self.disks.store.note_hung(index);
        }
        if oldest.read < bounds.read_timeout {
            self.lanes[device].borrow_mut().flows();
        } else if self.lanes[device].borrow_mut().stall(now, bounds.read_timeout) {
            tracing::warn!(device, seconds = oldest.read.as_secs_f32(), "a read has no answer");
            self.disks.store.note_io_error(index);
        }
        self.dismiss(device, now);
    }

    /// Tells clients that have waited long enough.
    fn dismiss(&self, device: usize, now: Instant) {
        let Some(moment) = now.checked_sub(self.disks.bounds.read_timeout) else { return };
        let mut dismissed = Vec::new();
        for read in self.lanes[device].borrow_mut().expired(moment) {
            self.answered(device, read.bytes);
            dismissed.push(read.done);
        }
        self.each_under_way(|it| {
            let waits = matches!(it.end, End::Read(Patience::Client, _));
            if waits
                && it.device == device
                && it.since <= moment
                && let End::Read(_, done) = std::mem::replace(&mut it.end, End::GivenUp)
            {
                dismissed.push(done);
            }
        });
        for done in dismissed {
            self.disks.traffic[device].unanswered();
            tell(done, Err(Unserved::Unanswered));
        }
    }

    /// Nobody waits for a retired device any more. (A sender that is dropped says so.)
    fn forsake(&self, device: usize) {
        drop(self.lanes[device].borrow_mut().drain());
        self.disks.traffic[device].writes.lock().clear();
        self.each_under_way(|it| {
            if it.device != device {
                return;
            }
            match &mut it.end {
                End::Read(..) => it.end = End::GivenUp,
                End::Write { writers, .. } => writers.clear(),
                End::Sync(done) => *done = tokio::sync::oneshot::channel().0,
                End::GivenUp => {}
            }
        });
    }
}
