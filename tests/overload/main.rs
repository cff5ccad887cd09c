//! More than can be done: what is refused, how, to whom, and what goes on undisturbed.
//!
//! Overload that does not depend on how fast this machine is comes from a bound: memory in use above a thousandth of what
//! there is always holds. Where it comes from load, nothing is asserted that a busy machine could break.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clients;
mod load;
mod origins;
mod requests;

use rustix::process::Signal;
use testkit::{Tidegate, eventually};

/// Settings under which the machine's own sign is off; [`overload`] turns it on.
const CALM: &str = "[overload]\nmemory = 1.0\n";

/// Makes `tidegate`, which has one worker, overloaded as far as it can be: from now on only hits from memory are served. New
/// connections are dropped with it, so take those that you need before.
#[track_caller]
fn overload(tidegate: &Tidegate) {
    set(tidegate, "[overload]\nmemory = 0.001\n");
    eventually("everything but hits from memory is refused", || {
        (tidegate.metrics().sum("tidegate_overload_level") == 3.0).then_some(())
    });
}

/// Ends what [`overload`] began.
#[track_caller]
fn calm(tidegate: &Tidegate) {
    set(tidegate, CALM);
    eventually("nothing is refused any more", || {
        (tidegate.metrics().sum("tidegate_overloaded") == 0.0).then_some(())
    });
}

#[track_caller]
fn set(tidegate: &Tidegate, toml: &str) {
    std::fs::write(tidegate.configuration_path(), toml).unwrap();
    tidegate.signal(Signal::HUP);
}

/// Connections and requests refused at a stage.
#[track_caller]
fn shed(tidegate: &Tidegate, stage: &str) -> f64 {
    tidegate.metrics().get(&format!("tidegate_shed_total{{stage=\"{stage}\"}}"))
}
