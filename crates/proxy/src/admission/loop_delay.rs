//! How long what is ready waits for this thread: the lateness of a tick that stands in the same queues as everything else,
//! that of the runtime and then the line for origins ([`super::turns`]).
//!
//! What must hold: an idle thread is woken ten times a second and no more; lateness counts only as far as the thread itself
//! has worked meanwhile, because waiting for a processor that other programs hold is not helped by refusing requests.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::level::Level;
use crate::settings::Shedding;
use crate::worker::Worker;

/// Time between two looks of a thread that is busy.
const TICK: Duration = Duration::from_millis(10);
/// The same of one that is not.
const REST: Duration = Duration::from_millis(100);
/// A thread is busy that works more than this part of the time.
const BUSY: f64 = 0.125;
/// What waits for a device may wait for this part of `store.read_timeout`, after which it is a miss.
const DISK_SHARE: u32 = 4;

/// Looks at this thread's load again and again, and sets what its request stage goes by.
pub async fn watch(mut worker: Rc<Worker>) {
    let begun = Instant::now();
    let (mut level, mut disk) = (Level::up_to(Level::ALL), Level::up_to(1.0));
    let mut pause = REST;
    loop {
        let look = Look::after(pause, worker.turns.mine()).await;
        worker = worker.up_to_date();
        let settings = &worker.shared.settings;
        let now = begun.elapsed();
        let disk_delay = worker.disk.longest_wait();
        let of_loop = ratio(look.delay, settings.overload.loop_delay);
        let pressure = of_loop.max(worker.shared.machine.pressure());
        let levels = (
            level.decide(now, pressure),
            disk.decide(now, ratio(disk_delay, settings.store.read_timeout / DISK_SHARE)),
        );
        let levels = if settings.overload.shedding == Shedding::On { levels } else { (0.0, 0.0) };
        worker.admission.set(levels.0, levels.1);
        worker.metrics.load(levels.0.max(levels.1), look.delay, disk_delay);
        let is_busy = look.share > BUSY || levels.0 > 0.0 || levels.1 > 0.0 || disk_delay > Duration::ZERO;
        pause = if is_busy { TICK } else { REST };
    }
}

/// What a pause of a known length has shown.
struct Look {
    /// How long the thread's own work made it wait for its turn.
    delay: Duration,
    /// The part of the time that the thread has worked.
    share: f64,
}

impl Look {
    /// Of a pause and the line behind it.
    async fn after(pause: Duration, line: impl Future<Output = ()>) -> Self {
        let (began, worked_before) = (Instant::now(), sys::cpu::thread_time());
        tokio::time::sleep(pause).await;
        line.await;
        let worked = sys::cpu::thread_time().saturating_sub(worked_before);
        let took = began.elapsed();
        Self { delay: took.saturating_sub(pause).min(worked), share: ratio(worked, took) }
    }
}

fn ratio(is: Duration, of: Duration) -> f64 {
    if of.is_zero() { 0.0 } else { is.as_secs_f64() / of.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn look_beside(work: impl Future<Output = ()> + 'static) -> Look {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let look = tokio::task::spawn_local(Look::after(TICK, std::future::ready(())));
            tokio::task::spawn_local(work);
            look.await.unwrap()
        })
    }

    #[test]
    fn work_in_front_of_the_tick_is_delay() {
        let busy_for = Duration::from_millis(40);
        let look = look_beside(async move {
            let before = sys::cpu::thread_time();
            while sys::cpu::thread_time() - before < busy_for {}
        });
        assert!(look.delay >= busy_for - 2 * TICK && look.share > 0.0, "{:?}", look.delay);
    }

    #[test]
    fn time_without_work_is_none() {
        let look = look_beside(async { std::thread::sleep(Duration::from_millis(60)) });
        assert!(look.delay < Duration::from_millis(20), "{:?}", look.delay);
    }
}
