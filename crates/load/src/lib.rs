//! The load generator: what a server does when it is asked, seen from outside.
//!
//! An instrument shares no decision with what it measures: of the product it uses the grammar (`wire`) and the kernel
//! (`sys`), nothing else. What must hold: load is *open loop* (requests start when the [`plan`] says, whatever became of
//! those before), a latency counts from the planned start, and what could not be offered is told, never hidden in a
//! lower rate.
//!
//! | question | module |
//! |---|---|
//! | When does which request start, and from which address? | [`plan`] |
//! | How are they made? | [`packet`] (a TCP client in user space), [`socket`] (the kernel's) |
//! | When is a reply whole? | [`reply`] |
//! | What became of them? | [`outcome`] |
//! | What happens past the peak, after a flood, in a burst, between clients? | [`overload`] |
//! | What should happen, by the theory? | [`model`] |
//! | How is it told? | [`report`] |
#![forbid(unsafe_code)]

pub mod bystander;
mod flights;
pub mod model;
pub mod outcome;
pub mod overload;
pub mod packet;
pub mod plan;
pub mod reply;
pub mod report;
pub mod socket;
