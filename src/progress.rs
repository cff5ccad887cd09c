//! A bar for long work, on standard error, when a person is there to see it.

use std::io::{self, IsTerminal};
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bytes done of bytes to do. Invisible when standard error is no terminal.
pub(crate) fn bytes_of(path: &Path) -> ProgressBar {
    let bar = ProgressBar::no_length();
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(path.display().to_string());
    bar
}
