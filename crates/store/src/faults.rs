//! Rules that a test can switch off, to show that the tests of these rules would notice.
//!
//! Compiled for this crate's tests, and for tests elsewhere by the feature `faults`. What is shipped does not have it.

use std::cell::Cell;

thread_local! {
    /// On this thread, segments are used again although somebody may still lend their bytes.
    pub static LEASES_IGNORED: Cell<bool> = const { Cell::new(false) };
}
