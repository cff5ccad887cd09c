//! `tidegate format`: makes devices a store and says what they became.

use proxy::settings::units::show_size;

use super::Failure;
use crate::cli::Format;
use crate::engine::{self, Formatted};
use crate::table::lay_out;

pub(crate) fn run(given: &Format) -> Result<(), Failure> {
    let formatted = engine::format(&given.device, given.force).map_err(Failure::Running)?;
    print!("{}", lay_out(&formatted.iter().map(row).collect::<Vec<_>>(), &[1]));
    Ok(())
}

fn row(device: &Formatted) -> Vec<String> {
    vec![
        device.path.display().to_string(),
        show_size(device.bytes),
        format!("{} segments of {}", device.segments, show_size(device.segment_bytes.into())),
        format!("id {}", device.id),
    ]
}
