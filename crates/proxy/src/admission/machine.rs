//! The machine's own signs of overload: the share of CPU time that its kernel takes, and how near memory is to its end.
//!
//! A thread of its own reads them four times a second, because `/proc` and the control groups are files, and workers read no
//! files. What must hold: what cannot be read is no sign; the figures of a reading are those of the time since the last one.

mod cpu_times;
mod memory;

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::level::Level;
use crate::settings::{Overload, Shedding};
use crate::worker::Shared;
use cpu_times::CpuTimes;
use memory::Memory;

const PERIOD: Duration = Duration::from_millis(250);
/// Where the share of time in which everything stood still for want of memory is a target's worth.
const STALLED: f64 = 0.1;
/// Some new connections always get through, or nothing would tell that the overload has ended.
const SYN_SHARE_MAX: f64 = 0.98;

/// The last readings, for all workers.
#[derive(Debug, Default)]
pub struct Machine {
    pressure: Figure,
    syn_share: Figure,
    kernel: Figure,
    memory: Figure,
}

/// A fraction that one thread writes and others read.
#[derive(Debug, Default)]
struct Figure(AtomicU64);

impl Figure {
    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

impl Machine {
    /// The worst reading over what it may be; 1 is the target.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        self.pressure.get()
    }

    /// The share of new connections to be dropped because of it.
    #[must_use]
    pub fn syn_share(&self) -> f64 {
        self.syn_share.get()
    }

    /// The share of CPU time in the kernel, system calls and interrupts, of the processors that we may use.
    #[must_use]
    pub fn kernel_share(&self) -> f64 {
        self.kernel.get()
    }

    /// The share of the memory limit that is in use, page cache aside.
    #[must_use]
    pub fn memory_share(&self) -> f64 {
        self.memory.get()
    }
}

/// Starts the thread; it ends with the process, or when nobody hands out settings any more.
///
/// # Errors
/// When the operating system gives no thread.
pub fn start(generations: watch::Receiver<Arc<Shared>>) -> io::Result<()> {
    let read = move || {
        let mut reader = Reader::new();
        while generations.has_changed().is_ok() {
            std::thread::sleep(PERIOD);
            let shared = Arc::clone(&generations.borrow());
            reader.read(&shared.machine, &shared.settings.overload);
        }
    };
    std::thread::Builder::new().name("machine".into()).spawn(read).map(drop)
}

struct Reader {
    begun: Instant,
    usable: Vec<usize>,
    times: Option<CpuTimes>,
    memory: Memory,
    syn: Level,
}

impl Reader {
    fn new() -> Self {
        let usable = sys::cpu::usable().unwrap_or_default();
        let syn = Level::up_to(SYN_SHARE_MAX);
        Self { begun: Instant::now(), times: times(&usable), usable, memory: Memory::find(), syn }
    }

    fn read(&mut self, machine: &Machine, bounds: &Overload) {
        let times = times(&self.usable);
        let kernel = self.times.zip(times).map_or(0.0, |(before, now)| now.kernel_share_since(before));
        self.times = times;
        let memory = self.memory.used().unwrap_or(0.0);
        machine.kernel.set(kernel);
        machine.memory.set(memory);
        let signs = [
            pressure(kernel, bounds.kernel_cpu),
            pressure(memory, bounds.memory),
            self.memory.stalled().unwrap_or(0.0) / STALLED,
        ];
        let worst = signs.into_iter().fold(0.0, f64::max);
        machine.pressure.set(worst);
        let share = self.syn.decide(self.begun.elapsed(), worst);
        machine.syn_share.set(if bounds.shedding == Shedding::On { share } else { 0.0 });
    }
}

/// A share over its bound; a bound of 1 can never be passed, and switches the sign off.
fn pressure(share: f64, bound: f64) -> f64 {
    if bound >= 1.0 { 0.0 } else { share / bound.max(0.01) }
}

fn times(usable: &[usize]) -> Option<CpuTimes> {
    CpuTimes::parse(&fs::read_to_string("/proc/stat").ok()?, usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_that_is_off_never_presses() {
        assert_eq!(pressure(1.0, 1.0), 0.0);
        assert_eq!(pressure(0.375, 0.75), 0.5);
        assert!(pressure(0.9, 0.0) > 1.0);
    }

    #[test]
    fn this_machine_can_be_read() {
        let (machine, mut reader) = (Machine::default(), Reader::new());
        let bounds = Overload { kernel_cpu: 1.0, memory: 1.0, ..Overload::default() };
        reader.read(&machine, &bounds);
        assert!((0.0..=1.0).contains(&machine.kernel_share()), "{machine:?}");
        assert!(machine.memory_share() > 0.0 && machine.memory_share() < 1.5, "{machine:?}");
        assert!(reader.times.is_some());
    }
}
