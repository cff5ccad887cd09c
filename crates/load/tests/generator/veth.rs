//! A pair of virtual interfaces: the server's end has an address, the client's has none, so that the kernel answers for
//! nothing there. Root only; gone with the value.

use std::net::Ipv4Addr;
use std::process::Command;

pub(crate) struct Veth {
    name: String,
    net: [u8; 3],
}

impl Veth {
    /// `number`, below 4, tells the pairs of one process apart. None, and a line that says so, where it cannot be made.
    pub(crate) fn new(test: &str, number: u8) -> Option<Self> {
        // Other processes may do the same at the same time.
        let id = std::process::id();
        let net = [10, 64 + (id % 128) as u8, (id / 128 % 64) as u8 * 4 + number];
        let veth = Self { name: format!("tgt{}n{number}", id % 100_000), net };
        match veth.make() {
            Ok(()) => Some(veth),
            Err(why) => {
                eprintln!("NOT RUN: {test}: no pair of virtual interfaces: {why}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let (server, client) = (&self.name, self.client_end());
        ip(&format!("link add {server} type veth peer name {client}"))?;
        ip(&format!("addr add {}/24 dev {server}", self.server()))?;
        ip(&format!("link set {client} up"))?;
        ip(&format!("link set {server} up"))
    }

    pub(crate) fn client_end(&self) -> String {
        format!("{}c", self.name)
    }

    pub(crate) fn server(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// Addresses that nobody has.
    pub(crate) fn clients(&self, count: u8) -> Vec<Ipv4Addr> {
        (0..count).map(|n| self.host(100 + n)).collect()
    }

    /// An address of the pair's network.
    pub(crate) fn host(&self, number: u8) -> Ipv4Addr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, number)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        let _ = ip(&format!("link del {}", self.name));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(arguments.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
