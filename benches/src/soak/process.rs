//! Figures of the process over time, and whether they stay flat.

use crate::Result;
use std::time::Duration;

/// What the process has of the machine, without memory that the allocator holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Bytes of blocks that the allocator has given out; 0 where it does not tell.
    pub(crate) used: u64,
    /// Bytes.
    pub(crate) resident: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl Process {
    pub(crate) fn now() -> Result<Process> {
        give_back();
        let status = std::fs::read_to_string("/proc/self/status")?;
        let number = |key: &str| -> Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let word = line.and_then(|line| line.split_whitespace().next());
            Ok(word
                .ok_or_else(|| format!("/proc/self/status has no {key}"))?
                .parse()?)
        };
        Ok(Process {
            used: used(),
            resident: number("VmRSS:")? << 10,
            threads: number("Threads:")?,
            descriptors: std::fs::read_dir("/proc/self/fd")?.count() as u64,
        })
    }

    fn least(self, other: Process) -> Process {
        Process {
            used: self.used.min(other.used),
            resident: self.resident.min(other.resident),
            threads: self.threads.min(other.threads),
            descriptors: self.descriptors.min(other.descriptors),
        }
    }
}

/// Makes the allocator give free pages back to the system. It has an arena for every few threads, and each keeps what was free when its
/// threads ended: the resident memory would follow the largest round that each arena has seen.
fn give_back() {
    // SAFETY: the function has no contract but its type.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn used() -> u64 {
    // SAFETY: the function reads counts of the allocator and has no contract but its type.
    let counts = unsafe { libc::mallinfo2() };
    (counts.uordblks + counts.hblkhd) as u64
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn used() -> u64 {
    0
}

/// Stretches of the whole time. The least of each figure in a stretch is what is kept for longer.
const STRETCHES: usize = 30;

/// What blocks in use may grow by from the second third to the last: tables that double.
const USED_GROWTH: u64 = 1 << 20;
/// What the resident memory may grow by: pages that are free in part.
const GROWTH: u64 = 8 << 20;
/// What threads and descriptors may grow by.
const FEW: u64 = 2;

/// The figures of a whole run.
pub(crate) struct Watch {
    total: Duration,
    stretches: [Option<Process>; STRETCHES],
}

impl Watch {
    pub(crate) fn new(total: Duration) -> Watch {
        Watch {
            total,
            stretches: [None; STRETCHES],
        }
    }

    /// Notes the figures of a moment when no work is under way.
    pub(crate) fn note(&mut self, elapsed: Duration, now: Process) {
        let part = elapsed.as_secs_f64() / self.total.as_secs_f64();
        let at = ((part * STRETCHES as f64) as usize).min(STRETCHES - 1);
        let stretch = &mut self.stretches[at];
        *stretch = Some(stretch.map_or(now, |least| least.least(now)));
    }

    /// The medians of each third of the time, figure by figure. `None` for a third in which nothing was noted.
    pub(crate) fn thirds(&self) -> [Option<Process>; 3] {
        let mut thirds = self.stretches.chunks(STRETCHES / 3);
        [(); 3].map(|()| {
            let noted: Vec<Process> = thirds.next()?.iter().flatten().copied().collect();
            let median = |of: fn(&Process) -> u64| {
                let mut all: Vec<u64> = noted.iter().map(of).collect();
                all.sort_unstable();
                all.get(all.len() / 2).copied()
            };
            Some(Process {
                used: median(|process| process.used)?,
                resident: median(|process| process.resident)?,
                threads: median(|process| process.threads)?,
                descriptors: median(|process| process.descriptors)?,
            })
        })
    }

    /// What grew from the second third to the last; the first warms up.
    pub(crate) fn grown(&self) -> Vec<String> {
        let [_, Some(before), Some(after)] = self.thirds() else {
            return vec!["the run was too short to say whether memory is flat".into()];
        };
        let rows = [
            ("bytes in use", before.used, after.used, USED_GROWTH),
            ("resident bytes", before.resident, after.resident, GROWTH),
            ("threads", before.threads, after.threads, FEW),
            ("descriptors", before.descriptors, after.descriptors, FEW),
        ];
        rows.into_iter()
            .filter(|(_, before, after, most)| after.saturating_sub(*before) > *most)
            .map(|(what, before, after, most)| {
                format!("{what} grew from {before} to {after}, by more than {most}")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: impl Fn(u64) -> Process) -> Vec<String> {
        let mut watch = Watch::new(Duration::from_secs(600));
        for second in 0..=600 {
            watch.note(Duration::from_secs(second), figures(second));
        }
        watch.grown()
    }

    const FLAT: Process = Process {
        used: 2 << 20,
        resident: 100 << 20,
        threads: 5,
        descriptors: 9,
    };

    #[test]
    fn what_is_flat_after_it_warmed_up_is_good() {
        let warms_up = |second: u64| Process {
            used: FLAT.used,
            resident: FLAT.resident - ((200_u64.saturating_sub(second)) << 17),
            // Each round has more for a moment.
            threads: 5 + second % 3,
            descriptors: 9 + second % 4,
        };
        assert_eq!(run(warms_up), [""; 0]);
    }

    #[test]
    fn what_grows_is_told() {
        let leaks = |second: u64| Process {
            resident: FLAT.resident + second * (64 << 10),
            ..FLAT
        };
        let told = run(leaks);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("resident bytes grew from "), "{told:?}");
        // A leak that free pages of the allocator would hide.
        let told = run(|second| Process {
            used: FLAT.used + second * (8 << 10),
            ..FLAT
        });
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("bytes in use grew from "), "{told:?}");
        let told = run(|second| Process {
            threads: 5 + second / 30,
            descriptors: 9 + second / 20,
            ..FLAT
        });
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn a_run_of_one_moment_says_nothing_of_memory() {
        let mut watch = Watch::new(Duration::from_secs(600));
        watch.note(Duration::from_secs(1), FLAT);
        assert!(watch.grown()[0].contains("too short"), "{:?}", watch.grown());
    }

    #[test]
    fn this_process_has_figures() {
        let now = Process::now().unwrap();
        assert!(
            now.resident > 1 << 20 && now.threads >= 1 && now.descriptors >= 3,
            "{now:?}"
        );
    }
}
