//! Names to addresses, by the system's resolver on a helper thread, remembered for a short while.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

use super::{Endpoint, OriginError};

/// The system's resolver tells no time to live; half a minute follows a moved service soon enough.
const REMEMBER_FOR: Duration = Duration::from_secs(30);

/// Names remembered at once.
const REMEMBER: usize = 4096;

/// The resolver of one thread.
#[derive(Default)]
pub struct Resolver {
    /// Queue: addresses of origins.
    known: RefCell<HashMap<Endpoint, (Vec<SocketAddr>, Instant)>>,
}

impl Resolver {
    /// The addresses of `endpoint`, at least one.
    ///
    /// # Errors
    /// [`OriginError::Unresolved`].
    pub async fn addresses(&self, endpoint: &Endpoint) -> Result<Vec<SocketAddr>, OriginError> {
        if let Ok(address) = endpoint.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, endpoint.port)]);
        }
        if let Some((addresses, _)) = self.known.borrow().get(endpoint) {
            return Ok(addresses.clone());
        }
        // Queue: names that wait for the resolver.
        let asked = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let addresses: Vec<_> = asked.map_err(|_| OriginError::Unresolved)?.collect();
        if addresses.is_empty() {
            return Err(OriginError::Unresolved);
        }
        self.remember(endpoint, &addresses);
        Ok(addresses)
    }

    /// Forgets what is too old.
    pub fn sweep(&self, now: Instant) {
        self.known.borrow_mut().retain(|_, (_, at)| now.duration_since(*at) < REMEMBER_FOR);
    }

    fn remember(&self, endpoint: &Endpoint, addresses: &[SocketAddr]) {
        let mut known = self.known.borrow_mut();
        if known.len() < REMEMBER {
            known.insert(endpoint.clone(), (addresses.to_vec(), Instant::now()));
        }
    }
}
