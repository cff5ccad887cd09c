//! What kinds of values there are: how each is read, checked, printed and put into a [`Settings`].

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::given::{Given, Value};
use super::mistake::Wrong;
use super::units;
use super::{Environment, LogTarget, Settings, XdpUse};

/// A kind of value, its bounds, its default and the place in [`Settings`] where it lives.
pub(super) enum Field {
    /// A whole number.
    Count {
        get: fn(&Settings) -> u64,
        set: fn(&mut Settings, u64),
        bounds: RangeInclusive<u64>,
        default: CountDefault,
    },
    /// Bytes.
    Size { at: fn(&mut Settings) -> &mut u64, bounds: RangeInclusive<u64>, default: u64 },
    /// Bytes a second, or off.
    Pace { at: fn(&mut Settings) -> &mut Option<u64>, bounds: RangeInclusive<u64>, default: u64 },
    /// A time span.
    Span { at: fn(&mut Settings) -> &mut Duration, bounds: RangeInclusive<Duration>, default: Duration },
    /// A fraction.
    Share { at: fn(&mut Settings) -> &mut f64, default: f64 },
    /// Yes or no.
    Switch { at: fn(&mut Settings) -> &mut bool, default: bool },
    /// One of some words; the first is the default.
    Word { get: fn(&Settings) -> usize, choices: &'static [Choice] },
    /// Where to listen, or nowhere.
    Address { at: fn(&mut Settings) -> &mut Option<SocketAddr>, default: SocketAddr },
    /// Where log lines go, or nowhere.
    Target { at: fn(&mut Settings) -> &mut Option<LogTarget> },
    /// Network interfaces, all that matter, or none.
    Interfaces { at: fn(&mut Settings) -> &mut XdpUse },
    /// Networks.
    Nets { at: fn(&mut Settings) -> &mut Vec<IpNet>, default: &'static [IpNet] },
    /// TCP ports.
    Ports { at: fn(&mut Settings) -> &mut Vec<u16>, default: &'static [u16] },
    /// Field names.
    Names { at: fn(&mut Settings) -> &mut Vec<String>, default: &'static [&'static str] },
}

/// A word and what choosing it does.
pub(super) type Choice = (&'static str, fn(&mut Settings));

/// The default of a number.
#[derive(Clone, Copy)]
pub(super) enum CountDefault {
    /// Always the same.
    Fixed(u64),
    /// One for each CPU that may be used.
    PerCpu,
}

impl Field {
    /// Puts the default into its place.
    pub(super) fn reset(&self, s: &mut Settings, environment: &Environment) {
        match self {
            Self::Count { set, default: CountDefault::Fixed(n), .. } => set(s, *n),
            Self::Count { set, default: CountDefault::PerCpu, .. } => set(s, environment.cpus.max(1) as u64),
            Self::Size { at, default, .. } => *at(s) = *default,
            Self::Pace { at, default, .. } => *at(s) = Some(*default),
            Self::Span { at, default, .. } => *at(s) = *default,
            Self::Share { at, default } => *at(s) = *default,
            Self::Switch { at, default } => *at(s) = *default,
            Self::Word { choices, .. } => choices[0].1(s),
            Self::Address { at, default } => *at(s) = Some(*default),
            Self::Target { at } => *at(s) = None,
            Self::Interfaces { at } => *at(s) = XdpUse::Auto,
            Self::Nets { at, default } => *at(s) = default.to_vec(),
            Self::Ports { at, default } => *at(s) = default.to_vec(),
            Self::Names { at, default } => *at(s) = default.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Reads a value into its place, or says everything that is wrong with it.
    pub(super) fn set(&self, name: &str, s: &mut Settings, given: &Given<'_>) -> Result<(), Vec<Wrong>> {
        let refused = || given.is_not(name, self.noun(), &self.forms());
        let within = |inside: bool| if inside { Ok(()) } else { Err(vec![self.out_of_bounds(name, given)]) };
        match self {
            Self::Count { set, bounds, .. } => {
                let n = given.count().ok_or_else(refused).map_err(one)?;
                within(bounds.contains(&n)).map(|()| set(s, n))
            }
            Self::Size { at, bounds, .. } => {
                let bytes = size(given).ok_or_else(refused).map_err(one)?;
                within(bounds.contains(&bytes)).map(|()| *at(s) = bytes)
            }
            Self::Pace { at, bounds, .. } => {
                let pace = pace(given).ok_or_else(refused).map_err(one)?;
                within(pace.is_none_or(|bytes| bounds.contains(&bytes))).map(|()| *at(s) = pace)
            }
            Self::Span { at, bounds, .. } => {
                let span = given.text().and_then(units::parse_duration).ok_or_else(refused).map_err(one)?;
                within(bounds.contains(&span)).map(|()| *at(s) = span)
            }
            Self::Share { at, .. } => {
                let share = share(given).ok_or_else(refused).map_err(one)?;
                within((0.0..=1.0).contains(&share)).map(|()| *at(s) = share)
            }
            Self::Switch { at, .. } => switch(given).ok_or_else(refused).map_err(one).map(|on| *at(s) = on),
            Self::Word { choices, .. } => {
                let choice = choices.iter().find(|(word, _)| given.text() == Some(*word));
                choice.ok_or_else(refused).map_err(one).map(|(_, choose)| choose(s))
            }
            Self::Address { at, .. } => address(given).ok_or_else(refused).map_err(one).map(|a| *at(s) = a),
            Self::Target { at } => target(given).ok_or_else(refused).map_err(one).map(|t| *at(s) = t),
            Self::Interfaces { at } => {
                let interfaces = match given.text() {
                    Some("auto") => XdpUse::Auto,
                    Some("off") => XdpUse::Off,
                    _ => XdpUse::On(self.each(name, given, interface_name)?),
                };
                *at(s) = interfaces;
                Ok(())
            }
            Self::Nets { at, .. } => self.each(name, given, net).map(|nets| *at(s) = nets),
            Self::Ports { at, .. } => self.each(name, given, port).map(|ports| *at(s) = ports),
            Self::Names { at, .. } => self.each(name, given, field_name).map(|names| *at(s) = names),
        }
    }

    /// Reads every part of a list, so that each mistake in it is told at its place.
    fn each<T>(
        &self,
        name: &str,
        given: &Given<'_>,
        read: fn(&Given<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Vec<Wrong>> {
        let Some(parts) = given.list() else {
            return Err(vec![given.is_not(name, self.noun(), &self.forms())]);
        };
        let (mut values, mut wrongs) = (Vec::new(), Vec::new());
        for part in &parts {
            match read(part) {
                Some(value) => values.push(value),
                None => wrongs.push(part.is_not(name, self.part_noun(), &self.forms())),
            }
        }
        if wrongs.is_empty() { Ok(values) } else { Err(wrongs) }
    }

    fn out_of_bounds(&self, name: &str, given: &Given<'_>) -> Wrong {
        let bounds = self.bounds().unwrap_or_default();
        Wrong::new(&given.spot, name, format!("{} is out of bounds", given.shown), bounds)
    }

    /// What a value is called in a sentence.
    const fn noun(&self) -> &'static str {
        match self {
            Self::Count { .. } => "a whole number",
            Self::Size { .. } => "a size",
            Self::Pace { .. } => "a size a second",
            Self::Span { .. } => "a duration",
            Self::Share { .. } => "a share",
            Self::Switch { .. } => "a switch",
            Self::Word { .. } => "one of the words known here",
            Self::Address { .. } => "an address with a port",
            Self::Target { .. } => "a log target",
            Self::Interfaces { .. } => "a list of interfaces",
            Self::Nets { .. } => "a list of networks",
            Self::Ports { .. } => "a list of ports",
            Self::Names { .. } => "a list of field names",
        }
    }

    /// What a flag takes, in one word.
    pub(super) const fn value_name(&self) -> &'static str {
        match self {
            Self::Count { .. } | Self::Share { .. } => "N",
            Self::Size { .. } | Self::Pace { .. } => "SIZE",
            Self::Span { .. } => "DURATION",
            Self::Switch { .. } => "BOOL",
            Self::Word { .. } => "WORD",
            Self::Address { .. } => "ADDR",
            Self::Target { .. } => "TARGET",
            Self::Interfaces { .. } => "NAMES",
            Self::Nets { .. } => "NETS",
            Self::Ports { .. } => "PORTS",
            Self::Names { .. } => "NAMES",
        }
    }

    const fn part_noun(&self) -> &'static str {
        match self {
            Self::Interfaces { .. } => "a name of an interface",
            Self::Nets { .. } => "a network",
            Self::Names { .. } => "a field name",
            _ => "a port",
        }
    }

    /// The accepted forms, for whoever wrote another.
    pub(super) fn forms(&self) -> String {
        match self {
            Self::Count { .. } => {
                format!("a whole number without quotes, {}", self.bounds().unwrap_or_default())
            }
            Self::Size { .. } => units::SIZE_FORMS.into(),
            Self::Pace { .. } => format!("{}, for each second, or \"off\"", units::SIZE_FORMS),
            Self::Span { .. } => units::DURATION_FORMS.into(),
            Self::Share { .. } => "a number between 0 and 1, such as 0.75".into(),
            Self::Switch { .. } => "true or false, without quotes".into(),
            Self::Word { choices, .. } => {
                choices.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ")
            }
            Self::Address { default, .. } => {
                format!("\"{default}\", \"[::1]:{}\" or \"off\"", default.port())
            }
            Self::Target { .. } => "\"stdout\", \"off\" or the path of a file".into(),
            Self::Interfaces { .. } => "\"auto\", \"off\" or names of interfaces: [\"eth0\"]".into(),
            Self::Nets { .. } => "networks or addresses: [\"10.0.0.0/8\", \"::1\"]".into(),
            Self::Ports { .. } => "numbers between 1 and 65535: [443, 8443]".into(),
            Self::Names { .. } => "names of fields: [\"Cache-Tag\"], or [] for none".into(),
        }
    }

    /// The accepted forms for a reader who knows how sizes and durations are written.
    pub(super) fn short_forms(&self) -> String {
        let kind = match self {
            Self::Count { .. } => "number",
            Self::Size { .. } => "size",
            Self::Pace { .. } => "`\"off\"` or size",
            Self::Span { .. } => "duration",
            Self::Share { .. } => "number",
            _ => return self.forms(),
        };
        format!("{kind} {}", self.bounds().unwrap_or_default())
    }

    /// The bounds in words, where there are any.
    pub(super) fn bounds(&self) -> Option<String> {
        let between = |low: String, high: String| Some(format!("between {low} and {high}"));
        match self {
            Self::Count { bounds, .. } => between(bounds.start().to_string(), bounds.end().to_string()),
            Self::Size { bounds, .. } | Self::Pace { bounds, .. } => {
                between(units::show_size(*bounds.start()), units::show_size(*bounds.end()))
            }
            Self::Span { bounds, .. } => {
                between(units::show_duration(*bounds.start()), units::show_duration(*bounds.end()))
            }
            Self::Share { .. } => between("0".into(), "1".into()),
            _ => None,
        }
    }

    /// The value as the configuration file would have it.
    pub(super) fn show(&self, settings: &Settings) -> String {
        let mut copy = settings.clone();
        let s = &mut copy;
        match self {
            Self::Count { get, .. } => get(s).to_string(),
            Self::Size { at, .. } => quoted(&units::show_size(*at(s))),
            Self::Pace { at, .. } => quoted(&at(s).map_or_else(|| "off".into(), units::show_size)),
            Self::Span { at, .. } => quoted(&units::show_duration(*at(s))),
            Self::Share { at, .. } => at(s).to_string(),
            Self::Switch { at, .. } => at(s).to_string(),
            Self::Word { get, choices } => quoted(choices[get(s)].0),
            Self::Address { at, .. } => at(s).map_or_else(|| quoted("off"), |a| quoted(&a.to_string())),
            Self::Target { at } => quoted(&show_target(at(s).as_ref())),
            Self::Interfaces { at } => show_interfaces(at(s)),
            Self::Nets { at, .. } => format!("[{}]", join(at(s), |net| quoted(&show_net(net)))),
            Self::Ports { at, .. } => format!("[{}]", join(at(s), u16::to_string)),
            Self::Names { at, .. } => format!("[{}]", join(at(s), |name| quoted(name))),
        }
    }

    /// The default in words that hold on every machine.
    pub(super) fn default_words(&self) -> String {
        if let Self::Count { default: CountDefault::PerCpu, .. } = self {
            return "one per CPU".into();
        }
        let mut settings = Settings::default();
        self.reset(&mut settings, &Environment::default());
        format!("`{}`", self.show(&settings))
    }

    /// Copies the value from one [`Settings`] to another.
    pub(super) fn copy(&self, from: &Settings, to: &mut Settings) {
        let mut from = from.clone();
        match self {
            Self::Count { get, set, .. } => set(to, get(&from)),
            Self::Size { at, .. } => *at(to) = *at(&mut from),
            Self::Pace { at, .. } => *at(to) = *at(&mut from),
            Self::Span { at, .. } => *at(to) = *at(&mut from),
            Self::Share { at, .. } => *at(to) = *at(&mut from),
            Self::Switch { at, .. } => *at(to) = *at(&mut from),
            Self::Word { get, choices } => choices[get(&from)].1(to),
            Self::Address { at, .. } => *at(to) = *at(&mut from),
            Self::Target { at } => at(to).clone_from(at(&mut from)),
            Self::Interfaces { at } => at(to).clone_from(at(&mut from)),
            Self::Nets { at, .. } => at(to).clone_from(at(&mut from)),
            Self::Ports { at, .. } => at(to).clone_from(at(&mut from)),
            Self::Names { at, .. } => at(to).clone_from(at(&mut from)),
        }
    }
}

fn one(wrong: Wrong) -> Vec<Wrong> {
    vec![wrong]
}

/// Bytes: a number with a unit, or a bare number.
pub(super) fn size(given: &Given<'_>) -> Option<u64> {
    given.text().map_or_else(|| given.count(), units::parse_size)
}

/// Bytes a second; `None` is off.
fn pace(given: &Given<'_>) -> Option<Option<u64>> {
    if given.text() == Some("off") { Some(None) } else { size(given).map(Some) }
}

fn share(given: &Given<'_>) -> Option<f64> {
    match given.value {
        Value::Float(x) => Some(x),
        Value::Integer(n) => Some(n as f64),
        Value::Bare(word) => word.parse().ok(),
        _ => None,
    }
}

fn switch(given: &Given<'_>) -> Option<bool> {
    match given.value {
        Value::Switch(on) => Some(on),
        Value::Bare(word) => word.parse().ok(),
        _ => None,
    }
}

fn address(given: &Given<'_>) -> Option<Option<SocketAddr>> {
    match given.text()? {
        "off" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

fn target(given: &Given<'_>) -> Option<Option<LogTarget>> {
    match given.text()? {
        "" => None,
        "off" => Some(None),
        "stdout" => Some(Some(LogTarget::Stdout)),
        path => Some(Some(LogTarget::Path(PathBuf::from(path)))),
    }
}

/// A network, or an address as the network that holds it alone.
fn net(given: &Given<'_>) -> Option<IpNet> {
    let text = given.text()?;
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn port(given: &Given<'_>) -> Option<u16> {
    given.count().and_then(|n| u16::try_from(n).ok()).filter(|port| *port != 0)
}

fn field_name(given: &Given<'_>) -> Option<String> {
    given.text().filter(|name| wire::fields::is_token(name.as_bytes())).map(str::to_owned)
}

/// A name that the kernel could have given (`dev_valid_name`).
fn interface_name(given: &Given<'_>) -> Option<String> {
    const LENGTH_MAX: usize = 15; // IFNAMSIZ, without the end
    let is_strange = |byte: u8| byte == b'/' || byte == b':' || byte.is_ascii_whitespace();
    let is_name = |name: &&str| {
        (1..=LENGTH_MAX).contains(&name.len())
            && !matches!(*name, "." | "..")
            && !name.bytes().any(is_strange)
    };
    given.text().filter(is_name).map(str::to_owned)
}

fn show_interfaces(interfaces: &XdpUse) -> String {
    match interfaces {
        XdpUse::Auto => quoted("auto"),
        XdpUse::Off => quoted("off"),
        XdpUse::On(names) => format!("[{}]", join(names, |name| quoted(name))),
    }
}

fn show_target(target: Option<&LogTarget>) -> String {
    match target {
        None => "off".into(),
        Some(LogTarget::Stdout) => "stdout".into(),
        Some(LogTarget::Path(path)) => path.display().to_string(),
    }
}

fn show_net(net: &IpNet) -> String {
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}

fn join<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_default())
}
