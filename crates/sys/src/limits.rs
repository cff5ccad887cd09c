//! How many descriptors this process may open, and how much memory it may lock.
//!
//! Owns `RLIMIT_NOFILE`. What must hold: the limit is only ever raised. It bounds how many connections can be accepted;
//! nothing is ever *sized* from it. `RLIMIT_MEMLOCK` is only read: whoever needs more asks the operator.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits on open descriptors; `None` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far it may be raised without privilege.
    pub hard: Option<u64>,
}

/// The limits as they are.
pub fn descriptors() -> Descriptors {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    Descriptors { soft: current, hard: maximum }
}

/// Bytes that may be locked without privilege; `None` is no limit.
pub fn locked_memory() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// The descriptors behind which few are left: an eighth of the limit. New ones get the lowest free number, so the number of
/// the newest tells how many are open at least.
#[derive(Clone, Copy, Debug)]
pub struct NearLimit {
    from: u64,
}

impl NearLimit {
    /// Of the limits as they are.
    pub fn of_process() -> Self {
        Self { from: descriptors().soft.map_or(u64::MAX, |soft| soft - soft / 8) }
    }

    /// Whether few are left behind `newest`.
    pub fn is_reached_by(self, newest: impl AsFd) -> bool {
        u64::try_from(newest.as_fd().as_raw_fd()).is_ok_and(|number| number >= self.from)
    }
}

/// Raises the soft limit to the hard one, and says what holds now.
pub fn raise_nofile() -> io::Result<Descriptors> {
    let hard = descriptors().hard;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?;
    Ok(descriptors())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lowered_limit_is_raised_again() {
        let before = descriptors();
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: before.hard }).unwrap();
        assert_eq!(descriptors().soft, Some(256));
        let after = raise_nofile().unwrap();
        assert_eq!(after, Descriptors { soft: before.hard, hard: before.hard });
    }
}
