//! Threads and CPUs: which may be used, and staying on one.
//!
//! Owns the affinity of the calling thread. Refuses to know what the thread does.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs that the calling thread may run on, ascending. Never empty on success.
pub fn usable_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Keeps the calling thread, and threads that it starts later, on one CPU.
///
/// `InvalidInput` for a CPU that does not exist or that the thread's cpuset does not hold.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_pinned_thread_runs_where_it_was_put() {
        std::thread::spawn(|| {
            for cpu in usable_cpus().unwrap() {
                pin_to_cpu(cpu).unwrap();
                assert_eq!(usable_cpus().unwrap(), [cpu]);
                assert_eq!(rustix::thread::sched_getcpu(), cpu);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            assert_eq!(pin_to_cpu(cpu).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
