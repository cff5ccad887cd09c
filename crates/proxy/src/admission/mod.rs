//! May this connection, may this request enter? Pure controllers, and the glue that feeds and obeys them.
//!
//! | room | stage or sign |
//! |---|---|
//! | [`gate`] | the SYN: a share of new connections, decided by [`queue_delay`] and [`machine`] |
//! | [`xdp`] | the same in front of the listeners, fair by source |
//! | [`clients`] | `accept`: whose connection; and whose requests are refused first |
//! | [`requests`] | the request: what costs most is refused first, by the [`level`] |
//! | [`loop_delay`] | the sign of a thread: how long what is ready waits for its turn |
//! | [`machine`] | the signs of the machine: kernel time, memory |
//!
//! What must hold: what is admitted is not made to wait for what is refused; the earlier a refusal the better; nothing
//! established is ever refused at an earlier stage than its next request.

pub mod clients;
mod fair_level;
pub mod gate;
pub mod level;
pub mod loop_delay;
pub mod machine;
pub mod queue_delay;
pub mod refusals;
pub mod requests;
pub mod standing;
pub mod turns;
pub mod xdp;
