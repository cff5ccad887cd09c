//! What a shared cache may do, end to end, in the order of RFC 9111; ranges and conditions of RFC 9110.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod conditions;
mod directives;
mod freshness;
mod invalidation;
mod key;
mod ranges;
mod stale;
mod storing;
mod validation;

use testkit::{Origin, Reply, Request, Tidegate};

/// An origin with this answer and a cache in front of it.
fn in_front_of(reply: Reply) -> (Origin, Tidegate) {
    answering(move |_| reply.clone())
}

/// An origin with these answers and a cache in front of it.
fn answering(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Origin, Tidegate) {
    let origin = Origin::answering(answer);
    let tidegate = Tidegate::reverse(&origin).start();
    (origin, tidegate)
}
