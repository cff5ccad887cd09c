//! For how long something has held without a break: what tells an overload from a burst. Pure.

use std::time::Duration;

/// Since when it holds, on any monotone clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing(Option<Duration>);

impl Standing {
    /// Takes note of whether it holds at the moment `now`; for how long it has, `None` where it does not.
    pub fn note(&mut self, holds: bool, now: Duration) -> Option<Duration> {
        let since = holds.then(|| self.0.unwrap_or(now));
        self.0 = since;
        since.map(|since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_begins_anew() {
        let mut standing = Standing::default();
        let noted = [(false, 1), (true, 2), (true, 5), (false, 6), (true, 7), (true, 9)]
            .map(|(holds, now)| standing.note(holds, Duration::from_secs(now)).map(|held| held.as_secs()));
        assert_eq!(noted, [None, Some(0), Some(3), None, Some(0), Some(2)]);
    }
}
