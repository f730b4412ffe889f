//! The processor's counters, as the kernel's `perf_event_open` gives them: of all threads that this process has, and of those that
//! they start. Only what runs outside of the kernel counts.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use thalweg_hal::kit::profile::Counter;
use thalweg_hal::{Error, Result};

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wake: u32,
    breakpoint: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64, "PERF_ATTR_SIZE_VER0");

/// `PERF_TYPE_HARDWARE` and `PERF_TYPE_HW_CACHE`.
const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
/// Threads that a thread starts are counted with it; the kernel and what is below it are not.
const FLAGS: u64 = INHERIT | 1 << 5 | 1 << 6;
const INHERIT: u64 = 1 << 1;
/// With how long it counted: more events than the processor has counters take turns.
const TIMES: u64 = 1 | 2;

/// What is counted: name, unit, type and number.
const EVENTS: [(&str, &str, u32, u64); 6] = [
    ("cycles", "cycles", HARDWARE, 0),
    ("instructions", "", HARDWARE, 1),
    ("stalled cycles", "cycles", HARDWARE, 8),
    // Accesses and misses of reads in the first cache of data.
    ("first cache reads", "", CACHE, 0),
    ("first cache misses", "", CACHE, 1 << 16),
    ("last cache misses", "", HARDWARE, 3),
];

/// Events of this process that are counted.
pub(crate) struct Counters {
    /// Of each event the counters of the threads.
    events: Vec<(usize, Vec<OwnedFd>)>,
}

impl Counters {
    /// Begins to count.
    ///
    /// # Errors
    /// `Unsupported`, and what of the machine does not allow it.
    pub(crate) fn start() -> Result<Counters> {
        let threads = threads().map_err(|error| {
            Error::unsupported(format!(
                "no hardware counters: the threads of the process are not listed: {error}"
            ))
        })?;
        let mut events = Vec::new();
        for (at, &(name, _, kind, config)) in EVENTS.iter().enumerate() {
            match of_threads(&threads, kind, config) {
                Ok(counters) => events.push((at, counters)),
                // An event that this processor lacks costs the others nothing; without cycles there is no counter at all.
                Err(error) if at > 0 && is_unknown(&error) => {}
                Err(error) => return Err(refused(name, &error)),
            }
        }
        Ok(Counters { events })
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// A counter cannot be read.
    pub(crate) fn read(&self) -> Result<Vec<Counter>> {
        let mut all = Vec::with_capacity(self.events.len());
        for (at, counters) in &self.events {
            let (name, unit, ..) = EVENTS[*at];
            let mut sum = 0_u64;
            for counter in counters {
                let counted = counted(counter);
                sum += counted.map_err(|error| Error::unsupported(format!("the counter of {name}: {error}")))?;
            }
            all.push(Counter {
                name: name.to_owned(),
                unit: unit.to_owned(),
                value: sum,
            });
        }
        Ok(all)
    }
}

fn threads() -> io::Result<Vec<libc::pid_t>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        all.extend(entry?.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()));
    }
    Ok(all)
}

/// One event of each thread. Threads that have ended meanwhile are left out.
fn of_threads(threads: &[libc::pid_t], kind: u32, config: u64) -> io::Result<Vec<OwnedFd>> {
    let mut all = Vec::with_capacity(threads.len());
    for &thread in threads {
        match open(thread, kind, config) {
            Ok(counter) => all.push(counter),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn open(thread: libc::pid_t, kind: u32, config: u64) -> io::Result<OwnedFd> {
    const ANY_CORE: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    const CLOSED_BY_EXEC: libc::c_ulong = 1 << 3;
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read: TIMES,
        flags: FLAGS,
        ..Attributes::default()
    };
    // SAFETY: the attributes live through the call, and their size is in them.
    let file = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            ANY_CORE,
            NO_GROUP,
            CLOSED_BY_EXEC,
        )
    };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new file, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(file as libc::c_int) })
}

/// What a counter says, as if it had counted all the time.
fn counted(counter: &OwnedFd) -> io::Result<u64> {
    use std::os::fd::AsRawFd;
    let mut words = [0_u64; 3];
    // SAFETY: room for as many bytes as are asked for.
    let read = unsafe { libc::read(counter.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words)) };
    if read != size_of_val(&words) as isize {
        return Err(io::Error::last_os_error());
    }
    let [value, enabled, running] = words;
    Ok(match running {
        0 => 0,
        running if running < enabled => (value as f64 * enabled as f64 / running as f64) as u64,
        _ => value,
    })
}

/// Whether this processor or kernel does not know an event.
fn is_unknown(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
    )
}

/// Why nothing is counted.
fn refused(name: &str, error: &io::Error) -> Error {
    let paranoid = || fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse::<i64>().ok();
    let why = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "the kernel sees no counters of this processor; a virtual machine has those alone that its host passes on".into()
        }
        Some(libc::EACCES | libc::EPERM) => match paranoid() {
            Some(level) if level > 2 => {
                format!("kernel.perf_event_paranoid is {level}; `sysctl kernel.perf_event_paranoid=2` allows them")
            }
            Some(_) | None => "perf_event_open is not permitted, as in a container whose seccomp profile denies it".into(),
        },
        Some(libc::ENOSYS) => "the kernel has no perf_event_open, or a sandbox hides it".into(),
        Some(libc::EMFILE) => "too many open files; `ulimit -n` raises their number".into(),
        _ => format!("perf_event_open: {error}"),
    };
    Error::unsupported(format!("no hardware counters of {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Either the counters count, or what the machine does not allow is said.
    #[test]
    fn counters_count_or_say_why_not() {
        match Counters::start() {
            Ok(counters) => {
                let before = counters.read().unwrap();
                let sum: u64 = (0..2_000_000_u64).map(std::hint::black_box).sum();
                std::hint::black_box(sum);
                let after = counters.read().unwrap();
                assert_eq!(before[0].name, "cycles");
                assert!(after[0].value > before[0].value + 1_000_000, "{before:?} {after:?}");
            }
            Err(error) => {
                assert!(error.message.starts_with("no hardware counters of cycles: "), "{error}");
                let visible = fs::exists("/sys/bus/event_source/devices/cpu").unwrap();
                assert!(!visible || !error.message.contains("virtual machine"), "{error}");
            }
        }
    }

    #[test]
    fn each_refusal_has_a_reason() {
        let said = |code| refused("cycles", &io::Error::from_raw_os_error(code)).message;
        assert!(said(libc::ENOENT).contains("virtual machine"));
        assert!(said(libc::ENOSYS).contains("sandbox"));
        assert!(said(libc::EMFILE).contains("ulimit"));
        assert!(said(libc::EACCES).contains("perf_event_paranoid") || said(libc::EACCES).contains("seccomp"));
        assert!(said(libc::EIO).contains("perf_event_open: "));
    }

    /// Software events are there without counters of the processor: the way to them works.
    #[test]
    fn time_of_this_thread_is_counted() {
        const SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        let Ok(counter) = open(0, SOFTWARE, TASK_CLOCK) else {
            return;
        };
        let begun = counted(&counter).unwrap();
        while counted(&counter).unwrap() < begun + 1_000_000 {
            std::hint::spin_loop();
        }
    }
}
