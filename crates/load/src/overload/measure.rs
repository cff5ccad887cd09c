//! Measures a server: rates one after the other with a rest between them, then what is asked of its behaviour at the
//! highest.
//!
//! What must hold: nothing is measured before the server has given one good reply; what is measured is told as it comes.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use super::{By, Cell, Fairness, Recovery, Run, peak};
use crate::bystander::Bystander;
use crate::model::fit::Shedding;
use crate::outcome::{Fate, Outcomes, Tally};
use crate::packet::{self, Packets, Setup};
use crate::plan::{Plan, Step};
use crate::reply;
use crate::socket::Sockets;

/// Between two measurements: what is left of the one before shall not be in the next.
const REST: Duration = Duration::from_secs(1);
/// How long a rate is tried in the search for the peak.
const TRIAL_SECONDS: f64 = 0.5;
/// How long a flood lasts before the calm, and how long the calm.
const FLOOD_SECONDS: f64 = 2.0;
const CALM_SECONDS: f64 = 2.0;
/// The calm is this share of the peak: a load that a server takes easily.
const CALM: f64 = 0.5;
/// A burst is no race: who is there at once may wait for all before it.
const BURST_TIMEOUT: Duration = Duration::from_secs(2);
/// How often, and how long each time, a server is asked before it is called silent.
const GREETINGS: usize = 3;
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's name.
    pub server: String,
    /// What it does with connections that are too many.
    pub shedding: Shedding,
    /// How many connections it lets wait.
    pub backlog: u32,
    /// Who is asked.
    pub target: SocketAddr,
    /// For what.
    pub path: String,
    /// Through which interface frames go; without one, ordinary sockets are used.
    pub interface: Option<String>,
    /// Client addresses for frames.
    pub clients: Vec<Ipv4Addr>,
    /// Where frames go; asked for if not given.
    pub server_mac: Option<[u8; 6]>,
    /// In requests a second.
    pub rates: Vec<Rate>,
    /// How long each rate is offered.
    pub seconds: f64,
    /// A reply that takes longer is late.
    pub timeout: Duration,
    /// Whether the time after a flood is measured.
    pub recovery: bool,
    /// So many at once; none with 0.
    pub burst: u64,
    /// The share of one address of all.
    pub flooder_share: Option<f64>,
}

/// A rate that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Those around the peak and past it, which is looked for.
    Auto,
    /// This.
    PerSecond(f64),
}

/// What is going on.
#[derive(Debug)]
pub enum Event<'a> {
    /// This begins, and takes so long.
    Begins(&'a str, Duration),
    /// So much of it has passed.
    At(Duration),
    /// There is no bystander in what follows, because of this.
    NoBystander(&'a io::Error),
    /// A rate was measured.
    Cell(&'a Cell),
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Frames cannot be sent.
    #[error(transparent)]
    Refused(#[from] packet::Refused),
    /// Frames carry IPv4 only.
    #[error("{0}: over an interface only IPv4 is spoken; leave out --interface")]
    NotIpv4(SocketAddr),
    /// The server does not answer as it should.
    #[error("{target}: GET {path} gave no reply of 2xx with a Content-Length ({found})")]
    NoReply {
        /// Who was asked.
        target: SocketAddr,
        /// For what.
        path: String,
        /// What came instead.
        found: &'static str,
    },
    /// The kernel's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Measures it all.
///
/// # Errors
/// Why nothing was measured.
pub fn run(options: &Options, tell: &mut dyn FnMut(Event<'_>)) -> Result<Run, Failure> {
    let mut meter = Meter { options, client: Client::open(options)?, tell };
    meter.greet()?;
    let mut run = meter.empty_run();
    run.cells = meter.cells()?;
    run.sum_up();
    let highest_per_s = run.cells.last().map_or(0.0, |cell| cell.asked_per_s);
    if options.recovery && run.peak_per_s > 0.0 {
        let calm_per_s = CALM * run.peak_per_s;
        run.recovery = Some(meter.recovery(highest_per_s, calm_per_s)?);
    }
    if options.burst > 0 {
        run.burst = Some(meter.burst()?);
    }
    if let Some(share) = options.flooder_share {
        run.fairness = Some(meter.fairness(highest_per_s, share, run.peak_per_s)?);
    }
    Ok(run)
}

struct Meter<'a> {
    options: &'a Options,
    client: Client,
    tell: &'a mut dyn FnMut(Event<'_>),
}

impl Meter<'_> {
    fn empty_run(&self) -> Run {
        let options = self.options;
        Run {
            server: options.server.clone(),
            shedding: options.shedding,
            backlog: options.backlog,
            target: format!("{}{}", options.target, options.path),
            by: self.client.by(),
            sources: self.client.sources(),
            timeout_ms: options.timeout.as_millis() as u64,
            seconds: options.seconds,
            cells: Vec::new(),
            peak_per_s: 0.0,
            lowest_past_peak: 0.0,
            recovery: None,
            burst: None,
            fairness: None,
        }
    }

    /// One good reply, or nothing is worth to be measured.
    fn greet(&mut self) -> Result<(), Failure> {
        let plan = Plan { steps: vec![Step::Burst(1)], timeout: GREETING_TIMEOUT, flooder_share: None };
        let mut found = "nothing";
        for _ in 0..GREETINGS {
            let outcomes = self.client.run(&plan, &mut |_| {})?;
            found = match outcomes.all.first().map(|outcome| outcome.fate) {
                Some(Fate::Good) => return Ok(()),
                Some(Fate::Shed) => "5xx",
                Some(Fate::Failed) => "refused, reset, or another reply",
                Some(Fate::Late) => "silence",
                Some(Fate::NotStarted) | None => "the request could not be started",
            };
        }
        let Options { target, path, .. } = self.options;
        Err(Failure::NoReply { target: *target, path: path.clone(), found })
    }

    fn rates(&mut self) -> Result<Vec<f64>, Failure> {
        let mut rates = Vec::new();
        for rate in &self.options.rates {
            match rate {
                Rate::PerSecond(rate) => rates.push(*rate),
                Rate::Auto => rates.extend(peak::around(self.search()?)),
            }
        }
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        Ok(rates)
    }

    fn search(&mut self) -> Result<f64, Failure> {
        peak::search(|rate| {
            let plan = Plan::steady(rate, TRIAL_SECONDS, self.options.timeout);
            let outcomes = self.offer(&format!("peak: {rate}/s?"), &plan)?;
            thread::sleep(REST / 2);
            Ok(Tally::of(&outcomes.all).good as f64 / TRIAL_SECONDS)
        })
    }

    fn cells(&mut self) -> Result<Vec<Cell>, Failure> {
        let measured = self.rates()?.into_iter().map(|per_s| {
            let cell = self.cell(per_s)?;
            (self.tell)(Event::Cell(&cell));
            Ok(cell)
        });
        measured.collect()
    }

    fn cell(&mut self, per_s: f64) -> Result<Cell, Failure> {
        thread::sleep(REST);
        let bystander = match Bystander::start(self.options.target, &self.options.path) {
            Ok(bystander) => Some(bystander),
            Err(error) => {
                (self.tell)(Event::NoBystander(&error));
                None
            }
        };
        let plan = Plan::steady(per_s, self.options.seconds, self.options.timeout);
        let outcomes = self.offer(&format!("{per_s}/s"), &plan)?;
        let seen = bystander.map(Bystander::stop);
        let tally = Tally::of(&outcomes.all);
        Ok(Cell::of(per_s, self.options.seconds, tally, outcomes.lost_frames, seen))
    }

    fn recovery(&mut self, flood_per_s: f64, calm_per_s: f64) -> Result<Recovery, Failure> {
        thread::sleep(REST);
        let flood = Step::Rate { per_s: flood_per_s, seconds: FLOOD_SECONDS };
        let calm = Step::Rate { per_s: calm_per_s, seconds: CALM_SECONDS };
        let plan = Plan { steps: vec![flood, calm], timeout: self.options.timeout, flooder_share: None };
        let outcomes = self.offer("after a flood", &plan)?;
        Ok(Recovery::of(&outcomes.all, flood.length_ns(), flood_per_s, calm_per_s))
    }

    fn burst(&mut self) -> Result<Tally, Failure> {
        thread::sleep(REST);
        let steps = vec![Step::Burst(self.options.burst)];
        let plan = Plan { steps, timeout: BURST_TIMEOUT, flooder_share: None };
        Ok(Tally::of(&self.offer("burst", &plan)?.all))
    }

    fn fairness(&mut self, per_s: f64, share: f64, peak_per_s: f64) -> Result<Fairness, Failure> {
        thread::sleep(REST);
        let Options { seconds, timeout, .. } = *self.options;
        let plan = Plan { flooder_share: Some(share), ..Plan::steady(per_s, seconds, timeout) };
        let outcomes = self.offer("one floods", &plan)?;
        Ok(Fairness::of(&outcomes.all, self.client.sources(), seconds, share, peak_per_s))
    }

    fn offer(&mut self, what: &str, plan: &Plan) -> io::Result<Outcomes> {
        let steps_ns = plan.steps.iter().map(Step::length_ns).sum();
        (self.tell)(Event::Begins(what, Duration::from_nanos(steps_ns) + plan.timeout));
        let Self { client, tell, .. } = self;
        client.run(plan, &mut |passed| tell(Event::At(passed)))
    }
}

/// Either kind of client.
enum Client {
    Packets(Box<Packets>),
    Sockets(Sockets),
}

impl Client {
    fn open(options: &Options) -> Result<Self, Failure> {
        let request = reply::request(&options.target.to_string(), &options.path, false);
        let Some(interface) = &options.interface else {
            return Ok(Self::Sockets(Sockets::open(options.target, request)?));
        };
        let SocketAddr::V4(server) = options.target else { return Err(Failure::NotIpv4(options.target)) };
        let Options { clients, server_mac, .. } = options;
        let setup =
            Setup { server, interface: interface.clone(), clients: clients.clone(), server_mac: *server_mac };
        Ok(Self::Packets(Box::new(Packets::open(&setup, request)?)))
    }

    fn by(&self) -> By {
        match self {
            Self::Packets(_) => By::Packets,
            Self::Sockets(_) => By::Sockets,
        }
    }

    fn sources(&self) -> usize {
        match self {
            Self::Packets(client) => client.sources(),
            Self::Sockets(client) => client.sources(),
        }
    }

    fn run(&mut self, plan: &Plan, progress: &mut dyn FnMut(Duration)) -> io::Result<Outcomes> {
        match self {
            Self::Packets(client) => client.run(plan, progress),
            Self::Sockets(client) => client.run(plan, progress),
        }
    }
}
