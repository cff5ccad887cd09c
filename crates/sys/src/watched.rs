//! Descriptors registered with the thread's runtime, which tells when they are readable or writable.
//!
//! The one file here that knows a runtime: registering is unsafe there because a type could change its descriptor
//! under the poller. The types allowed here cannot.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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

/// A descriptor that is registered when it is first waited for, and not before: a connection that is accepted, answered
/// and closed without ever having to wait never costs the two calls that a registration takes.
#[derive(Debug)]
pub struct Lazy<T: OwnsOneDescriptor> {
    // Dropped in this order: the registration ends before the descriptor is closed.
    registered: OnceCell<AsyncFd<Number>>,
    owner: T,
}

/// The number of the descriptor that [`Lazy`] owns.
#[derive(Debug)]
pub struct Number(RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl<T: OwnsOneDescriptor> Lazy<T> {
    /// Takes a non-blocking descriptor.
    pub fn new(owner: T) -> Self {
        Self { registered: OnceCell::new(), owner }
    }

    /// The owner of the descriptor.
    pub fn get_ref(&self) -> &T {
        &self.owner
    }

    /// The registration, if there is one: if the descriptor was ever waited for.
    pub fn registered(&self) -> Option<&AsyncFd<Number>> {
        self.registered.get()
    }

    /// The registration, made now if there is none. Readiness that was there before is signalled after it.
    ///
    /// # Errors
    /// When the poller refuses it.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn register(&self) -> io::Result<&AsyncFd<Number>> {
        if let Some(registered) = self.registered.get() {
            return Ok(registered);
        }
        // SAFETY: `register` wants
        // - a valid, open descriptor that stays open while it is registered: `owner` owns it and lives in the same value,
        //   behind the registration in the order of fields, so it is closed after the registration has ended; nothing
        //   gives `owner` away or lets it be exchanged (`get_ref` lends it shared, and the sealed types have no way to
        //   exchange their descriptor behind that);
        // - the same descriptor from every `as_raw_fd`: `Number` never changes.
        let registered = unsafe { AsyncFd::register(Number(self.owner.as_raw_fd())) }?;
        Ok(self.registered.get_or_init(|| registered))
    }
}
