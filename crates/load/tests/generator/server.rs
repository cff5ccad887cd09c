//! A server that does with each connection what it is told, one after the other on one thread, so that a stall of one is a
//! stall of all.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    Answers,
    AnswersAtLength(usize),
    Sheds,
    Resets,
    /// Promises more than it sends.
    BreaksOff,
    Nothing,
    StallsFor(Duration),
}

/// Listens until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    clients: Arc<Mutex<BTreeSet<Ipv4Addr>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `does` is asked with the number of each connection.
    pub(crate) fn start(ip: Ipv4Addr, does: impl Fn(usize) -> Does + Send + 'static) -> Self {
        let listener = TcpListener::bind((ip, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (clients, stop) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicBool::new(false)));
        let (seen, ends) = (clients.clone(), stop.clone());
        let thread = thread::spawn(move || {
            // Connections that are never answered stay open.
            let mut kept = Vec::new();
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { continue };
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(IpAddr::V4(ip)) = stream.peer_addr().map(|peer| peer.ip()) {
                    seen.lock().unwrap().insert(ip);
                }
                kept.extend(serve(stream, does(number)));
            }
        });
        Self { address, clients, stop, thread: Some(thread) }
    }

    /// Addresses that connections came from.
    pub(crate) fn clients(&self) -> Vec<Ipv4Addr> {
        self.clients.lock().unwrap().iter().copied().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it; it may have gone already.
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Gives back what is to stay open.
fn serve(mut stream: TcpStream, does: Does) -> Option<TcpStream> {
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    if let Does::StallsFor(time) = does {
        thread::sleep(time);
    }
    if matches!(does, Does::Resets) {
        // Closing with unread bytes resets.
        stream.peek(&mut [0]).ok()?;
        return None;
    }
    let mut request = [0; 1024];
    let mut length = 0;
    while !request[..length].ends_with(b"\r\n\r\n") {
        match stream.read(&mut request[length..]) {
            Ok(count) if count > 0 => length += count,
            _ => return None,
        }
    }
    let answer = |status: &str, promised: usize, sent: usize| {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {promised}\r\n\r\n");
        [head.into_bytes(), vec![b'x'; sent]].concat()
    };
    let bytes = match does {
        Does::Answers | Does::StallsFor(_) => answer("200 OK", 500, 500),
        Does::AnswersAtLength(bytes) => answer("200 OK", bytes, bytes),
        Does::Sheds => answer("503 Service Unavailable", 0, 0),
        Does::BreaksOff => answer("200 OK", 500, 499),
        Does::Resets | Does::Nothing => return Some(stream),
    };
    let _ = stream.write_all(&bytes);
    // A kept connection is the bystander's: it asks again on one of its own.
    None
}
