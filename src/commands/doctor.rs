//! `tidegate doctor`: what this machine offers, as the probe finds it.

use sys::probe::Machine;

use super::Failure;

#[allow(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run() -> Result<(), Failure> {
    println!("{}", Machine::probe());
    Ok(())
}
