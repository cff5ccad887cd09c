//! Which interfaces bring new connections to us, and to which addresses. Pure.

use std::net::{IpAddr, SocketAddr};

use sys::interfaces::Interface;
use sys::xdp::Refused;

/// The interfaces that are worth a program: up, not loopback, and with an address that somebody listens on.
///
/// One without an address of its own is left alone: it is a port of a bridge or a bond, whose traffic is for others too.
pub(super) fn worth_it<'m>(machine: &'m [Interface], listeners: &[SocketAddr]) -> Vec<&'m Interface> {
    let brings = |interface: &&Interface| {
        let is_asked = |listener: &SocketAddr| interface.addresses.iter().any(|own| asks(*listener, *own));
        interface.up && !interface.loopback && listeners.iter().any(is_asked)
    };
    machine.iter().filter(brings).collect()
}

/// Whether an interface with this address brings connections for this listener. What has only an address of its link is
/// not where the world comes in.
fn asks(listener: SocketAddr, own: IpAddr) -> bool {
    let is_link_local = match own {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    listener.ip() == own || is_wildcard_for(listener, own) && !is_link_local
}

fn is_wildcard_for(listener: SocketAddr, own: IpAddr) -> bool {
    listener.ip().is_unspecified() && listener.is_ipv4() == own.is_ipv4()
}

/// The interfaces of these names, and those that are not there.
pub(super) fn named<'m>(
    machine: &'m [Interface],
    names: &[String],
) -> (Vec<&'m Interface>, Vec<(String, Refused)>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match machine.iter().find(|interface| interface.name == *name) {
            Some(interface) => found.push(interface),
            None => missing.push((name.clone(), Refused::NoInterface)),
        }
    }
    (found, missing)
}

/// The addresses that are ours, with the number of the listener. Whichever interface has an address, any may bring it.
pub(super) fn targets(machine: &[Interface], listeners: &[SocketAddr]) -> Vec<(SocketAddr, usize)> {
    let mut targets = Vec::new();
    for (number, listener) in listeners.iter().enumerate() {
        let own = machine.iter().flat_map(|interface| &interface.addresses);
        let meant = own.filter(|own| is_wildcard_for(*listener, **own));
        targets.extend(meant.map(|own| (SocketAddr::new(*own, listener.port()), number)));
        if !listener.ip().is_unspecified() {
            targets.push((*listener, number));
        }
    }
    targets.sort_unstable();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn interface(name: &str, up: bool, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface { name: name.into(), index: 1, up, loopback: name == "lo", addresses }
    }

    fn machine() -> Vec<Interface> {
        vec![
            interface("lo", true, &["127.0.0.1", "::1", "192.0.2.9"]),
            interface("eth0", true, &["10.0.0.1", "10.0.0.2", "fe80::1"]),
            interface("eth1", true, &["2001:db8::1", "fe80::2"]),
            interface("down", false, &["10.0.0.3"]),
            interface("port-of-a-bridge", true, &[]),
        ]
    }

    #[test]
    fn interfaces_with_an_address_that_somebody_listens_on_are_worth_it() {
        let cases: [(&[&str], &[&str]); 8] = [
            (&["127.0.0.1:80"], &[]),
            (&["192.0.2.9:80"], &[]),
            (&["10.0.0.2:80"], &["eth0"]),
            (&["10.0.0.3:80"], &[]),
            (&["0.0.0.0:80"], &["eth0"]),
            (&["[::]:80"], &["eth1"]),
            (&["0.0.0.0:80", "[::]:80"], &["eth0", "eth1"]),
            (&["[fe80::2]:80"], &["eth1"]),
        ];
        let machine = machine();
        for (listeners, wanted) in cases {
            let listeners: Vec<_> = listeners.iter().map(|address| address.parse().unwrap()).collect();
            let found: Vec<_> = worth_it(&machine, &listeners).iter().map(|i| i.name.as_str()).collect();
            assert_eq!(found, wanted, "{listeners:?}");
        }
    }

    #[test]
    fn a_wildcard_means_every_address_of_its_family_and_nothing_else() {
        let listeners = ["0.0.0.0:80".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()];
        let targets: Vec<_> =
            targets(&machine(), &listeners).iter().map(|(to, number)| format!("{to} {number}")).collect();
        let wanted = [
            "10.0.0.1:80 0",
            "10.0.0.2:80 0",
            "10.0.0.3:80 0",
            "127.0.0.1:80 0",
            "192.0.2.9:80 0",
            "[2001:db8::1]:443 1",
        ];
        assert_eq!(targets, wanted);
    }

    #[test]
    fn what_is_named_is_taken_or_missed() {
        let machine = machine();
        let (found, missing) = named(&machine, &["eth1".into(), "eth9".into()]);
        assert_eq!(found.iter().map(|i| &i.name).collect::<Vec<_>>(), ["eth1"]);
        assert!(matches!(&missing[..], [(name, Refused::NoInterface)] if name == "eth9"));
    }
}
