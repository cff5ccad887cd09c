//! `tidegate inspect`: what devices hold, as a table or as JSON.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use proxy::settings::units::show_size;
use serde::Serialize;

use super::Failure;
use crate::cli::Inspect;
use crate::engine::{self, Inspected, Object, Progress};
use crate::progress;
use crate::table::lay_out;

/// The JSON form; its names are a promise to scripts.
#[derive(Serialize)]
struct Report<'a> {
    devices: &'a [Inspected],
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<Vec<Listed>>,
}

/// One object in the JSON form.
#[derive(Serialize)]
struct Listed {
    device: String,
    key: String,
    bytes: u64,
    segment: u32,
    error: Option<String>,
}

pub(crate) fn run(given: &Inspect) -> Result<(), Failure> {
    let mut devices = Vec::new();
    let mut listed = Vec::new();
    for path in &given.device {
        devices.push(inspect(given, path, &mut listed)?);
    }
    let objects = given.objects.then_some(listed);
    let told = if given.json { as_json(&devices, objects) } else { as_table(&devices, objects) };
    told.map_err(Failure::running)?;
    if devices.iter().any(|device| device.errors > 0) { Err(Failure::Told(1)) } else { Ok(()) }
}

fn inspect(given: &Inspect, path: &Path, listed: &mut Vec<Listed>) -> Result<Inspected, Failure> {
    let bar = progress::bytes_of(path);
    let device = path.display().to_string();
    let mut object = |object: Object| {
        if given.objects || object.error.is_some() {
            listed.push(list(&device, object));
        }
    };
    let mut progress = |progress: Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    };
    let inspected = engine::inspect(path, given.verify, &mut object, &mut progress);
    bar.finish_and_clear();
    inspected.map_err(Failure::Running)
}

fn list(device: &str, object: Object) -> Listed {
    let Object { key, bytes, segment, error } = object;
    Listed { device: device.to_owned(), key: key.escape_ascii().to_string(), bytes, segment, error }
}

fn as_json(devices: &[Inspected], objects: Option<Vec<Listed>>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, &Report { devices, objects })?;
    out.write_all(b"\n")?;
    out.flush()
}

fn as_table(devices: &[Inspected], objects: Option<Vec<Listed>>) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let head = ["device", "size", "objects", "bytes", "free", "open", "sealed", "errors", "id"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(devices.iter().map(row));
    out.write_all(lay_out(&rows, &[1, 2, 3, 4, 5, 6, 7]).as_bytes())?;
    for Listed { device, key, bytes, segment, error } in objects.unwrap_or_default() {
        let error = error.map(|word| format!("  {word}")).unwrap_or_default();
        writeln!(out, "{device}  segment {segment}  {bytes} bytes  {key}{error}")?;
    }
    out.flush()
}

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
