//! The devices of a run: loop devices with direct I/O where root may make them, files elsewhere. Gone with the value.

use bench_store::engine::{Failed, create};
use std::path::{Path, PathBuf};
use std::process::Command;

/// See the module.
pub struct Devices {
    /// What is opened.
    pub paths: Vec<PathBuf>,
    /// `loop` or `file`.
    pub kind: &'static str,
    files: Vec<PathBuf>,
}

impl Devices {
    /// `count` devices of `bytes` each, over files in `dir`.
    pub fn new(dir: &Path, count: usize, bytes: u64) -> Result<Self, Failed> {
        let mut devices = Self { paths: Vec::new(), kind: "loop", files: Vec::new() };
        for number in 0..count {
            let file = dir.join(format!("device-{number}"));
            let _ = std::fs::remove_file(&file);
            create(&file, bytes)?;
            devices.files.push(file);
        }
        for file in devices.files.clone() {
            match attach(&file) {
                Some(path) => devices.paths.push(path),
                None => {
                    devices.detach();
                    devices.paths = devices.files.clone();
                    devices.kind = "file";
                    return Ok(devices);
                }
            }
        }
        Ok(devices)
    }

    fn detach(&mut self) {
        for path in self.paths.drain(..).filter(|path| path.starts_with("/dev")) {
            let _ = Command::new("losetup").arg("-d").arg(path).status();
        }
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.detach();
        self.files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

fn attach(file: &Path) -> Option<PathBuf> {
    let made =
        Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(file).output().ok()?;
    let path = String::from_utf8(made.stdout).ok()?;
    made.status.success().then(|| PathBuf::from(path.trim()))
}
