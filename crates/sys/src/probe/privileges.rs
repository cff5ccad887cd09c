//! What this process may do beyond others: its effective capabilities.

use std::path::Path;

use super::text;

/// The capabilities that matter here. A process outside of the first user namespace may have them and still be refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// Configure interfaces, attach programs to them (`CAP_NET_ADMIN`).
    pub net_admin: bool,
    /// Load programs into the kernel (`CAP_BPF`, or `CAP_SYS_ADMIN`, which includes it).
    pub bpf: bool,
    /// Go beyond the limits of a user, on pipes for example (`CAP_SYS_RESOURCE`, or `CAP_SYS_ADMIN` for those).
    pub resources: bool,
}

impl Privileges {
    /// Those of this process; `root` is `/`, or a copy of its files in a test. `None` when they cannot be read.
    pub fn of_process(root: &Path) -> Option<Self> {
        effective(&text(root.join("proc/self/status"))?)
    }

    /// Whether a program may be attached to an interface, to drop packets before they cost anything (XDP).
    #[must_use]
    pub fn may_attach_xdp(self) -> bool {
        self.net_admin && self.bpf
    }
}

/// `CapEff:` among the lines of `/proc/self/status`: a hexadecimal set of bits (`linux/capability.h`).
fn effective(status: &str) -> Option<Privileges> {
    const NET_ADMIN: u32 = 12;
    const SYS_ADMIN: u32 = 21;
    const SYS_RESOURCE: u32 = 24;
    const BPF: u32 = 39;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let set = u64::from_str_radix(line.trim(), 16).ok()?;
    let has = |bit: u32| set >> bit & 1 == 1;
    let admin = has(SYS_ADMIN);
    Some(Privileges {
        net_admin: has(NET_ADMIN),
        bpf: has(BPF) || admin,
        resources: has(SYS_RESOURCE) || admin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_their_bits() {
        let table = [
            ("0000000000000000", (false, false, false)),
            ("000001ffffffffff", (true, true, true)),
            ("0000000000001000", (true, false, false)),
            ("0000008000001000", (true, true, false)),
            ("0000000000200000", (false, true, true)),
            ("0000000001000000", (false, false, true)),
        ];
        for (set, (net_admin, bpf, resources)) in table {
            let status = format!("Name:\tx\nCapEff:\t{set}\nCapBnd:\t0\n");
            assert_eq!(effective(&status), Some(Privileges { net_admin, bpf, resources }), "{set}");
        }
        assert_eq!(effective("Name: x"), None);
        assert_eq!(effective("CapEff:\tzz"), None);
    }
}
