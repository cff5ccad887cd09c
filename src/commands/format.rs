//! `tidegate format`: makes devices a store and says what they became.

use proxy::disk::open::{Formatted, Identity, format_device};
use proxy::settings::units::show_size;

use super::Failure;
use crate::cli::Format;
use crate::table::lay_out;

/// Stops at the first device that cannot be formatted; those before it are part of the new store already and are told.
pub(crate) fn run(given: &Format) -> Result<(), Failure> {
    let identity = Identity::new().map_err(Failure::running)?;
    let mut rows = Vec::new();
    let mut format = |path| format_device(path, given.force, identity).map(|device| rows.push(row(&device)));
    let done = given.device.iter().try_for_each(|path| format(path));
    print!("{}", lay_out(&rows, &[1]));
    done.map_err(Failure::running)
}

fn row(device: &Formatted) -> Vec<String> {
    let segment_bytes = u64::from(device.geometry.segment_bytes());
    vec![
        device.path.display().to_string(),
        show_size(device.bytes),
        format!("{} segments of {}", device.geometry.segments(), show_size(segment_bytes)),
        format!("id {}", device.id),
    ]
}
