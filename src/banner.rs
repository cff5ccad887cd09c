//! What is said at the start: what was found on the machine, where it listens, and a line to try.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proxy::Started;
use proxy::settings::units::show_size;
use proxy::settings::{Listen, Mode, Settings, Shedding};
use sys::probe::Machine;

/// The text.
pub(crate) fn text(machine: &Machine, settings: &Settings, started: &Started) -> String {
    let mut rows =
        vec![row("machine", machine_words(machine)), row("memory", memory_words(machine, settings))];
    rows.extend(settings.store.devices.iter().map(|device| row("store", device.path.display().to_string())));
    rows.push(row("", format!("{} segments with objects from before", started.segments)));
    rows.extend(started.listen.iter().map(|listen| row("listen", listen_words(*listen, settings))));
    rows.push(row("admin", admin_words(started.admin)));
    rows.push(row("overload", overload_words(settings, started)));
    rows.push(row("log", log_words(settings)));
    let table = crate::table::lay_out(&rows, &[]);
    let try_it = started.listen.first().map(|listen| try_line(*listen, settings)).unwrap_or_default();
    format!("tidegate {}\n{table}\ntry: {try_it}\n", env!("CARGO_PKG_VERSION"))
}

fn row(name: &str, words: String) -> Vec<String> {
    vec![format!("  {name}"), words]
}

fn machine_words(machine: &Machine) -> String {
    let disks = match &machine.io_uring {
        Ok(()) => "disks by io_uring".to_owned(),
        Err(refused) => format!("disks by threads (io_uring: {refused})"),
    };
    let files = machine.descriptors.soft.map_or("unlimited".into(), |soft| soft.to_string());
    format!("Linux {}, {} threads at a time, {files} open files, {disks}", machine.kernel, machine.threads())
}

fn memory_words(machine: &Machine, settings: &Settings) -> String {
    let tier = show_size(settings.memory.size);
    match machine.memory_bytes() {
        Some(bytes) if settings.memory.size > bytes => {
            format!("{tier} for hot objects: more than the {} MiB that can be had here", bytes >> 20)
        }
        Some(bytes) => format!("{tier} for hot objects, of {} MiB that can be had here", bytes >> 20),
        None => format!("{tier} for hot objects"),
    }
}

fn listen_words(listen: Listen, settings: &Settings) -> String {
    let for_whom = match listen.mode {
        Mode::Forward => {
            let nets: Vec<_> = settings.forward.allow.iter().map(ToString::to_string).collect();
            format!("for clients in {}", if nets.is_empty() { "no network".into() } else { nets.join(", ") })
        }
        Mode::Reverse => {
            let hosts: Vec<_> = settings.sites.iter().flat_map(|site| &site.hosts).cloned().collect();
            format!(
                "for {}",
                if hosts.iter().any(|host| host == "*") { "every host".into() } else { hosts.join(", ") }
            )
        }
    };
    format!("{}, {} proxy {for_whom}", listen.address, listen.mode.word())
}

fn admin_words(admin: Option<SocketAddr>) -> String {
    match admin {
        None => "off".into(),
        Some(address) if address.ip().is_loopback() => format!("http://{address}/metrics, /api/v1/status"),
        Some(address) => format!("http://{address}/metrics; WHOEVER REACHES THIS ADDRESS MAY PURGE"),
    }
}

fn overload_words(settings: &Settings, started: &Started) -> String {
    match settings.overload.shedding {
        Shedding::On => format!("new connections are shed {}", started.front),
        Shedding::Off => "nothing is shed".into(),
    }
}

fn log_words(settings: &Settings) -> String {
    match &settings.log.access {
        Some(_) => "access log is on".into(),
        None => "access log is off (--log-access stdout, or a path)".into(),
    }
}

/// A command that can be pasted; the second time its `Cache-Status` should say `hit`. A GET, because a HEAD fills no cache.
fn try_line(listen: Listen, settings: &Settings) -> String {
    let address = reachable(listen.address);
    match listen.mode {
        Mode::Forward => format!("curl -sS -D - -o /dev/null -x http://{address} http://example.com/"),
        Mode::Reverse => {
            match settings.sites.iter().flat_map(|site| &site.hosts).find(|host| !host.contains('*')) {
                Some(host) => format!("curl -sS -D - -o /dev/null -H 'Host: {host}' http://{address}/"),
                None => format!("curl -sS -D - -o /dev/null http://{address}/"),
            }
        }
    }
}

/// A wildcard address as somebody on this machine would reach it.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proxy::admission::xdp::Report;
    use proxy::settings::{Environment, Sources, load};

    use super::*;

    fn said(flags: &[(&str, &str)]) -> String {
        let flags = flags.iter().map(|(flag, word)| ((*flag).to_owned(), (*word).to_owned())).collect();
        let environment = Environment { cpus: 2, home: Some("/home/op".into()), xdg_cache_home: None };
        let settings = load(&Sources { file: None, flags }, &environment).unwrap();
        let (listen, admin) = (settings.listen.clone(), settings.admin);
        let started = Started { listen, admin, segments: 7, uring: true, front: Report::Off };
        text(&Machine::probe(), &settings, &started)
    }

    #[test]
    fn a_forward_proxy_says_what_to_try() {
        let said = said(&[]);
        assert!(
            said.contains("try: curl -sS -D - -o /dev/null -x http://127.0.0.1:3128 http://example.com/\n"),
            "{said}"
        );
        assert!(said.contains("forward proxy for clients in 127.0.0.0/8, ::1/128\n"), "{said}");
        assert!(said.contains("/home/op/.cache/tidegate/store\n"), "{said}");
        assert!(said.contains("new connections are shed by a filter on each listener"), "{said}");
        assert!(said.contains("7 segments") && said.contains("--log-access"), "{said}");
    }

    #[test]
    fn a_reverse_proxy_on_all_addresses_is_tried_on_this_machine() {
        let said = said(&[("listen", "0.0.0.0:8080"), ("origin", "http://10.0.0.1"), ("admin", "0.0.0.0:9")]);
        assert!(said.contains("try: curl -sS -D - -o /dev/null http://127.0.0.1:8080/\n"), "{said}");
        assert!(said.contains("MAY PURGE"), "{said}");
    }
}
