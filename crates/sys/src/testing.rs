//! What the tests of this crate share: a connected pair, and bytes that tell their own position.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{TcpListener, TcpStream};

/// A non-blocking connected pair of TCP sockets on the loopback.
pub(crate) fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

/// `len` bytes in which a shift, a swap or a repetition of blocks shows.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

/// A loop device over a file, gone again on drop.
pub(crate) struct Loop {
    pub(crate) path: String,
}

impl Loop {
    /// Nothing where this user may not, or the system has no loop devices.
    pub(crate) fn over(file: &std::path::Path) -> Option<Self> {
        let made =
            std::process::Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let path = String::from_utf8(made.stdout).ok()?.trim().to_owned();
        (made.status.success() && !path.is_empty()).then(|| Self { path })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.path]).status();
    }
}
