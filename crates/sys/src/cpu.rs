//! Processors: which this process may use, and how long a thread has worked on one.
//!
//! What must hold: asking costs a system call without a wait. Refuses to know what counts as much.

use std::io;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};
use rustix::time::{ClockId, clock_gettime};

/// How long the calling thread has been on a processor since it began.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The numbers of the processors that the calling thread may run on.
pub fn usable() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&n| set.is_set(n)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let before = thread_time();
        std::thread::sleep(Duration::from_millis(50));
        let slept = thread_time() - before;
        let mut n = 0_u64;
        while thread_time() - before < slept + Duration::from_millis(5) {
            n = std::hint::black_box(n + 1);
        }
        assert!(slept < Duration::from_millis(25), "{slept:?}");
    }

    #[test]
    fn there_is_a_processor() {
        assert!(!usable().unwrap().is_empty());
    }
}
