//! The network interfaces of this machine, or of the network namespace around us, and their addresses.
//!
//! Owns `getifaddrs`. What must hold: a list is one moment's truth, and a copy. Refuses to know what an interface is
//! wanted for.
#![allow(unsafe_code)] // a list in C, that no safe wrapper at hand reads

use std::borrow::Cow;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What operators call it.
    pub name: String,
    /// What the kernel calls it: its number, which no other interface gets while it exists.
    pub index: u32,
    /// Whether an operator has set it up.
    pub up: bool,
    /// Whether what is sent to it comes back.
    pub loopback: bool,
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
}

/// All interfaces that exist now, in the order of the kernel.
///
/// # Errors
/// The system's.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let list = List::read()?;
    let mut found: Vec<Interface> = Vec::new();
    for entry in list.entries() {
        // An address may have a label of its own, "eth0:web".
        let name = entry.name.split(':').next().unwrap_or_default();
        if !found.iter().any(|known| known.name == name) {
            found.extend(Interface::named(name, entry.flags));
        }
        if let Some(interface) = found.iter_mut().find(|known| known.name == name) {
            interface.addresses.extend(entry.address);
        }
    }
    Ok(found)
}

impl Interface {
    /// Without its addresses; none where it has just gone.
    fn named(name: &str, flags: u32) -> Option<Self> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).ok()?;
        Some(Self {
            name: name.to_owned(),
            index: rustix::net::netdevice::name_to_index(socket, name).ok()?,
            up: flags & libc::IFF_UP as u32 != 0,
            loopback: flags & libc::IFF_LOOPBACK as u32 != 0,
            addresses: Vec::new(),
        })
    }
}

/// What `getifaddrs` gave, until it is given back.
struct List(*mut libc::ifaddrs);

struct Entry<'a> {
    name: Cow<'a, str>,
    flags: u32,
    address: Option<IpAddr>,
}

impl List {
    fn read() -> io::Result<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: getifaddrs requires a place to write a pointer to: `first`.
        let status = unsafe { libc::getifaddrs(&mut first) };
        if status == 0 { Ok(Self(first)) } else { Err(io::Error::last_os_error()) }
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: as_ref requires null, or a valid entry that nobody changes while the reference lives: `next` comes
            // from the list, which ends with null and lives, unchanged, as long as `self`, which `Entry` borrows.
            let entry = unsafe { next.as_ref() }?;
            next = entry.ifa_next;
            // SAFETY: from_ptr requires a terminated string that outlives the reference: the name of an entry is one,
            // and lives as long as the list.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
            // SAFETY: `address` requires null or a socket address of the length of its family: getifaddrs(3) says so.
            let address = unsafe { address(entry.ifa_addr) };
            Some(Entry { name, flags: entry.ifa_flags, address })
        })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: freeifaddrs requires a list from getifaddrs that is used no more: nothing that borrows it is left.
        unsafe { libc::freeifaddrs(self.0) }
    }
}

/// The IP address in a socket address, if that is what it holds.
///
/// # Safety
/// `at` is null, or points to a socket address that is as long as its family says.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: reading requires a valid value at the place, and no alignment: `at` points to a socket address, all of which
    // begin with the family.
    let family = unsafe { ptr::addr_of!((*at).sa_family).read_unaligned() };
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: as above; an address of this family is a `sockaddr_in`.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: as above; an address of this family is a `sockaddr_in6`.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn loopback_is_among_them_with_its_address_and_every_name_comes_once() {
        let found = interfaces().unwrap();
        let is_ours = |interface: &&Interface| interface.addresses.contains(&Ipv4Addr::LOCALHOST.into());
        let loopback = found.iter().find(is_ours).unwrap();
        assert!(loopback.loopback && loopback.up && loopback.index > 0);
        let mut names: Vec<_> = found.iter().map(|interface| &interface.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), found.len());
    }
}
