//! The devices of the store.

use std::io;
use std::path::Path;

use sys::device::DirectReads;

use super::Readings;
use super::finding::Finding;

pub(super) fn findings(readings: &Readings) -> Vec<Finding> {
    readings.devices.iter().map(|(path, answer)| direct(path, answer)).collect()
}

pub(super) fn direct(path: &Path, answer: &io::Result<DirectReads>) -> Finding {
    let subject = format!("direct I/O of {}", path.display());
    match answer {
        Ok(DirectReads::Offered) => Finding::fine(subject, "yes"),
        Ok(DirectReads::Refused) => Finding::fine(subject, "no").change(
            "put the store on a raw device, or on a filesystem that has it (ext4, xfs)",
            "bodies are then read into memory instead of lent by the kernel, and writes fill the page cache",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Finding {
            is: "not there yet: ask again after the first start".into(),
            ..Finding::unknown(subject)
        },
        Err(error) => Finding { is: format!("cannot be opened: {error}"), ..Finding::unknown(subject) },
    }
}
