//! The thread that serves the admin interface: one runtime, a bounded number of connections.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::{AdminState, routes};

/// Connections served at a time; others wait in the backlog.
const CONNECTIONS: usize = 128;
/// How long a request head may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Pause after a failed `accept`, so that a lack of descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The running interface. Dropping it ends it.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves `state` on `listener` from a thread of its own.
///
/// # Errors
/// When the listener cannot be made non-blocking, or the runtime or thread cannot be made.
pub fn serve(listener: TcpListener, state: Arc<AdminState>) -> io::Result<AdminServer> {
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new().name("admin".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = accept(listener, state) => {}
                _ = stopped => {}
            }
        });
    })?;
    Ok(AdminServer { address, stop: Some(stop), thread: Some(thread) })
}

impl AdminServer {
    /// Where it listens, the port being the real one.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<AdminState>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin interface cannot be served"),
    };
    // Queue: connections of the admin interface.
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                tokio::spawn(async move {
                    converse(stream, &state).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "admin connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, state: &AdminState) {
    let Ok(local) = stream.local_addr() else { return };
    let service = service_fn(|request| async move {
        Ok::<_, Infallible>(routes::answer(state, local.ip().to_canonical(), request).await)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "admin connection ended");
    }
}
