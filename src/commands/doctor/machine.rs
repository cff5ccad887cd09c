//! CPUs, memory, descriptors, and what the kernel offers.

use proxy::settings::{Settings, StoreIo};
use sys::pipe::CAPACITY_WANTED_BYTES;
use sys::uring::Refused;

use super::Readings;
use super::finding::Finding;

pub(super) fn findings(readings: &Readings, settings: &Settings) -> Vec<Finding> {
    let machine = &readings.machine;
    vec![
        Finding::fine("kernel", &*machine.kernel),
        workers(machine.threads(), settings.workers),
        memory(machine.memory_bytes(), settings),
        descriptors(machine.descriptors.hard),
        io_uring(machine.io_uring.as_ref().err()),
        registered_memory(machine.registered_memory.as_ref().err()),
        cachestat(machine.cachestat),
        pipes(readings, settings.workers),
        kernel_tls(machine.kernel_tls),
        pressure(machine.pressure),
    ]
}

pub(super) fn workers(threads: usize, workers: usize) -> Finding {
    let found = Finding::fine("workers", format!("{workers}, of {threads} that can run at a time"));
    match workers.cmp(&threads) {
        std::cmp::Ordering::Greater => found
            .change(
                "set workers to what can run at a time",
                "a worker that is not running lets its connections wait",
            )
            .by(format!("--workers {threads}")),
        std::cmp::Ordering::Less => found.note(
            "the other CPUs are left to other programs",
            "each worker is one thread, and each connection belongs to one worker",
        ),
        std::cmp::Ordering::Equal => found,
    }
}

/// What the settings let the process take, apart from connections.
fn wanted_bytes(settings: &Settings) -> u64 {
    const PASSING_BYTES: u64 = 64 << 20;
    let warm = match settings.store.io {
        StoreIo::Direct => settings.store.warm,
        StoreIo::PageCache => settings.store.warm.min(PASSING_BYTES),
    };
    settings
        .memory
        .size
        .saturating_add(warm)
        .saturating_add(settings.store.buffers)
        .saturating_add(settings.limits.head_memory)
}

pub(super) fn memory(bytes: Option<u64>, settings: &Settings) -> Finding {
    let wanted = wanted_bytes(settings);
    let Some(bytes) = bytes else { return Finding::unknown("memory") };
    let is = format!("{} MiB may be taken by settings, of {} MiB", wanted >> 20, bytes >> 20);
    let found = Finding::fine("memory", is);
    if wanted <= bytes / 5 * 4 {
        return found;
    }
    found.change(
        "lower memory.size, store.warm or store.buffers, or raise the limit of the control group",
        "the index, connections and the page cache need memory too; without it the kernel ends the process",
    )
}

/// Descriptors below which a busy cache runs out of them: one for each client, one more for each miss.
const DESCRIPTORS: u64 = 65_536;

pub(super) fn descriptors(hard: Option<u64>) -> Finding {
    let Some(hard) = hard else { return Finding::fine("open files", "unlimited") };
    let found = Finding::fine("open files", format!("at most {hard}"));
    if hard >= DESCRIPTORS {
        return found;
    }
    found
        .change(
            format!("allow {DESCRIPTORS} or more (LimitNOFILE= in a systemd unit)"),
            "a client takes one, a miss another one; near the limit idle connections are closed early, at it none is accepted",
        )
        .by(format!("systemctl edit tidegate    # [Service] LimitNOFILE={DESCRIPTORS}"))
}

pub(super) fn io_uring(refused: Option<&Refused>) -> Finding {
    let Some(refused) = refused else { return Finding::fine("io_uring", "yes") };
    let found = Finding::fine("io_uring", format!("no ({refused})"));
    let why = "disks are driven by threads instead: the same answers, more CPU for each read and write";
    match refused {
        Refused::Missing | Refused::TooOld => {
            found.change("run a kernel of 5.6 or later that has it, or a container that lets it through", why)
        }
        Refused::Forbidden => found
            .change("allow io_uring: the sysctl, or the seccomp profile of the container", why)
            .by("sysctl -w kernel.io_uring_disabled=0"),
        Refused::Resources => {
            found.change("allow more locked memory and open files (LimitMEMLOCK=, LimitNOFILE=)", why)
        }
        Refused::Failed(_) => {
            found.change("find out what refuses it: strace -e io_uring_setup tidegate doctor", why)
        }
    }
}

pub(super) fn registered_memory(refused: Option<&std::io::Error>) -> Finding {
    let subject = "registered memory for reads";
    let Some(error) = refused else { return Finding::fine(subject, "yes") };
    Finding::fine(subject, format!("no, reads go without it: {error}"))
        .change(
            "allow the process to lock memory (LimitMEMLOCK=infinity in a systemd unit)",
            "reads past the page cache cost up to a tenth more without",
        )
        .by("systemctl edit tidegate    # [Service] LimitMEMLOCK=infinity")
}

pub(super) fn cachestat(works: bool) -> Finding {
    if works {
        return Finding::fine("cachestat", "yes");
    }
    Finding::fine("cachestat", "no")
        .note("a kernel of 6.5 or later has it", "whether a body is resident is then asked page by page")
}

/// Pipes that one worker keeps for splicing at most (`proxy::worker`).
const PIPES_A_WORKER: u64 = 256;
const PAGE_BYTES: u64 = 4096;

pub(super) fn pipes(readings: &Readings, workers: usize) -> Finding {
    let subject = "pipe pages of a user";
    let wanted = workers as u64 * PIPES_A_WORKER * (CAPACITY_WANTED_BYTES as u64 / PAGE_BYTES);
    let exempt = readings.privileges.is_some_and(|privileges| privileges.resources);
    super::finding::of_number(subject, readings.machine.pipe_pages_soft, |pages, found| {
        if pages == 0 || pages >= wanted || exempt {
            return found;
        }
        found
            .change(
                format!("allow {wanted}"),
                "bodies that are not stored are spliced through pipes; beyond the limit a pipe holds one or two pages, and each body takes many times the calls",
            )
            .by(format!("sysctl -w fs.pipe-user-pages-soft={wanted}"))
    })
}

pub(super) fn kernel_tls(has: bool) -> Finding {
    let found = Finding::fine("kernel TLS", if has { "yes" } else { "no" });
    if has {
        return found;
    }
    found.note("nothing to do", "it is not used by this release, which speaks plain HTTP only")
}

pub(super) fn pressure(readable: bool) -> Finding {
    if readable {
        return Finding::fine("pressure information", "yes");
    }
    Finding::fine("pressure information", "no").note(
        "boot with psi=1, if the kernel was built with it",
        "a lack of memory is then seen only by what is left of it",
    )
}
