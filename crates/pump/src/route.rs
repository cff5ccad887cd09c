//! Which way a body takes: by where it is, how large it is, and what its destination can do.
//!
//! The crossovers are measured (docs/decisions/0003-body-routes.md); they are sizes below which one system call and a
//! copy cost less than two calls without a copy.

use crate::socket::Abilities;

/// A way for body bytes. The ledger counts by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// From user memory, with one vectored send.
    Memory,
    /// From the page cache by `sendfile`.
    Sendfile,
    /// From socket to socket through a pipe.
    Splice,
    /// Received into user memory and sent from it.
    Copy,
}

impl Route {
    /// All, in the order of the ledger.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Sendfile, Self::Splice, Self::Copy];

    /// The word for metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Copy => "copy",
        }
    }
}

/// Where a body's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In user memory already.
    Memory,
    /// On a device, resident in the page cache.
    Device,
    /// In the receive queue of a socket, or still to come there.
    Socket,
}

/// Bodies from a socket shorter than this are copied: a pipe and two splices cost more.
pub const SPLICE_AT_LEAST: u64 = 32 * 1024;

/// Picks the way for `length` bytes from `source` to an end with `abilities`.
#[must_use]
pub fn route(source: Source, length: u64, abilities: Abilities) -> Route {
    match source {
        Source::Memory => Route::Memory,
        Source::Device if abilities.plain => Route::Sendfile,
        Source::Socket if abilities.plain && length >= SPLICE_AT_LEAST => Route::Splice,
        Source::Device | Source::Socket => Route::Copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_table() {
        let plain = Abilities { plain: true };
        let framed = Abilities { plain: false };
        let table = [
            (Source::Memory, 1 << 30, plain, Route::Memory),
            (Source::Memory, 1, framed, Route::Memory),
            (Source::Device, 1, plain, Route::Sendfile),
            (Source::Device, 1 << 30, framed, Route::Copy),
            (Source::Socket, SPLICE_AT_LEAST - 1, plain, Route::Copy),
            (Source::Socket, SPLICE_AT_LEAST, plain, Route::Splice),
            (Source::Socket, SPLICE_AT_LEAST, framed, Route::Copy),
        ];
        for (source, length, abilities, expected) in table {
            assert_eq!(route(source, length, abilities), expected, "{source:?} {length} {abilities:?}");
        }
    }
}
