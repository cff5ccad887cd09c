//! `tidegate inspect`: what devices hold, as a table or as JSON.
//!
//! Objects are written as they are found, so that a listing needs no memory for all of them.

use std::io::{self, BufWriter, StdoutLock, Write};

use proxy::disk::inspect::{Depth, Inspected, Object, Told, inspect};
use proxy::settings::units::show_size;
use serde_json::json;
use store::inspect::Verdict;

use super::Failure;
use crate::cli::Inspect;
use crate::progress;
use crate::table::lay_out;

pub(crate) fn run(given: &Inspect) -> Result<(), Failure> {
    let mut listing = Listing::new(given);
    // A listing would run into the bar.
    let bar = progress::bytes(!given.objects);
    let mut written = Ok(());
    let found = inspect(&given.device, depth(given), &mut |told| match told {
        Told::Object(object) if written.is_ok() => written = listing.object(&object),
        Told::Object(_) => {}
        Told::Progress { done, total } => progress::show(&bar, done, total),
    });
    bar.finish_and_clear();
    let devices = found.map_err(Failure::running)?;
    written.and_then(|()| listing.finish(&devices)).map_err(Failure::running)?;
    for device in devices.iter().filter(|device| device.in_use) {
        eprintln!("{} is in use: this is what its last checkpoint says", device.path.display());
    }
    if devices.iter().any(|device| device.errors > 0) { Err(Failure::Told(1)) } else { Ok(()) }
}

fn depth(given: &Inspect) -> Depth {
    match given {
        Inspect { verify: true, .. } => Depth::Bodies,
        Inspect { objects: true, .. } => Depth::Records,
        Inspect { .. } => Depth::Contents,
    }
}

/// What is written to standard output. The names of the JSON form are a promise to scripts.
struct Listing<'g> {
    given: &'g Inspect,
    out: BufWriter<StdoutLock<'static>>,
    listed: u64,
}

impl<'g> Listing<'g> {
    fn new(given: &'g Inspect) -> Self {
        Self { given, out: BufWriter::new(io::stdout().lock()), listed: 0 }
    }

    /// Lists an object where a list is wanted. People are told of what is wrong in any case.
    fn object(&mut self, object: &Object<'_>) -> io::Result<()> {
        if !self.given.objects && (self.given.json || object.verdict == Verdict::Intact) {
            return Ok(());
        }
        self.listed += 1;
        if self.given.json { self.object_as_json(object) } else { self.object_as_line(object) }
    }

    fn object_as_json(&mut self, object: &Object<'_>) -> io::Result<()> {
        self.out.write_all(if self.listed == 1 { OBJECTS.as_bytes() } else { b"," })?;
        let error = Some(object.verdict).filter(|&verdict| verdict != Verdict::Intact).map(Verdict::word);
        let Object { device, segment, bytes, offset, offset_on, .. } = object;
        let key = object.key.escape_ascii().to_string();
        let object = json!({
            "device": device, "key": key, "bytes": bytes, "segment": segment, "error": error,
            "offset": offset, "offset_on": offset_on,
        });
        Ok(serde_json::to_writer(&mut self.out, &object)?)
    }

    fn object_as_line(&mut self, object: &Object<'_>) -> io::Result<()> {
        let Object { offset, offset_on, segment, key, bytes, verdict, .. } = object;
        let (device, key, verdict) = (offset_on.display(), key.escape_ascii(), verdict.word());
        writeln!(self.out, "{device}  offset {offset}  segment {segment}  {bytes} bytes  {verdict}  {key}")
    }

    fn finish(mut self, devices: &[Inspected]) -> io::Result<()> {
        if self.given.json {
            self.devices_as_json(devices)?
        } else {
            self.devices_as_table(devices)?
        }
        self.out.flush()
    }

    fn devices_as_json(&mut self, devices: &[Inspected]) -> io::Result<()> {
        let lead = match (self.given.objects, self.listed) {
            (false, _) => "{".to_owned(),
            (true, 0) => format!("{OBJECTS}],"),
            (true, _) => "],".to_owned(),
        };
        write!(self.out, "{lead}\"devices\":")?;
        serde_json::to_writer(&mut self.out, devices)?;
        self.out.write_all(b"}\n")
    }

    fn devices_as_table(&mut self, devices: &[Inspected]) -> io::Result<()> {
        let head = ["device", "size", "objects", "bytes", "free", "open", "sealed", "errors", "id"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(devices.iter().map(row));
        self.out.write_all(lay_out(&rows, &[1, 2, 3, 4, 5, 6, 7]).as_bytes())
    }
}

/// How the JSON form begins where objects are listed.
const OBJECTS: &str = "{\"objects\":[";

fn row(device: &Inspected) -> Vec<String> {
    let segments = &device.segments;
    vec![
        device.path.display().to_string(),
        show_size(device.size),
        device.objects.to_string(),
        device.bytes.to_string(),
        segments.free.to_string(),
        segments.open.to_string(),
        segments.sealed.to_string(),
        device.errors.to_string(),
        device.id.clone(),
    ]
}
