//! Disks for tests: loop devices, small filesystems, and a finger to flip a bit in a file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A raw block device over a file, with direct I/O. Root only; gone with the value.
pub struct LoopDevice {
    path: PathBuf,
    _home: Option<TempDir>,
}

impl LoopDevice {
    /// Makes one of `bytes` bytes.
    ///
    /// # Errors
    /// Why the system refuses: no permission, no free loop device, no direct I/O.
    pub fn new(bytes: u64) -> Result<LoopDevice, String> {
        LoopDevice::with_sectors(bytes, 512)
    }

    /// The same with logical sectors of this size.
    ///
    /// # Errors
    /// As with [`LoopDevice::new`].
    pub fn with_sectors(bytes: u64, sector_bytes: u32) -> Result<LoopDevice, String> {
        let home = TempDir::new().map_err(|e| e.to_string())?;
        let backing = home.path().join("disk");
        File::create(&backing).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())?;
        LoopDevice::attach(&backing, sector_bytes, Some(home))
    }

    /// One over a file that somebody else made.
    ///
    /// # Errors
    /// As with [`LoopDevice::new`].
    pub fn over(backing: &Path) -> Result<LoopDevice, String> {
        LoopDevice::attach(backing, 512, None)
    }

    fn attach(backing: &Path, sector_bytes: u32, home: Option<TempDir>) -> Result<LoopDevice, String> {
        let sector = format!("--sector-size={sector_bytes}");
        let name =
            run("losetup", &["--find", "--show", "--direct-io=on", &sector, &backing.to_string_lossy()])?;
        Ok(LoopDevice { path: name.trim().into(), _home: home })
    }

    /// The device's path, `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = run("losetup", &["--detach", &self.path.to_string_lossy()]);
    }
}

/// A tmpfs of limited size. Root only; unmounted with the value.
pub struct SmallFilesystem {
    home: TempDir,
}

impl SmallFilesystem {
    /// Mounts one of at most `size` (as `mount -o size=` takes it).
    ///
    /// # Errors
    /// Why the system refuses.
    pub fn new(size: &str) -> Result<SmallFilesystem, String> {
        let home = TempDir::new().map_err(|e| e.to_string())?;
        let place = home.path().to_string_lossy().into_owned();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", &place])?;
        Ok(SmallFilesystem { home })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.home.path()
    }
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        let _ = run("umount", &[&self.home.path().to_string_lossy()]);
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Every offset in `path` at which `needle` starts. Reads the file in steps, so it may be large.
pub fn find_in_file(path: &Path, needle: &[u8]) -> Vec<u64> {
    let file = File::open(path).expect("open the store");
    let (mut found, mut base) = (Vec::new(), 0);
    let mut window = vec![0; 4 << 20];
    loop {
        let count = file.read_at(&mut window, base).expect("read the store");
        if count < needle.len() {
            return found;
        }
        found.extend(matches(&window[..count], needle).map(|at| base + at));
        base += (count - needle.len() + 1) as u64;
    }
}

fn matches<'a>(window: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
    let starts = window.iter().enumerate().filter(move |(_, byte)| **byte == needle[0]);
    starts.filter(move |(at, _)| window[*at..].starts_with(needle)).map(|(at, _)| at as u64)
}

/// Flips one bit of the byte at `offset`.
pub fn flip_bit(path: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("open the store");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read a byte");
    byte[0] ^= 0x10;
    file.write_all_at(&byte, offset).expect("write a byte");
}
