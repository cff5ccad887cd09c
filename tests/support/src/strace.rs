//! What a running process asks of the kernel, by `strace` attached to it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::end;

/// A running trace of all threads of one process.
pub struct Strace {
    child: Child,
    output: PathBuf,
    _home: TempDir,
}

/// One finished system call.
#[derive(Debug, Clone)]
pub struct Syscall {
    /// Its name.
    pub name: String,
    /// The arguments as `strace` prints them.
    pub arguments: String,
    /// What it returned; negative values are errors.
    pub result: i64,
}

impl Syscall {
    /// Whether it receives bytes (into user memory or a pipe) from the connection to `peer`, `127.0.0.1:9000`.
    ///
    /// Its first argument is the descriptor, which `strace` shows with both ends of the connection.
    pub fn receives_from(&self, peer: &str) -> bool {
        let first = self.arguments.split(", ").next().unwrap_or_default();
        first.contains(&format!("->{peer}]"))
            && !self.name.starts_with("send")
            && !self.name.starts_with("write")
    }

    /// Whether it brings bytes from a descriptor into user memory.
    pub fn reads(&self) -> bool {
        let names = ["read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"];
        names.contains(&self.name.as_str())
    }

    /// Whether it sends bytes out of user memory.
    pub fn writes(&self) -> bool {
        let names = ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg"];
        names.contains(&self.name.as_str())
    }

    /// How many bytes it moved; 0 for an error.
    pub fn moved(&self) -> u64 {
        self.result.max(0) as u64
    }
}

impl Strace {
    /// Every call that can move body bytes.
    pub const TRANSFERS: &str = "read,readv,pread64,preadv,preadv2,recvfrom,recvmsg,recvmmsg,write,writev,pwrite64,\
                                 pwritev,pwritev2,sendto,sendmsg,sendmmsg,sendfile,splice,tee,vmsplice,io_uring_enter";

    /// Attaches to `pid` and all its threads for the calls in `calls` (as `-e trace=` takes them).
    ///
    /// # Errors
    /// Why tracing is refused here.
    pub fn attach(pid: u32, calls: &str) -> Result<Strace, String> {
        let home = TempDir::new().map_err(|e| e.to_string())?;
        let output = home.path().join("trace");
        let mut child = Command::new("strace")
            .args(["-f", "-yy", "-s", "0", "-e", &format!("trace={calls}"), "-p", &pid.to_string(), "-o"])
            .arg(&output)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("strace: {e}"))?;
        wait_attached(&mut child)?;
        Ok(Strace { child, output, _home: home })
    }

    /// Detaches and returns the finished calls in order.
    pub fn stop(mut self) -> Vec<Syscall> {
        end(self.child.id(), Signal::INT);
        let _ = self.child.wait();
        parse(&fs::read_to_string(&self.output).expect("the trace"))
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `strace` names each thread it attached to on standard error; the first line means that all are held, as it
/// attaches to every thread before it lets any run.
fn wait_attached(child: &mut Child) -> Result<(), String> {
    let mut lines = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();
    let first = lines.next().transpose().map_err(|e| e.to_string())?.unwrap_or_default();
    // Somebody must keep reading, or strace stops on a full pipe.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    if first.contains("attached") { Ok(()) } else { Err(first) }
}

/// Joins `<unfinished ...>` and `<... resumed>` halves by thread, then splits each call.
fn parse(trace: &str) -> Vec<Syscall> {
    let mut open: Vec<(String, String)> = Vec::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let text = text.trim_start();
        if let Some(begun) = text.strip_suffix("<unfinished ...>") {
            open.push((thread.to_owned(), begun.to_owned()));
        } else if let Some((_, tail)) = text.split_once(" resumed>") {
            let begun = open.iter().position(|(t, _)| t == thread).map(|at| open.remove(at).1);
            calls.extend(begun.and_then(|begun| split(&(begun + tail))));
        } else {
            calls.extend(split(text));
        }
    }
    calls
}

fn split(text: &str) -> Option<Syscall> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let result = result.split_whitespace().next()?.split('<').next()?.parse().ok()?;
    Some(Syscall {
        name: name.to_owned(),
        arguments: arguments.trim_end().trim_end_matches(')').to_owned(),
        result,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_call_are_joined() {
        let trace = "7 recvfrom(3<socket:[1]>,  <unfinished ...>\n8 close(4) = 0\n7 <... recvfrom resumed>\"\", 9, 0, NULL, NULL) = 5\n\
                     8 read(5, 0x1, 2) = -1 EAGAIN (Resource temporarily unavailable)";
        let calls = parse(trace);
        let short: Vec<_> = calls.iter().map(|c| (c.name.as_str(), c.result)).collect();
        assert_eq!(short, [("close", 0), ("recvfrom", 5), ("read", -1)]);
    }
}
