//! A disk that misbehaves as it is told: one file on a filesystem of our own, over an ordinary file.
//!
//! What holds: bytes are never wrong, only late, missing or refused; everything ends with the value: what was never
//! answered is then answered with an error.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use crate::fuse::{Answer, Mount, NAME, Request, Served};
use crate::notrun::{is_root, not_run};

const EIO: i32 = 5;

/// See the module. Root only.
pub struct FaultyDisk {
    disk: Arc<Disk>,
    let_go: LetGo,
    // Before the directories: unmounted first.
    mount: Mount,
    mounted: TempDir,
    backing: PathBuf,
    home: TempDir,
}

/// What becomes of a kind of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// They are answered.
    #[default]
    Well,
    /// They are answered after so long.
    After(Duration),
    /// They are answered once another fate is theirs.
    Held,
    /// They are never answered.
    Never,
    /// They fail with `EIO`.
    Fails,
}

struct Disk {
    file: File,
    size: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reads: Fate,
    writes: Fate,
    /// Reads under way now.
    reading: usize,
    /// Held requests are let go, whatever their fate says.
    is_over: bool,
}

impl State {
    fn fate(&mut self, is_read: bool) -> &mut Fate {
        if is_read { &mut self.reads } else { &mut self.writes }
    }
}

impl FaultyDisk {
    /// Makes a well disk over a file of `bytes`.
    ///
    /// # Errors
    /// Why the system refuses: no FUSE, no permission to mount.
    pub fn new(bytes: u64) -> Result<FaultyDisk, String> {
        let (home, mounted) = (directory()?, directory()?);
        let backing = home.path().join("backing");
        File::create(&backing).and_then(|file| file.set_len(bytes)).map_err(|e| e.to_string())?;
        let file = File::options().read(true).write(true).open(&backing).map_err(|e| e.to_string())?;
        let disk = Arc::new(Disk { file, size: bytes, state: Mutex::default(), changed: Condvar::new() });
        let mount = Mount::new(mounted.path(), Arc::clone(&disk))?;
        Ok(FaultyDisk { let_go: LetGo(Arc::clone(&disk)), disk, mount, mounted, backing, home })
    }

    /// A well disk of 256 MiB for a test; nothing where this machine has no FUSE for us, and then that was said.
    pub fn of(test: &str) -> Option<FaultyDisk> {
        if !is_root() {
            not_run(test, "needs root to mount a filesystem of its own");
            return None;
        }
        FaultyDisk::new(256 << 20).inspect_err(|why| not_run(test, why)).ok()
    }

    /// The file that is the disk.
    pub fn path(&self) -> PathBuf {
        self.mounted.path().join(NAME)
    }

    /// The file under it, where bytes can be looked at whatever becomes of requests.
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// What becomes of reads from now on.
    pub fn reads(&self, fate: Fate) {
        self.disk.change(|state| state.reads = fate);
    }

    /// What becomes of writes and syncs from now on.
    pub fn writes(&self, fate: Fate) {
        self.disk.change(|state| state.writes = fate);
    }

    /// Lets the kernel forget what it has read of the file.
    pub fn forget_pages(&self) {
        let file = File::open(self.path()).expect("open the disk");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
    }

    /// Lets the disk go, with all that it has not answered. Its backing file, and what lies beside it, stays as long as
    /// the value.
    pub fn release(self) -> TempDir {
        drop(self.let_go);
        drop(self.mount);
        self.home
    }

    /// Reads that are not answered now.
    pub fn reads_under_way(&self) -> usize {
        self.disk.state.lock().unwrap().reading
    }
}

fn directory() -> Result<TempDir, String> {
    TempDir::new().map_err(|e| e.to_string())
}

impl Served for Disk {
    fn request(self: Arc<Self>, request: Request, answer: Answer) {
        let is_read = matches!(request, Request::Read { .. });
        let fate = self.begin(is_read);
        let serve = move || {
            match fate {
                Fate::Never => return,
                Fate::Fails => answer.give(Err(EIO)),
                Fate::Held => {
                    self.hold(is_read);
                    self.perform(request, answer);
                }
                Fate::After(delay) => {
                    std::thread::sleep(delay);
                    self.perform(request, answer);
                }
                Fate::Well => self.perform(request, answer),
            }
            self.end(is_read);
        };
        match fate {
            Fate::After(_) | Fate::Held => drop(std::thread::spawn(serve)),
            _ => serve(),
        }
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Lets go of what is held when it ends.
struct LetGo(Arc<Disk>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.change(|state| state.is_over = true);
    }
}

impl Disk {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits until requests of this kind have another fate.
    fn hold(&self, is_read: bool) {
        let state = self.state.lock().unwrap();
        let held = |state: &mut State| !state.is_over && *state.fate(is_read) == Fate::Held;
        drop(self.changed.wait_while(state, held).unwrap());
    }

    fn begin(&self, is_read: bool) -> Fate {
        let mut state = self.state.lock().unwrap();
        state.reading += usize::from(is_read);
        *state.fate(is_read)
    }

    fn end(&self, is_read: bool) {
        self.state.lock().unwrap().reading -= usize::from(is_read);
    }

    fn perform(&self, request: Request, answer: Answer) {
        let done = match request {
            Request::Read { offset, len } => {
                let len = len.min(self.size.saturating_sub(offset) as usize);
                let mut bytes = vec![0; len];
                self.file.read_exact_at(&mut bytes, offset).map(|()| Some(bytes))
            }
            Request::Write { offset, bytes } => {
                let written = self.file.write_all_at(&bytes, offset);
                return match written {
                    Ok(()) => answer.written(bytes.len() as u32),
                    Err(_) => answer.give(Err(EIO)),
                };
            }
            Request::Sync => self.file.sync_data().map(|()| None),
        };
        answer.give(done.as_ref().map(|bytes| bytes.as_deref().unwrap_or_default()).map_err(|_| EIO));
    }
}
