//! The kernel made safe: one file per facility.
//!
//! Owns every system call that the standard library does not offer, and every line of `unsafe` in the program.
//! What must hold: nothing here can be misused into undefined behaviour from safe code; each `unsafe` block
//! carries the list of what its callee requires. Files that need `unsafe` say so with an inner `allow`; in all
//! others the compiler refuses it.
//!
//! Refuses to know: HTTP, what the bytes mean, and (but for [`watched`]) any runtime. Descriptors are non-blocking and a call that
//! cannot go on says `WouldBlock`; waiting for readiness belongs to the caller. `EINTR` is always retried here
//! and never reaches a caller.
#![deny(unsafe_code)]

pub mod aligned;
pub mod arena;
pub mod budget;
pub mod cpu;
pub mod device;
pub mod interfaces;
pub mod limits;
pub mod operation;
pub mod packet;
pub mod pipe;
pub mod pool;
pub mod probe;
pub mod queue;
pub mod sendfile;
pub mod socket;
pub mod splice;
pub mod syn_filter;
pub mod tcp;
pub mod thread;
pub mod uring;
pub mod watched;
pub mod xdp;

#[cfg(test)]
mod testing;
