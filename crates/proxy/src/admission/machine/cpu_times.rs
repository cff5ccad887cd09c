//! Where the time of processors went, from `/proc/stat`. Pure: a text in, times out.

/// Ticks since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTimes {
    kernel: u64,
    all: u64,
}

impl CpuTimes {
    /// The sums over these processors; over all if the list is empty. `None` when there is no such line (proc_stat(5)).
    pub(super) fn parse(text: &str, processors: &[usize]) -> Option<Self> {
        let is_wanted = |number: usize| processors.is_empty() || processors.contains(&number);
        let lines = text.lines().filter_map(|line| line.strip_prefix("cpu"));
        let wanted = lines.filter_map(|line| {
            let (number, times) = line.split_once(' ')?;
            number.parse().ok().filter(|&n| is_wanted(n)).and_then(|_| Self::of_line(times))
        });
        wanted.reduce(|a, b| Self { kernel: a.kernel + b.kernel, all: a.all + b.all })
    }

    /// user nice system idle iowait irq softirq steal; guest times after that are part of user and nice.
    fn of_line(line: &str) -> Option<Self> {
        let times: Vec<u64> = line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
        let [_, _, system, _, _, irq, softirq, ..] = times[..] else { return None };
        Some(Self { kernel: system + irq + softirq, all: times.iter().sum() })
    }

    /// The share of the kernel in the time since then.
    pub(super) fn kernel_share_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all);
        if all == 0 { 0.0 } else { self.kernel.saturating_sub(before.kernel) as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "cpu  40 0 60 300 0 10 30 0 0 0\n\
                        cpu0 10 0 20 100 0 5 15 0 0 0\n\
                        cpu1 30 0 40 200 0 5 15 0 7 0\n\
                        intr 99 0 0\nctxt 12\n";

    #[test]
    fn lines_of_the_wanted_processors_are_summed() {
        let table: [(&[usize], Option<CpuTimes>); 4] = [
            (&[], Some(CpuTimes { kernel: 100, all: 440 })),
            (&[0, 1], Some(CpuTimes { kernel: 100, all: 440 })),
            (&[1], Some(CpuTimes { kernel: 60, all: 290 })),
            (&[7], None),
        ];
        for (processors, expected) in table {
            assert_eq!(CpuTimes::parse(TEXT, processors), expected, "{processors:?}");
        }
        for text in ["", "cpu0\n", "cpu0 1 2\n", "cpu0 a b c d e f g\n", "cpux 1 2 3 4 5 6 7 8\n"] {
            assert_eq!(CpuTimes::parse(text, &[]), None, "{text:?}");
        }
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let before = CpuTimes { kernel: 100, all: 1000 };
        let table = [((175, 1100), 0.75), ((100, 1100), 0.0), ((100, 1000), 0.0), ((0, 0), 0.0)];
        for ((kernel, all), share) in table {
            assert_eq!(CpuTimes { kernel, all }.kernel_share_since(before), share);
        }
    }
}
