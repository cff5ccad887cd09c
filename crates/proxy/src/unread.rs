//! What the kernel may keep for clients that do not take it: how much, and for how long.
//!
//! A send buffer grows to some megabytes for a client that was fast once; ten thousand that were and then stop take more than
//! TCP may have on the whole machine (`tcp_mem`), and every other connection suffers. So the more connections a worker
//! has, the less unsent data the kernel takes for each new one. What must hold: the options stand on the listener, from where connections
//! inherit them, and are only set again when they change, so they cost no call for a connection.

use std::net::TcpListener;
use std::time::Duration;

/// Unsent bytes that one worker's connections are dealt out together.
const ALL_BYTES: usize = 128 << 20;

/// The most for one connection: a body of 1 MiB and its head leave at once.
const MOST_BYTES: usize = 2 << 20;

/// The least for one connection: enough to keep a fast link busy between two turns.
const LEAST_BYTES: usize = 64 << 10;

/// Unsent bytes for the next connection where there are so many: an equal share, rounded down to a power of two. The
/// shares of all that came one after the other grow with the logarithm of their number until the least is reached.
fn unsent_max(connections: usize) -> usize {
    let share = (ALL_BYTES / connections.max(1)).clamp(LEAST_BYTES, MOST_BYTES);
    1 << share.ilog2()
}

/// What was last set on a listener.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unread {
    bytes: usize,
    time: Duration,
}

impl Unread {
    /// Bounds what comes of the next accepted connections, where there are so many already. `time` without an
    /// acknowledgement ends a connection, also after we have closed it.
    pub fn bound(&mut self, listener: &TcpListener, connections: usize, time: Duration) {
        let wanted = Self { bytes: unsent_max(connections), time };
        if *self == wanted {
            return;
        }
        // Refused by no kernel that this program runs on; without them our own limits hold alone.
        let _ = sys::socket::set_user_timeout(listener, time);
        let _ = sys::socket::set_unsent_max(listener, wanted.bytes as u32);
        *self = wanted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_shrink_with_the_number_of_connections() {
        let kib = |connections| unsent_max(connections) >> 10;
        let table = [
            (0, 2048),
            (64, 2048),
            (65, 1024),
            (128, 1024),
            (129, 512),
            (1000, 128),
            (5000, 64),
            (1 << 20, 64),
        ];
        for (connections, expected) in table {
            assert_eq!(kib(connections), expected, "{connections}");
        }
    }

    #[test]
    fn ten_thousand_on_two_workers_stay_under_a_gibibyte_and_a_quarter() {
        let of_worker: usize = (0..5000).map(unsent_max).sum();
        assert!(2 * of_worker < 1280 << 20, "{} MiB", of_worker >> 19);
    }
}
