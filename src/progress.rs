//! A bar for long work, on standard error, when a person is there to see it.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bytes done of bytes to do. Invisible unless it is wanted and standard error is a terminal.
pub(crate) fn bytes(wanted: bool) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !wanted || !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Time passed of the time that a step takes, with its name. Invisible unless standard error is a terminal.
pub(crate) fn time() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{msg:16} {wide_bar}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Moves a bar.
pub(crate) fn show(bar: &ProgressBar, done: u64, total: u64) {
    bar.set_length(total);
    bar.set_position(done);
}
