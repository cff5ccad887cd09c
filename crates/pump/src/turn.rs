//! The thread's time in turns, by bytes: who moves many lets the others have theirs in between.
//!
//! A connection whose peer takes whatever it is given could be sent its whole body at once, and all that is ready waits
//! behind it; with a hundred such peers a small request waits for a hundred bodies. So a long body goes out in slices, and large
//! and small share the thread by turns (processor sharing instead of first come, first served). What must hold: at most
//! [`TURN_BYTES`] are moved at once, and so many that a yield costs next to nothing beside them.

/// Bytes that are moved for one peer before the others on the thread get their turn.
pub const TURN_BYTES: u64 = 4 * 1024 * 1024;

/// What was moved for one peer since the others had their turn.
#[derive(Debug, Default)]
pub struct Turn {
    moved: u64,
}

impl Turn {
    /// `n` more bytes were moved; when that is enough, the others come first.
    pub async fn moved(&mut self, n: u64) {
        self.moved += n;
        if self.moved >= TURN_BYTES {
            self.moved = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Of `left` bytes, as many as may be moved at once.
#[must_use]
pub fn slice(left: u64) -> usize {
    left.min(TURN_BYTES) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn the_others_come_after_each_turn_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(async {
            let turns = Rc::new(Cell::new(0));
            let others = Rc::clone(&turns);
            tokio::task::spawn_local(async move {
                loop {
                    others.set(others.get() + 1);
                    tokio::task::yield_now().await;
                }
            });
            let mut turn = Turn::default();
            for (moved, others_had) in
                [(TURN_BYTES - 1, false), (1, true), (TURN_BYTES / 2, false), (TURN_BYTES, true), (0, false)]
            {
                let before = turns.get();
                turn.moved(moved).await;
                assert_eq!(turns.get() > before, others_had, "{moved}");
            }
        });
    }

    #[test]
    fn no_slice_is_longer_than_a_turn() {
        for (left, at_once) in [(0, 0), (1, 1), (TURN_BYTES, TURN_BYTES), (u64::MAX, TURN_BYTES)] {
            assert_eq!(slice(left) as u64, at_once);
        }
    }
}
