//! What became of the wish for a program in front of the listeners, in words.

use std::fmt;

use sys::xdp::Refused;

/// What became of it.
#[derive(Debug)]
pub enum Report {
    /// Nobody wishes it.
    Off,
    /// No interface but loopback brings connections.
    Nowhere,
    /// The program could not be had.
    Refused(Refused),
    /// It was loaded, and tried on interfaces.
    Tried {
        /// Where it is now.
        attached: Vec<String>,
        /// Where it could not be, and why.
        refused: Vec<(String, Refused)>,
    },
}

impl Report {
    /// Whether something that was wished for is not there.
    #[must_use]
    pub fn falls_short(&self) -> bool {
        match self {
            Self::Off | Self::Nowhere => false,
            Self::Refused(_) => true,
            Self::Tried { refused, .. } => !refused.is_empty(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("by a filter on each listener (overload.xdp is off)"),
            Self::Nowhere => {
                f.write_str("by a filter on each listener (nothing comes by an interface of the network)")
            }
            Self::Refused(why) => write!(f, "by a filter on each listener; XDP: {why}"),
            Self::Tried { attached, refused } => {
                match &attached[..] {
                    [] => f.write_str("by a filter on each listener")?,
                    names => write!(f, "by XDP on {}", names.join(", "))?,
                }
                refused.iter().try_for_each(|(name, why)| write!(f, "; {name}: {why}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_said_in_one_line() {
        let tried = |attached: &[&str], refused| Report::Tried {
            attached: attached.iter().map(|name| (*name).to_owned()).collect(),
            refused,
        };
        for (report, falls_short, words) in [
            (Report::Off, false, "by a filter on each listener (overload.xdp is off)"),
            (tried(&["eth0", "eth1"], Vec::new()), false, "by XDP on eth0, eth1"),
            (
                tried(&["eth0"], vec![("eth1".into(), Refused::Taken)]),
                true,
                "by XDP on eth0; eth1: another XDP program is attached",
            ),
            (
                tried(&[], vec![("eth9".into(), Refused::NoInterface)]),
                true,
                "by a filter on each listener; eth9: there is no such interface",
            ),
            (
                Report::Refused(Refused::NoPrivilege),
                true,
                "by a filter on each listener; XDP: not permitted (it takes CAP_BPF and CAP_NET_ADMIN)",
            ),
        ] {
            assert_eq!((report.falls_short(), report.to_string().as_str()), (falls_short, words));
        }
    }
}
