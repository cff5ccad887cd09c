//! The receive side: queues for bursts, and the CPUs that take what the interfaces bring.
//!
//! What is advised rests on the model of docs/overload.md: long queues carry a burst over and do nothing about an overload;
//! what the receive interrupt takes is taken from serving.

use proxy::settings::Settings;
use sys::probe::{Interface, Network, Privileges, Softnet};

use super::Readings;
use super::finding::{Finding, of_number};

pub(super) fn findings(readings: &Readings, settings: &Settings) -> Vec<Finding> {
    let (network, cpus) = (&readings.network, readings.machine.cpus);
    let backlog = u64::from(settings.limits.backlog);
    let mut findings = vec![
        accept_backlog(network.somaxconn, backlog),
        syn_backlog(network.syn_backlog, backlog),
        syn_cookies(network.syn_cookies),
        abort_on_overflow(network.abort_on_overflow),
        overflows(network),
        packet_backlog(network.softnet, network.packet_backlog),
        packet_budget(network),
    ];
    findings.extend(
        network
            .interfaces
            .iter()
            .flat_map(|interface| [Some(spread(interface, cpus)), threads(interface)].into_iter().flatten()),
    );
    findings.push(xdp(readings.privileges));
    findings
}

pub(super) fn accept_backlog(somaxconn: Option<u64>, wanted: u64) -> Finding {
    of_number("accept backlog (somaxconn)", somaxconn, |at_most, found| {
        if at_most >= wanted {
            return found;
        }
        found
            .change(
                format!("allow {wanted}, as limits.backlog asks for"),
                "connections that come at once wait there; beyond it they are dropped and their clients wait a second or more",
            )
            .by(format!("sysctl -w net.core.somaxconn={wanted}"))
    })
}

pub(super) fn syn_backlog(at_most: Option<u64>, wanted: u64) -> Finding {
    of_number("SYN backlog (tcp_max_syn_backlog)", at_most, |at_most, found| {
        if at_most >= wanted {
            return found;
        }
        found
            .change(
                format!("allow {wanted}, as many as may wait to be accepted"),
                "beyond it a burst is answered by SYN cookies, which cannot carry all TCP options",
            )
            .by(format!("sysctl -w net.ipv4.tcp_max_syn_backlog={wanted}"))
    })
}

pub(super) fn syn_cookies(mode: Option<u64>) -> Finding {
    of_number("SYN cookies (tcp_syncookies)", mode, |mode, found| {
        let (change, why) = match mode {
            1 => return found,
            0 => (
                "switch them on for a full SYN queue",
                "without them a burst loses what does not fit the queue, and a flood of SYNs shuts everybody out",
            ),
            _ => (
                "use them for a full SYN queue only",
                "as a rule for all they cost every connection some of its TCP options",
            ),
        };
        found.change(change, why).by("sysctl -w net.ipv4.tcp_syncookies=1")
    })
}

pub(super) fn abort_on_overflow(mode: Option<u64>) -> Finding {
    of_number("resets by a full accept queue (tcp_abort_on_overflow)", mode, |mode, found| {
        if mode == 0 {
            return found;
        }
        found
            .change(
                "switch them off",
                "a client whose connection is only dropped tries again by itself; a reset is an error",
            )
            .by("sysctl -w net.ipv4.tcp_abort_on_overflow=0")
    })
}

pub(super) fn overflows(network: &Network) -> Finding {
    let subject = "connections lost by listeners since the boot";
    let (Some(overflows), Some(drops)) = (network.listen_overflows, network.listen_drops) else {
        return Finding::unknown(subject);
    };
    let found = Finding::fine(subject, format!("{overflows} by a full accept queue, {drops} in all"));
    if drops == 0 {
        return found;
    }
    found.note(
        "watch whether they grow: nstat -az TcpExtListenOverflows TcpExtListenDrops",
        "they count for all programs; growing, they mean bursts that are longer than the backlog, or work that is slower than what comes",
    )
}

pub(super) fn packet_backlog(softnet: Option<Softnet>, at_most: Option<u64>) -> Finding {
    let subject = "packets dropped before any socket (softnet_stat, netdev_max_backlog)";
    let (Some(softnet), Some(at_most)) = (softnet, at_most) else { return Finding::unknown(subject) };
    let found = Finding::fine(subject, format!("{} since the boot, {at_most} may wait", softnet.dropped));
    if softnet.dropped == 0 {
        return found;
    }
    let wanted = (at_most * 2).max(5000);
    found
        .change(
            format!("let {wanted} wait"),
            "a packet that is dropped there belongs to an admitted connection as often as to a new one, and is sent again much later",
        )
        .by(format!("sysctl -w net.core.netdev_max_backlog={wanted}"))
}

pub(super) fn packet_budget(network: &Network) -> Finding {
    let subject = "receive rounds that ended with packets left (softnet_stat, netdev_budget)";
    let (Some(softnet), Some(budget), Some(budget_us)) =
        (network.softnet, network.packet_budget, network.packet_budget_us)
    else {
        return Finding::unknown(subject);
    };
    let is = format!(
        "{} for {} packets; a round takes {budget} or {budget_us} µs",
        softnet.squeezed, softnet.packets
    );
    let found = Finding::fine(subject, is);
    // A round takes some hundred packets: one in ten of the rounds, if all were full.
    if softnet.squeezed.saturating_mul(budget.saturating_mul(10)) <= softnet.packets {
        return found;
    }
    found.note(
        "raise net.core.netdev_budget only if CPUs are idle meanwhile",
        "a larger budget gives the receive stage more of the CPU, and under overload what it takes is missing for serving",
    )
}

pub(super) fn spread(interface: &Interface, cpus: usize) -> Finding {
    let Interface { name, receive_queues, .. } = interface;
    let subject = format!("receive spread of {name}");
    let steered = interface.steered_cpus.as_ref().map_or(0, |steered| steered.len());
    let interrupted =
        interface.interrupt_cpus.as_ref().map(|taking| taking.len().min((*receive_queues).max(1)));
    let taking = match (steered, interrupted) {
        (0, None) => {
            return Finding {
                is: "has no interrupts that could be told apart".into(),
                ..Finding::unknown(subject)
            };
        }
        (0, Some(taking)) => taking,
        (steered, _) => steered,
    };
    let how = if steered > 0 { "by RPS" } else { "by interrupts" };
    let found = Finding::fine(subject, format!("{receive_queues} queues, {taking} of {cpus} CPUs {how}"));
    if taking > 1 || cpus == 1 {
        return found;
    }
    let why = "one CPU takes all that the interface brings: it is the limit of the whole machine, and the worker on it starves first";
    if *receive_queues > 1 {
        return found
            .change("spread the interrupts of its queues over the CPUs", why)
            .by("systemctl enable --now irqbalance    # or write to /proc/irq/*/smp_affinity_list");
    }
    found
        .change(
            format!("give it more queues (ethtool -L {name} combined {cpus}), or steer packets to all CPUs"),
            why,
        )
        .by(format!("echo {} > /sys/class/net/{name}/queues/rx-0/rps_cpus", mask_of(cpus)))
}

/// The first `cpus` CPUs as the kernel reads a set of them.
pub(super) fn mask_of(cpus: usize) -> String {
    let word = |at: usize| match cpus.saturating_sub(at * 32) {
        0 => 0,
        left if left >= 32 => u32::MAX,
        left => (1 << left) - 1,
    };
    let words = cpus.div_ceil(32).max(1);
    let all: Vec<String> = (0..words).rev().map(|at| format!("{:08x}", word(at))).collect();
    let mask = all.join(",");
    let digits = mask.trim_start_matches(['0', ',']);
    if digits.is_empty() { "0".into() } else { digits.into() }
}

/// `None` for an interface that has no such thing.
pub(super) fn threads(interface: &Interface) -> Option<Finding> {
    let found = |is| Finding::fine(format!("threaded receiving of {}", interface.name), is);
    Some(match interface.threaded? {
        true => found("on"),
        false => found("off").note(
            format!("try it under a load of your own: echo 1 > /sys/class/net/{}/threaded", interface.name),
            "in threads the scheduler can hold the receive stage to its share; without, it runs before everything else. Which is better here was not measured",
        ),
    })
}

pub(super) fn xdp(privileges: Option<Privileges>) -> Finding {
    let subject = "privilege to drop packets in the driver (XDP)";
    match privileges {
        None => Finding::unknown(subject),
        Some(privileges) if privileges.may_attach_xdp() => Finding::fine(subject, "yes"),
        Some(_) => Finding::fine(subject, "no").note(
            "grant CAP_NET_ADMIN and CAP_BPF if new connections are to be dropped there (AmbientCapabilities= in a systemd unit)",
            "without, they are dropped by a filter on the listener, which needs no privilege and costs a few microseconds each",
        ),
    }
}
