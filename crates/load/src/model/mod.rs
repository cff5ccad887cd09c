//! A server under more load than it can serve, as two queues that share a processor.
//!
//! Stage 1 *receives*: interrupt, TCP handshake. Stage 2 *serves*: accept, request, reply. Receiving goes first, always,
//! so stage 2 has what is left. Each stage is an M/M/1 queue with a bounded length (Kleinrock, *Queueing Systems*, vol. 1,
//! §3.6). What follows: past the peak each connection more that is received takes time from one that would have been
//! served, throughput falls along a line of slope −μ2/μ1, and a longer queue changes nothing but the delay.
//!
//! Everything here is a function of its arguments. Rates are per second, times in seconds. [`fit`] finds the rates that
//! explain what was measured.

pub mod fit;
#[cfg(test)]
mod tests;

/// A server without shedding, in four numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    /// μ1: connections a second that it could receive if it did nothing else.
    pub receive_per_s: f64,
    /// μ2: requests a second that it could serve if nothing had to be received.
    pub serve_per_s: f64,
    /// Room before it, and in it.
    pub queues: Queues,
}

/// How many connections each stage holds, the one in service included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queues {
    /// l1: packets that wait to be received (`net.core.netdev_max_backlog`, the ring of a network card).
    pub receive: f64,
    /// l2: connections that wait for `accept` (the backlog).
    pub serve: f64,
}

/// Linux's packet backlog of one processor, and a backlog of 4096.
impl Default for Queues {
    fn default() -> Self {
        Self { receive: 1000.0, serve: 4096.0 }
    }
}

impl Server {
    /// The most that can be served: there, receiving and serving take all of the processor.
    pub fn capacity(&self) -> f64 {
        1.0 / (1.0 / self.receive_per_s + 1.0 / self.serve_per_s)
    }

    /// Connections that get through stage 1 when `offered` come.
    pub fn received(&self, offered: f64) -> f64 {
        offered * (1.0 - loss(offered / self.receive_per_s, self.queues.receive))
    }

    /// μ2r: the rate at which stage 2 works while `received` are received.
    pub fn left_for_serving(&self, received: f64) -> f64 {
        (1.0 - received / self.receive_per_s).max(0.0) * self.serve_per_s
    }

    /// Replies a second, whenever they come.
    pub fn throughput(&self, offered: f64) -> f64 {
        let received = self.received(offered);
        received * (1.0 - loss(received / self.left_for_serving(received), self.queues.serve))
    }

    /// Replies a second that come within `deadline_s`: of connections that find so few before them that their turn comes
    /// in time. A queue that is longer than that is worse than none: whoever is served from its end is late already.
    pub fn good_within(&self, offered: f64, deadline_s: f64) -> f64 {
        let received = self.received(offered);
        let left = self.left_for_serving(received);
        let in_time = (deadline_s * left).floor().min(self.queues.serve);
        received * finds_fewer(in_time, received / left, self.queues.serve)
    }

    /// Replies a second when what is too much is dropped at the SYN, by the processor that serves, at `drop_per_s` (μd):
    /// x/μ1 + x/μ2 + (offered − x)/μd = 1.
    pub fn with_shedding(&self, offered: f64, drop_per_s: f64) -> f64 {
        with_shedding(self.capacity(), offered, drop_per_s)
    }

    /// The same when another processor drops (a network card's, or the sender's over a `veth`): nothing is lost here.
    pub fn with_drops_elsewhere(&self, offered: f64) -> f64 {
        offered.min(self.capacity())
    }
}

/// [`Server::with_shedding`] for a server of which only the capacity is known.
pub fn with_shedding(capacity: f64, offered: f64, drop_per_s: f64) -> f64 {
    if offered <= capacity {
        return offered;
    }
    ((1.0 - offered / drop_per_s) / (1.0 / capacity - 1.0 / drop_per_s)).max(0.0)
}

/// The share of arrivals that a queue of `length` at utilisation `rho` turns away: ρ^l·(1 − ρ)/(1 − ρ^(l+1)).
///
/// Written with ρ = e^x so that neither ρ near 1 nor a long queue loses digits or overflows.
pub fn loss(rho: f64, length: f64) -> f64 {
    let x = rho.ln();
    match Regime::of(x, length) {
        Regime::Empty => 0.0,
        Regime::Balanced => 1.0 / (length + 1.0),
        Regime::Below => (length * x).exp() * x.exp_m1() / ((length + 1.0) * x).exp_m1(),
        Regime::Above => (-x).exp_m1() / (-(length + 1.0) * x).exp_m1(),
        Regime::Flooded => 1.0,
    }
}

/// The share of arrivals that find fewer than `count` in a queue of `length`: (1 − ρ^k)/(1 − ρ^(l+1)).
fn finds_fewer(count: f64, rho: f64, length: f64) -> f64 {
    let x = rho.ln();
    match Regime::of(x, length) {
        Regime::Empty => f64::from(u8::from(count > 0.0)),
        Regime::Balanced => count / (length + 1.0),
        Regime::Below => (count * x).exp_m1() / ((length + 1.0) * x).exp_m1(),
        Regime::Above => {
            let scale = ((count - length - 1.0) * x).exp();
            scale * (-count * x).exp_m1() / (-(length + 1.0) * x).exp_m1()
        }
        Regime::Flooded => 0.0,
    }
}

/// Which form of a formula in ρ = e^x keeps its digits.
enum Regime {
    /// ρ = 0.
    Empty,
    Below,
    /// ρ is 1 as far as this length can tell.
    Balanced,
    Above,
    /// ρ = ∞: nothing is served.
    Flooded,
}

impl Regime {
    fn of(x: f64, length: f64) -> Self {
        match x {
            f64::NEG_INFINITY => Self::Empty,
            f64::INFINITY => Self::Flooded,
            x if (x * (length + 1.0)).abs() < 1e-9 => Self::Balanced,
            x if x < 0.0 => Self::Below,
            _ => Self::Above,
        }
    }
}
