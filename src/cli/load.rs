//! The command line of `tidegate load`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use load::model::fit::Shedding;
use load::overload::measure::Rate;
use sys::packet::parse_mac;

/// The most client addresses: each has a table of connections.
const CLIENTS_MAX: u32 = 64;

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// What to show.
    #[command(subcommand)]
    pub(crate) what: What,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// New connections beyond what can be served: good replies and latency by rate, the time after a flood, bursts, fairness.
    Overload(Overload),
}

#[derive(Debug, Args)]
pub(crate) struct Overload {
    /// Address and port of the server. Without it nothing is measured, and --beside is reported.
    #[arg(long, value_name = "ADDR", required_unless_present = "beside")]
    pub(crate) target: Option<SocketAddr>,
    /// What is asked for; its reply needs a Content-Length.
    #[arg(long, value_name = "P", default_value = "/", value_parser = path)]
    pub(crate) path: String,
    /// The server's name in tables and charts; runs of one server are explained together.
    #[arg(long, value_name = "NAME", default_value = "server")]
    pub(crate) server: String,
    /// What the server does with connections that are too many, so that the right line of the model is drawn beside it.
    #[arg(long, value_name = "WHAT", default_value = "none")]
    pub(crate) shedding: Sheds,
    /// How many connections the server lets wait before it accepts them: the length of the model's second queue.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(crate) backlog: u32,
    /// Send frames through this interface, past the kernel's TCP (needs root, IPv4). Without it: ordinary sockets.
    #[arg(long, value_name = "IF", requires = "clients")]
    pub(crate) interface: Option<String>,
    /// Addresses of the clients, as FIRST-LAST or A,B,C: of the server's network, and used by nobody.
    #[arg(long, value_name = "LIST", requires = "interface", value_parser = clients)]
    pub(crate) clients: Option<Clients>,
    /// Hardware address of the server, or of the gateway to it.
    #[arg(long, value_name = "MAC", default_value = "auto", value_parser = mac)]
    pub(crate) server_mac: ServerMac,
    /// New connections a second: a list of numbers, or of them and `auto`, which looks for the peak and goes around it.
    #[arg(long, value_name = "LIST", default_value = "auto", value_delimiter = ',', value_parser = rate)]
    pub(crate) rates: Vec<Rate>,
    /// How long each rate is offered.
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    pub(crate) secs: f64,
    /// Measure everything so often; the report tells the middle of each figure, and the least and the most.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) passes: u64,
    /// A reply that takes longer, from its planned start, is late: 100ms, 1s.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    pub(crate) timeout: Duration,
    /// So many connections at once, on the idle server.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) burst: u64,
    /// One address sends this share of all, 0 to 1: how do the others fare?
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) flooder_share: Option<f64>,
    /// Do not measure the time after a flood.
    #[arg(long)]
    pub(crate) no_recovery: bool,
    /// Results of earlier runs, from --json, to be reported with this one; those of the same --server, --shedding and --timeout
    /// are further passes of it.
    #[arg(long, value_name = "FILE")]
    pub(crate) beside: Vec<PathBuf>,
    /// Write the results here.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a report here; the name says as what: .html, .svg or .md.
    #[arg(long, value_name = "FILE", value_parser = report)]
    pub(crate) report: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sheds {
    /// It accepts all.
    None,
    /// It drops SYNs and pays for that itself.
    Syn,
    /// Another processor drops them.
    Elsewhere,
}

impl From<Sheds> for Shedding {
    fn from(sheds: Sheds) -> Self {
        match sheds {
            Sheds::None => Self::None,
            Sheds::Syn => Self::Syn,
            Sheds::Elsewhere => Self::Elsewhere,
        }
    }
}

/// A list of addresses, as one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clients(pub(crate) Vec<Ipv4Addr>);

/// Where frames go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMac {
    Auto,
    Given([u8; 6]),
}

fn path(words: &str) -> Result<String, String> {
    let is_path = words.starts_with('/') && words.bytes().all(|byte| byte.is_ascii_graphic());
    is_path.then(|| words.to_owned()).ok_or_else(|| "right: a path as it is sent, such as /c/4k".into())
}

fn clients(words: &str) -> Result<Clients, String> {
    let wrong = || format!("right: FIRST-LAST or A,B,C, at most {CLIENTS_MAX} IPv4 addresses");
    let one = |word: &str| word.trim().parse::<Ipv4Addr>().map_err(|_| wrong());
    let list = match words.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (u32::from(one(first)?), u32::from(one(last)?));
            let count = last.checked_sub(first).filter(|count| *count < CLIENTS_MAX).ok_or_else(wrong)?;
            (first..=first + count).map(Ipv4Addr::from).collect()
        }
        None => words.split(',').map(one).collect::<Result<Vec<_>, _>>()?,
    };
    if list.len() > CLIENTS_MAX as usize { Err(wrong()) } else { Ok(Clients(list)) }
}

fn mac(words: &str) -> Result<ServerMac, String> {
    match words {
        "auto" => Ok(ServerMac::Auto),
        words => {
            parse_mac(words).map(ServerMac::Given).ok_or_else(|| "right: auto, or 02:00:00:00:00:01".into())
        }
    }
}

fn rate(words: &str) -> Result<Rate, String> {
    match words.trim() {
        "auto" => Ok(Rate::Auto),
        words => number(words, 1.0..=1e6)
            .map(Rate::PerSecond)
            .ok_or_else(|| "right: auto, or 1 to 1000000 a second".into()),
    }
}

fn seconds(words: &str) -> Result<f64, String> {
    number(words, 0.1..=60.0).ok_or_else(|| "right: 0.1 to 60 seconds".into())
}

fn share(words: &str) -> Result<f64, String> {
    number(words, 0.0..=1.0).ok_or_else(|| "right: 0 to 1, such as 0.9".into())
}

/// A time with its unit.
fn time(words: &str) -> Result<Duration, String> {
    let milliseconds = match words.strip_suffix("ms") {
        Some(words) => number(words, 1.0..=60e3),
        None => {
            words.strip_suffix('s').and_then(|words| number(words, 0.001..=60.0)).map(|seconds| seconds * 1e3)
        }
    };
    let milliseconds =
        milliseconds.ok_or_else(|| "right: a time of 1ms to 60s, such as 100ms or 1s".to_owned())?;
    Ok(Duration::from_micros((milliseconds * 1e3) as u64))
}

fn report(words: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(words);
    match load::report::Form::of(&path) {
        Some(_) => Ok(path),
        None => Err("right: a name that ends in .html, .svg or .md".into()),
    }
}

fn number(words: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
    words.parse().ok().filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_read_or_what_is_right_is_said() {
        assert_eq!(time("100ms").unwrap(), Duration::from_millis(100));
        assert_eq!(time("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(clients("10.0.0.3-10.0.0.5").unwrap().0.len(), 3);
        assert_eq!(clients("10.0.1.1, 10.0.2.1").unwrap().0[1], Ipv4Addr::new(10, 0, 2, 1));
        assert_eq!((rate("auto"), rate("2e4")), (Ok(Rate::Auto), Ok(Rate::PerSecond(20_000.0))));
        assert_eq!(mac("02:00:00:00:00:01"), Ok(ServerMac::Given([2, 0, 0, 0, 0, 1])));
        let wrong = [
            time("100").unwrap_err(),
            time("0s").unwrap_err(),
            clients("10.0.0.5-10.0.0.3").unwrap_err(),
            clients("10.0.0.1-10.9.0.1").unwrap_err(),
            clients("::1").unwrap_err(),
            rate("0").unwrap_err(),
            rate("NaN").unwrap_err(),
            share("1.1").unwrap_err(),
            seconds("0").unwrap_err(),
            mac("1:2").unwrap_err(),
            path("c").unwrap_err(),
            path("/a b").unwrap_err(),
            report("a.pdf").unwrap_err(),
        ];
        assert!(wrong.iter().all(|message| message.starts_with("right: ")), "{wrong:?}");
    }
}
