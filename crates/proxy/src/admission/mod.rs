//! May this connection, may this request enter? Pure controllers, and the glue that feeds and obeys them.
//!
//! Stages in the order of their cost: the SYN ([`gate`], decided by [`queue_delay`], with [`xdp`] in front), then `accept`, then the request.
//! What must hold: what is admitted is not made to wait for what is refused; the earlier a refusal the better; nothing
//! established is ever refused at an earlier stage than its next request.

mod fair_level;
pub mod gate;
pub mod queue_delay;
pub mod xdp;
