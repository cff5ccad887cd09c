//! What only shows when settings are seen together, or beside the machine they name: one function per rule.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use super::load::Draft;
use super::mistake::{Spot, Wrong};
use super::{DeviceSpec, Mode, OriginUrl};

/// Applies every rule.
pub(super) fn check(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    listeners_do_not_overlap(draft, wrongs);
    reverse_listeners_have_sites(draft, wrongs);
    hosts_belong_to_one_site(draft, wrongs);
    origins_are_not_this_proxy(draft, wrongs);
    devices_are_named_once(draft, wrongs);
    for (device, spot) in &draft.devices {
        device_can_be_opened(device, spot, wrongs);
    }
}

fn listeners_do_not_overlap(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    let mut taken: Vec<(SocketAddr, &str)> = Vec::new();
    taken.extend(draft.settings.admin.map(|address| (address, "admin.listen")));
    for (listen, _, spot) in &draft.listen {
        if let Some((other, name)) = taken.iter().find(|(other, _)| overlap(*other, listen.address)) {
            let what = format!("{} overlaps with {name} {other}", listen.address);
            wrongs.push(Wrong::new(
                spot,
                "listen.address",
                what,
                "an address and port of its own for each listener",
            ));
        }
        taken.push((listen.address, "the listener"));
    }
}

/// Whether two sockets cannot both have their address. An IPv6 listener takes IPv6 only.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let same_family = a.is_ipv4() == b.is_ipv4();
    let same_host = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && same_family && same_host
}

fn reverse_listeners_have_sites(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    if draft.sites_given {
        return;
    }
    for (listen, _, spot) in draft.listen.iter().filter(|(listen, ..)| listen.mode == Mode::Reverse) {
        let what = format!("{} is a reverse listener and there is no site", listen.address);
        wrongs.push(Wrong::new(
            spot,
            "listen",
            what,
            "a [[site]] with hosts and origins, or mode = \"forward\"",
        ));
    }
}

fn hosts_belong_to_one_site(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    let mut seen = HashMap::new();
    for (number, entry) in draft.sites.iter().enumerate() {
        for (host, spot) in entry.site.hosts.iter().zip(&entry.host_spots) {
            if let Some(first) = seen.insert(host, number) {
                let what = format!("\"{host}\" is already a host of site {}", first + 1);
                wrongs.push(Wrong::new(spot, "site.hosts", what, "each host in one site, once"));
            }
        }
    }
}

/// A miss that comes back as a request would go round until `Via` stops it.
fn origins_are_not_this_proxy(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    let mine = |origin: &OriginUrl| draft.listen.iter().any(|(listen, ..)| is_at(origin, listen.address));
    for entry in &draft.sites {
        for (origin, spot) in
            entry.site.origins.iter().zip(&entry.origin_spots).filter(|(origin, _)| mine(origin))
        {
            let what = format!("the origin {} is a listener of this proxy", origin.authority());
            wrongs.push(Wrong::new(spot, "site.origins", what, "the address of another server"));
        }
    }
}

fn is_at(origin: &OriginUrl, listen: SocketAddr) -> bool {
    let origin_ip = match origin.host.as_str() {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        host => host.parse().ok(),
    };
    origin_ip.is_some_and(|ip| {
        let wildcard = listen.ip().is_unspecified() && ip.is_loopback() && ip.is_ipv4() == listen.is_ipv4();
        origin.port == listen.port() && (ip == listen.ip() || wildcard)
    })
}

fn devices_are_named_once(draft: &Draft, wrongs: &mut Vec<Wrong>) {
    for (at, (device, spot)) in draft.devices.iter().enumerate() {
        if draft.devices[..at].iter().any(|(other, _)| same_file(&other.path, &device.path)) {
            let what = format!("{} is named twice", device.path.display());
            wrongs.push(Wrong::new(spot, "store.device.path", what, "each device once"));
        }
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

fn device_can_be_opened(device: &DeviceSpec, spot: &Spot, wrongs: &mut Vec<Wrong>) {
    if let Err((what, right)) = look_at(device, *spot == Spot::Default) {
        wrongs.push(Wrong::new(
            spot,
            "store.device.path",
            format!("{} {what}", device.path.display()),
            right,
        ));
    }
}

/// What is wrong with a device and what would be right. The directory of the default store is created at start.
fn look_at(device: &DeviceSpec, is_default: bool) -> Result<(), (String, &'static str)> {
    let kind = match fs::metadata(&device.path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return may_be_created(device, is_default),
        Err(error) => {
            return Err((format!("cannot be examined: {error}"), "a device that this user may open"));
        }
    };
    if kind.is_block_device() && device.size.is_some() {
        return Err(("is a block device, which is used whole".into(), "no size: it belongs to files"));
    }
    if kind.is_block_device() || kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() { "is a directory" } else { "is neither a block device nor a regular file" };
    Err((what.into(), "a block device, or a file in that place"))
}

fn may_be_created(device: &DeviceSpec, is_default: bool) -> Result<(), (String, &'static str)> {
    if device.size.is_none() {
        return Err((
            "does not exist".into(),
            "a device that exists, or a size for a new file: --store path=FILE,size=10GiB",
        ));
    }
    let parent = device.path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_default || parent.is_dir() {
        return Ok(());
    }
    Err(("cannot be created: its directory does not exist".into(), "a directory that exists"))
}
