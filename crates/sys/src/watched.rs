//! Descriptors registered with the thread's runtime, which tells when they are readable or writable.
//!
//! The one file here that knows a runtime: registering is unsafe there because a type could change its descriptor
//! under the poller. The types allowed here cannot.
#![allow(unsafe_code)]

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;

/// Types that own one descriptor for as long as they live and never exchange it.
///
/// Sealed: the claim is made for these types alone.
pub trait OwnsOneDescriptor: AsRawFd + sealed::Sealed {}

impl OwnsOneDescriptor for TcpStream {}
impl OwnsOneDescriptor for TcpListener {}
impl OwnsOneDescriptor for OwnedFd {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for std::net::TcpStream {}
    impl Sealed for std::net::TcpListener {}
    impl Sealed for std::os::fd::OwnedFd {}
}

/// Registers a non-blocking descriptor with the current runtime, for both directions.
///
/// # Errors
/// When the poller refuses it.
///
/// # Panics
/// Outside of a runtime.
pub fn watch<T: OwnsOneDescriptor>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: `register` wants
    // - a valid, open descriptor that stays open while `owner` is registered: `owner` owns it, and is owned by the
    //   `AsyncFd` until that is dropped;
    // - the same descriptor from every `as_raw_fd`: the sealed types have no way to exchange it behind `&self`, and
    //   assigning through `get_mut` needs a `&mut` that nobody outside can use to swap a registered descriptor
    //   without dropping the old one, which deregisters it from the poller.
    Ok(unsafe { AsyncFd::register(owner) }?)
}
