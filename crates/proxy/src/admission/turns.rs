//! What has to ask an origin takes turns, so that hits go first.
//!
//! A hit is answered in the moment in which its request is read; a miss costs ten times that, in parts. Were all misses begun
//! as they are read, every hit would wait behind all that they do. So only [`A_TURN`] begin before everything else that
//! is ready has had the thread, and the others wait in line, first come first served: it is to requests what
//! [`crate::listener::ACCEPTS_A_TURN`] is to connections. What must hold: nobody waits while there are fewer; whoever waits is
//! part of what [`super::loop_delay`] measures, so a line that is too long is an overload; who leaves the line is forgotten.

use tokio::sync::{Notify, Semaphore};

/// Requests that begin to be asked for in one turn of the thread.
const A_TURN: usize = 16;

/// The line of one worker.
#[derive(Debug)]
pub struct Turns {
    /// What is left of the turn.
    /// Queue: requests that wait for their turn to be asked for.
    left: Semaphore,
    /// Somebody has begun.
    /// Queue: what there is a fixed number of.
    begun: Notify,
}

impl Default for Turns {
    fn default() -> Self {
        // Queue: requests that wait for their turn to be asked for.
        Self { left: Semaphore::new(A_TURN), begun: Notify::new() }
    }
}

impl Turns {
    /// Waits for one's turn.
    pub async fn mine(&self) {
        self.begun.notify_one();
        // It is never closed; a turn that is had is used up.
        if let Ok(place) = self.left.acquire().await {
            place.forget();
        }
    }

    /// Begins a turn whenever one was used. Never ends.
    pub async fn keep(&self) {
        loop {
            self.begun.notified().await;
            loop {
                // Behind everything that is ready, and whatever has become so.
                tokio::task::yield_now().await;
                let used = A_TURN - self.left.available_permits();
                if used == 0 {
                    break;
                }
                self.left.add_permits(used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn run(test: impl AsyncFnOnce(Rc<Turns>)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let turns = Rc::new(Turns::default());
            let kept = Rc::clone(&turns);
            let keeper = tokio::task::spawn_local(async move { kept.keep().await });
            test(turns).await;
            keeper.abort();
        });
    }

    #[test]
    fn whoever_comes_alone_does_not_wait() {
        run(async |turns| {
            for _ in 0..10 * A_TURN {
                let mut mine = std::pin::pin!(turns.mine());
                assert!(futures_ready(&mut mine).await);
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn what_is_ready_goes_between_the_turns_and_the_line_keeps_its_order() {
        run(async |turns| {
            let seen = Rc::new(RefCell::new(Vec::new()));
            for n in 0..5 * A_TURN {
                let (turns, seen) = (Rc::clone(&turns), Rc::clone(&seen));
                tokio::task::spawn_local(async move {
                    turns.mine().await;
                    seen.borrow_mut().push(n);
                });
            }
            let mut between = Vec::new();
            while seen.borrow().len() < 5 * A_TURN {
                tokio::task::yield_now().await;
                between.push(seen.borrow().len());
            }
            let most = between.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert_eq!((between[0], most), (A_TURN, Some(A_TURN)), "{between:?}");
            assert!(seen.borrow().is_sorted());
        });
    }

    #[test]
    fn who_leaves_the_line_is_forgotten() {
        run(async |turns| {
            let line: Vec<_> = (0..3 * A_TURN)
                .map(|_| {
                    let turns = Rc::clone(&turns);
                    tokio::task::spawn_local(async move { turns.mine().await })
                })
                .collect();
            line[A_TURN + 1..].iter().for_each(tokio::task::JoinHandle::abort);
            turns.mine().await;
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            assert_eq!(turns.left.available_permits(), A_TURN);
        });
    }

    async fn futures_ready(future: &mut std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }
}
